// SPDX-License-Identifier: Apache-2.0
/* Graphs whose shapes depend on data, or differ from run to run. Expected numbers follow from ONNX's definitions. */
#include "base/resident.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

static struct qc_status st;

static struct qc_graph *parsed(const char *text)
{
    struct qc_graph *g = test_graph(text);
    return g;
}

/* What stands behind the Slice is planned for each of its lengths. */
static const char sliced[] = "graph \"sliced\" opset 13\n"
                             "input %1 \"x\" f32[4]\n"
                             "input %2 \"end\" i64[1]\n"
                             "const %3 i64[1] = {0}\n"
                             "%4 \"a\" = Relu(%1)\n"
                             "%5 \"part\" = Slice(%4, %3, %2)\n"
                             "%6 \"more\" = Add(%5, %5)\n"
                             "output \"more\" %6\n"
                             "output \"a\" %4\n";

struct seen {
    size_t calls[3], elements[3];
};

static bool observe(void *user, size_t index, const struct qc_view *v, struct qc_status *status)
{
    struct seen *s = user;
    s->calls[index]++;
    s->elements[index] = qc_view_count(v);
    return true;
}

Test(shapes_of_data, what_follows_is_planned_for_each_shape)
{
    static const float x[4] = {-1, 2, 3, 4};
    const struct qc_shape shapes[] = {QC_SHAPE(4), QC_SHAPE(1)};
    OWN(qc_graph) *g = parsed(sliced);
    const qc_id observed[] = {qc_graph_find_value(g, "a"), qc_graph_find_value(g, "part"),
                              qc_graph_find_value(g, "more")};
    const struct qc_plan_options how = {.observed_count = 3, .observed = observed};
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_plan_new(&p, g, shapes, &how, &st), "%s", st.message);
    cr_expect(!qc_plan_shapes_known(p));
    cr_expect_eq(qc_plan_observed_elements(p, 0), 4);
    cr_expect_eq(qc_plan_observed_elements(p, 2), 0, "not known");
    cr_assert(qc_runner_new(&r, p, &st), "%s", st.message);
    cr_expect_eq(qc_runner_output(r, 0).rank, -1, "no shape before a run");
    for (int64_t end = 1; end <= 4; end += 1) {
        struct seen seen = {.calls = {0}};
        memcpy(qc_runner_input(r, 0).data, x, sizeof x);
        memcpy(qc_runner_input(r, 1).data, &end, sizeof end);
        cr_assert(qc_runner_run(r, observe, &seen, &st), "%s", st.message);
        const struct qc_view more = qc_runner_output(r, 0), a = qc_runner_output(r, 1);
        cr_assert_eq(more.dim[0], end);
        cr_expect_eq(a.dim[0], 4);
        for (int64_t i = 0; i < end; i++)
            cr_expect_eq(((const float *)more.data)[i], x[i] > 0 ? 2 * x[i] : 0, "element %d of %d", (int)i, (int)end);
        for (size_t k = 0; k < 3; k++) cr_expect_eq(seen.calls[k], 1, "value %zu", k);
        cr_expect_eq(seen.elements[1], (size_t)end);
        memcpy(qc_runner_input(r, 0).data, x, sizeof x);
        memcpy(qc_runner_input(r, 1).data, &end, sizeof end);
        cr_assert(qc_runner_observe(r, observe, &seen, &st), "%s", st.message);
        for (size_t k = 0; k < 3; k++) cr_expect_eq(seen.calls[k], 2, "value %zu", k);
    }
}

Test(shapes_of_data, more_shapes_than_are_kept)
{
    OWN(qc_graph) *g = parsed("graph \"g\" opset 13\ninput %1 \"x\" f32[N]\n%2 \"y\" = Neg(%1)\noutput \"y\" %2\n");
    OWN(qc_variants) *v = NULL;
    struct qc_variant_runners *one = NULL, *other = NULL;
    cr_assert(qc_variants_new(&v, g, NULL, &st), "%s", st.message);
    cr_assert(qc_variant_runners_new(&one, v, &st) && qc_variant_runners_new(&other, v, &st));
    for (int64_t k = 0; k < 300; k++) {
        const struct qc_shape shape = QC_SHAPE(1 + k % 150);
        struct qc_runner *r = NULL;
        cr_assert(qc_variant_runner(&r, k % 2 ? one : other, &shape, &st), "%s", st.message);
        const struct qc_view in = qc_runner_input(r, 0);
        cr_assert_eq(in.dim[0], shape.dim[0]);
        for (int64_t i = 0; i < in.dim[0]; i++) ((float *)in.data)[i] = (float)i;
        cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
        cr_expect_eq(((const float *)qc_runner_output(r, 0).data)[k % 150], (float)-(k % 150));
    }
    qc_variant_runners_free(one);
    qc_variant_runners_free(other);
}

