// SPDX-License-Identifier: Apache-2.0
/* Plan and runner: refusals, fusion, workers, memory, qparams that are off. */
#include "base/pool.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"
#include "tests/simq/plan_print.h"

static struct qc_status st;

static qc_id add(struct qc_graph *g, enum qc_op op, const char *name, unsigned inputs, const qc_id *in, unsigned attrs,
                 const struct qc_attr *attr, qc_id qparams)
{
    const char *const names[] = {name};
    const struct qc_node_def d = FIELDS(.op = op, .name = name, .input_count = inputs, .inputs = in,
                                        .attr_count = attrs, .attrs = attr, .output_names = names, .qparams = qparams);
    qc_id v = qc_graph_add(g, &d, &st);
    cr_assert(v, "%s", st.message);
    return v;
}

static qc_id weights(struct qc_graph *g, const struct qc_shape *s, unsigned seed)
{
    OWN(qc_tensor) *t = qc_tensor_new(QC_F32, s, &st);
    for (size_t i = 0; i < t->count; i++) ((float *)t->data)[i] = (float)((i * 7919 + seed) % 31) * 0.01f - 0.15f;
    qc_id v = qc_graph_add_constant(g, NULL, t, &st);
    return v;
}

/* A residual block behind a convolution, with quantizers around each: x -> conv -> relu -> (conv -> relu -> conv) + ->
 * relu -> pool. */
struct block {
    struct qc_graph *g;
    qc_id relus[3];
    qc_id quantizers[8];
    unsigned quantizer_count, conv_count;
};

static qc_id quantize(struct block *b, qc_id v, bool weight)
{
    char name[16];
    const struct qc_qparams def = FIELDS(.name = qc_text(name, sizeof name, "s%u", b->quantizer_count),
                                         .dtype = weight ? QC_I8 : QC_U8, .is_weight = weight);
    const qc_id s = qc_graph_add_quantizer(b->g, &def, &st);
    b->quantizers[b->quantizer_count++] = s;
    return add(b->g, QC_OP_Quantize, NULL, 1, &v, 0, NULL, s);
}

static qc_id conv(struct block *b, qc_id x, int64_t in, int64_t out, bool quantizers)
{
    static const int64_t pads[] = {1, 1, 1, 1};
    const struct qc_shape ws = QC_SHAPE(out, in, 3, 3);
    qc_id v[2] = {x, weights(b->g, &ws, b->conv_count++)}, product = 0;
    if (quantizers) {
        v[0] = quantize(b, v[0], false);
        v[1] = quantize(b, v[1], true);
        product = qc_graph_add_product(b->g, b->quantizers[b->quantizer_count - 2],
                                       b->quantizers[b->quantizer_count - 1], &st);
    }
    qc_id y = add(b->g, QC_OP_Conv, NULL, 2, v, 1, &QC_INTS("pads", 4, pads), product);
    return quantizers ? add(b->g, QC_OP_Dequantize, NULL, 1, &y, 0, NULL, 0) : y;
}

static struct block make_block(bool quantizers)
{
    struct block b = {0};
    st = QC_STATUS_INIT;
    b.g = qc_graph_new(&st);
    b.g->simulated = true;
    const struct qc_shape in = {.rank = 4, .dim = {QC_FREE, 3, 12, 12}};
    const qc_id x = qc_graph_add_input(b.g, "x", QC_F32, &in, &st);
    qc_id v = conv(&b, x, 3, 16, quantizers);
    v = b.relus[0] = add(b.g, QC_OP_Relu, "r0", 1, &v, 0, NULL, 0);
    qc_id u = conv(&b, v, 16, 16, quantizers);
    u = b.relus[1] = add(b.g, QC_OP_Relu, "r1", 1, &u, 0, NULL, 0);
    u = conv(&b, u, 16, 16, quantizers);
    u = add(b.g, QC_OP_Add, "sum", 2, (const qc_id[]){u, v}, 0, NULL, 0);
    u = b.relus[2] = add(b.g, QC_OP_Relu, "r2", 1, &u, 0, NULL, 0);
    u = add(b.g, QC_OP_GlobalAveragePool, "mean", 1, &u, 0, NULL, 0);
    cr_assert(qc_graph_add_output(b.g, "y", u, &st));
    return b;
}

