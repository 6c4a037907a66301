// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/core/body.h"
#include "graph/core/graph.h"
#include "graph/core/infer.h"
#include "graph/core/tables.h"

enum { NO_AXIS = -1 };

/* Returns the number of elements after an axis, 0 if unknown. */
static int64_t behind(const struct qc_shape *s, int axis)
{
    int64_t n = 1;
    for (int i = axis + 1; i < s->rank; i++)
        if (s->dim[i] < 1 || !qc_mul_i64(&n, n, s->dim[i])) return 0;
    return n;
}

int qc_kept_axis(const struct qc_graph *g, const struct qc_node *n, const struct qc_shape *x, const struct qc_shape *y,
                 int in)
{
    if (in < 0 || in >= x->rank || y->rank < 0) return NO_AXIS;
    const bool same = x->rank == y->rank && x->dim[in] == y->dim[in];
    if (qc_op_info(n->op)->affine == QC_AFFINE_BOUND) return in;
    if (n->op == QC_OP_Transpose) {
        const int64_t *perm;
        const size_t count = qc_attr_ints(n, "perm", &perm);
        for (size_t i = 0; i < count; i++)
            if (perm[i] == in) return (int)i;
        return count ? NO_AXIS : x->rank - 1 - in;
    }
    if (n->op == QC_OP_Reshape || n->op == QC_OP_Flatten || n->op == QC_OP_Squeeze || n->op == QC_OP_Unsqueeze) {
        /* Both sides are row-major: an axis of the same size with as many elements after it holds the same elements. */
        const int64_t size = x->dim[in], after = behind(x, in);
        for (int k = 0; after && size > 1 && k < y->rank; k++)
            if (y->dim[k] == size && behind(y, k) == after) return k;
        return NO_AXIS;
    }
    if (n->op == QC_OP_MaxPool || n->op == QC_OP_GlobalMaxPool) return in < 2 ? in : NO_AXIS;
    if (n->op == QC_OP_Slice) {
        struct qc_status unknown = QC_STATUS_INIT;
        struct qc_slice s;
        return same && qc_slice_of(&s, g, n, &unknown) && s.start[in] == 0 && s.step[in] == 1 ? in : NO_AXIS;
    }
    if (n->op == QC_OP_Split || n->op == QC_OP_Concat) {
        const int64_t axis = qc_attr_int(n, "axis", 0);
        return same && axis != in && axis + x->rank != in ? in : NO_AXIS;
    }
    return n->op == QC_OP_Resize && same ? in : NO_AXIS;
}

/* Sets the axis of per-channel parameters after an op that they pass through. Fails if the op would split the axis. */
static bool keep_axis(struct qc_type *result, const struct qc_graph *g, const struct qc_node *n,
                      const struct qc_shape *y, struct qc_status *st)
{
    const struct qc_type *in = &g->values[n->inputs[0]].type;
    result->axis = in->axis;
    if (!g->qparams_of[in->qparams].per_channel) return true;
    result->axis = qc_kept_axis(g, n, &in->shape, y, in->axis);
    return result->axis != NO_AXIS ||
           qc_fail(st, QC_UNSUPPORTED, "per-channel parameters of qparams '%s' cannot pass through",
                   g->qparams_of[in->qparams].name);
}

static enum qc_dtype storage(const struct qc_graph *g, qc_id qparams)
{
    return g->simulated ? QC_F32 : qc_qparams_storage(&g->qparams_of[qparams]);
}

