// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <string.h>

#include "base/union_find.h"
#include "rewrite/canonical/canonical_parts.h"

const char *qc_canon_base(struct qc_canon *c, qc_id value, struct qc_status *st)
{
    static const char *const suffixes[] = {"_quantized", "_QuantizeLinear_Output", "_dequantized",
                                           "_DequantizeLinear_Output", "_float"};
    const char *s = QC_VALUE_LABEL(c->g, value);
    size_t n = strlen(s);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t k = strlen(suffixes[i]);
        if (n <= k || memcmp(s + n - k, suffixes[i], k) != 0) continue;
        n -= k;
        break;
    }
    s = qc_arena_strndup(c->arena, s, n, st);
    return s ? s : "";
}

/* --- Qparams --- */

qc_id qc_canon_qparams(struct qc_canon *c, qc_id scale, qc_id zero_point, enum qc_dtype t, const char *name,
                       struct qc_status *st)
{
    const struct qc_tensor *s = qc_constant_of(c->g, scale), *z = qc_constant_of(c->g, zero_point);
    if (!s || (zero_point && !z) || s->dtype != QC_F32 || s->count < 1 || s->shape.rank > 1 || !qc_dtype_is_affine(t))
        return 0;
    if (z && (z->dtype != t || (z->count != s->count && z->count != 1))) return 0;
    float *scales = QC_NEW_ARRAY(c->arena, float, s->count, st);
    int32_t *zeros = QC_NEW_ARRAY(c->arena, int32_t, s->count, st);
    if (!scales || !zeros) return 0;
    const struct qc_dtype_info *info = qc_dtype_info(t);
    for (size_t i = 0; i < s->count; i++) {
        const int64_t q = z ? qc_tensor_int(z, z->count == 1 ? 0 : i) : 0;
        scales[i] = (float)qc_tensor_float(s, i);
        zeros[i] = (int32_t)q;
        if (!(scales[i] >= FLT_MIN && scales[i] <= FLT_MAX) || q < info->lo || q > info->hi) return 0;
    }
    const uint64_t hash = qc_hash_bytes(qc_hash_bytes(qc_hash_number(t), scales, s->count * sizeof *scales), zeros,
                                        s->count * sizeof *zeros);
    size_t slot = SIZE_MAX;
    for (qc_id i; (i = qc_index_next(&c->by_numbers, hash, &slot));) {
        const struct qc_qparams *q = &c->r.to->qparams_of[i];
        if (q->kind == QC_QPARAMS_QUANTIZER && q->dtype == t && q->count == s->count &&
            memcmp(q->scale, scales, s->count * sizeof *scales) == 0 &&
            memcmp(q->zero_point, zeros, s->count * sizeof *zeros) == 0)
            return i;
    }
    const char *unique = name;
    bool symmetric = qc_dtype_info(t)->is_signed;
    for (size_t i = 0; i < s->count; i++) symmetric = symmetric && zeros[i] == 0;
    for (unsigned k = 1; unique && qc_graph_find_quantizer(c->r.to, unique); k++)
        unique = qc_arena_printf(c->arena, st, "%s_%u", name, k);
    const struct qc_qparams def = {.name = unique,
                                   .dtype = t,
                                   .symmetry = symmetric ? QC_SYMMETRIC : QC_ASYMMETRIC,
                                   .per_channel = s->count > 1};
    const qc_id id = unique ? qc_graph_add_quantizer(c->r.to, &def, st) : 0;
    return id && qc_graph_bind_quantizer(c->r.to, id, s->count, scales, zeros, st) &&
                   qc_index_add(&c->by_numbers, hash, id, st)
               ? id
               : 0;
}

qc_id qc_canon_port_qparams(struct qc_canon *c, const struct qc_qlinear_port *p, struct qc_status *st)
{
    return qc_canon_qparams(c, p->scale, p->zero_point, c->g->values[p->value].type.dtype,
                            qc_canon_base(c, p->value, st), st);
}

/* --- Classes --- */

static qc_id find(const struct qc_canon *c, qc_id v)
{
    return qc_union_root(c->parent, v);
}

static void poison(struct qc_canon *c, qc_id v)
{
    c->literal[find(c, v)] = true;
}

/* Records the qparams of an integer value. qparams 0: the parameters cannot be read. */
static void state(struct qc_canon *c, qc_id v, qc_id qparams, int axis)
{
    qc_id k = find(c, v);
    if (!qparams || (c->qparams[k] && (c->qparams[k] != qparams || c->axis[k] != axis)))
        c->literal[k] = true;
    else
        c->qparams[k] = qparams;
    if (!c->literal[k]) c->axis[k] = axis;
}

static void join(struct qc_canon *c, qc_id a, qc_id b)
{
    qc_id x = find(c, a), y = find(c, b);
    if (x == y) return;
    if (c->qparams[x] && c->qparams[y] && c->qparams[x] != c->qparams[y]) c->literal[y] = true;
    if (!c->qparams[y]) c->qparams[y] = c->qparams[x];
    c->literal[y] |= c->literal[x];
    c->parent[x] = y;
}

