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
    struct qc_rebuild r;
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

static bool is_stored(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U16 || t == QC_I16 || t == QC_U4 || t == QC_I4;
}

/* Reads the parameters of a QuantizeLinear or DequantizeLinear. *usable is false if they are not constant float32, not
   one per tensor or channel, or not valid qparams. */
static bool parameters_of(struct qc_given *out, bool *usable, const struct taking *t, const struct qc_node *n,
                          struct qc_status *st)
{
    const struct qc_graph *g = t->g;
    const qc_id stored = n->op == QC_OP_QuantizeLinear ? n->outputs : n->inputs[0],
                real = n->op == QC_OP_QuantizeLinear ? n->inputs[0] : n->outputs;
    const bool has_zero = n->input_count > 2 && n->inputs[2];
    const struct qc_tensor *scale = qc_constant_of(g, n->inputs[1]),
                           *zero = has_zero ? qc_constant_of(g, n->inputs[2]) : NULL;
    const int rank = g->values[real].type.shape.rank;
    int64_t axis = qc_attr_int(n, "axis", 1);
    *usable = scale && scale->dtype == QC_F32 && scale->count && (!has_zero || zero) &&
              is_stored(g->values[stored].type.dtype) && g->values[real].type.dtype == QC_F32 &&
              !qc_attr_int(n, "block_size", 0) && scale->shape.rank <= 1 && (!zero || zero->count == scale->count);
    if (axis < 0) axis += rank;
    if (*usable && scale->count > 1)
        *usable = axis >= 0 && axis < rank && g->values[real].type.shape.dim[axis] == (int64_t)scale->count;
    if (!*usable) return true;
    float *s = QC_NEW_ARRAY(t->owner, float, scale->count, st);
    int32_t *z = QC_NEW_ARRAY(t->owner, int32_t, scale->count, st);
    if (!s || !z) return false;
    for (size_t i = 0; i < scale->count; i++) {
        s[i] = ((const float *)scale->data)[i];
        z[i] = zero ? (int32_t)qc_tensor_int(zero, i) : 0;
        if (!(s[i] >= QC_SCALE_MIN) || !isfinite(s[i])) *usable = false;
    }
    *out = (struct qc_given){.dtype = g->values[stored].type.dtype,
                             .count = scale->count,
                             .axis = scale->count > 1 ? (int)axis : 0,
                             .scale = s,
                             .zero_point = z};
    return true;
}

static bool note(struct taking *t, qc_id value, const struct qc_tensor *weight, const struct qc_given *p,
                 struct qc_status *st)
{
    const char *name = t->r.to->values[value].name;
    struct qc_given_value v = {.name = qc_arena_strdup(t->owner, name ? name : "", st),
                               .weight = weight,
                               .parameters = *p};
    if (!v.name) return false;
    t->values->of[t->values->count++] = v;
    return true;
}

static const struct qc_given *given_of(const struct taking *t, qc_id value)
{
    const struct qc_tensor *w = qc_constant_of(t->r.to, value);
    return w ? qc_given_of_weight(t->values, w) : qc_given_of_value(t->values, t->r.to, value);
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
    const qc_id v = w ? qc_graph_add_constant(t->r.to, name, w, st) : 0;
    const struct qc_tensor *kept = v ? qc_constant_of(t->r.to, v) : NULL;
    qc_tensor_unref(w);
    if (!v || (p && !given_of(t, v) && !note(t, v, kept, p, st))) return 0;
    return v;
}

/* Adds a weight stored as integers with its real values. */
static qc_id read_weight(struct taking *t, const struct qc_node *n, const struct qc_tensor *q, const struct qc_given *p,
                         struct qc_status *st)
{
    struct qc_tensor *w = qc_tensor_new(QC_F32, &q->shape, st);
    const size_t inner = inner_of(&q->shape, p->axis);
    for (size_t i = 0; w && i < w->count; i++)
        ((float *)w->data)[i] = qc_dequantize_one((int32_t)qc_tensor_int(q, i), affine_at(p, i, inner));
    return add_weight(t, t->g->values[n->outputs].name, w, p, st);
}