/* Sets qparams and storage type of the outputs; see enum qc_affine_behaviour. */
static bool type_affine(struct qc_type *out, const struct qc_graph *g, const struct qc_node_def *d,
                        const struct qc_node *n, struct qc_status *st)
{
    const struct qc_op_info *info = qc_op_info(d->op);
    unsigned affine = 0, real_floats = 0, blocked = 0;
    for (unsigned i = 0; i < d->input_count; i++) {
        const struct qc_type *t = &g->values[d->inputs[i]].type;
        if (!d->inputs[i]) continue;
        blocked += t->qparams != QC_REAL && g->qparams_of[t->qparams].block;
        if (t->qparams != QC_REAL)
            affine++;
        else if (qc_dtype_info(t->dtype)->is_float)
            real_floats++;
    }
    const struct qc_type first = d->input_count ? g->values[d->inputs[0]].type : (struct qc_type){.qparams = QC_REAL};
    const struct qc_qparams *p = &g->qparams_of[d->qparams];
    struct qc_type result = {.qparams = d->qparams, .axis = d->axis, .dtype = storage(g, d->qparams)};
    if (d->op == QC_OP_Quantize || d->op == QC_OP_Requantize) {
        if (!d->qparams) return qc_fail(st, QC_BAD_INPUT, "no result qparams given");
        if ((d->op == QC_OP_Quantize) != (affine == 0)) return qc_fail(st, QC_BAD_INPUT, "input has the wrong qparams");
    } else if (d->op == QC_OP_Dequantize) {
        if (!affine) return qc_fail(st, QC_BAD_INPUT, "input is real already");
        return true;
    } else if (blocked) {
        return qc_fail(st, QC_BAD_INPUT, "has an input with a scale for each block, which can only be dequantized");
    } else if (!affine) {
        if (d->qparams) return qc_fail(st, QC_BAD_INPUT, "result qparams need affine inputs");
        return true;
    } else {
        switch (qc_node_affine(n)) {
        case QC_AFFINE_NONE: return qc_fail(st, QC_BAD_INPUT, "has no form on affine values");
        case QC_AFFINE_KEEP:
        case QC_AFFINE_BOUND:
            if (first.qparams == QC_REAL || affine > 1)
                return qc_fail(st, QC_BAD_INPUT, "only the first input may be affine");
            result = (struct qc_type){.qparams = first.qparams, .dtype = storage(g, first.qparams)};
            for (unsigned k = 0; k < n->output_count; k++)
                if (!keep_axis(&result, g, n, &out[k].shape, st)) return false;
            break;
        case QC_AFFINE_JOIN:
            for (unsigned i = 0; i < d->input_count; i++)
                if (g->values[d->inputs[i]].type.qparams != first.qparams)
                    return qc_fail(st, QC_BAD_INPUT, "inputs have different qparams");
            for (unsigned i = 1; g->qparams_of[first.qparams].per_channel && i < d->input_count; i++)
                if (g->values[d->inputs[i]].type.axis != first.axis)
                    return qc_fail(st, QC_BAD_INPUT, "inputs have their channels along different axes");
            result = (struct qc_type){.qparams = first.qparams, .axis = first.axis, .dtype = storage(g, first.qparams)};
            if (!keep_axis(&result, g, n, &out[0].shape, st)) return false;
            break;
        case QC_AFFINE_MERGE:
            if (!d->qparams || p->kind != QC_QPARAMS_QUANTIZER)
                return qc_fail(st, QC_BAD_INPUT, "needs a quantizer as its result qparams");
            if (first.qparams == QC_REAL || (info->inputs_min == 2 && affine < 2))
                return qc_fail(st, QC_BAD_INPUT, "mixes real and affine inputs");
            break;
        case QC_AFFINE_PRODUCT:
            if (real_floats) return qc_fail(st, QC_BAD_INPUT, "mixes real and affine inputs");
            if (!d->qparams || p->kind != QC_QPARAMS_PRODUCT || p->a != first.qparams ||
                p->b != g->values[d->inputs[1]].type.qparams)
                return qc_fail(st, QC_BAD_INPUT,
                               "the result qparams are not the product of the qparams of its first two inputs");
            if (d->input_count > 2 && d->inputs[2] && g->values[d->inputs[2]].type.qparams != d->qparams)
                return qc_fail(st, QC_BAD_INPUT, "the bias does not have the qparams of the accumulator");
            result.axis = d->op == QC_OP_Conv || d->op == QC_OP_ConvTranspose ? 1 : out[0].shape.rank - 1;
            break;
        }
    }
    for (unsigned i = 0; i < n->output_count; i++) {
        out[i].qparams = result.qparams;
        out[i].axis = result.axis;
        out[i].dtype = result.dtype;
    }
    return true;
}

