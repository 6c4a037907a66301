// SPDX-License-Identifier: Apache-2.0
/* Single layers, against the whole graph with everything else turned off. */
#include "calib/metrics/sensitivity.h"
#include "calib/moments/second_moments.h"
#include "calib/weights/round_weights.h"
#include "calib_case.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"

enum { SAMPLES = 24, IN = 4, PIXELS = 36 };

/* Two branches that share their input, are added up, and go on; values cross every cut but the last. */
static struct qc_graph *network(void)
{
    QC_FREED char *a = case_numbers(IN * IN * 9, 0.3f, 5), *b = case_numbers(IN * IN * 9, 0.3f, 6),
                  *c = case_numbers(3 * IN, 0.5f, 7);
    char *text =
        qc_arena_printf(test_arena(), ST,
                        "graph \"g\"\ninput %%1 \"x\" f32[1,4,6,6]\nconst %%2 \"a\" f32[4,4,3,3] = %s\nconst %%3 \"b\" "
                        "f32[4,4,3,3] = %s\nconst %%4 \"c\" f32[3,4,1,1] = %s\n"
                        "%%5 \"first\" = Conv \"one\"(%%1, %%2) {pads=[1,1,1,1]}\n%%6 \"cut\" = Relu \"relu\"(%%5)\n"
                        "%%7 \"second\" = Conv \"two\"(%%6, %%3) {pads=[1,1,1,1]}\n"
                        "%%8 \"sum\" = Add \"add\"(%%7, %%1)\n%%9 \"y\" = Conv \"three\"(%%8, %%4)\noutput \"y\" "
                        "%%9\noutput \"sum\" %%8\n",
                        a, b, c);
    struct qc_graph *g = test_graph(text);
    return g;
}

static void calibrate(struct case_run *r, const struct qc_graph *g)
{
    struct case_setup setup = CASE_SETUP;
    QC_FREED float *x = malloc(SAMPLES * IN * PIXELS * sizeof *x);
    uint64_t seed = 3;
    cr_assert(x);
    for (size_t i = 0; i < SAMPLES * IN * PIXELS; i++) x[i] = case_normal(&seed);
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {IN, 6, 6}};
    CASE_FILE path[CASE_PATH];
    case_write(path, &set, 1, SAMPLES);
    setup.moments = true;
    MUST(case_calibrate(r, g, path, &setup, ST));
}

/* The graph with these quantizers alone. */
static struct qc_graph *with_quantizers(const struct qc_graph *g, const char *const *quantizers, size_t count)
{
    struct qc_rebuild b;
    struct qc_graph *some = NULL;
    cr_assert(qc_rebuild_begin(&b, g, ST) && qc_rebuild_finish(&some, &b, ST));
    qc_rebuild_free(&b);
    for (qc_id s = 1; s <= some->qparams_count; s++) {
        bool on = some->qparams_of[s].kind == QC_QPARAMS_PRODUCT;
        for (size_t i = 0; i < count; i++) on = on || strcmp(quantizers[i], some->qparams_of[s].name) == 0;
        if (!on) qc_graph_turn_off_quantizer(some, s);
    }
    return some;
}

/* The same against the real one: mean over the outputs of noise to signal. */
static double expected(const struct case_run *r, const struct qc_graph *g, const char *const *quantizers, size_t count)
{
    OWN(qc_graph) *some = with_quantizers(g, quantizers, count);
    struct qc_comparison *c = NULL;
    const struct qc_comparison_job job =
        FIELDS(.first = r->normalised, .second = some, .data = r->data, .settings = CASE_WORKERS(1));
    MUST(qc_compare(&c, &job, ST));
    double sum = 0;
    for (size_t k = 0; k < some->output_count; k++) sum += c->outputs[k].noise / c->outputs[k].signal;
    sum /= (double)some->output_count;
    qc_comparison_free(c);
    return sum;
}

static struct qc_sensitivity *measure(const struct case_run *r, const struct qc_graph *rounded, unsigned workers)
{
    struct qc_sensitivity *s = NULL;
    const struct qc_sensitivity_options o = {.settings = CASE_WORKERS(workers)};
    MUST(qc_sensitivity_measure(&s, r->simulated, rounded, r->data, &o, ST));
    return s;
}

static const struct qc_layer_effect *effect(const struct qc_sensitivity *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->layers[i].name, name) == 0) return &s->layers[i];
    cr_assert_fail("no layer '%s'", name);
    return NULL;
}

static const struct {
    const char *name, *quantizers[3];
    size_t count, weight;
} layers[] = {
    {"one", {"x", "a"}, 2, 1},
    {"two", {"cut", "b"}, 2, 1},
    {"add", {"second", "x", "sum"}, 3, 3},
    {"three", {"sum", "c"}, 2, 1},
};