static struct qc_plan *plan_of(const struct qc_graph *g, int64_t batch, const struct qc_plan_options *o)
{
    struct qc_plan *p;
    const struct qc_shape s = QC_SHAPE(batch, 3, 12, 12);
    cr_assert(qc_plan_new(&p, g, &s, o, &st), "%s", st.message);
    return p;
}

static void fill(struct qc_runner *r, size_t sample)
{
    const struct qc_view x = qc_runner_input(r, 0);
    for (size_t i = 0; i < qc_view_count(&x); i++)
        ((float *)x.data)[i] = (float)((i * 31 + sample * 17) % 101) * 0.02f - 1;
}

static void run(struct qc_plan *p, size_t sample, float *y, size_t count)
{
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_runner_new(&r, p, &st), "%s", st.message);
    fill(r, sample);
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    const struct qc_view v = qc_runner_output(r, 0);
    cr_assert_eq(qc_view_count(&v), count);
    memcpy(y, v.data, count * sizeof *y);
}

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

Test(plan_run, unbound_quantizers_leave_nothing_behind)
{
    struct block plain = make_block(false), quantizers = make_block(true);
    struct qc_plan *p = plan_of(plain.g, 1, NULL), *q = plan_of(quantizers.g, 1, NULL);
    char *a = plan_print(p, &st), *b = plan_print(q, &st);
    float y[16], z[16];
    cr_assert_eq(lines(a), lines(b), "%s\n%s", a, b);
    cr_assert(!strstr(b, "quantize"), "%s", b);
    run(p, 0, y, 16);
    run(q, 0, z, 16);
    cr_assert_eq(memcmp(y, z, sizeof y), 0);
    free(a);
    free(b);
    qc_plan_free(p);
    qc_plan_free(q);
    qc_graph_free(plain.g);
    qc_graph_free(quantizers.g);
}

Test(plan_run, residual_block_is_three_convolutions_and_a_pool)
{
    struct block b = make_block(false);
    struct qc_plan *p = plan_of(b.g, 1, NULL);
    char *text = plan_print(p, &st);
    /* One more line for the input's order, one for the totals. */
    cr_assert_eq(lines(text), 6, "%s", text);
    cr_assert(!strstr(text, "relu") && !strstr(text, "binary") && !strstr(text, "copy"), "%s", text);
    free(text);
    qc_plan_free(p);
    qc_graph_free(b.g);
}

Test(plan_run, a_quantizer_turned_off_makes_the_others_work_on_real_values)
{
    struct block b = make_block(true);
    float plain[16], off[16], on[16];
    struct qc_plan *p = plan_of(b.g, 1, NULL);
    run(p, 0, plain, 16);
    qc_plan_free(p);
    for (unsigned i = 0; i < b.quantizer_count; i++) {
        const float scale = i % 2 ? 0.01f : 0.02f;
        const int32_t zero = i % 2 ? 0 : 100;
        cr_assert(qc_graph_bind_quantizer(b.g, b.quantizers[i], 1, &scale, &zero, &st), "%s", st.message);
    }
    p = plan_of(b.g, 1, NULL);
    run(p, 0, on, 16);
    qc_plan_free(p);
    /* Weights are multiples of 0.01 already: turning them off changes rounding errors, and a step of an activation here
     * and there. */
    for (unsigned i = 1; i < b.quantizer_count; i += 2) qc_graph_turn_off_quantizer(b.g, b.quantizers[i]);
    p = plan_of(b.g, 1, NULL);
    run(p, 0, off, 16);
    qc_plan_free(p);
    bool changed = false;
    for (int i = 0; i < 16; i++) {
        cr_assert_float_eq(on[i], off[i], 2e-3, "%d: %g and %g", i, (double)on[i], (double)off[i]);
        changed = changed || on[i] != plain[i];
    }
    cr_assert(changed, "bound activations must show");
    qc_graph_free(b.g);
}

struct job {
    struct qc_runner *runners[3];
    float y[40][16];
    double sums[40];
};

static bool observe(void *user, size_t index, const struct qc_view *v, struct qc_status *s)
{
    double *sum = user;
    if (!qc_view_dense(v)) return false;
    for (size_t i = 0; i < qc_view_count(v); i++) *sum += (double)((const float *)v->data)[i] * (double)(index + 1);
    return true;
}

