// SPDX-License-Identifier: Apache-2.0
/* Lowering to QuantizeLinear / DequantizeLinear: the nodes and names of the graph, and results equal to the simulated
   graph. */
#include "../calib/calib_case.h"
#include "../rewrite/rewrite_passes.h"
#include "calib/metrics/compare.h"
#include "export/formats/exporter.h"
#include "graph/core/verify.h"
#include "onnx/read/import.h"
#include "onnx/write/emit.h"

static struct qc_graph *lower(const struct qc_graph *produced)
{
    struct qc_graph *g = NULL;
    MUST(qc_exporter_find("qdq")->lower(&g, produced, NULL, ST));
    return g;
}

static bool same_input(const struct qc_node *a, const struct qc_node *b, unsigned i)
{
    return (i < a->input_count ? a->inputs[i] : 0) == (i < b->input_count ? b->inputs[i] : 0);
}

/* One quantize of a value per set of parameters, one dequantize of its integers. */
static void check_pairs(const struct qc_graph *g, const char *name)
{
    for (qc_id i = 1; i <= g->node_count; i++) {
        const struct qc_node *a = &g->nodes[i];
        cr_expect(a->op != QC_OP_Quantize && a->op != QC_OP_Dequantize && a->op != QC_OP_Requantize,
                  "%s: an op of ours", name);
        if (a->op != QC_OP_QuantizeLinear && a->op != QC_OP_DequantizeLinear) continue;
        for (qc_id k = i + 1; k <= g->node_count; k++) {
            const struct qc_node *b = &g->nodes[k];
            if (b->op != a->op || !same_input(a, b, 0)) continue;
            /* integers of a constant may stand for different numbers: equal bytes are one constant */
            const struct qc_node *cast = qc_node_of(g, a->inputs[0]);
            bool may_differ =
                a->op == QC_OP_QuantizeLinear || qc_constant_of(g, a->inputs[0]) || (cast && cast->op == QC_OP_Cast);
            bool same =
                same_input(a, b, 1) && same_input(a, b, 2) && qc_attr_int(a, "axis", 1) == qc_attr_int(b, "axis", 1);
            cr_expect(may_differ && !same, "%s: %s of one value twice", name, qc_op_info(a->op)->name);
        }
        if (a->op == QC_OP_DequantizeLinear) {
            qc_id v = a->inputs[0];
            const struct qc_node *from = qc_node_of(g, v);
            while (from && (from->op == QC_OP_Cast || from->op == QC_OP_Clip || from->op == QC_OP_Gather ||
                            from->op == QC_OP_Reshape || from->op == QC_OP_Pad))
                from = qc_node_of(g, v = from->inputs[0]); /* four bits in eight; rows of a table; a weight again */
            cr_expect(qc_constant_of(g, v) || g->values[v].kind == QC_VALUE_INPUT ||
                          (from && from->op == QC_OP_QuantizeLinear),
                      "%s: dequantizes what nothing quantizes", name);
        }
    }
    for (qc_id v = 1; v <= g->value_count; v++) cr_expect_eq(g->values[v].type.qparams, QC_REAL);
}