bool qc_node_types(struct qc_type *out, const struct qc_graph *g, const struct qc_node *n, qc_id qparams, int axis,
                   struct qc_status *st)
{
    struct qc_infer c = {.graph = g, .node = n, .out = out};
    const struct qc_node_def d = {
        .op = n->op, .input_count = n->input_count, .inputs = n->inputs, .qparams = qparams, .axis = axis};
    return qc_op_info(n->op)->infer(&c, st) && type_affine(out, g, &d, n, st);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct qc_attr *)a)->name, ((const struct qc_attr *)b)->name);
}

bool qc_attr_equal(const struct qc_attr *a, const struct qc_attr *b)
{
    if (a->kind != b->kind || strcmp(a->name, b->name) != 0) return false;
    switch (a->kind) {
    case QC_ATTR_INT: return a->i == b->i;
    case QC_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case QC_ATTR_STRING: return strcmp(a->s, b->s) == 0;
    case QC_ATTR_INTS:
        return a->count == b->count && (!a->count || memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0);
    case QC_ATTR_FLOATS:
        return a->count == b->count && (!a->count || memcmp(a->floats, b->floats, a->count * sizeof *a->floats) == 0);
    case QC_ATTR_STRINGS:
        if (a->count != b->count) return false;
        for (size_t i = 0; i < a->count; i++)
            if (strcmp(a->strings[i], b->strings[i]) != 0) return false;
        return true;
    case QC_ATTR_TENSOR: return qc_tensor_equal(a->tensor, b->tensor);
    case QC_ATTR_GRAPH: return a->graph == b->graph;
    }
    return false;
}

static uint64_t identity_of(const struct qc_node_def *d)
{
    return (uint64_t)d->qparams << 8 | (uint64_t)(d->axis & 0xff);
}

static uint64_t hash_node(const struct qc_node_def *d, unsigned outputs)
{
    uint64_t h = qc_hash_bytes(QC_HASH_START, &d->op, sizeof d->op), extra = identity_of(d);
    h = qc_hash_bytes(h, &extra, sizeof extra);
    h = qc_hash_bytes(h, &outputs, sizeof outputs);
    h = qc_hash_bytes(h, d->inputs, d->input_count * sizeof *d->inputs);
    for (unsigned i = 0; i < d->attr_count; i++) {
        const struct qc_attr *a = &d->attrs[i];
        h = qc_hash_bytes(h, a->name, strlen(a->name));
        if (a->kind == QC_ATTR_INT) h = qc_hash_bytes(h, &a->i, sizeof a->i);
        if (a->kind == QC_ATTR_INTS) h = qc_hash_bytes(h, a->ints, a->count * sizeof *a->ints);
    }
    return h;
}

static qc_id find_node(const struct qc_graph *g, const struct qc_node_def *d, unsigned outputs, uint64_t hash)
{
    size_t slot = SIZE_MAX;
    for (qc_id k; (k = qc_index_next(&g->tables->nodes, hash, &slot));) {
        const struct qc_node *n = &g->nodes[k];
        if (n->op != d->op || n->input_count != d->input_count || n->attr_count != d->attr_count ||
            n->output_count != outputs || g->tables->node_qparams[k] != identity_of(d) ||
            (d->input_count && memcmp(n->inputs, d->inputs, d->input_count * sizeof *d->inputs) != 0))
            continue;
        unsigned i = 0;
        while (i < n->attr_count && qc_attr_equal(&n->attrs[i], &d->attrs[i])) i++;
        if (i == n->attr_count) return k;
    }
    return 0;
}

static const char *const *copied_strings(const struct qc_attr *from, struct qc_arena *a, struct qc_status *st)
{
    const char **v = QC_NEW_ARRAY(a, const char *, from->count, st);
    for (size_t i = 0; v && i < from->count; i++) v[i] = qc_arena_strdup(a, from->strings[i], st);
    return v;
}