static bool work(void *user, size_t item, unsigned worker, struct qc_status *s)
{
    struct job *j = user;
    fill(j->runners[worker], item);
    if (!qc_runner_run(j->runners[worker], observe, &j->sums[item], s)) return false;
    const struct qc_view v = qc_runner_output(j->runners[worker], 0);
    memcpy(j->y[item], v.data, sizeof j->y[item]);
    return true;
}

Test(plan_run, results_do_not_depend_on_the_number_of_workers)
{
    struct block b = make_block(true);
    const struct qc_plan_options o = {.observed_count = 3, .observed = b.relus};
    struct qc_plan *p = plan_of(b.g, 1, &o);
    static struct job jobs[3];
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct job *j = &jobs[workers - 1];
        for (unsigned i = 0; i < workers; i++) cr_assert(qc_runner_new(&j->runners[i], p, &st));
        cr_assert(qc_pool_run(40, work, j, &(struct qc_pool_options){.workers = workers}, &st), "%s", st.message);
        for (unsigned i = 0; i < workers; i++) qc_runner_free(j->runners[i]);
        MUST_HOLD(memcmp(j->y, jobs[0].y, sizeof j->y) == 0, memcmp(j->sums, jobs[0].sums, sizeof j->sums) == 0);
    }
    qc_plan_free(p);
    qc_graph_free(b.g);
}

Test(plan_run, samples_of_a_batch_equal_samples_alone)
{
    struct block b = make_block(false);
    struct qc_plan *one = plan_of(b.g, 1, NULL), *two = plan_of(b.g, 2, NULL);
    struct qc_runner *r;
    float single[2][16];
    cr_assert(qc_runner_new(&r, two, &st));
    const struct qc_view x = qc_runner_input(r, 0);
    for (size_t s = 0; s < 2; s++) {
        struct qc_runner *q;
        cr_assert(qc_runner_new(&q, one, &st));
        fill(q, s);
        memcpy((float *)x.data + s * 432, qc_runner_input(q, 0).data, 432 * sizeof(float));
        qc_runner_free(q);
        run(one, s, single[s], 16);
    }
    cr_assert(qc_runner_run(r, NULL, NULL, &st));
    const struct qc_view y = qc_runner_output(r, 0);
    for (size_t i = 0; i < 32; i++) cr_assert_float_eq(((float *)y.data)[i], single[i / 16][i % 16], 1e-5);
    cr_assert_gt(qc_plan_runner_bytes(two), qc_plan_runner_bytes(one));
    cr_assert_geq(qc_plan_constant_bytes(one), (3 * 16 + 2 * 16 * 16) * 9 * sizeof(float));
    qc_runner_free(r);
    qc_plan_free(one);
    qc_plan_free(two);
    qc_graph_free(b.g);
}

Test(plan_run, a_stack_needs_the_memory_of_its_widest_place)
{
    st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    const struct qc_shape s = QC_SHAPE(1, 4, 64, 64);
    qc_id v = qc_graph_add_input(g, "x", QC_F32, &s, &st);
    for (int i = 0; i < 50; i++) v = add(g, i % 2 ? QC_OP_Sigmoid : QC_OP_Softmax, NULL, 1, &v, 0, NULL, 0);
    cr_assert(qc_graph_add_output(g, "y", v, &st));
    OWN(qc_plan) *p = NULL;
    cr_assert(qc_plan_new(&p, g, &s, NULL, &st), "%s", st.message);
    cr_assert_lt(qc_plan_runner_bytes(p), 3 * 4 * 64 * 64 * sizeof(float));
}

static void refused(const struct qc_graph *g, struct qc_shape s, enum qc_code code, const char *says)
{
    struct qc_plan *p = NULL;
    struct qc_status failed = QC_STATUS_INIT;
    cr_assert(!qc_plan_new(&p, g, &s, NULL, &failed));
    cr_assert_eq(failed.code, code, "%s", failed.message);
    cr_assert(strstr(failed.message, says), "\"%s\" does not say \"%s\"", failed.message, says);
}