static void check_names(const struct qc_graph *g, const struct qc_graph *source, const struct qc_graph *normalised,
                        const char *name)
{
    for (qc_id v = 1; v <= g->value_count; v++) {
        const char *n = g->values[v].name;
        for (qc_id u = v + 1; n && u <= g->value_count; u++)
            cr_expect(!g->values[u].name || strcmp(n, g->values[u].name) != 0, "%s: two values '%s'", name, n);
    }
    for (qc_id i = 1; i <= g->node_count; i++) /* those of the model need not differ, ours must */
        for (qc_id k = i + 1; k <= g->node_count; k++) {
            const struct qc_node *from = g->nodes[i].op == QC_OP_Clip ? qc_node_of(g, g->nodes[i].inputs[0]) : NULL;
            bool ours = g->nodes[i].op == QC_OP_QuantizeLinear || g->nodes[i].op == QC_OP_DequantizeLinear ||
                        (from && from->op == QC_OP_QuantizeLinear);
            cr_expect(!ours || !g->nodes[k].name || strcmp(g->nodes[i].name, g->nodes[k].name) != 0,
                      "%s: two nodes '%s'", name, g->nodes[i].name);
        }
    bool all_named = true;
    for (qc_id i = 1; i <= source->node_count; i++) all_named = all_named && source->nodes[i].name;
    for (qc_id i = 1; i <= normalised->node_count; i++) {
        const struct qc_node *n = &normalised->nodes[i];
        cr_expect(n->name || !all_named, "%s: a %s has no name", name, qc_op_info(n->op)->name);
        bool kept = !n->name;
        for (qc_id k = 1; k <= g->node_count && !kept; k++) {
            const enum qc_op op = g->nodes[k].op; /* the mean of an image is quantized as a pool */
            const bool same = op == n->op || (n->op == QC_OP_ReduceMean && op == QC_OP_GlobalAveragePool);
            kept = same && g->nodes[k].name && strcmp(g->nodes[k].name, n->name) == 0;
        }
        /* what requantize does already is gone: clamps, and the Add that became a bias */
        bool may_go = n->op == QC_OP_Relu || n->op == QC_OP_Clip || n->op == QC_OP_Add;
        cr_expect(kept || may_go, "%s: %s '%s' is gone", name, qc_op_info(n->op)->name, n->name);
    }
    MUST_HOLD(g->input_count == source->input_count, g->output_count == source->output_count);
    for (size_t i = 0; i < g->input_count; i++) {
        cr_expect_str_eq(g->inputs[i].name, source->inputs[i].name);
        const struct qc_type *a = &g->values[g->inputs[i].value].type,
                             *b = &source->values[source->inputs[i].value].type;
        cr_expect(a->dtype == b->dtype && qc_shape_equal(&a->shape, &b->shape));
        for (int k = 0; k < QC_RANK_MAX; k++) {
            const char *x = g->inputs[i].symbol[k], *y = source->inputs[i].symbol[k];
            cr_expect((!x && !y) || (x && y && strcmp(x, y) == 0));
        }
    }
    for (size_t i = 0; i < g->output_count; i++) {
        cr_expect_str_eq(g->outputs[i].name, source->outputs[i].name);
        const struct qc_type *a = &g->values[g->outputs[i].value].type,
                             *b = &normalised->values[normalised->outputs[i].value].type;
        cr_expect(a->dtype == b->dtype && qc_shape_equal(&a->shape, &b->shape), "%s: output '%s'", name,
                  g->outputs[i].name);
    }
}

/* Written as ONNX and read again, no node is lost and none is new. */
static void check_file(const struct qc_graph *g, const char *name)
{
    OWN(qc_graph) *again = NULL;
    QC_FREED void *bytes = NULL;
    size_t size;
    cr_assert(qc_onnx_emit(&bytes, &size, g, NULL, ST), "%s: %s", name, failure.message);
    cr_assert(qc_onnx_import_memory_with(&again, NULL, bytes, size, NULL, &QC_IMPORT_INIT, ST), "%s: %s", name,
              failure.message);
    struct qc_op_counts a, b;
    qc_graph_count_ops(&a, g);
    qc_graph_count_ops(&b, again);
    for (int op = 1; op < QC_OP_COUNT; op++)
        cr_expect_eq(a.of[op], b.of[op], "%s: %zu %s, then %zu", name, a.of[op], qc_op_info((enum qc_op)op)->name,
                     b.of[op]);
    for (size_t i = 0; i < g->output_count; i++) cr_expect_str_eq(again->outputs[i].name, g->outputs[i].name);
}

static void check_all(const struct qc_graph *lowered, const struct qc_graph *source, const struct qc_graph *normalised,
                      const char *name)
{
    struct qc_op_counts heavy;
    cr_expect(qc_graph_verify(lowered, ST), "%s: %s", name, failure.message);
    qc_graph_count_ops(&heavy, normalised);
    cr_expect(qc_graph_verify_heavy(lowered, &heavy, "export", ST), "%s: %s", name, failure.message);
    cr_expect(passes_text_returns(lowered, "export", ST), "%s: %s", name, failure.message);
    check_pairs(lowered, name);
    check_names(lowered, source, normalised, name);
    check_file(lowered, name);
}