qc_id qc_canon_qparams_of(const struct qc_canon *c, qc_id value)
{
    qc_id k = find(c, value);
    return c->literal[k] ? 0 : c->qparams[k];
}

int qc_canon_axis_of(const struct qc_canon *c, qc_id value)
{
    return c->axis[find(c, value)];
}

static bool is_integer(const struct qc_canon *c, qc_id v)
{
    return v && qc_dtype_is_affine(c->g->values[v].type.dtype) && c->g->values[v].type.qparams == QC_REAL;
}

static void classify_linear(struct qc_canon *c, const struct qc_node *n, struct qc_status *st)
{
    const bool quantize = n->op == QC_OP_QuantizeLinear;
    const qc_id v = quantize ? n->outputs : n->inputs[0];
    const qc_id real = quantize ? n->inputs[0] : n->outputs;
    const char *name = qc_canon_base(c, quantize ? real : v, st);
    qc_id qparams = 0;
    if (!is_integer(c, v) || qc_constant_of(c->g, v)) return;
    if (c->g->values[real].type.dtype == QC_F32 && !qc_attr_int(n, "block_size", 0))
        qparams = qc_canon_qparams(c, n->inputs[1], n->input_count > 2 ? n->inputs[2] : QC_ABSENT,
                                   c->g->values[v].type.dtype, name, st);
    const bool channels = qparams && c->r.to->qparams_of[qparams].count > 1;
    /* Reading integers and storing them again is exact if the value of no level overflows. */
    const bool finite = qparams && c->r.to->qparams_of[qparams].scale[0] < FLT_MAX / 65536;
    c->own[n->outputs] = channels || !finite ? 0 : qparams;
    if (channels && quantize && !qc_constant_of(c->g, real)) qparams = 0; /* only constants per channel */
    const int64_t axis = qc_attr_int(n, "axis", 1);
    state(c, v, qparams, channels ? (int)(axis < 0 ? axis + c->g->values[v].type.shape.rank : axis) : 0);
}

bool qc_canon_turns(struct qc_canon *c, const struct qc_node *n, const struct qc_qlinear *q, struct qc_status *st)
{
    qc_id qparams;
    if (n->op == QC_OP_ConvInteger || n->op == QC_OP_MatMulInteger ||
        qc_attr_float(n, "alpha", 1.0f) != (q->op == QC_OP_LeakyRelu ? qc_attr_float(n, "alpha", 1.0f) : 1.0f))
        return false;
    if (qc_attr_int(n, "transA", 0)) return false;
    if (q->op == QC_OP_Softmax && qc_attr_int(n, "opset", 13) < 13) {
        const int rank = c->g->values[n->inputs[0]].type.shape.rank;
        const int64_t axis = qc_attr_int(n, "axis", -1);
        if (axis != -1 && axis != rank - 1) return false;
    }
    const bool product = qc_op_info(q->op)->affine == QC_AFFINE_PRODUCT;
    if (product && q->extra) { /* One number per output channel. */
        const struct qc_tensor *b = qc_constant_of(c->g, q->extra);
        const struct qc_shape *s = &c->g->values[n->outputs].type.shape;
        const int at = q->op == QC_OP_Conv ? 1 : s->rank - 1;
        if (!b || s->rank < 2 || (int64_t)b->count != s->dim[at] ||
            (b->shape.rank == 2 && b->shape.dim[1] != s->dim[at]))
            return false;
    }
    for (unsigned i = 0; i < q->operands; i++) {
        const struct qc_qlinear_port p = qc_qlinear_operand(n, i);
        if (!(qparams = qc_canon_port_qparams(c, &p, st))) return false;
        if (c->r.to->qparams_of[qparams].count > 1 && !(product && i == 1 && qc_constant_of(c->g, p.value)))
            return false;
    }
    return !q->result || ((qparams = qc_canon_port_qparams(c, &q->out, st)) && c->r.to->qparams_of[qparams].count == 1);
}

/* Returns KEEP, BOUND or JOIN if the op moves integers and so has an affine form, else NONE. */
static enum qc_affine_behaviour moves(const struct qc_canon *c, const struct qc_node *n)
{
    enum qc_affine_behaviour b = qc_rules_behaviour(c->rules, c->g, n);
    if (!is_integer(c, n->outputs) || !is_integer(c, n->inputs[0])) return QC_AFFINE_NONE;
    if (b == QC_AFFINE_KEEP || b == QC_AFFINE_JOIN) return b;
    if (n->op != QC_OP_Clip) return QC_AFFINE_NONE;
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->inputs[i] && !qc_constant_of(c->g, n->inputs[i])) return QC_AFFINE_NONE;
    return QC_AFFINE_BOUND;
}

