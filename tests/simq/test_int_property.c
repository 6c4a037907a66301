// SPDX-License-Identifier: Apache-2.0
/* The simulated graph, in centred float32, and the produced graph, in integers, are equal bit for bit, whatever the
   instructions and the width of the operands. QC_PROPERTY_CASES sets the number of random graphs, QC_PROPERTY_SEED the
   first one. */
#include "random_graph.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/simq/plan_print.h"

/* All outputs, as numbers. */
struct results {
    size_t count;
    double *v;
    uint64_t overflows;
};

static double element(const struct qc_view *v, size_t i)
{
    const struct qc_tensor t = {.dtype = v->dtype, .data = v->data};
    return qc_tensor_float(&t, i);
}

/* No product has operands of 8 bits. */
static void expect_int16(const struct qc_plan *p)
{
    QC_FREED char *text = plan_print(p, ST);
    cr_assert(text);
    cr_expect(!strstr(text, " i8]") && !strstr(text, " i8 copied]") && !strstr(text, " i8 depthwise"), "%s", text);
}

static struct results run(const struct qc_graph *g, uint64_t seed, const struct qc_plan_options *options)
{
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    struct random_source random = {~seed};
    struct results all = {0};
    cr_assert(qc_plan_new(&plan, g, &g->values[g->inputs[0].value].type.shape, options, ST), "seed %llu: %s",
              (unsigned long long)seed, failure.message);
    if (options->lowering == QC_LOWERING_INT16) expect_int16(plan);
    MUST(qc_runner_new(&r, plan, ST));
    const struct qc_view x = qc_runner_input(r, 0);
    for (size_t i = 0; i < qc_view_count(&x); i++) ((float *)x.data)[i] = random_real(&random) * 4;
    cr_assert(qc_runner_run(r, NULL, NULL, ST), "seed %llu: %s", (unsigned long long)seed, failure.message);
    for (size_t k = 0; k < g->output_count; k++) {
        const struct qc_view y = qc_runner_output(r, k);
        all.count += qc_view_count(&y);
    }
    for (size_t k = 0; k < qc_plan_overflow_count(plan); k++) all.overflows += qc_runner_sums(r, k)->overflows;
    all.v = calloc(all.count + 1, sizeof *all.v);
    for (size_t k = 0, at = 0; k < g->output_count; k++) {
        const struct qc_view y = qc_runner_output(r, k);
        for (size_t i = 0; i < qc_view_count(&y); i++) all.v[at++] = element(&y, i);
    }
    return all;
}

/* Bits, the sign of zero included, but for what NaN it is. */
static size_t first_difference(const struct results *a, const struct results *b)
{
    cr_assert_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(&a->v[i], &b->v[i], sizeof *a->v) != 0 && (a->v[i] == a->v[i] || b->v[i] == b->v[i])) return i;
    return SIZE_MAX;
}

/* True when equal. */
static bool check(uint64_t seed, struct qc_graph *(*make)(uint64_t seed, bool simulated, struct qc_status *st))
{
    OWN(qc_graph) *simulated = make(seed, true, ST), *produced = make(seed, false, ST);
    cr_assert(simulated && produced, "seed %llu: %s", (unsigned long long)seed, failure.message);
    struct random_source random = {seed ^ 0x5555};
    struct qc_plan_options how = {.isa = QC_ISA_BEST};
    if (random_int(&random, 0, 3) == 0)
        how.accumulator =
            (struct qc_accumulator){.bits = (unsigned)random_int(&random, 8, 26),
                                    .overflow = random_int(&random, 0, 1) ? QC_OVERFLOW_SATURATE : QC_OVERFLOW_WRAP};
    struct results want = run(simulated, seed, &how), got = run(produced, seed, &how);
    cr_expect_eq(want.overflows, got.overflows, "seed %llu: %llu overflows in integers, %llu in the simulation",
                 (unsigned long long)seed, (unsigned long long)got.overflows, (unsigned long long)want.overflows);
    size_t at = first_difference(&want, &got);
    bool ok = at == SIZE_MAX;
    cr_expect(ok, "seed %llu: element %zu is %.9g in integers, %.9g in the simulation", (unsigned long long)seed, at,
              ok ? 0 : got.v[at], ok ? 0 : want.v[at]);
    how.isa = (enum qc_isa)(QC_ISA_PLAIN + seed % (QC_ISA_COUNT - 1));
    how.lowering = seed / QC_ISA_COUNT % 2 ? QC_LOWERING_INT16 : QC_LOWERING_INT8;
    struct results other = run(produced, seed, &how);
    at = first_difference(&got, &other);
    cr_expect(at == SIZE_MAX, "seed %llu: element %zu differs with %s, operands of %d bits", (unsigned long long)seed,
              at, qc_isa_name(how.isa), how.lowering == QC_LOWERING_INT16 ? 16 : 8);
    cr_expect_eq(got.overflows, other.overflows, "seed %llu", (unsigned long long)seed);
    ok = ok && at == SIZE_MAX;
    free(want.v);
    free(got.v);
    free(other.v);
    return ok;
}

static void check_all(struct qc_graph *(*make)(uint64_t seed, bool simulated, struct qc_status *st))
{
    const char *count = getenv("QC_PROPERTY_CASES"), *first = getenv("QC_PROPERTY_SEED");
    const uint64_t n = count ? strtoull(count, NULL, 10) : 2000 / test_one_of(1, 4),
                   begin = first ? strtoull(first, NULL, 10) : 1;
    uint64_t bad = 0;
    for (uint64_t i = 0; i < n && bad < 10; i++) bad += !check(begin + i, make);
    cr_expect_eq(bad, 0);
}

Test(integer, equals_the_simulation_bit_for_bit, .timeout = 3600)
{
    check_all(random_graph);
}

Test(integer, equals_the_simulation_with_scales_per_channel, .timeout = 3600)
{
    check_all(random_channel_graph);
}