static void lower_case(const char *name, int number)
{
    struct pass_setup setup = PASS_SETUP;
    OWN(qc_graph) *g = passes_case_graph(name);
    for (int variant = 0; variant < 4; variant++) {
        if ((size_t)(number + variant) % test_one_of(1, 2)) continue;
        PASSES p;
        setup.scheme.weight.per_channel = variant != 1;
        setup.scheme.activation.dtype = variant == 2 ? QC_I8 : variant == 3 ? QC_U16 : QC_U8;
        setup.scheme.weight.dtype = variant == 3 ? QC_I4 : QC_I8;
        cr_assert(passes_run(&p, g, &setup, ST), "%s: %s", name, failure.message);
        OWN(qc_graph) *lowered = lower(p.produced);
        check_all(lowered, g, p.normalised, name);
    }
}

Test(qdq, every_case_of_the_rewriter_is_lowered)
{
    passes_each_case(lower_case);
}

/* ---- Parameters ---- */

static const struct qc_node *made_by(const struct qc_graph *g, qc_id v, enum qc_op op)
{
    const struct qc_node *n = qc_node_of(g, v);
    cr_assert(n && n->op == op, "%s expected", qc_op_info(op)->name);
    return n;
}

static const float *floats(const struct qc_graph *g, qc_id v, size_t count)
{
    const struct qc_tensor *t = qc_constant_of(g, v);
    cr_assert(t && t->dtype == QC_F32 && t->count == count);
    return t->data;
}

Test(qdq, weights_are_int8_per_channel_and_biases_int32_in_the_accumulators_qparams)
{
    OWN(qc_graph) *g = test_graph(
        "graph \"g\" opset 11\ninput %1 \"x\" f32[N,2,4,4]\nconst %2 \"w\" f32[3,2,1,1] = {0.5, -0.25, 0.125, 1, 0.75, "
        "0}\n"
        "const %3 \"b\" f32[3] = {0.5, -0.5, 1e-3}\n%4 \"y\" = Conv \"conv\"(%1, %2, %3)\noutput \"y\" %4\n");
    PASSES p;
    MUST(passes_run(&p, g, &PASS_SETUP, ST));
    static const float scales[3] = {0.0073f, 0.011f, 0.0057f}, input = 0.037f;
    static const int32_t zeros[3] = {0, 0, 0}, middle = 77;
    qc_graph_free(p.produced);
    p.produced = NULL;
    MUST(qc_graph_bind_quantizer(p.folded, case_quantizer(p.folded, "w"), 3, scales, zeros, ST) &&
         qc_graph_bind_quantizer(p.folded, case_quantizer(p.folded, "x"), 1, &input, &middle, ST) &&
         qc_to_integer(&p.produced, p.folded, qc_evaluate, ST));
    OWN(qc_graph) *q = lower(p.produced);
    const struct qc_node *conv = NULL;
    for (qc_id i = 1; i <= q->node_count; i++)
        if (q->nodes[i].op == QC_OP_Conv) conv = &q->nodes[i];
    cr_assert(conv && conv->input_count == 3);
    cr_expect_str_eq(conv->name, "conv");

    const struct qc_node *x = made_by(q, conv->inputs[0], QC_OP_DequantizeLinear),
                         *w = made_by(q, conv->inputs[1], QC_OP_DequantizeLinear),
                         *b = made_by(q, conv->inputs[2], QC_OP_DequantizeLinear);
    const struct qc_node *quantize = made_by(q, x->inputs[0], QC_OP_QuantizeLinear);
    HOLD(quantize->inputs[0] == q->inputs[0].value, floats(q, x->inputs[1], 1)[0] == input);
    const struct qc_tensor *zero = qc_constant_of(q, x->inputs[2]);
    cr_assert(zero && zero->dtype == QC_U8 && zero->shape.rank == 0 && qc_tensor_int(zero, 0) == middle);
    cr_expect(quantize->inputs[1] == x->inputs[1] && quantize->inputs[2] == x->inputs[2],
              "one scale and one zero point for both");

    const struct qc_tensor *weights = qc_constant_of(q, w->inputs[0]);
    cr_assert(weights && weights->dtype == QC_I8);
    cr_expect(memcmp(floats(q, w->inputs[1], 3), scales, sizeof scales) == 0);
    zero = qc_constant_of(q, w->inputs[2]);
    cr_assert(zero && zero->dtype == QC_I8 && zero->count == 3);
    cr_expect_eq(qc_attr_int(w, "axis", 99), 0);
    static const float real[6] = {0.5f, -0.25f, 0.125f, 1, 0.75f, 0};
    for (size_t i = 0; i < 6; i++) {
        double v = nearbyint((double)(real[i] / scales[i / 2]));
        cr_expect_eq(qc_tensor_int(weights, i), (int64_t)fmax(-127, fmin(127, v)), "weight %zu is %lld", i,
                     (long long)qc_tensor_int(weights, i));
    }

    const struct qc_tensor *bias = qc_constant_of(q, b->inputs[0]);
    cr_assert(bias && bias->dtype == QC_I32);
    cr_expect_eq(b->input_count, 2, "int32 has no zero point");
    const float *steps = floats(q, b->inputs[1], 3);
    static const float bias_real[3] = {0.5f, -0.5f, 1e-3f};
    for (size_t c = 0; c < 3; c++) {
        volatile float step = input * scales[c]; /* f(sx * sw), to the bit */
        cr_expect_eq(steps[c], step, "%.9g, not %.9g", (double)steps[c], (double)step);
        cr_expect_eq(qc_tensor_int(bias, c), (int64_t)nearbyint((double)(bias_real[c] / step)));
    }
}