Test(plan_run, wrong_shapes_are_named)
{
    struct block b = make_block(false);
    refused(b.g, QC_SHAPE(1, 4, 12, 12), QC_BAD_INPUT, "'x'");
    refused(b.g, QC_SHAPE(1, 3, 12), QC_BAD_INPUT, "[N,3,12,12]");
    refused(b.g, (struct qc_shape){.rank = 4, .dim = {QC_FREE, 3, 12, 12}}, QC_BAD_INPUT, "'x'");
    refused(b.g, QC_SHAPE(INT64_MAX / 8, 3, 12, 12), QC_BAD_INPUT, "memory");
    qc_graph_free(b.g);
}

Test(plan_run, all_ops_that_cannot_run_are_named)
{
    st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    const struct qc_shape s = QC_SHAPE(1, 8);
    const qc_id x = qc_graph_add_input(g, "x", QC_F64, &s, &st);
    qc_id v = add(g, QC_OP_Softmax, "first", 1, &x, 0, NULL, 0);
    v = add(g, QC_OP_Relu, "fine", 1, &v, 0, NULL, 0);
    v = add(g, QC_OP_Tanh, "second", 1, &v, 0, NULL, 0);
    cr_assert(qc_graph_add_output(g, "y", v, &st));
    struct qc_plan *p = NULL;
    if (qc_plan_new(&p, g, &s, NULL, &st)) {
        qc_plan_free(p);
        cr_skip_test("doubles are handled everywhere");
    }
    cr_assert_eq(st.code, QC_UNSUPPORTED, "%s", st.message);
    cr_assert(strstr(st.message, "'second'") && !strstr(st.message, "'fine'"), "%s", st.message);
}

Test(plan_run, evaluate_gives_stored_integers)
{
    st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    const float data[] = {-1, 0.24f, 0.25f, 0.75f, 200, 1.25f}, scale[] = {0.5f, 0.25f};
    const int32_t zero[] = {3, -2};
    const struct qc_shape s = QC_SHAPE(2, 3);
    struct qc_tensor *t = qc_tensor_of(QC_F32, &s, data, &st), *q;
    const qc_id c = qc_graph_add_constant(g, "w", t, &st);
    const struct qc_qparams def = {.name = "w", .dtype = QC_I8, .is_weight = true, .per_channel = true};
    const qc_id quantizer = qc_graph_add_quantizer(g, &def, &st),
                v = add(g, QC_OP_Quantize, "q", 1, &c, 0, NULL, quantizer);
    cr_assert(qc_graph_bind_quantizer(g, quantizer, 2, scale, zero, &st));
    cr_assert(qc_evaluate(&q, g, qc_value(g, v)->node, &st), "%s", st.message);
    cr_assert_eq(q->dtype, QC_I8);
    const int8_t want[] = {1, 3, 3, 1, 127, 3}; /* 0.5 to even 0; saturated */
    cr_assert_eq(memcmp(q->data, want, 6), 0);
    qc_tensor_unref(q);
    qc_graph_turn_off_quantizer(g, quantizer);
    cr_assert(qc_evaluate(&q, g, qc_value(g, v)->node, &st));
    cr_assert(q->dtype == QC_F32 && memcmp(q->data, data, sizeof data) == 0);
    qc_tensor_unref(q);
    qc_tensor_unref(t);
}

static qc_id scalar(struct qc_graph *g, enum qc_dtype t, const void *data)
{
    OWN(qc_tensor) *tensor = qc_tensor_of(t, &QC_SCALAR, data, &st);
    const qc_id v = qc_graph_add_constant(g, NULL, tensor, &st);
    return v;
}

/* Fused, and kept apart by an observer, a pair gives the same bits. */
Test(plan_run, quantize_linear_and_dequantize_linear_are_one_step)
{
    static const uint8_t zeros[] = {0, 128, 255};
    const struct qc_shape s = QC_SHAPE(1, 3, 12, 12);
    for (int k = 0; k < 3; k++) {
        const float scale = 0.013f * (float)(k + 1);
        st = QC_STATUS_INIT;
        OWN(qc_graph) *g = qc_graph_new(&st);
        qc_id v[] = {qc_graph_add_input(g, "x", QC_F32, &s, &st), scalar(g, QC_F32, &scale),
                     scalar(g, QC_U8, &zeros[k])};
        const qc_id q = v[0] = add(g, QC_OP_QuantizeLinear, "q", 3, v, 0, NULL, 0);
        cr_assert(qc_graph_add_output(g, "y", add(g, QC_OP_DequantizeLinear, "dq", 3, v, 0, NULL, 0), &st));
        const struct qc_plan_options o = {.observed_count = 1, .observed = &q};
        OWN(qc_plan) *p = plan_of(g, 1, NULL), *apart = plan_of(g, 1, &o);
        QC_FREED char *text = plan_print(p, &st);
        float y[432], z[432];
        cr_assert_eq(lines(text), 2, "%s", text);
        run(p, 0, y, 432);
        run(apart, 0, z, 432);
        cr_assert_eq(memcmp(y, z, sizeof y), 0);
        cr_assert_neq(y[0], -1.0f, "the numbers must be rounded");
    }
}