static void classify_other(struct qc_canon *c, const struct qc_node *n)
{
    const enum qc_affine_behaviour b = n->input_count ? moves(c, n) : QC_AFFINE_NONE;
    const unsigned data = b == QC_AFFINE_NONE ? 0 : b == QC_AFFINE_JOIN ? n->input_count : 1;
    for (unsigned i = 0; i < n->input_count; i++) {
        if (!is_integer(c, n->inputs[i])) continue;
        if (i >= data) {
            if (!qc_constant_of(c->g, n->inputs[i])) poison(c, n->inputs[i]);
        } else if (!qc_constant_of(c->g, n->inputs[i])) { /* A constant takes the parameters of the result. */
            join(c, n->inputs[i], n->outputs);
        }
    }
    for (unsigned k = 0; k < n->output_count; k++) {
        if (!is_integer(c, n->outputs + k)) continue;
        if (!data)
            poison(c, n->outputs + k);
        else if (k)
            join(c, n->outputs + k, n->outputs);
    }
}

/* --- What float values are quantized to --- */

static void want(struct qc_canon *c, qc_id v, qc_id qparams)
{
    if (!v) return;
    if (!qparams || (c->want[v] && c->want[v] != qparams))
        c->mixed[v] = true;
    else
        c->want[v] = qparams;
}

static void find_wanted(struct qc_canon *c)
{
    const struct qc_graph *g = c->g;
    for (size_t i = 0; i < g->output_count; i++) want(c, g->outputs[i].value, 0);
    QC_EACH_NODE_BACK(n, g) {
        const enum qc_affine_behaviour b =
            g->values[n->outputs].type.dtype == QC_F32 ? qc_rules_behaviour(c->rules, c->g, n) : QC_AFFINE_NONE;
        unsigned data = b == QC_AFFINE_NONE ? 0 : b == QC_AFFINE_JOIN ? n->input_count : 1;
        qc_id qparams = data ? c->want[n->outputs] : 0;
        for (unsigned k = 0; k < n->output_count; k++)
            if (c->mixed[n->outputs + k] || c->want[n->outputs + k] != qparams) qparams = 0;
        if (n->op == QC_OP_QuantizeLinear) {
            data = 1;
            qparams = c->own[n->outputs];
        }
        for (unsigned i = 0; i < n->input_count; i++) {
            want(c, n->inputs[i], i < data ? qparams : 0);
            c->taken[n->inputs[i]] = true;
        }
    }
}

bool qc_canon_classify(struct qc_canon *c, struct qc_status *st)
{
    const struct qc_graph *g = c->g;
    const size_t n = g->value_count + 1;
    c->parent = QC_NEW_ARRAY(c->arena, qc_id, n, st);
    c->qparams = QC_NEW_ARRAY(c->arena, qc_id, n, st);
    c->axis = QC_NEW_ARRAY(c->arena, int, n, st);
    c->literal = QC_NEW_ARRAY(c->arena, bool, n, st);
    c->affine = QC_NEW_ARRAY(c->arena, qc_id, n, st);
    c->own = QC_NEW_ARRAY(c->arena, qc_id, n, st);
    c->taken = QC_NEW_ARRAY(c->arena, bool, n, st);
    c->want = QC_NEW_ARRAY(c->arena, qc_id, n, st);
    c->mixed = QC_NEW_ARRAY(c->arena, bool, n, st);
    if (st->code != QC_OK) return false;
    qc_union_start(c->parent, n);
    for (size_t i = 0; i < g->input_count; i++) poison(c, g->inputs[i].value);
    for (size_t i = 0; i < g->output_count; i++) poison(c, g->outputs[i].value);
    QC_EACH_NODE(node, g) {
        struct qc_qlinear q;
        if (node->op == QC_OP_QuantizeLinear || node->op == QC_OP_DequantizeLinear)
            classify_linear(c, node, st);
        else if (qc_qlinear_of(&q, node)) {
            const bool turns = qc_canon_turns(c, node, &q, st);
            for (unsigned i = 0; i < q.operands; i++) {
                const struct qc_qlinear_port p = qc_qlinear_operand(node, i);
                if (!qc_constant_of(c->g, p.value)) state(c, p.value, turns ? qc_canon_port_qparams(c, &p, st) : 0, 0);
            }
            if (is_integer(c, node->outputs))
                state(c, node->outputs, turns ? qc_canon_port_qparams(c, &q.out, st) : 0, 0);
        } else
            classify_other(c, node);
    }
    if (st->code != QC_OK) return false;
    /* A class with a scale per channel is literal if another op than QuantizeLinear makes one of its values. */
    QC_EACH_NODE(node, g) {
        const qc_id k = find(c, node->outputs);
        const bool channels = c->qparams[k] && c->r.to->qparams_of[c->qparams[k]].count > 1;
        if (channels && node->op != QC_OP_QuantizeLinear && is_integer(c, node->outputs)) c->literal[k] = true;
    }
    find_wanted(c);
    return true;
}
