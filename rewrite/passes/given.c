// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/given.h"

#include <math.h>
#include <string.h>

#include "graph/core/bounds.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

struct taking {
    const struct qc_graph *g;
    struct qc_arena *owner; /* of the new graph */
    struct qc_uses uses;
    struct qc_rebuild *r;
    struct qc_given_values *values;
    bool *gone;      /* [value_count + 1]: integers of a QuantizeLinear that is removed */
    bool *from_zero; /* [value_count + 1] of g: no element is below 0 */
};

bool qc_given_same(const struct qc_given *a, const struct qc_given *b)
{
    if (!a || !b || a == b) return true;
    return a->dtype == b->dtype && a->count == b->count && (a->count == 1 || a->axis == b->axis) &&
           memcmp(a->scale, b->scale, a->count * sizeof *a->scale) == 0 &&
           memcmp(a->zero_point, b->zero_point, a->count * sizeof *a->zero_point) == 0;
}

const struct qc_given *qc_given_of_value(const struct qc_given_values *values, const struct qc_graph *g, qc_id v)
{
    const char *name = g->values[v].name;
    for (size_t i = 0; values && name && i < values->count; i++)
        if (!values->of[i].weight && strcmp(values->of[i].name, name) == 0) return &values->of[i].parameters;
    return NULL;
}

const struct qc_given *qc_given_of_weight(const struct qc_given_values *values, const struct qc_tensor *t)
{
    for (size_t i = 0; values && i < values->count; i++)
        if (values->of[i].weight && qc_tensor_equal(values->of[i].weight, t)) return &values->of[i].parameters;
    return NULL;
}

/* Reads the parameters of a QuantizeLinear or DequantizeLinear. Returns false if they are not constant float32, not one
   per tensor or channel, or not valid qparams, or if memory is out. */
static bool parameters_of(struct qc_given *out, const struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = t->g;
    const qc_id stored = n->op == QC_OP_QuantizeLinear ? n->outputs : n->inputs[0],
                real = n->op == QC_OP_QuantizeLinear ? n->inputs[0] : n->outputs;
    const bool has_zero = n->input_count > 2 && n->inputs[2];
    const struct qc_tensor *scale = qc_constant_of(g, n->inputs[1]),
                           *zero = has_zero ? qc_constant_of(g, n->inputs[2]) : NULL;
    const int rank = g->values[real].type.shape.rank;
    const enum qc_dtype type = g->values[stored].type.dtype;
    int64_t axis = qc_attr_int(n, "axis", 1);
    bool usable = scale && scale->dtype == QC_F32 && scale->count && (!has_zero || zero) && qc_dtype_is_affine(type) &&
                  g->values[real].type.dtype == QC_F32 && !qc_attr_int(n, "block_size", 0) && scale->shape.rank <= 1 &&
                  (!zero || zero->count == scale->count);
    if (axis < 0) axis += rank;
    if (usable && scale->count > 1)
        usable = axis >= 0 && axis < rank && g->values[real].type.shape.dim[axis] == (int64_t)scale->count;
    if (!usable) return false;
    float *s = QC_NEW_ARRAY(t->owner, float, scale->count, st);
    int32_t *z = QC_NEW_ARRAY(t->owner, int32_t, scale->count, st);
    if (!s || !z) return false;
    for (size_t i = 0; i < scale->count; i++) {
        s[i] = ((const float *)scale->data)[i];
        z[i] = zero ? (int32_t)qc_tensor_int(zero, i) : 0;
        if (!(s[i] >= QC_SCALE_MIN) || !isfinite(s[i])) usable = false;
    }
    *out = (struct qc_given){
        .dtype = type, .count = scale->count, .axis = scale->count > 1 ? (int)axis : 0, .scale = s, .zero_point = z};
    return usable;
}

static const struct qc_given *given_of(const struct taking *t, qc_id value)
{
    const struct qc_tensor *w = qc_constant_of(t->r->to, value);
    return w ? qc_given_of_weight(t->values, w) : qc_given_of_value(t->values, t->r->to, value);
}