/* Two qparams multiplied over and over: hostile text, not a model. */
/* x -> batch norm -> Relu or Clip; `both`: the batch norm's result is an output too, so that nothing is fused. */
static struct qc_graph *normalised(bool clip, bool both)
{
    struct qc_graph *g = qc_graph_new(&st);
    const struct qc_shape shape = QC_SHAPE(1, 3, 12, 12), channels = QC_SHAPE(3), one = {.rank = 0};
    qc_id in[5] = {qc_graph_add_input(g, "x", QC_F32, &shape, &st)};
    for (unsigned i = 1; i < 5; i++) in[i] = weights(g, &channels, 10 + 5 * i); /* variances above 0 */
    const qc_id norm = add(g, QC_OP_BatchNormalization, "norm", 5, in, 0, NULL, 0),
                bounds[] = {norm, weights(g, &one, 10), weights(g, &one, 25)};
    const qc_id y = add(g, clip ? QC_OP_Clip : QC_OP_Relu, "y", clip ? 3 : 1, bounds, 0, NULL, 0);
    cr_assert(qc_graph_add_output(g, "y", y, &st) && (!both || qc_graph_add_output(g, "norm", norm, &st)));
    return g;
}

Test(plan_run, clamp_behind_a_batch_norm_is_part_of_it)
{
    enum { COUNT = 3 * 12 * 12 };
    for (int clip = 0; clip < 2; clip++) {
        float y[2][COUNT];
        for (int both = 0; both < 2; both++) {
            OWN(qc_graph) *g = normalised(clip, both);
            OWN(qc_plan) *p = plan_of(g, 1, NULL);
            OWN(qc_runner) *r = NULL;
            QC_FREED char *text = plan_print(p, &st);
            cr_expect_eq(!strstr(text, clip ? "clip" : "relu"), !both, "%s", text);
            cr_assert(qc_runner_new(&r, p, &st), "%s", st.message);
            fill(r, 1);
            float *x = qc_runner_input(r, 0).data;
            x[5] = NAN;
            x[6] = INFINITY;
            x[200] = -INFINITY;
            cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
            const struct qc_view v = qc_runner_output(r, 0);
            cr_assert_eq(qc_view_count(&v), COUNT);
            memcpy(y[both], v.data, sizeof y[both]);
        }
        HOLD(memcmp(y[0], y[1], sizeof y[0]) == 0, isnan(y[0][5]));
    }
}