/* Rounds a float weight that the file quantizes and dequantizes. */
static qc_id round_weight(struct taking *t, const struct qc_node *n, const struct qc_tensor *x,
                          const struct qc_given *p, struct qc_status *st)
{
    const struct qc_dtype_info *info = qc_dtype_info(p->dtype);
    const struct qc_levels levels = {.lo = info->lo, .hi = info->hi};
    struct qc_tensor *w = qc_tensor_new(QC_F32, &x->shape, st);
    const size_t inner = inner_of(&x->shape, p->axis);
    for (size_t i = 0; w && i < w->count; i++) {
        const struct qc_affine a = affine_at(p, i, inner);
        ((float *)w->data)[i] = qc_dequantize_one(qc_quantize_one(((const float *)x->data)[i], a, levels), a);
    }
    return add_weight(t, t->g->values[n->outputs].name, w, p, st);
}

/* Adds a bias: int32, one scale or one per element. */
static qc_id read_bias(struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = t->g;
    const struct qc_tensor *q = qc_constant_of(g, n->inputs[0]), *s = qc_constant_of(g, n->inputs[1]);
    struct qc_tensor *w = qc_tensor_new(QC_F32, &q->shape, st);
    for (size_t i = 0; w && i < w->count; i++)
        ((float *)w->data)[i] = (float)qc_tensor_int(q, i) * (float)qc_tensor_float(s, s->count > 1 ? i : 0);
    return add_weight(t, g->values[n->outputs].name, w, NULL, st);
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

/* *out: every reader of these integers is a DequantizeLinear with the same parameters. */
static bool only_read_back(bool *out, const struct taking *t, const struct qc_node *n, const struct qc_given *p,
                           struct qc_status *st)
{
    const struct qc_use_list uses = qc_all_uses(&t->uses, n->outputs);
    *out = uses.count > 0;
    for (size_t i = 0; *out && i < uses.count; i++) {
        const struct qc_node *reader = uses.of[i].node ? &t->g->nodes[uses.of[i].node] : NULL;
        struct qc_given other;
        bool usable = false;
        if (reader && reader->op == QC_OP_DequantizeLinear && uses.of[i].input == 0 &&
            !parameters_of(&other, &usable, t, reader, st))
            return false;
        *out = usable && qc_given_same(p, &other);
    }
    return true;
}

/* Adds the clamp of a quantizer whose lowest level is 0: saturation replaces a relu, or a clip from 0, in the file.
   Returns the new value for its readers. */
static qc_id add_clamp(struct taking *t, qc_id x, const struct qc_given *p, const char *name, struct qc_status *st)
{
    const struct qc_affine a = affine_at(p, 0, 1);
    const float bounds[] = {0, qc_dequantize_one(qc_dtype_info(p->dtype)->hi, a)};
    const struct qc_shape shape = QC_SCALAR;
    qc_id in[3] = {x};
    for (unsigned i = 0; i < 2; i++) {
        in[1 + i] = qc_graph_add_made_constant(t->r.to, NULL, qc_tensor_of(QC_F32, &shape, &bounds[i], st), st);
        if (!in[1 + i]) return 0;
    }
    const struct qc_node_def clip = {
        .op = QC_OP_Clip, .name = name, .input_count = 3, .inputs = in, .output_names = &name};
    return qc_graph_add(t->r.to, &clip, st);
}

static bool take_quantize(bool *done, struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    struct qc_given p;
    bool usable;
    *done = false;
    if (!parameters_of(&p, &usable, t, n, st)) return false;
    if (usable && !only_read_back(&usable, t, n, &p, st)) return false;
    const qc_id x = usable ? qc_rebuild_value(&t->r, n->inputs[0], st) : 0;
    if (!usable) return true;
    if (!x) return false;
    const struct qc_tensor *constant = qc_constant_of(t->r.to, x);
    qc_id read = x;
    if (constant) {
        if (!(read = round_weight(t, n, constant, &p, st))) return false;
    } else {
        const struct qc_given *before = given_of(t, x);
        if (p.count > 1 || (before && !qc_given_same(before, &p))) return true;
        const qc_id dq = t->g->nodes[qc_all_uses(&t->uses, n->outputs).of[0].node].outputs;
        const char *name = t->g->values[dq].name;
        const bool clamps = p.zero_point[0] == qc_dtype_info(p.dtype)->lo && !t->from_zero[n->inputs[0]];
        if (clamps && !(read = add_clamp(t, x, &p, name, st))) return false;
        if (!clamps && !qc_graph_name_value(t->r.to, x, name, st)) return false;
        if (!given_of(t, read) && !note(t, read, NULL, &p, st)) return false;
    }
    t->r.map[n->outputs] = read; /* readers of the integers map to it too */
    t->from_zero[n->outputs] = p.count == 1 && p.zero_point[0] == qc_dtype_info(p.dtype)->lo;
    return *done = t->gone[n->outputs] = true;
}

static bool take_dequantize(bool *done, struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_tensor *q = qc_constant_of(t->g, n->inputs[0]);
    struct qc_given p;
    bool usable;
    qc_id v = 0;
    *done = true;
    if (t->gone[n->inputs[0]]) {
        t->r.map[n->outputs] = t->r.map[n->inputs[0]];
        return true;
    }
    if (is_bias(t, n)) return (t->r.map[n->outputs] = read_bias(t, n, st)) != 0;
    if (!parameters_of(&p, &usable, t, n, st)) return false;
    if (usable && q) return (v = read_weight(t, n, q, &p, st)) && (t->r.map[n->outputs] = v);
    *done = false;
    return true;
}

/* Transposes a weight and its parameters, so that it stays a weight. */
static bool take_transpose(bool *done, struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const qc_id x = t->r.map[n->inputs[0]];
    const struct qc_tensor *w = x ? qc_constant_of(t->r.to, x) : NULL;
    const struct qc_given *p = w && w->shape.rank == 2 ? qc_given_of_weight(t->values, w) : NULL;
    const int64_t *perm;
    *done = false;
    if (!p || (qc_attr_ints(n, "perm", &perm) == 2 && perm[0] == 0)) return true;
    const size_t rows = (size_t)w->shape.dim[0], columns = (size_t)w->shape.dim[1];
    const struct qc_shape shape = QC_SHAPE(w->shape.dim[1], w->shape.dim[0]);
    struct qc_tensor *turned = qc_tensor_new(QC_F32, &shape, st);
    for (size_t i = 0; turned && i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            ((float *)turned->data)[k * rows + i] = ((const float *)w->data)[i * columns + k];
    struct qc_given other = *p;
    if (other.count > 1) other.axis = 1 - other.axis;
    const qc_id v = add_weight(t, t->g->values[n->outputs].name, turned, &other, st);
    t->r.map[n->outputs] = v;
    return *done = v != 0;
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

/* Counts a QuantizeLinear or DequantizeLinear that stays, or notes its parameters for its real value: a quantizer with
   these parameters changes nothing there, and any other one would round the value twice. */
static bool note_literal(struct taking *t, const struct qc_node *n, struct qc_status *st)
{
    const qc_id real = n->op == QC_OP_QuantizeLinear ? n->inputs[0] : n->outputs, to = t->r.map[real];
    struct qc_given p;
    bool usable;
    if (!parameters_of(&p, &usable, t, n, st)) return false;
    if (usable && p.count == 1 && !qc_constant_of(t->g, real) && t->r.to->values[to].name &&
        (n->op == QC_OP_DequantizeLinear || qc_all_uses(&t->uses, real).count == 1))
        return given_of(t, to) || note(t, to, NULL, &p, st);
    t->values->literal++;
    return true;
}

static bool take_given_node(struct taking *t, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &t->g->nodes[id];
    const bool linear = n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear;
    bool done = false;
    if (n->op == QC_OP_QuantizeLinear && !take_quantize(&done, t, n, st)) return false;
    if (n->op == QC_OP_DequantizeLinear && !take_dequantize(&done, t, n, st)) return false;
    if (n->op == QC_OP_Transpose && !take_transpose(&done, t, n, st)) return false;
    if (done) return true;
    return qc_rebuild_node(&t->r, id, st) && (!linear || note_literal(t, n, st));
}

bool qc_take_given(struct qc_graph **out, struct qc_given_values *given, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_given_values values = {.count = 0};
    struct taking t = {.g = g, .values = &values};
    struct qc_arena *a = qc_arena_new();
    bool ok = a ? true : qc_fail_memory(st, 1);
    ok = ok && (t.gone = QC_NEW_ARRAY(a, bool, g->value_count + 1, st)) && qc_uses_of(&t.uses, g, a, st) &&
         qc_rebuild_begin(&t.r, g, st);
    if (ok) t.owner = t.r.to->arena;
    ok = ok && (values.of = QC_NEW_ARRAY(t.owner, struct qc_given_value, 2 * g->node_count, st));
    const struct qc_bounds *bounds = ok ? qc_graph_bounds(g, a, st) : NULL;
    ok = bounds && (t.from_zero = QC_NEW_ARRAY(a, bool, g->value_count + 1, st));
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        ok = take_given_node(&t, id, st);
        mark_from_zero(&t, &g->nodes[id], bounds);
    }
    ok = ok && qc_rebuild_finish(out, &t.r, st);
    if (ok) *given = values;
    qc_rebuild_free(&t.r);
    qc_arena_free(a);
    return ok;
}