Test(qdq, a_value_with_many_users_is_quantized_once)
{
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,1,4,4]\nconst %2 \"w\" f32[1,1,1,1] = "
                                  "{0.5}\nconst %3 \"v\" f32[1,1,1,1] = {0.25}\n"
                                  "%4 \"c\" = Conv(%1, %2)\n%5 \"a\" = Conv(%4, %3)\n%6 \"b\" = Sigmoid(%4)\n%7 "
                                  "\"d\" = Softmax(%4) {axis=1}\n%8 \"e\" = Add(%4, %5)\n"
                                  "%9 \"f\" = Concat(%4, %5, %4) {axis=1}\noutput \"a\" %5\noutput \"b\" %6\noutput "
                                  "\"c\" %4\noutput \"d\" %7\noutput \"e\" %8\noutput \"f\" %9\n");
    PASSES p;
    MUST(passes_run(&p, g, &PASS_SETUP, ST));
    OWN(qc_graph) *q = lower(p.produced);
    check_all(q, g, p.normalised, "users");
    size_t of_c = 0;
    for (qc_id i = 1; i <= q->node_count; i++)
        if (q->nodes[i].op == QC_OP_QuantizeLinear && qc_node_of(q, q->nodes[i].inputs[0]))
            of_c += qc_node_of(q, q->nodes[i].inputs[0])->op == QC_OP_Conv;
    cr_expect_eq(of_c, 2, "each convolution's result is quantized once, not %zu times in all", of_c);
}

Test(qdq, parameters_that_are_not_bound_are_an_error)
{
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,1,4,4]\nconst %2 \"w\" f32[1,1,1,1] = {0.5}\n%3 "
                                  "\"c\" = Conv(%1, %2)\noutput \"c\" %3\n"),
                  *q = NULL;
    PASSES p;
    MUST(passes_run(&p, g, &PASS_SETUP, ST));
    qc_graph_turn_off_quantizer(p.produced, case_quantizer(p.produced, "c"));
    cr_expect(!qc_exporter_find("qdq")->lower(&q, p.produced, NULL, ST));
    cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "'c'"), "%s", failure.message);
}