bool qc_attrs_copy(struct qc_attr *to, const struct qc_attr *from, unsigned count, struct qc_arena *a,
                   struct qc_status *st)
{
    for (unsigned i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].tensor = NULL;
        to[i].graph = NULL;
        to[i].name = qc_arena_strdup(a, from[i].name, st);
        switch (from[i].kind) {
        case QC_ATTR_INT:
        case QC_ATTR_FLOAT: break;
        case QC_ATTR_STRING: to[i].s = qc_arena_strdup(a, from[i].s, st); break;
        case QC_ATTR_INTS: to[i].ints = qc_arena_dup(a, from[i].ints, from[i].count, sizeof *to[i].ints, st); break;
        case QC_ATTR_FLOATS:
            to[i].floats = qc_arena_dup(a, from[i].floats, from[i].count, sizeof *to[i].floats, st);
            break;
        case QC_ATTR_STRINGS: to[i].strings = copied_strings(&from[i], a, st); break;
        case QC_ATTR_TENSOR: to[i].tensor = qc_tensor_ref(from[i].tensor); break;
        case QC_ATTR_GRAPH: to[i].graph = qc_graph_ref(from[i].graph); break;
        }
    }
    return st->code == QC_OK;
}

static bool check_def(const struct qc_graph *g, const struct qc_node_def *d, unsigned outputs, struct qc_status *st)
{
    if (d->op <= QC_OP_INVALID || d->op >= QC_OP_COUNT) return qc_fail(st, QC_BAD_INPUT, "not an op");
    const struct qc_op_info *info = qc_op_info(d->op);
    if (d->input_count < info->inputs_min || d->input_count > info->inputs_max)
        return qc_fail(st, QC_BAD_INPUT, "has %u inputs, expected %u to %u", d->input_count, info->inputs_min,
                       info->inputs_max);
    if (outputs < 1 || outputs > info->outputs_max)
        return qc_fail(st, QC_BAD_INPUT, "has %u outputs, expected 1 to %u", outputs, info->outputs_max);
    for (unsigned i = 0; i < d->input_count; i++) {
        if (d->inputs[i] > g->value_count) return qc_fail(st, QC_BAD_INPUT, "input %u is not a value of the graph", i);
        if (i < info->inputs_min && !d->inputs[i]) return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
    }
    if (d->qparams > g->qparams_count) return qc_fail(st, QC_BAD_INPUT, "result qparams %u do not exist", d->qparams);
    if (qc_body_depth(d) > QC_BODY_DEPTH_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "bodies are nested more than %d deep", QC_BODY_DEPTH_MAX);
    return true;
}

static qc_id add_node(struct qc_graph *g, const struct qc_node_def *d, unsigned outputs, struct qc_status *st)
{
    uint64_t hash = hash_node(d, outputs);
    qc_id known = qc_op_is_random(d->op) ? 0 : find_node(g, d, outputs, hash);
    if (known) {
        for (unsigned i = 0; d->output_names && i < outputs; i++)
            if (!qc_graph_name_value(g, g->nodes[known].outputs + i, d->output_names[i], st)) return 0;
        return g->nodes[known].outputs;
    }
    struct qc_graph_tables *t = g->tables;
    size_t old_capacity = t->node_capacity;
    if (!qc_grow((void **)&g->nodes, &t->node_capacity, g->node_count, sizeof *g->nodes, st)) return 0;
    if (t->node_capacity != old_capacity || !t->node_qparams) {
        uint64_t *p = realloc(t->node_qparams, t->node_capacity * sizeof *p);
        if (!p) return qc_fail_memory(st, t->node_capacity * sizeof *p);
        t->node_qparams = p;
    }
    if (!qc_index_reserve(&t->nodes, st)) return 0;
    struct qc_type *types = QC_NEW_ARRAY(g->arena, struct qc_type, outputs, st);
    struct qc_attr *attrs = QC_NEW_ARRAY(g->arena, struct qc_attr, d->attr_count, st);
    struct qc_node n = {.op = d->op,
                        .input_count = d->input_count,
                        .output_count = outputs,
                        .attr_count = d->attr_count,
                        .attrs = d->attrs};
    /* A node without inputs has an absent one behind its end: passes look at the first input of any node. */
    n.inputs = d->input_count ? qc_arena_dup(g->arena, d->inputs, d->input_count, sizeof *d->inputs, st)
                              : QC_NEW_ARRAY(g->arena, qc_id, 1, st);
    if (!types || !attrs || !n.inputs) return 0;
    if (d->name && !(n.name = qc_arena_strdup(g->arena, d->name, st))) return 0;
    if (!qc_node_types(types, g, &n, d->qparams, d->axis, st)) return 0;

    n.outputs = (qc_id)g->value_count + 1;
    n.attrs = attrs;
    const qc_id id = n.id = (qc_id)g->node_count + 1;
    for (unsigned i = 0; i < outputs; i++) {
        struct qc_value v = {.kind = QC_VALUE_RESULT, .type = types[i], .node = id, .output = i};
        if (!qc_graph_new_value(g, &v, d->output_names ? d->output_names[i] : NULL, st)) return 0;
    }
    g->node_count++;
    if (qc_body_depth(d) > g->depth) g->depth = qc_body_depth(d);
    bool copied = qc_attrs_copy(attrs, d->attrs, d->attr_count, g->arena, st);
    g->nodes[id] = n;
    t->node_qparams[id] = identity_of(d);
    qc_index_put(&t->nodes, hash, id);
    return copied ? n.outputs : 0;
}

