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

static bool is_bound(const struct qc_graph *g, qc_id qparams)
{
    return qparams && g->qparams_of[qparams].kind == QC_QPARAMS_QUANTIZER &&
           g->qparams_of[qparams].state == QC_QPARAMS_BOUND && g->qparams_of[qparams].count == 1;
}

static float multiplier(float from, float to, float plane)
{
    return from / (to * plane);
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
        const struct qc_node *n = &g->nodes[id];
        if (n->op != QC_OP_GlobalAveragePool) continue;
        struct mean m = {.node = id};
        const struct qc_type *x = &g->values[n->inputs[0]].type;
        const struct qc_node *read = x->qparams ? NULL : qc_node_of(g, n->inputs[0]);
        m.from = read && read->op == QC_OP_Dequantize ? g->values[read->inputs[0]].type.qparams : x->qparams;
        /* The qparams that the result of a node is stored in, by itself or by a Quantize that reads it; 0: none. */
        const struct qc_use_list readers = qc_all_uses(&uses, n->outputs);
        m.to = g->values[n->outputs].type.qparams;
        for (size_t i = 0; !m.to && i < readers.count; i++) {
            const struct qc_node *r = readers.of[i].node ? &g->nodes[readers.of[i].node] : NULL;
            if (r && r->op == QC_OP_Quantize) m.to = g->values[r->outputs].type.qparams;
        }
        int64_t plane = x->shape.rank > 2; /* 0: unknown */
        for (int d = 2; d < x->shape.rank; d++)
            plane = x->shape.dim[d] <= 0 || plane > INT32_MAX / x->shape.dim[d] ? 0 : plane * x->shape.dim[d];
        m.plane = (float)plane;
        if (plane == 0 || !is_bound(g, m.from) || !is_bound(g, m.to)) continue;
        const float by = multiplier(g->qparams_of[m.from].scale[0], g->qparams_of[m.to].scale[0], m.plane);
        ok = (by >= MULTIPLIER_LEAST && by < MULTIPLIER_END) || beyond(user, &m, by, st);
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
    const float of_values = from->scale[0];
    float scale = to->scale[0];
    if (multiplier(of_values, scale, m->plane) >= MULTIPLIER_END)
        for (scale = of_values / (MULTIPLIER_END * m->plane); multiplier(of_values, scale, m->plane) >= MULTIPLIER_END;)
            scale = nextafterf(scale, INFINITY);
    else if (scale >= 1 && scale <= 1) /* 1 is the scale of a tensor that is 0 in every sample */
        scale = of_values;
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

static bool is_fixed(struct qc_affine *out, enum qc_fixed_results by, enum qc_op op, enum qc_dtype type)
{
    switch (by) {
    case QC_FIXED_NONE: return false;
    case QC_FIXED_TFLITE: return qc_fixed_parameters(out, QC_CONTRACT_TFLITE, op, type);
    case QC_FIXED_QNN: break;
    }
    /* Parameters that QNN fixes for 16-bit Sigmoid and Tanh (ONNX Runtime: QnnCompatibilityOverrides in
       quant_config.py). */
    if ((op != QC_OP_Sigmoid && op != QC_OP_Tanh) || (type != QC_U16 && type != QC_I16)) return false;
    *out = (struct qc_affine){.scale = 0x1p-15f};
    if (type == QC_U16 && op == QC_OP_Sigmoid) out->scale = 0x1p-16f;
    if (type == QC_U16 && op == QC_OP_Tanh) out->zero_point = 32768;
    return true;
}

bool qc_keep_target_limits(struct qc_graph *g, const struct qc_target *t, struct qc_status *st)
{
    const int32_t zero = 0;
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        struct qc_qparams *s = &g->qparams_of[id];
        struct qc_affine p;
        if (s->kind != QC_QPARAMS_QUANTIZER || s->is_weight || s->given || s->count != 1) continue;
        if (s->observed_count == 1) {
            /* The operator that computes a value, looking through operators that keep its parameters. */
            const struct qc_node *n = qc_node_of(g, s->observed[0]);
            while (n && (n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize || qc_node_affine(n) == QC_AFFINE_KEEP))
                n = qc_node_of(g, n->inputs[0]);
            if (is_fixed(&p, t->fixed, n ? n->op : QC_OP_INVALID, s->dtype) &&
                !qc_graph_bind_quantizer(g, id, 1, &p.scale, &p.zero_point, st))
                return false;
        }
        /* Store uint8 data with zero point 128 as int8 with zero point 0: the same levels. */
        if (t->stores_signed && s->dtype == QC_U8 && s->symmetry == QC_SYMMETRIC && s->zero_point[0] == 128) {
            const float scale = s->scale[0];
            s->dtype = QC_I8;
            if (!qc_graph_bind_quantizer(g, id, 1, &scale, &zero, st)) return false;
        }
    }
    return !t->onnxruntime || for_each_beyond(g, mend_scale, g, st);
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
        ok = shift != NULL;
        /* What rounding to 8 bits adds to each element of the bias. Elements that share a scale share a shift. */
        const float *real = bias->data;
        const size_t each = product->count > 1 ? 1 : bias->count;
        for (size_t i = 0; ok && i < bias->count; i += each) {
            const double step = (double)product->scale[i / each];
            double most = 0;
            for (size_t k = i; k < i + each; k++) most = fmax(most, fabs(nearbyint((double)real[k] / step)));
            const double unit = ldexp(step, (int)qc_short_bias_shift(most));
            for (size_t k = i; k < i + each; k++)
                shift[k] = fmax(-127, fmin(127, nearbyint((double)real[k] / unit))) * unit - (double)real[k];
        }
        shifts[count++].shift = shift;
    }
    return ok && (!count || qc_shift_biases(out, &changed, g, shifts, count, st));
}
