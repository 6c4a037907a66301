// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/target_limits.h"

#include <math.h>

#include "arith/params.h"
#include "calib/trials/layer_bias.h"
#include "graph/core/parameters.h"
#include "quantize/trials/runtime_limits.h"

/* Returns the operator that computes a value, looking through operators that keep its parameters. */
static enum qc_op maker_of(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    while (n && (n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize || qc_node_affine(n) == QC_AFFINE_KEEP))
        n = qc_node_of(g, n->inputs[0]);
    return n ? n->op : QC_OP_INVALID;
}

/* Parameters that QNN fixes for 16-bit Sigmoid and Tanh (ONNX Runtime: QnnCompatibilityOverrides in quant_config.py).
 */
static bool fixed_by_qnn(struct qc_affine *out, enum qc_op op, enum qc_dtype type)
{
    if ((op != QC_OP_Sigmoid && op != QC_OP_Tanh) || (type != QC_U16 && type != QC_I16)) return false;
    *out = (struct qc_affine){.scale = 0x1p-15f};
    if (type == QC_U16 && op == QC_OP_Sigmoid) out->scale = 0x1p-16f;
    if (type == QC_U16 && op == QC_OP_Tanh) out->zero_point = 32768;
    return true;
}

static bool is_fixed(struct qc_affine *out, enum qc_fixed_results by, enum qc_op op, enum qc_dtype type)
{
    switch (by) {
    case QC_FIXED_NONE: return false;
    case QC_FIXED_TFLITE: return qc_fixed_parameters(out, QC_CONTRACT_TFLITE, op, type);
    case QC_FIXED_QNN: return fixed_by_qnn(out, op, type);
    }
    return false;
}

static bool fix_results(struct qc_graph *g, enum qc_fixed_results by, struct qc_status *st)
{
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        const struct qc_qparams *s = &g->qparams_of[id];
        struct qc_affine p;
        if (s->kind != QC_QPARAMS_QUANTIZER || s->is_weight || s->given || s->count != 1 || s->observed_count != 1)
            continue;
        if (is_fixed(&p, by, maker_of(g, s->observed[0]), s->dtype) &&
            !qc_graph_bind_quantizer(g, id, 1, &p.scale, &p.zero_point, st))
            return false;
    }
    return true;
}

/* Stores uint8 data with zero point 128 as int8 with zero point 0: the same levels. */
static bool store_signed(struct qc_graph *g, struct qc_status *st)
{
    const int32_t zero = 0;
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        struct qc_qparams *s = &g->qparams_of[id];
        if (s->kind != QC_QPARAMS_QUANTIZER || s->is_weight || s->given || s->count != 1 || s->dtype != QC_U8 ||
            s->symmetry != QC_SYMMETRIC || s->zero_point[0] != 128)
            continue;
        const float scale = s->scale[0];
        s->dtype = QC_I8;
        if (!qc_graph_bind_quantizer(g, id, 1, &scale, &zero, st)) return false;
    }
    return true;
}

bool qc_keep_target_limits(struct qc_graph *g, const struct qc_target *t, struct qc_status *st)
{
    return fix_results(g, t->fixed, st) && (!t->stores_signed || store_signed(g, st)) &&
           (!t->onnxruntime || qc_keep_runtime_limits(g, st));
}

/* Computes what rounding to 8 bits adds to each element of a bias. Elements that share a scale share a shift. */
static void shorten(double *shift, const struct qc_tensor *bias, const struct qc_qparams *product)
{
    const float *real = bias->data;
    const size_t each = product->count > 1 ? 1 : bias->count;
    for (size_t i = 0; i < bias->count; i += each) {
        const double step = (double)product->scale[i / each];
        double most = 0;
        for (size_t k = i; k < i + each; k++) most = fmax(most, fabs(nearbyint((double)real[k] / step)));
        const double unit = ldexp(step, (int)qc_short_bias_shift(most));
        for (size_t k = i; k < i + each; k++)
            shift[k] = fmax(-127, fmin(127, nearbyint((double)real[k] / unit))) * unit - (double)real[k];
    }
}

bool qc_shorten_biases(struct qc_graph **out, const struct qc_graph *g, const struct qc_target *t, struct qc_status *st)
{
    struct qc_uses uses;
    size_t count = 0, changed;
    *out = NULL;
    if (t->bias != QC_BIAS_INT8) return true;
    struct qc_arena *a = qc_arena_new();
    struct qc_bias_shift *shifts = a ? QC_NEW_ARRAY(a, struct qc_bias_shift, g->node_count + 1, st) : NULL;
    bool ok = (a || qc_fail_memory(st, 1)) && shifts && qc_uses_of(&uses, g, a, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        struct qc_layer_bias *of = &shifts[count].of;
        const struct qc_qparams *product =
            qc_layer_bias_find(of, &uses, id) ? qc_graph_parameters(g, g->nodes[id].outputs) : NULL;
        if (!product || product->kind != QC_QPARAMS_PRODUCT) continue;
        const struct qc_tensor *bias = qc_constant_of(g, of->bias);
        double *shift = QC_NEW_ARRAY(a, double, bias->count + 1, st);
        if ((ok = shift != NULL)) shorten(shift, bias, product);
        shifts[count++].shift = shift;
    }
    ok = ok && (!count || qc_shift_biases(out, &changed, g, shifts, count, st));
    qc_arena_free(a);
    return ok;
}