Test(sensitivity, a_layer_alone_is_the_graph_with_all_else_off)
{
    OWN(qc_graph) *g = network();
    CASE_RUN r;
    calibrate(&r, g);
    OWN(qc_sensitivity) *s = measure(&r, NULL, 1);
    MUST_HOLD(s->count == sizeof layers / sizeof *layers, s->samples == SAMPLES);
    for (size_t i = 0; i < s->count; i++) {
        const struct qc_layer_effect *e = effect(s, layers[i].name);
        const double want = expected(&r, r.simulated, layers[i].quantizers, layers[i].count);
        cr_expect(want > 1e-7);
        cr_expect_float_eq(e->noise, want, 1e-3 * want, "%s: %g, not %g", e->name, e->noise, want);
        if (layers[i].weight > 2) {
            cr_expect(isnan(e->noise_weights));
            continue;
        }
        const double weights = expected(&r, r.simulated, &layers[i].quantizers[layers[i].weight], 1);
        cr_expect_float_eq(e->noise_weights, weights, 1e-3 * weights, "%s: %g, not %g", e->name, e->noise_weights,
                           weights);
    }
    for (size_t i = 1; i < s->count; i++) cr_expect(s->layers[i - 1].noise >= s->layers[i].noise);
}

/* Those of which most is believed, as they are among all. */
Test(sensitivity, only_layers_of_which_most_is_believed_are_measured)
{
    OWN(qc_graph) *g = network();
    CASE_RUN r;
    calibrate(&r, g);
    OWN(qc_sensitivity) *all = measure(&r, NULL, 1);
    QC_FREED double *believed = calloc(r.simulated->qparams_count + 1, sizeof *believed);
    cr_assert(believed);
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        struct qc_sensitivity *some = NULL;
        const struct qc_sensitivity_options o =
            FIELDS(.settings = CASE_WORKERS(2), .most = 1, .weights_of = 1, .believed = believed);
        for (qc_id s = 1; s <= r.simulated->qparams_count; s++) {
            believed[s] = 0.25; /* of every quantizer; the layer at hand has as many as any and more of each */
            for (size_t i = 0; i < layers[k].count; i++)
                if (strcmp(r.simulated->qparams_of[s].name, layers[k].quantizers[i]) == 0) believed[s] = 8;
        }
        MUST(qc_sensitivity_measure(&some, r.simulated, NULL, r.data, &o, ST));
        cr_assert_eq(some->count, 1);
        const struct qc_layer_effect *e = &some->layers[0], *want = effect(all, e->name);
        HOLD(strcmp(e->name, layers[k].name) == 0, e->noise == want->noise,
             e->noise_weights == want->noise_weights || (isnan(e->noise_weights) && isnan(want->noise_weights)));
        qc_sensitivity_free(some);
        MUST(qc_sensitivity_believed(&some, r.simulated, believed, ST));
        cr_expect_eq(some->count, all->count);
        cr_expect_str_eq(some->layers[0].name, layers[k].name, "nothing is run for that");
        cr_expect(some->layers[0].noise > some->layers[1].noise && isnan(some->layers[0].noise_weights));
        qc_sensitivity_free(some);
    }
}