/* With the channels last in memory (rank 2) and in the middle. */
Test(plan_run, batch_norm_is_the_formula)
{
    enum { ROWS = 9, CHANNELS = 37, INNER = 5 };
    for (int64_t inner = 1; inner <= INNER; inner += INNER - 1) {
        OWN(qc_graph) *g = qc_graph_new(&st);
        const struct qc_shape channels = QC_SHAPE(CHANNELS),
                              shape = inner == 1 ? QC_SHAPE(ROWS, CHANNELS) : QC_SHAPE(ROWS, CHANNELS, INNER);
        qc_id in[5] = {qc_graph_add_input(g, "x", QC_F32, &shape, &st)};
        const float *of[5] = {NULL};
        for (unsigned i = 1; i < 5; i++) {
            OWN(qc_tensor) *t = qc_tensor_new(QC_F32, &channels, &st);
            for (int c = 0; c < CHANNELS; c++) ((float *)t->data)[c] = 0.1f + 0.3f * (float)((c * 7 + (int)i) % 11);
            in[i] = qc_graph_add_constant(g, NULL, t, &st);
            of[i] = t->data; /* owned by the graph, too */
        }
        const qc_id y = add(g, QC_OP_BatchNormalization, "y", 5, in, 0, NULL, 0);
        OWN(qc_plan) *p = NULL;
        OWN(qc_runner) *r = NULL;
        cr_assert(qc_graph_add_output(g, "y", y, &st) && qc_plan_new(&p, g, &shape, NULL, &st) &&
                      qc_runner_new(&r, p, &st),
                  "%s", st.message);
        fill(r, 3);
        float x[ROWS * CHANNELS * INNER];
        const struct qc_view v = qc_runner_input(r, 0);
        memcpy(x, v.data, qc_view_count(&v) * sizeof *x);
        cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
        const struct qc_view out = qc_runner_output(r, 0);
        size_t wrong = 0;
        for (size_t i = 0; i < qc_view_count(&out); i++) {
            const size_t c = i / (size_t)inner % CHANNELS;
            const double a = (double)of[1][c] / sqrt((double)of[4][c] + (double)1e-5f);
            const float b = (float)((double)of[2][c] - (double)of[3][c] * a), product = x[i] * (float)a;
            wrong += ((const float *)out.data)[i] != product + b;
        }
        cr_expect_eq(wrong, 0, "%zu of %zu, %lld inside the channels", wrong, qc_view_count(&out), (long long)inner);
    }
}

Test(plan_run, nested_products_are_refused)
{
    st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    const struct qc_shape s = QC_SHAPE(1, 8);
    qc_id x = qc_graph_add_input(g, "x", QC_F32, &s, &st);
    const struct qc_qparams def = {.name = "s", .dtype = QC_U8};
    qc_id qparams = qc_graph_add_quantizer(g, &def, &st);
    for (int i = 0; i < 12; i++) qparams = qc_graph_add_product(g, qparams, qparams, &st);
    x = qparams ? add(g, QC_OP_Quantize, "q", 1, &x, 0, NULL, qparams) : 0;
    if (x) {
        cr_assert(qc_graph_add_output(g, "y", add(g, QC_OP_Dequantize, "dq", 1, &x, 0, NULL, 0), &st));
        refused(g, s, QC_UNSUPPORTED, "product");
    }
}

static bool observe_one(float *y, double *sum, const char *text, size_t observed, struct qc_status *status)
{
    const struct qc_shape shapes[] = {QC_SHAPE(1, 2), QC_SHAPE(1)};
    OWN(qc_graph) *g = NULL;
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_graph_parse(&g, text, strlen(text), status), "%s", status->message);
    const qc_id a = qc_graph_find_value(g, "a");
    const struct qc_plan_options how = {.observed_count = observed, .observed = &a};
    cr_assert(qc_plan_new(&p, g, shapes, &how, status) && qc_runner_new(&r, p, status), "%s", status->message);
    memcpy(qc_runner_input(r, 0).data, (float[]){1, 2}, 2 * sizeof(float));
    memcpy(qc_runner_input(r, 1).data, &(int64_t){9}, sizeof(int64_t));
    const bool ok = qc_runner_observe(r, observe, sum, status);
    *y = *(const float *)qc_runner_output(r, 0).data;
    return ok;
}

#define OBSERVED_GRAPH(last)                                                                                           \
    "graph \"g\" opset 13\ninput %1 \"x\" f32[1,2]\ninput %2 \"at\" i64[1]\nconst %3 \"w\" f32[2,1] = {5, 7}\n"        \
    "%4 \"a\" = Neg(%1)\n%5 \"y\" = " last "\noutput \"y\" %5\n"

/* But an index out of range is still found. */
Test(plan_run, observing_leaves_out_products_that_only_outputs_need)
{
    for (size_t observed = 0; observed < 2; observed++) {
        float y = 0;
        double sum = 0;
        cr_assert(observe_one(&y, &sum, OBSERVED_GRAPH("MatMul(%4, %3)"), observed, &st), "%s", st.message);
        HOLD(sum == (observed ? -3 : 0), y != -19);
        struct qc_status failed = QC_STATUS_INIT;
        cr_expect_not(observe_one(&y, &sum, OBSERVED_GRAPH("Gather(%4, %2) {axis=1}"), observed, &failed));
        cr_expect_eq(failed.code, QC_BAD_INPUT);
    }
}
