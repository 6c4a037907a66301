// SPDX-License-Identifier: Apache-2.0
/* Fuses a multiply-accumulate op or a batch norm with the ops after it, if nothing else reads the values in between:
   real       [Add a constant row: MatMul, Gemm] [Add a residual: Conv] [Relu | Clip]
   batch norm [Relu | Clip]
   quantized  [Relu on the accumulator] [Requantize | Dequantize] [Relu | Clip]
   The step runs at the position of its last node, when a residual is available. Also fused: QuantizeLinear and
   DequantizeLinear to one step over floats; Dequantize, Softmax and Quantize to one step over integers if the
   contract defines it; DequantizeLinear of int32 and Quantize under the fixed-point contracts. */
#include <math.h>

#include "graph/types/number_format.h"
#include "graph/types/op.h"
#include "simq/core/integer.h"
#include "simq/plan/plan_parts.h"

/* Returns the only node that uses the value, or NULL. */
static const struct qc_node *next_of(const struct qc_plan_binding *b, qc_id value, qc_id *id)
{
    const qc_id root = b->root[value];
    if (b->uses[root] != 1 || !b->user[root] || b->is_observed[root]) return NULL;
    *id = b->user[root];
    return &b->g->nodes[*id];
}

static enum qc_dtype root_dtype(const struct qc_plan_binding *b, qc_id value)
{
    const qc_id root = b->root[value];
    return qc_plan_dtype(b->g, qc_value(b->g, root), &b->scales[root]);
}

/* Reads bound i of Clip; *out is unchanged if it is absent. Returns false if it is not a constant. */
static bool bound_of(float *out, const struct qc_plan_binding *b, const struct qc_node *n, unsigned i)
{
    if (i >= n->input_count || !n->inputs[i]) return true;
    const struct qc_tensor *t = qc_plan_known(b, b->root[n->inputs[i]]);
    if (!t || t->dtype != QC_F32 || t->count != 1) return false;
    *out = *(const float *)t->data;
    return true;
}

/* Adds a clamp of `value` to the fusion. Returns false if it does not fit. */
static bool take_clamp(struct qc_fusion *f, const struct qc_plan_binding *b, const struct qc_node *n, qc_id value)
{
    const struct qc_scales *s = &b->scales[value];
    float lo = n->op == QC_OP_Relu ? 0 : -INFINITY, hi = INFINITY;
    if (n->op != QC_OP_Relu && n->op != QC_OP_Clip) return false;
    if (n->op == QC_OP_Clip) {
        if (!bound_of(&lo, b, n, 1) || !bound_of(&hi, b, n, 2) || !(lo <= hi)) return false;
        if (!s->identity) {
            if (s->count != 1 || !s->rounds) return false;
            const struct qc_affine p = {.scale = s->scale[0], .zero_point = s->zero_point[0]};
            if (lo > -INFINITY) lo = (float)(qc_quantize_by(b->plan->contract, lo, p, s->levels) - p.zero_point);
            if (hi < INFINITY) hi = (float)(qc_quantize_by(b->plan->contract, hi, p, s->levels) - p.zero_point);
        }
    }
    if (lo > f->hi || hi < f->lo) return false;
    f->lo = lo > f->lo ? lo : f->lo;
    f->hi = hi < f->hi ? hi : f->hi;
    return true;
}

/* Adds an Add after the real result `value` of n to the group, as bias or residual. Returns false if it is neither. */
static bool take_add(struct qc_group *group, const struct qc_plan_binding *b, const struct qc_node *n,
                     const struct qc_node *add, qc_id value)
{
    if (add->op != QC_OP_Add || !b->scales[add->outputs].identity) return false;
    const qc_id left = b->root[add->inputs[0]], right = b->root[add->inputs[1]];
    if (left == right) return false;
    const qc_id other = left == b->root[value] ? add->inputs[1] : add->inputs[0];
    const struct qc_shape *result = &qc_value(b->g, n->outputs)->type.shape;
    const bool has_bias = n->input_count > 2 && n->inputs[2];
    const bool columns =
        n->op == QC_OP_Gemm || (n->op == QC_OP_MatMul && qc_value(b->g, n->inputs[1])->type.shape.rank > 1);
    /* A constant of one number per column of the result. */
    const struct qc_tensor *t = qc_plan_known(b, b->root[other]);
    const int64_t width = result->rank ? result->dim[result->rank - 1] : 1;
    const bool is_row = t && t->dtype == QC_F32 && t->count == (size_t)width && t->shape.rank > 0 &&
                        t->shape.rank <= result->rank && t->shape.dim[t->shape.rank - 1] == width;
    if (columns && !has_bias && !group->bias && is_row) {
        group->bias = other;
        return true;
    }
    const struct qc_value *r = qc_value(b->g, b->root[other]);
    if (n->op != QC_OP_Conv || !b->scales[b->root[other]].identity || t || root_dtype(b, other) != QC_F32 ||
        !qc_shape_equal(&r->type.shape, result))
        return false;
    group->residual = other;
    return true;
}