Test(sensitivity, the_metric_of_a_layer_is_that_of_the_graph_with_all_else_off)
{
    enum { OUT = 3 };
    OWN(qc_graph) *g = network();
    CASE_RUN r;
    CASE_FILE path[CASE_PATH];
    uint64_t seed = 9;
    QC_FREED float *x = malloc(SAMPLES * IN * PIXELS * sizeof *x),
                   *target = malloc(SAMPLES * OUT * PIXELS * sizeof *target);
    cr_assert(x && target);
    calibrate(&r, g);
    for (size_t i = 0; i < SAMPLES * IN * PIXELS; i++) x[i] = case_normal(&seed);
    for (size_t i = 0; i < SAMPLES * OUT * PIXELS; i++) target[i] = 0.1f * case_normal(&seed);
    struct case_data sets[] = {{.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {IN, 6, 6}},
                               {.name = "target", .dtype = QC_F32, .values = target, .rank = 3, .dims = {OUT, 6, 6}}};
    case_write(path, sets, 2, SAMPLES);
    OWN(qc_dataset) *eval = case_open(r.simulated, path, true);
    const struct qc_sensitivity_options o = {.settings = CASE_WORKERS(2)};
    OWN(qc_sensitivity) *s = measure(&r, NULL, 1);
    struct qc_metric real, m;
    double noise[sizeof layers / sizeof *layers];
    for (size_t i = 0; i < s->count; i++) {
        noise[i] = effect(s, layers[i].name)->noise;
        cr_expect(isnan(s->layers[i].metric) && isnan(s->layers[i].lost));
    }
    MUST(qc_sensitivity_score(s, r.simulated, NULL, eval, &o, ST));
    MUST(case_evaluate(&real, r.normalised, eval, 1, ST));
    cr_expect_eq(real.kind, QC_METRIC_PSNR);
    for (size_t i = 0; i < s->count; i++) {
        const struct qc_layer_effect *e = effect(s, layers[i].name);
        OWN(qc_graph) *some = with_quantizers(r.simulated, layers[i].quantizers, layers[i].count);
        MUST(case_evaluate(&m, some, eval, 1, ST));
        cr_expect_neq(m.value, real.value);
        cr_expect_float_eq(e->metric, m.value, 1e-6, "%s: %.12g, not %.12g", e->name, e->metric, m.value);
        cr_expect_float_eq(e->lost, real.value - m.value, 1e-6);
        cr_expect_eq(e->noise, noise[i], "what was measured before stays");
        if (i) cr_expect(s->layers[i - 1].lost >= s->layers[i].lost);
    }
    qc_sensitivity_sort(s, QC_EFFECTS_BY_NOISE);
    for (size_t i = 1; i < s->count; i++) cr_expect(s->layers[i - 1].noise >= s->layers[i].noise);
    cr_expect(!qc_sensitivity_score(s, r.simulated, NULL, r.data, &o, ST) && failure.code == QC_BAD_INPUT &&
                  strstr(failure.message, "neither"),
              "data without truth: %s", failure.message);
}

Test(sensitivity, a_layer_has_the_constants_that_rounding_made)
{
    OWN(qc_graph) *g = network(), *rounded = NULL;
    CASE_RUN r;
    OWN(qc_weight_rounding) *w = NULL;
    const struct qc_round_weights_options both = {.settings = &case_rounds};
    calibrate(&r, g);
    MUST(qc_round_weights(&w, &rounded, r.simulated, r.second_moments, &both, ST));
    OWN(qc_sensitivity) *plain = measure(&r, NULL, 1), *s = measure(&r, rounded, 1);
    cr_expect_neq(effect(s, "one")->noise_weights, effect(plain, "one")->noise_weights);
    cr_expect_neq(effect(s, "three")->noise_weights, effect(plain, "three")->noise_weights);
    cr_expect_eq(effect(s, "add")->noise, effect(plain, "add")->noise,
                 "what has no weights is not changed by those of others");
}

/* Rounding may give a layer other scales (calib/weights/round_weights.h). Expected: the error of the float network with
   the real numbers of these integers. */
Test(sensitivity, a_layer_has_the_scales_that_rounding_made)
{
    OWN(qc_graph) *g = network(), *stored = NULL, *some = NULL;
    CASE_RUN r;
    struct qc_rebuild b;
    struct qc_comparison *c = NULL;
    calibrate(&r, g);
    MUST(qc_store_weights(&stored, r.simulated, QC_FORMS_NOT_KEPT, qc_evaluate, ST));
    const qc_id q = qc_graph_find_quantizer(stored, "a");
    const struct qc_qparams *s = &stored->qparams_of[q];
    float scale[64];
    cr_assert(s->count <= 64);
    for (size_t i = 0; i < s->count; i++) scale[i] = 0.9f * s->scale[i];
    MUST(qc_graph_bind_quantizer(stored, q, s->count, scale, s->zero_point, ST));
    MUST(qc_rebuild_begin(&b, r.simulated, ST));
    for (qc_id v = 1; v <= stored->value_count; v++) {
        if (stored->values[v].type.qparams != q || !qc_constant_of(stored, v)) continue;
        for (qc_id from = 1; from <= r.simulated->value_count; from++) {
            const qc_id real = qc_quantized_constant(r.simulated, from);
            if (r.simulated->values[from].type.qparams == q && real)
                b.map[real] = qc_graph_add_made_constant(b.to, "a", qc_tensor_of_parameters(stored, v, ST), ST);
        }
    }
    MUST(qc_rebuild_finish(&some, &b, ST));
    qc_rebuild_free(&b);
    for (qc_id k = 1; k <= some->qparams_count; k++)
        if (some->qparams_of[k].kind == QC_QPARAMS_QUANTIZER) qc_graph_turn_off_quantizer(some, k);
    const struct qc_comparison_job job =
        FIELDS(.first = r.normalised, .second = some, .data = r.data, .settings = CASE_WORKERS(1));
    MUST(qc_compare(&c, &job, ST));
    double want = 0;
    for (size_t k = 0; k < some->output_count; k++)
        want += c->outputs[k].noise / c->outputs[k].signal / (double)some->output_count;
    OWN(qc_sensitivity) *measured = measure(&r, stored, 1);
    const double got = effect(measured, "one")->noise_weights;
    cr_expect(want > 1e-4);
    cr_expect_float_eq(got, want, 1e-5 * want, "%.9g, not %.9g", got, want);
    qc_comparison_free(c);
}