/* Constants, weights and biases that are shared, in one another's qparams. */
Test(qdq, shared_constants_have_a_form_for_each_qparams)
{
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,3]\nconst %2 \"w\" f32[3,3] = {1, 2, 3, 4, 5, "
                                  "6, 7, 8, 9}\nconst %3 \"b\" f32[3] = {0.5, 1, 2}\n"
                                  "%4 \"h\" = Gemm \"one\"(%1, %2, %3)\n%5 \"i\" = Gemm \"two\"(%4, %2, %3) "
                                  "{transB=1}\n%6 \"y\" = Gemm \"three\"(%5, %2, %3)\noutput \"y\" %6\n");
    PASSES p;
    MUST(passes_run(&p, g, &PASS_SETUP, ST));
    OWN(qc_graph) *q = lower(p.produced);
    check_all(q, g, p.normalised, "shared");
    size_t int8 = 0, int32 = 0;
    for (qc_id v = 1; v <= q->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(q, v);
        if (!t || t->shape.rank == 0) continue;
        int8 += t->dtype == QC_I8 && t->count == 9;
        int32 += t->dtype == QC_I32;
    }
    /* equal bytes are one constant: 1/128 is the scale of both quantizers of w here; biases of qparams with equal steps
     * as well */
    cr_expect(int8 == 1 && int32 == 1, "%zu, %zu", int8, int32);
}

/* ---- The numbers ---- */

/* The dequantized form of a quantizer's value in the lowered graph; 0 when it has none of that name. */
static qc_id dequantized(const struct qc_graph *q, const struct qc_graph *folded, qc_id stored)
{
    const struct qc_value *v = &folded->values[stored];
    const struct qc_node *n = qc_node_of(folded, stored);
    const char *base = v->name ? v->name : n ? folded->values[n->inputs[0]].name : NULL;
    char name[300];
    return base ? qc_graph_find_value(q, qc_text(name, sizeof name, "%s_dequantized", base)) : 0;
}

/* The lowered graph through the interpreter's float path against the simulated one, both from the same samples: float32
   rounds where integers do not, so that now and then a value next to a tie falls to the other side, by one step, and
   what follows it moves a little: two steps at most. */
static void check_numbers(const struct qc_graph *g, const char *data, const struct case_setup *setup, double most_share,
                          double least_db)
{
    CASE_RUN r;
    struct qc_comparison *c = NULL;
    struct qc_pair pairs[64];
    qc_id quantizers[64];
    size_t count = 0;
    MUST(case_calibrate(&r, g, data, setup, ST));
    OWN(qc_graph) *q = lower(r.produced);
    check_all(q, g, r.normalised, "numbers");
    for (qc_id v = 1; v <= r.folded->value_count && count < 64; v++) {
        qc_id s = r.folded->values[v].type.qparams, real = dequantized(q, r.folded, v);
        if (!s || !real || r.folded->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || r.folded->qparams_of[s].is_weight)
            continue;
        quantizers[count] = s;
        pairs[count++] = (struct qc_pair){.first = real, .second = v};
    }
    cr_assert_geq(count, 9, "%zu quantizers", count);
    struct qc_comparison_job job = {.first = q,
                                    .second = r.folded,
                                    .pair_count = count,
                                    .pairs = pairs,
                                    .data = r.data,
                                    .settings = &(struct qc_settings){.workers = 1}};
    MUST(qc_compare(&c, &job, ST));
    for (size_t i = 0; i < count; i++) {
        double step = (double)r.folded->qparams_of[quantizers[i]].scale[0],
               share = c->pairs[i].noise / (step * step) / (double)c->pairs[i].count;
        cr_expect_leq(c->pairs[i].max_abs, 2.001 * step, "%s, '%s': %g steps apart", setup->method,
                      r.folded->qparams_of[quantizers[i]].name, c->pairs[i].max_abs / step);
        cr_expect_leq(share, most_share, "%s, '%s': one of %g elements differs", setup->method,
                      r.folded->qparams_of[quantizers[i]].name, 1 / share);
        cr_expect_gt(c->pairs[i].power, 0);
    }
    for (size_t k = 0; k < q->output_count; k++)
        cr_expect_gt(qc_error_sqnr_db(&c->outputs[k]), least_db, "%s: %g dB", setup->method,
                     qc_error_sqnr_db(&c->outputs[k]));
    qc_comparison_free(c);
}

Test(numbers, of_the_shipped_model_are_those_of_the_simulated_graph)
{
    OWN(qc_graph) *g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    static const char *const methods[] = {"minmax", "mse", "kl", "percentile"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        struct case_setup setup = CASE_SETUP;
        setup.samples = 100;
        setup.method = methods[m];
        check_numbers(g, QC_TEST_SOURCE "/datasets/digits_calib.h5", &setup, 0.005,
                      55); /* seen: 0.003 behind the Add, 63.5 dB */
    }
}