qc_id qc_graph_add(struct qc_graph *g, const struct qc_node_def *def, struct qc_status *st)
{
    struct qc_node_def d = *def;
    struct qc_attr sorted[32];
    unsigned outputs = d.output_count ? d.output_count : 1;
    qc_id first = 0;
    if (st->code != QC_OK) return 0;
    if (d.attr_count > sizeof sorted / sizeof *sorted) {
        qc_fail(st, QC_BAD_INPUT, "has %u attributes, at most 32 are handled", d.attr_count);
    } else {
        if (d.attr_count) memcpy(sorted, d.attrs, d.attr_count * sizeof *sorted);
        qsort(sorted, d.attr_count, sizeof *sorted, by_name);
        d.attrs = sorted;
        if (check_def(g, &d, outputs, st)) first = add_node(g, &d, outputs, st);
    }
    if (!first) {
        const char *result = d.output_names && d.output_names[0] ? d.output_names[0] : "";
        qc_where(st, "node '%s' (%s)", d.name && *d.name ? d.name : result,
                 qc_op_info(d.op < QC_OP_COUNT ? d.op : QC_OP_INVALID)->name);
    }
    return first;
}

const struct qc_attr *qc_attr_find(const struct qc_node *n, const char *name)
{
    for (unsigned i = 0; i < n->attr_count; i++)
        if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
    return NULL;
}

int64_t qc_attr_int(const struct qc_node *n, const char *name, int64_t otherwise)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_INT ? a->i : otherwise;
}

float qc_attr_float(const struct qc_node *n, const char *name, float otherwise)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_FLOAT ? a->f : otherwise;
}

const char *qc_attr_string(const struct qc_node *n, const char *name, const char *otherwise)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    return a && a->kind == QC_ATTR_STRING ? a->s : otherwise;
}

size_t qc_attr_ints(const struct qc_node *n, const char *name, const int64_t **out)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    if (!a || a->kind != QC_ATTR_INTS) return 0;
    *out = a->ints;
    return a->count;
}

enum qc_affine_behaviour qc_node_affine(const struct qc_node *n)
{
    if (n->op == QC_OP_ReduceMean && n->input_count > 1) return QC_AFFINE_NONE; /* its axes are not attributes */
    if (n->op == QC_OP_Resize && strcmp(qc_attr_string(n, "mode", "nearest"), "nearest") == 0 &&
        strcmp(qc_attr_string(n, "coordinate_transformation_mode", "half_pixel"), "tf_crop_and_resize") != 0)
        return QC_AFFINE_KEEP;
    return qc_op_info(n->op)->affine;
}

qc_id qc_value_named(const struct qc_graph *g, qc_id v)
{
    qc_id named = v;
    for (const struct qc_node *n = qc_node_of(g, v);
         n && !g->values[named].name && (n->op == QC_OP_Dequantize || n->op == QC_OP_Quantize);
         n = qc_node_of(g, named))
        named = n->inputs[0];
    return named;
}

const char *qc_value_name(const struct qc_graph *g, qc_id v, struct qc_arena *a, struct qc_status *st)
{
    const char *name = g->values[qc_value_named(g, v)].name;
    return name ? name : qc_arena_strdup(a, QC_VALUE_LABEL(g, v), st);
}