Test(sensitivity, workers_do_not_matter)
{
    OWN(qc_graph) *g = network();
    CASE_RUN r;
    calibrate(&r, g);
    OWN(qc_sensitivity) *one = measure(&r, NULL, 1), *three = measure(&r, NULL, 3);
    cr_assert_eq(one->count, three->count);
    for (size_t i = 0; i < one->count; i++) {
        HOLD(strcmp(one->layers[i].name, three->layers[i].name) == 0, one->layers[i].noise == three->layers[i].noise);
    }
}

Test(sensitivity, moments_of_a_graph_that_quantizes_less_are_those_taken_before)
{
    OWN(qc_graph) *g = network();
    CASE_RUN all;
    calibrate(&all, g);
    struct qc_partition_options some = QC_PARTITION_INIT;
    const char *skip[] = {"two"};
    some.skip = skip;
    some.skip_count = 1;
    OWN(qc_partition) *p = NULL;
    OWN(qc_graph) *fewer = NULL;
    OWN(qc_second_moments) *moments = NULL;
    MUST(qc_partition_new(&p, all.normalised, all.rules, &some, ST) && qc_simulate(&fewer, p, ST));
    cr_assert(qc_second_moments_for(&moments, all.second_moments, fewer, ST) && moments);
    cr_assert_eq(qc_second_moments_count(moments), qc_second_moments_count(all.second_moments) - 1);
    for (size_t i = 0; i < qc_second_moments_count(moments); i++) {
        const struct qc_second_moments_layer *l = qc_second_moments_at(moments, i);
        cr_expect_neq(strcmp(l->name, "cut"), 0);
        for (size_t k = 0; k < qc_second_moments_count(all.second_moments); k++) {
            const struct qc_second_moments_layer *was = qc_second_moments_at(all.second_moments, k);
            if (strcmp(was->name, l->name) != 0) continue;
            double h[2][40 * 40], mean[2][40];
            const size_t w = qc_second_moments_width(l, 0);
            cr_assert(w <= 40 && qc_second_moments_width(was, 0) == w);
            qc_second_moments_read(h[0], mean[0], l, 3, 0, 0);
            qc_second_moments_read(h[1], mean[1], was, 3, 0, 0);
            cr_expect_arr_eq(h[0], h[1], w * w * sizeof **h);
            cr_expect_arr_eq(mean[0], mean[1], w * sizeof **mean);
        }
    }
    struct qc_second_moments *none = moments;
    cr_expect(qc_second_moments_for(&none, moments, all.simulated, ST) && !none,
              "a layer that was not looked at has no moments");
}

Test(sensitivity, multiply_adds_of_recurrent_ops)
{
    OWN(qc_graph) *g =
        test_graph("graph \"g\"\ninput %1 \"x\" f32[7,N,5]\ninput %2 \"s\" f32[N,N,5]\ninput %3 \"w\" f32[2,9,5]\n"
                   "input %4 \"r\" f32[2,9,3]\n%5 = GRU(%1, %3, %4) {direction=\"bidirectional\"}\n"
                   "%6 = GRU(%2, %3, %4) {direction=\"bidirectional\"}\noutput \"y\" %5\noutput \"z\" %6\n");
    uint64_t one;
    cr_assert(qc_multiply_adds(&one, g, 1));
    cr_expect_eq(one, 7 * 2 * 9 * (5 + 3)); /* steps, directions, rows, columns of W and R */
    cr_expect_not(qc_multiply_adds(&one, g, 2), "its steps are not known");
}

Test(sensitivity, multiply_adds)
{
    OWN(qc_graph) *g = network();
    CASE_RUN r;
    calibrate(&r, g);
    uint64_t all = 0, one;
    for (qc_id id = 1; id <= r.normalised->node_count; id++) {
        if (r.normalised->nodes[id].op != QC_OP_Conv) continue;
        cr_assert(qc_multiply_adds(&one, r.normalised, id));
        all += one;
    }
    cr_expect_eq(all, 36 * (4 * 36 + 4 * 36 + 3 * 4));
    cr_expect_float_eq(qc_product_share(r.produced, QC_PRODUCT_INT8), 1, 0);
    cr_expect_float_eq(qc_product_share(r.normalised, QC_PRODUCT_INT8), 0, 0);
}