/* Notes the parameters of a value, unless it has some. */
static void note(struct taking *t, qc_id value, const struct qc_tensor *weight, const struct qc_given *p,
                 struct qc_status *st)
{
    const char *name = t->r->to->values[value].name, *copy = qc_arena_strdup(t->owner, name ? name : "", st);
    if (copy && !given_of(t, value))
        t->values->of[t->values->count++] = (struct qc_given_value){.name = copy, .weight = weight, .parameters = *p};
}

/* Returns the number of elements after the axis, after which the channel changes. */
static size_t inner_of(const struct qc_shape *s, int axis)
{
    size_t n = 1;
    for (int i = axis + 1; i < s->rank; i++) n *= (size_t)s->dim[i];
    return n;
}

static struct qc_affine affine_at(const struct qc_given *p, size_t i, size_t inner)
{
    const size_t c = p->count == 1 ? 0 : i / inner % p->count;
    return (struct qc_affine){.scale = p->scale[c], .zero_point = p->zero_point[c]};
}

static qc_id add_weight(struct taking *t, const char *name, struct qc_tensor *w, const struct qc_given *p,
                        struct qc_status *st)
{
    const qc_id v = qc_graph_add_made_constant(t->r->to, name, w, st);
    if (v && p) note(t, v, qc_constant_of(t->r->to, v), p, st);
    return v;
}

static bool is_bias(const struct taking *t, const struct qc_node *n)
{
    const struct qc_tensor *q = qc_constant_of(t->g, n->inputs[0]), *s = qc_constant_of(t->g, n->inputs[1]);
    const struct qc_tensor *z = n->input_count > 2 ? qc_constant_of(t->g, n->inputs[2]) : NULL;
    if (!q || !s || q->dtype != QC_I32 || s->dtype != QC_F32 || qc_attr_int(n, "block_size", 0)) return false;
    if (n->input_count > 2 && n->inputs[2] && !z) return false;
    for (size_t i = 0; z && i < z->count; i++)
        if (qc_tensor_int(z, i)) return false;
    return s->count == 1 || (q->shape.rank == 1 && s->count == q->count);
}

/* Returns true if every reader of these integers is a DequantizeLinear with the same parameters. */
static bool only_read_back(const struct taking *t, const struct qc_node *n, const struct qc_given *p,
                           struct qc_status *st)
{
    const struct qc_use_list uses = qc_all_uses(&t->uses, n->outputs);
    for (size_t i = 0; i < uses.count; i++) {
        const struct qc_node *reader = &t->g->nodes[uses.of[i].node];
        struct qc_given other;
        if (reader->op != QC_OP_DequantizeLinear || uses.of[i].input != 0 || !parameters_of(&other, t, reader, st) ||
            !qc_given_same(p, &other))
            return false;
    }
    return uses.count > 0;
}

/* Returns true if something else than a quantizer reads the value, which may be out of the range of the levels: the
   saturation of this quantizer is not for that reader. */
static bool saturates_for_some(const struct taking *t, qc_id x, const float ends[2], const struct qc_bounds *bounds)
{
    const struct qc_use_list uses = qc_all_uses(&t->uses, x);
    bool others = false;
    for (size_t i = 0; i < uses.count; i++)
        others = others || !uses.of[i].node || t->g->nodes[uses.of[i].node].op != QC_OP_QuantizeLinear;
    return others && (bounds[x].lo < (double)ends[0] || bounds[x].hi > (double)ends[1]);
}