static void fuse(struct qc_plan_binding *b, qc_id head)
{
    const struct qc_graph *g = b->g;
    const struct qc_node *n = &g->nodes[head], *next;
    struct qc_group group = {.head = head, .fusion = {.from = &b->scales[n->outputs], .lo = -INFINITY, .hi = INFINITY}};
    qc_id value = n->outputs, last = head, id;
    bool moved = false;
    if (b->scales[n->outputs].identity && root_dtype(b, n->outputs) != QC_F32) return;
    while ((next = next_of(b, value, &id))) {
        const struct qc_scales *here = &b->scales[value];
        const bool clamped = group.fusion.lo > -INFINITY || group.fusion.hi < INFINITY;
        bool taken = false;
        if (b->fused[id] || b->groups[id].head)
            break; /* already part of another group: two convolutions may share one Add */
        if (next->op == QC_OP_Requantize || next->op == QC_OP_Dequantize) {
            /* A Relu before the requantization remains a Relu after it: scales are positive. The kernels support one
               scale, or one per output channel of the layer. */
            const struct qc_scales *s = &b->scales[next->outputs];
            const bool window = n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose;
            taken = !moved && !here->identity && group.fusion.hi == INFINITY && !group.residual &&
                    (s->count == 1 || s->axis == (window ? 1 : qc_value(b->g, next->outputs)->type.shape.rank - 1));
            moved = moved || taken;
        } else if (next->op == QC_OP_Add) {
            taken = !clamped && !moved && here->identity && !group.residual && take_add(&group, b, n, next, value);
        } else if (next->op == QC_OP_Relu || (next->op == QC_OP_Clip && (moved || here->identity))) {
            taken = take_clamp(&group.fusion, b, next, value);
        }
        if (!taken) break;
        b->fused[last] = true;
        last = id;
        value = next->outputs;
        group.fusion.residual = group.residual != 0;
    }
    if (last == head) return;
    b->groups[last] = group;
}

static bool same_constant(const struct qc_plan_binding *b, const struct qc_node *n, const struct qc_node *m, unsigned i)
{
    const bool one = i < n->input_count && n->inputs[i], other = i < m->input_count && m->inputs[i];
    if (!one || !other) return one == other;
    const struct qc_tensor *t = qc_plan_known(b, b->root[n->inputs[i]]), *u = qc_plan_known(b, b->root[m->inputs[i]]);
    return t && u && t->count == 1 && qc_tensor_equal(t, u);
}

static void fuse_linear(struct qc_plan_binding *b, qc_id head)
{
    qc_id id;
    const struct qc_node *n = &b->g->nodes[head], *next = next_of(b, n->outputs, &id);
    if (!next || next->op != QC_OP_DequantizeLinear || b->root[next->inputs[0]] != n->outputs) return;
    if (!same_constant(b, n, next, 1) || !same_constant(b, n, next, 2) || qc_attr_int(n, "block_size", 0)) return;
    if (root_dtype(b, n->inputs[0]) != QC_F32 || root_dtype(b, next->outputs) != QC_F32) return;
    const enum qc_dtype stored = root_dtype(b, n->outputs);
    if (qc_is_small_float(stored) && (stored == QC_F8E8M0 || !qc_attr_int(n, "saturate", 1))) return;
    b->fused[head] = true;
    b->groups[id].head = head;
}

/* Types of TensorFlow Lite's softmax. */
static bool is_softmax_quantizer(const struct qc_plan_binding *b, qc_id value)
{
    const struct qc_scales *s = &b->scales[value];
    const enum qc_dtype t = root_dtype(b, value);
    return !s->identity && s->rounds && !s->product && s->count == 1 && (t == QC_U8 || t == QC_I8 || t == QC_I16);
}

