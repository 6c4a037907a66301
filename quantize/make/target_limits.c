// SPDX-License-Identifier: Apache-2.0
#include "quantize/make/make.h"

#include <math.h>

#include "arith/params.h"
#include "calib/trials/trials.h"
#include "graph/core/parameters.h"
#include "graph/core/uses.h"

static const float MULTIPLIER_LEAST = 0x1p-32F, MULTIPLIER_END = 0x1p8F;

/* A GlobalAveragePool with quantized input and result: on integers, or between Dequantize and Quantize. */
struct mean {
    qc_id node, from, to; /* from, to: qparams; node 0: not such a pool */
    float plane;          /* elements of a plane */
};

/* Returns the number of elements of a plane, 0 if unknown. */
static float plane_of(const struct qc_shape *s)
{
    int64_t n = s->rank > 2;
    for (int d = 2; d < s->rank; d++) {
        if (s->dim[d] <= 0 || n > INT32_MAX / s->dim[d]) return 0;
        n *= s->dim[d];
    }
    return (float)n;
}

static bool is_bound(const struct qc_graph *g, qc_id qparams)
{
    return qparams && g->qparams_of[qparams].kind == QC_QPARAMS_QUANTIZER &&
           g->qparams_of[qparams].state == QC_QPARAMS_BOUND && g->qparams_of[qparams].count == 1;
}

/* Returns the qparams that the result of a node is stored in, by itself or by a Quantize that reads it; 0: none. */
static qc_id stored_as(const struct qc_graph *g, const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_use_list readers = qc_all_uses(uses, n->outputs);
    qc_id qparams = g->values[n->outputs].type.qparams;
    for (size_t i = 0; !qparams && i < readers.count; i++) {
        const struct qc_node *r = readers.of[i].node ? &g->nodes[readers.of[i].node] : NULL;
        if (r && r->op == QC_OP_Quantize) qparams = g->values[r->outputs].type.qparams;
    }
    return qparams;
}

static struct mean mean_of(const struct qc_graph *g, const struct qc_uses *uses, qc_id id)
{
    const struct qc_node *n = &g->nodes[id];
    struct mean m = {0};
    if (n->op != QC_OP_GlobalAveragePool) return m;
    const struct qc_type *x = &g->values[n->inputs[0]].type;
    const struct qc_node *read = x->qparams ? NULL : qc_node_of(g, n->inputs[0]);
    m.from = read && read->op == QC_OP_Dequantize ? g->values[read->inputs[0]].type.qparams : x->qparams;
    m.to = stored_as(g, uses, n);
    m.plane = plane_of(&x->shape);
    if (m.plane > 0 && is_bound(g, m.from) && is_bound(g, m.to)) m.node = id;
    return m;
}

static float multiplier(float from, float to, float plane)
{
    return from / (to * plane);
}

static bool fits_multiplier(float multiplier)
{
    return multiplier >= MULTIPLIER_LEAST && multiplier < MULTIPLIER_END;
}

static float scale_that_fits(float from, float to, float plane)
{
    if (multiplier(from, to, plane) >= MULTIPLIER_END)
        for (to = from / (MULTIPLIER_END * plane); multiplier(from, to, plane) >= MULTIPLIER_END;)
            to = nextafterf(to, INFINITY);
    else if (to >= 1 && to <= 1) /* 1 is the scale of a tensor that is 0 in every sample */
        to = from;
    return to;
}

typedef bool beyond_fn(void *user, const struct mean *m, float multiplier, struct qc_status *st);

/* Calls `beyond` for each mean whose multiplier the runtime rejects; scales changed by earlier calls count. */
static bool for_each_beyond(const struct qc_graph *g, beyond_fn *beyond, void *user, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_uses uses;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_uses_of(&uses, g, a, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct mean m = mean_of(g, &uses, id);
        if (!m.node) continue;
        const float by = multiplier(g->qparams_of[m.from].scale[0], g->qparams_of[m.to].scale[0], m.plane);
        ok = fits_multiplier(by) || beyond(user, &m, by, st);
    }
    return ok;
}

/* Changes the scale of a result so that the kernels accept it. A mean far below its values gets the scale of the values
   divided by 256 times their number. A mean that is 0 in every sample gets the scale of the values. Parameters from the
   model stay. Unknown shapes are not checked, here and below. */
static bool mend_scale(void *user, const struct mean *m, float by, struct qc_status *st)
{
    struct qc_graph *g = user;
    const struct qc_qparams *from = &g->qparams_of[m->from], *to = &g->qparams_of[m->to];
    (void)by;
    if (to->given || m->from == m->to) return true;
    const float scale = scale_that_fits(from->scale[0], to->scale[0], m->plane);
    const int32_t zero_point = to->zero_point[0];
    return qc_graph_bind_quantizer(g, m->to, 1, &scale, &zero_point, st);
}

static bool refuse(void *user, const struct mean *m, float by, struct qc_status *st)
{
    const struct qc_graph *g = user;
    const struct qc_node *n = &g->nodes[m->node];
    char label[QC_LABEL];
    return qc_fail(st, QC_UNSUPPORTED,
                   "node '%s' (GlobalAveragePool): scales %.9g of its input and %.9g of its result give the multiplier "
                   "%.9g, but ONNX Runtime accepts only [2^-32, 2^8); check the samples",
                   n->name ? n->name : qc_value_label(label, g, n->outputs), (double)g->qparams_of[m->from].scale[0],
                   (double)g->qparams_of[m->to].scale[0], (double)by);
}

bool qc_check_runtime_limits(const struct qc_graph *g, struct qc_status *st)
{
    return for_each_beyond(g, refuse, (void *)g, st);
}

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
           (!t->onnxruntime || for_each_beyond(g, mend_scale, g, st));
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
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_bias_shift *shifts = a ? QC_NEW_ARRAY(a, struct qc_bias_shift, g->node_count + 1, st) : NULL;
    bool ok = (a || qc_fail_memory(st, 1)) && shifts && qc_uses_of(&uses, g, a, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        struct qc_layer_bias *of = &shifts[count].of;
        const struct qc_qparams *product =
            qc_layer_bias_find(of, &uses, id) ? qc_graph_parameters(g, g->nodes[id].outputs) : NULL;
        if (!product || product->kind != QC_QPARAMS_PRODUCT || of->own != g->nodes[id].outputs) continue;
        const struct qc_tensor *bias = qc_constant_of(g, of->bias);
        double *shift = QC_NEW_ARRAY(a, double, bias->count + 1, st);
        if ((ok = shift != NULL)) shorten(shift, bias, product);
        shifts[count++].shift = shift;
    }
    return ok && (!count || qc_shift_biases(out, &changed, g, shifts, count, st));
}