/* Removes a QuantizeLinear and returns true, if all that reads it is removed too. */
static bool take_quantize(struct taking *t, const struct qc_node *n, const struct qc_bounds *bounds,
                          struct qc_status *st)
{
    struct qc_given p;
    if (!parameters_of(&p, t, n, st) || !only_read_back(t, n, &p, st)) return false;
    const qc_id x = qc_rebuild_value(t->r, n->inputs[0], st);
    const struct qc_tensor *constant = qc_constant_of(t->r->to, x);
    qc_id read = x;
    if (constant) {
        const struct qc_dtype_info *info = qc_dtype_info(p.dtype);
        const struct qc_levels levels = {.lo = info->lo, .hi = info->hi};
        struct qc_tensor *w = qc_tensor_new(QC_F32, &constant->shape, st);
        const size_t inner = inner_of(&constant->shape, p.axis);
        for (size_t i = 0; w && i < w->count; i++) {
            const struct qc_affine a = affine_at(&p, i, inner);
            ((float *)w->data)[i] =
                qc_dequantize_one(qc_quantize_one(((const float *)constant->data)[i], a, levels), a);
        }
        read = add_weight(t, t->g->values[n->outputs].name, w, &p, st);
    } else {
        const struct qc_given *before = given_of(t, x);
        if (p.count > 1 || (before && !qc_given_same(before, &p))) return false;
        const qc_id dq = t->g->nodes[qc_all_uses(&t->uses, n->outputs).of[0].node].outputs;
        const char *name = t->g->values[dq].name;
        const struct qc_dtype_info *levels = qc_dtype_info(p.dtype);
        const float ends[] = {qc_dequantize_one(levels->lo, affine_at(&p, 0, 1)),
                              qc_dequantize_one(levels->hi, affine_at(&p, 0, 1))};
        if ((p.zero_point[0] == levels->lo && !t->from_zero[n->inputs[0]]) ||
            saturates_for_some(t, n->inputs[0], ends, bounds)) {
            /* Saturation replaces a relu or a clip in the file. */
            qc_id in[2];
            for (unsigned i = 0; i < 2; i++)
                in[i] = qc_graph_add_made_constant(t->r->to, NULL, qc_tensor_of(QC_F32, &QC_SCALAR, &ends[i], st), st);
            read = qc_graph_add(t->r->to,
                                QC_NODE(QC_OP_Clip, QC_INPUTS(x, in[0], in[1]), QC_RESULT(name), .name = name), st);
        } else
            qc_graph_name_value(t->r->to, x, name, st);
        if (read) note(t, read, NULL, &p, st);
    }
    t->r->map[n->outputs] = read; /* readers of the integers map to it too */
    t->from_zero[n->outputs] = p.count == 1 && p.zero_point[0] == qc_dtype_info(p.dtype)->lo;
    return t->gone[n->outputs] = true;
}

/* Removes a DequantizeLinear of constants or of integers that are gone, and returns true. */
static bool take_dequantize(struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_tensor *q = qc_constant_of(t->g, n->inputs[0]), *s = qc_constant_of(t->g, n->inputs[1]);
    const char *name = t->g->values[n->outputs].name;
    struct qc_given p;
    if (t->gone[n->inputs[0]]) {
        t->r->map[n->outputs] = t->r->map[n->inputs[0]];
        return true;
    }
    const bool bias = is_bias(t, n); /* int32, one scale or one per element */
    if (!bias && (!q || !parameters_of(&p, t, n, st))) return false;
    struct qc_tensor *w = qc_tensor_new(QC_F32, &q->shape, st);
    const size_t inner = bias ? 1 : inner_of(&q->shape, p.axis);
    for (size_t i = 0; w && i < w->count; i++)
        ((float *)w->data)[i] = bias ? (float)qc_tensor_int(q, i) * (float)qc_tensor_float(s, s->count > 1 ? i : 0)
                                     : qc_dequantize_one((int32_t)qc_tensor_int(q, i), affine_at(&p, i, inner));
    t->r->map[n->outputs] = add_weight(t, name, w, bias ? NULL : &p, st);
    return true;
}