/* Other users of the dequantized value keep the Dequantize step. */
static void fuse_softmax(struct qc_plan_binding *b, qc_id softmax)
{
    qc_id id = 0;
    const struct qc_node *n = &b->g->nodes[softmax], *next = next_of(b, n->outputs, &id);
    const qc_id real = n->inputs[0], head = qc_value(b->g, real)->node;
    const struct qc_node *dq = qc_node_of(b->g, real);
    const int rank = qc_value(b->g, real)->type.shape.rank;
    const int64_t axis = qc_attr_int(n, "axis", -1);
    struct qc_affine fixed;
    if (!next || next->op != QC_OP_Quantize || !dq || dq->op != QC_OP_Dequantize || b->fused[head] ||
        b->root[real] != real || rank < 1 || (axis != -1 && axis != rank - 1))
        return;
    const struct qc_scales *y = &b->scales[next->outputs];
    const qc_id stored = b->root[dq->inputs[0]];
    if (!is_softmax_quantizer(b, stored) || !is_softmax_quantizer(b, next->outputs) ||
        root_dtype(b, stored) != root_dtype(b, next->outputs) || qc_plan_known(b, b->root[stored]) ||
        !qc_fixed_parameters(&fixed, QC_CONTRACT_TFLITE, QC_OP_Softmax, root_dtype(b, next->outputs)) ||
        fixed.scale != y->scale[0] || fixed.zero_point != y->zero_point[0])
        return;
    b->uses[real]--;
    if (b->uses[real] > 0 || b->is_observed[real])
        b->uses[stored]++;
    else
        b->fused[head] = true;
    b->fused[softmax] = true;
    b->groups[id].head = head;
}

/* Returns the scale of an int32 value with one scale and zero point 0; 0 otherwise. */
static float scale_of_wide(const struct qc_plan_binding *b, const struct qc_node *dq)
{
    if (dq->op != QC_OP_DequantizeLinear || qc_plan_known(b, b->root[dq->inputs[0]])) return 0;
    if (root_dtype(b, dq->inputs[0]) != QC_I32 || root_dtype(b, dq->outputs) != QC_F32) return 0;
    const struct qc_tensor *s = qc_plan_known(b, b->root[dq->inputs[1]]), *z = NULL;
    if (dq->input_count > 2 && dq->inputs[2]) {
        z = qc_plan_known(b, b->root[dq->inputs[2]]);
        if (!z) return 0;
    }
    for (size_t i = 0; z && i < z->count; i++)
        if (qc_tensor_int(z, i) != 0) return 0;
    return s && s->dtype == QC_F32 && s->count == 1 ? *(const float *)s->data : 0;
}

/* Other users of the real value keep the DequantizeLinear. Ratios that fixed point cannot represent remain two
   steps. */
static void fuse_wide(struct qc_plan_binding *b, qc_id quantize)
{
    const struct qc_node *n = &b->g->nodes[quantize], *dq = qc_node_of(b->g, n->inputs[0]);
    const qc_id real = n->inputs[0], head = qc_value(b->g, real)->node;
    const struct qc_scales *y = &b->scales[n->outputs];
    if (!dq || b->root[real] != real || y->identity || !y->rounds || y->product || y->count != 1) return;
    const float scale = scale_of_wide(b, dq);
    if (!(scale >= QC_SCALE_MIN && scale < INFINITY && (double)scale / (double)y->scale[0] < 0x1p30)) return;
    b->uses[real]--;
    if (b->uses[real] > 0 || b->is_observed[real])
        for (unsigned i = 0; i < dq->input_count; i++) b->uses[b->root[dq->inputs[i]]]++;
    else
        b->fused[head] = true;
    b->groups[quantize].head = head;
}

void qc_plan_fuse(struct qc_plan_binding *b)
{
    for (size_t k = 1; k <= b->g->node_count; k++) {
        const struct qc_node *n = &b->g->nodes[k];
        if (!b->live[k] || b->fused[k]) continue;
        if (qc_kernel_of(n->op)->fuses)
            fuse(b, (qc_id)k);
        else if (n->op == QC_OP_QuantizeLinear)
            fuse_linear(b, (qc_id)k);
        else if (n->op == QC_OP_Softmax &&
                 (b->plan->contract == QC_CONTRACT_TFLITE || b->plan->contract == QC_CONTRACT_XNNPACK))
            fuse_softmax(b, (qc_id)k);
        else if (n->op == QC_OP_Quantize && !qc_contract_is_float(b->plan->contract) && !b->g->simulated)
            fuse_wide(b, (qc_id)k);
    }
}