/* Runners of earlier shapes, of 16 MiB each, make room for the next one; one that can have no room is refused. */
Test(shapes_of_data, kept_runners_stay_in_the_budget)
{
#ifdef QC_TEST_SANITIZED
    enum { SHAPES = 1 }; /* the sanitizer keeps freed memory */
#else
    enum { SHAPES = 5 };
#endif
    enum { MIB = 1 << 20, ELEMENTS = 4 * MIB, LIMIT = 48 * MIB };
    OWN(qc_graph) *g = parsed("graph \"g\" opset 13\ninput %1 \"x\" f32[N]\n%2 \"y\" = Neg(%1)\noutput \"y\" %2\n");
    OWN(qc_variants) *v = NULL;
    struct qc_variant_runners *runners = NULL;
    struct qc_runner *r = NULL;
    g->budget.memory_limit = qc_resident_bytes() + LIMIT;
    cr_assert(qc_variants_new(&v, g, NULL, &st) && qc_variant_runners_new(&runners, v, &st), "%s", st.message);
    for (int64_t k = 0; k < SHAPES; k++) {
        const struct qc_shape shape = QC_SHAPE(ELEMENTS + k);
        cr_assert(qc_variant_runner(&r, runners, &shape, &st), "%s", st.message);
        memset(qc_runner_input(r, 0).data, 0, (size_t)shape.dim[0] * sizeof(float));
        cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
        cr_expect_leq(qc_resident_bytes(), g->budget.memory_limit + 8 * MIB, "shape %d", (int)k);
    }
    const struct qc_shape large = QC_SHAPE(8 * (int64_t)ELEMENTS);
    cr_expect_not(qc_variant_runner(&r, runners, &large, &st));
    cr_expect(st.code == QC_MACHINE && strstr(st.message, "--memory-limit"), "%s", st.message);
    st = QC_STATUS_INIT; /* all tests may be in one process */
    qc_variant_runners_free(runners);
}

/* Fibonacci numbers: two states and a stacked output; the condition ends it. */
Test(shapes_of_data, a_loop_ends_by_its_condition)
{
    OWN(qc_graph) *g = parsed("graph \"fib\" opset 13\n"
                              "input %1 \"most\" i64[]\n"
                              "const %2 i64[1] = {1}\n"
                              "%3 \"a\", %4 \"b\", %5 \"all\" = Loop(-, -, %2, %2, %1) {captures=1} body \"body\" {\n"
                              "graph \"body\" opset 13\n"
                              "input %1 \"i\" i64[]\n"
                              "input %2 \"go\" bool[]\n"
                              "input %3 \"a\" i64[1]\n"
                              "input %4 \"b\" i64[1]\n"
                              "input %5 \"most\" i64[]\n"
                              "%6 \"sum\" = Add(%3, %4)\n"
                              "%7 \"less\" = Less(%6, %5)\n"
                              "const %8 i64[0] = {}\n"
                              "%9 \"goes\" = Reshape(%7, %8)\n"
                              "output \"goes\" %9\n"
                              "output \"next\" %4\n"
                              "output \"sum\" %6\n"
                              "output \"part\" %6\n"
                              "}\n"
                              "output \"all\" %5\n");
    static const int64_t fib[] = {2, 3, 5, 8, 13, 21, 34, 55, 89};
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    const struct qc_shape scalar = QC_SCALAR;
    cr_assert(qc_plan_new(&p, g, &scalar, NULL, &st), "%s", st.message);
    cr_assert(qc_runner_new(&r, p, &st), "%s", st.message);
    for (size_t n = 1; n < sizeof fib / sizeof *fib; n++) {
        memcpy(qc_runner_input(r, 0).data, &fib[n - 1], sizeof *fib);
        cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
        const struct qc_view all = qc_runner_output(r, 0);
        cr_assert_eq(all.rank, 2);
        cr_assert_eq(all.dim[0], (int64_t)n, "%d iterations up to %d", (int)all.dim[0], (int)fib[n - 1]);
        cr_expect_eq(memcmp(all.data, fib, n * sizeof *fib), 0);
    }
}