/* Transposes a weight and its parameters, so that it stays a weight, and returns true. */
static bool take_transpose(struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const qc_id x = t->r->map[n->inputs[0]];
    const struct qc_tensor *w = x ? qc_constant_of(t->r->to, x) : NULL;
    const struct qc_given *p = w && w->shape.rank == 2 ? qc_given_of_weight(t->values, w) : NULL;
    const int64_t *perm;
    if (!p || (qc_attr_ints(n, "perm", &perm) == 2 && perm[0] == 0)) return false;
    struct qc_given other = *p;
    if (other.count > 1) other.axis = 1 - other.axis;
    t->r->map[n->outputs] = add_weight(t, t->g->values[n->outputs].name, qc_tensor_transposed(w, st), &other, st);
    return true;
}

/* Marks results that cannot be below 0, because their inputs are not, because of the op, or because of the levels
   read. */
static void mark_from_zero(struct taking *t, const struct qc_node *n, const struct qc_bounds *bounds)
{
    const enum qc_affine_behaviour b = qc_op_info(n->op)->affine;
    unsigned data = 0;
    switch ((int)n->op) {
    case QC_OP_Add:
    case QC_OP_Mul: data = 2; break;
    case QC_OP_AveragePool:
    case QC_OP_GlobalAveragePool:
    case QC_OP_ReduceMean: data = 1; break;
    case QC_OP_Pad: break;
    default: data = b == QC_AFFINE_KEEP ? 1 : b == QC_AFFINE_JOIN ? n->input_count : 0;
    }
    bool all = data > 0;
    for (unsigned i = 0; i < data; i++) all = all && t->from_zero[n->inputs[i]];
    if (n->op == QC_OP_DequantizeLinear) all = t->from_zero[n->inputs[0]];
    for (unsigned k = 0; k < n->output_count; k++)
        t->from_zero[n->outputs + k] = t->from_zero[n->outputs + k] || all || bounds[n->outputs + k].lo >= 0;
}

static void take_given_node(struct taking *t, const struct qc_node *n, const struct qc_bounds *bounds,
                            struct qc_status *st)
{
    if ((n->op == QC_OP_QuantizeLinear && take_quantize(t, n, bounds, st)) ||
        (n->op == QC_OP_DequantizeLinear && take_dequantize(t, n, st)) ||
        (n->op == QC_OP_Transpose && take_transpose(t, n, st)))
        return;
    qc_rebuild_node(t->r, n->id, st);
    if (n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear) {
        /* It stays. A quantizer with its parameters would change nothing at its real value, and any other one would
           round the value twice. */
        const qc_id real = n->op == QC_OP_QuantizeLinear ? n->inputs[0] : n->outputs, to = t->r->map[real];
        struct qc_given p;
        if (parameters_of(&p, t, n, st) && p.count == 1 && !qc_constant_of(t->g, real) && t->r->to->values[to].name &&
            (n->op == QC_OP_DequantizeLinear || qc_all_uses(&t->uses, real).count == 1))
            note(t, to, NULL, &p, st);
        else
            t->values->literal++;
    }
}

bool qc_take_given(struct qc_graph **out, struct qc_given_values *given, const struct qc_graph *g, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    QC_REBUILD_SCOPE r = {0};
    struct qc_given_values values = {.count = 0};
    struct taking t = {.g = g,
                       .r = &r,
                       .values = &values,
                       .gone = QC_NEW_ARRAY(a, bool, g->value_count + 1, st),
                       .from_zero = QC_NEW_ARRAY(a, bool, g->value_count + 1, st)};
    if (!t.gone || !t.from_zero || !qc_uses_of(&t.uses, g, a, st) || !qc_rebuild_begin(&r, g, st)) return false;
    t.owner = r.to->arena;
    values.of = QC_NEW_ARRAY(t.owner, struct qc_given_value, 2 * g->node_count, st);
    const struct qc_bounds *bounds = qc_graph_bounds(g, a, st);
    if (!values.of || !bounds) return false;
    QC_EACH_NODE(n, g) {
        take_given_node(&t, n, bounds, st);
        mark_from_zero(&t, n, bounds);
    }
    if (!qc_rebuild_finish(out, &r, st)) return false;
    *given = values;
    return true;
}