/* Expected numbers by hand: y = relu(x) + relu(x). */
Test(shapes_of_data, inputs_of_another_shape_in_each_run)
{
    OWN(qc_graph) *g = parsed("graph \"g\" opset 13\ninput %1 \"x\" f32[1,N]\n%2 \"r\" = Relu(%1)\n"
                              "%3 \"y\" = Add(%2, %2)\noutput \"y\" %3\n");
    const struct qc_shape open = QC_SHAPE(1, QC_FREE), sizes[] = {QC_SHAPE(1, 5), QC_SHAPE(1, 2), QC_SHAPE(1, 5)};
    const struct qc_plan_case largest = {.shapes = &sizes[0], .name = "sample 0"};
    const qc_id observed = qc_graph_find_value(g, "r");
    const struct qc_plan_options how =
        FIELDS(.observed_count = 1, .observed = &observed, .largest = &largest, .largest_count = 1);
    OWN(qc_plan) *p = NULL, *fixed = NULL;
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_plan_new(&p, g, &open, &how, &st), "%s", st.message);
    cr_assert(qc_plan_new(&fixed, g, &sizes[0], &how, &st), "%s", st.message);
    cr_expect(!qc_plan_shapes_known(p));
    cr_expect_eq(qc_plan_observed_elements(p, 0), 5, "of the largest");
    cr_expect_geq(qc_plan_runner_bytes(p), qc_plan_runner_bytes(fixed) + qc_plan_constant_bytes(fixed),
                  "a worker with its plan");
    cr_assert(qc_runner_new(&r, p, &st), "%s", st.message);
    cr_expect_eq(qc_runner_output(r, 0).rank, -1, "no shape before one is said");
    for (size_t k = 0; k < 3; k++) {
        struct seen seen = {.calls = {0}};
        cr_assert(qc_runner_shapes(r, &sizes[k], &st), "%s", st.message);
        struct qc_view in = qc_runner_input(r, 0);
        cr_assert_eq(in.dim[1], sizes[k].dim[1]);
        for (int64_t i = 0; i < in.dim[1]; i++) ((float *)in.data)[i] = (float)(i - 1) * (float)(k + 1);
        cr_assert(qc_runner_run(r, observe, &seen, &st), "%s", st.message);
        const struct qc_view y = qc_runner_output(r, 0);
        cr_assert_eq(y.dim[1], sizes[k].dim[1]);
        for (int64_t i = 0; i < y.dim[1]; i++)
            cr_expect_eq(((const float *)y.data)[i], i < 1 ? 0 : 2 * (float)(i - 1) * (float)(k + 1));
        HOLD(seen.elements[0] == (size_t)y.dim[1], seen.calls[0] == 1);
    }
}

Test(shapes_of_data, free_shapes_that_cannot_be)
{
    OWN(qc_graph) *g = parsed("graph \"g\" opset 13\ninput %1 \"x\" f32[3,N]\n%2 \"y\" = Neg(%1)\noutput \"y\" %2\n");
    const struct qc_shape open = QC_SHAPE(4, QC_FREE), good = QC_SHAPE(3, QC_FREE), large = QC_SHAPE(3, 1 << 30);
    const struct qc_plan_case huge = {.shapes = &large, .name = "sample 7"};
    const struct qc_budget small = {.memory_limit = 1 << 20};
    const struct qc_plan_options wide = {.largest = &huge, .largest_count = 1},
                                 narrow = {.accumulator = {.bits = 16}, .largest = &huge, .largest_count = 1},
                                 much = {.largest = &huge, .largest_count = 1, .budget = &small};
    struct qc_plan *p = NULL;
    cr_expect_not(qc_plan_new(&p, g, &open, &wide, &st));
    cr_expect(strstr(st.message, "the model declares"), "%s", st.message);
    st = QC_STATUS_INIT;
    cr_expect_not(qc_plan_new(&p, g, &good, &narrow, &st));
    cr_expect_eq(st.code, QC_UNSUPPORTED, "%s", st.message);
    st = QC_STATUS_INIT;
    cr_expect_not(qc_plan_new(&p, g, &good, &much, &st));
    cr_expect(strstr(st.message, "sample 7"), "%s", st.message);
}
