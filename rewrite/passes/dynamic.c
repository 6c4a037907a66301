// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/dynamic.h"

#include <stdlib.h>

#include "arith/params.h"
#include "base/scope.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/core/recurrent.h"

/* A constant weight behind Quantize and Dequantize. */
struct weight {
    const struct qc_tensor *stored; /* [rows, columns] */
    const struct qc_qparams *qparams;
    const char *name;
    int axis;        /* of the channels */
    bool transposed; /* each row is one output */
};

bool qc_dynamic_op(const struct qc_node *n, enum qc_dtype weight)
{
    if (weight != QC_I8 && weight != QC_U8) return false;
    if (n->op == QC_OP_MatMul) return true;
    if (n->op == QC_OP_LSTM) return !qc_attr_int(n, "layout", 0);
    return n->op == QC_OP_Gemm && qc_attr_float(n, "alpha", 1) == 1 && qc_attr_float(n, "beta", 1) == 1 &&
           !qc_attr_int(n, "transA", 0);
}

int qc_input_axis(int64_t *length, const struct qc_graph *g, const struct qc_node *n)
{
    const bool conv = n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose, recurrent = qc_is_recurrent(n->op);
    const struct qc_shape *w = n->input_count > 1 ? &g->values[n->inputs[1]].type.shape : NULL;
    if (!w || w->rank < 2 || g->values[n->inputs[0]].type.dtype != QC_F32) return 0;
    if (conv                  ? qc_attr_int(n, "group", 1) != 1
        : n->op == QC_OP_Gemm ? qc_attr_int(n, "transA", 0)
                              : n->op != QC_OP_MatMul && !recurrent)
        return 0;
    *length = w->dim[recurrent                                                                     ? 2
                     : n->op == QC_OP_Conv || (n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0)) ? 1
                     : n->op == QC_OP_MatMul                                                       ? w->rank - 2
                                                                                                   : 0];
    return *length < 1 ? 0 : conv ? 1 : -1;
}

static bool weight_of(struct weight *w, const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *d = n->input_count > 1 ? qc_node_of(g, n->inputs[1]) : NULL;
    const qc_id v = d && d->op == QC_OP_Dequantize ? d->inputs[0] : 0;
    const struct qc_tensor *t = v ? qc_constant_of(g, v) : NULL;
    if (!t || t->shape.rank != 2 || !t->count) return false;
    const struct qc_type *type = &g->values[v].type;
    const struct qc_qparams *s = qc_graph_parameters(g, v);
    if (!s || s->block || !qc_dynamic_op(n, s->dtype == QC_I4 ? QC_I8 : s->dtype) ||
        g->values[n->inputs[0]].type.dtype != QC_F32)
        return false;
    *w = (struct weight){.stored = t,
                         .qparams = s,
                         .name = g->values[v].name,
                         .axis = type->axis,
                         .transposed = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0)};
    return s->count == 1 || w->axis == (w->transposed ? 0 : 1);
}

/* Adds the scales, or the zero points, of the outputs as a constant: one number, or one per output. */
static qc_id parameters(struct qc_graph *to, const struct weight *w, bool zero_points, const char *name,
                        struct qc_status *st)
{
    const struct qc_qparams *s = w->qparams;
    const struct qc_shape vector = QC_SHAPE((int64_t)s->count), scalar = QC_SCALAR;
    struct qc_tensor *t = qc_tensor_new(zero_points ? (s->dtype == QC_I4 ? QC_I8 : s->dtype) : QC_F32,
                                        s->count > 1 ? &vector : &scalar, st);
    for (size_t i = 0; t && i < s->count; i++)
        if (zero_points)
            ((uint8_t *)t->data)[i] = (uint8_t)s->zero_point[i];
        else
            ((float *)t->data)[i] = s->scale[i];
    return qc_graph_add_made_constant(to, name, t, st);
}

static const char *named(struct qc_graph *to, const char *base, const char *suffix, struct qc_status *st)
{
    return qc_arena_printf(to->arena, st, "%s_%s", base ? base : "", suffix);
}

static void convert(struct qc_rebuild *r, const struct qc_node *n, const struct weight *w, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    struct qc_graph *to = r->to;
    const char *result = g->values[n->outputs].name, *name = n->name && *n->name ? n->name
                                                             : result            ? result
                                                                                 : QC_VALUE_LABEL(g, n->outputs);
    const char *cast = named(to, name, "cast", st), *scales = named(to, name, "scales", st),
               *scaled = named(to, name, "scaled", st), *biased = named(to, name, "bias", st);
    const bool bias = n->input_count > 2 && n->inputs[2];
    /* The input is quantized once for all products that read it: integers, scale and zero point. */
    const qc_id x = qc_rebuild_value(r, n->inputs[0], st);
    const char *base = to->values[x].name ? to->values[x].name : QC_VALUE_LABEL(to, x);
    const char *names[] = {named(to, base, "quantized", st), named(to, base, "scale", st),
                           named(to, base, "zero_point", st)};
    const qc_id q =
        qc_graph_add(to,
                     QC_NODE(QC_OP_DynamicQuantizeLinear, QC_INPUTS(x), .name = named(to, base, "dynamic", st),
                             .output_count = 3, .output_names = names),
                     st);
    const struct qc_qparams *s = w->qparams;
    const char *stored_name = named(to, w->name, "quantized", st), *scale = named(to, w->name, "scale", st),
               *zero = named(to, w->name, "zero_point", st);
    bool shifted = false;
    for (size_t i = 0; i < s->count; i++) shifted = shifted || s->zero_point[i];
    struct qc_tensor *t =
        s->dtype == QC_I4 ? qc_tensor_of(QC_I8, &w->stored->shape, w->stored->data, st) : qc_tensor_ref(w->stored);
    if (t && w->transposed) {
        struct qc_tensor *const rows = t;
        t = qc_tensor_transposed(rows, st);
        qc_tensor_unref(rows);
    }
    const qc_id weight = qc_graph_add_made_constant(to, stored_name, t, st), by = parameters(to, w, false, scale, st),
                shift = shifted ? parameters(to, w, true, zero, st) : 0, product[] = {q, weight, q + 2, shift};
    const qc_id sum =
        qc_graph_add(to, QC_NODE(QC_OP_MatMulInteger, .name = name, .inputs = product, .input_count = shifted ? 4 : 3),
                     st);
    const qc_id real = qc_graph_add(
        to, QC_NODE(QC_OP_Cast, QC_INPUTS(sum), QC_ATTRS(QC_INT("to", qc_dtype_info(QC_F32)->onnx)), .name = cast), st);
    const qc_id factor = qc_graph_add(to, QC_NODE(QC_OP_Mul, QC_INPUTS(q + 1, by), .name = scales), st);
    qc_id y =
        qc_graph_add(to, QC_NODE(QC_OP_Mul, QC_INPUTS(real, factor), QC_RESULT(bias ? NULL : result), .name = scaled),
                     st);
    if (bias)
        y = qc_graph_add(to,
                         QC_NODE(QC_OP_Add, QC_INPUTS(y, qc_rebuild_value(r, n->inputs[2], st)), QC_RESULT(result),
                                 .name = biased),
                         st);
    r->map[n->outputs] = y;
}

/* Returns true for the integer weight matrix of an LSTM, possibly with its dimensions joined. */
static bool is_recurrent_weight(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    if (n && n->op == QC_OP_Reshape) n = qc_node_of(g, n->inputs[0]);
    if (!n || n->op != QC_OP_Dequantize || !qc_constant_of(g, n->inputs[0])) return false;
    const struct qc_qparams *s = qc_graph_parameters(g, n->inputs[0]);
    for (size_t i = 1; s && i < s->count; i++)
        if (s->zero_point[i] != s->zero_point[0]) return false;
    return s && (s->dtype == QC_I8 || s->dtype == QC_U8);
}

static void convert_lstm(struct qc_rebuild *r, const struct qc_node *n, struct qc_status *st)
{
    struct qc_attr *attrs = QC_NEW_ARRAY(r->to->arena, struct qc_attr, n->attr_count + 1U, st);
    const qc_id *in = qc_rebuild_inputs(r, n, st);
    const char *names[] = {NULL, NULL, NULL};
    if (!attrs) return;
    for (unsigned i = 0; i < n->attr_count; i++) attrs[i] = n->attrs[i];
    attrs[n->attr_count] = QC_INT(QC_RECURRENT_DYNAMIC, 1);
    for (unsigned k = 0; k < n->output_count; k++) names[k] = r->from->values[n->outputs + k].name;
    const struct qc_node_def def = {.op = QC_OP_LSTM,
                                    .name = n->name,
                                    .input_count = n->input_count,
                                    .output_count = n->output_count,
                                    .inputs = in,
                                    .attr_count = n->attr_count + 1,
                                    .attrs = attrs,
                                    .output_names = names};
    qc_rebuild_map(r, n, qc_graph_add(r->to, &def, st));
}

/* What becomes of a node: an integer product, or its input is rounded to a format. */
struct choice {
    bool integer;
    const struct qc_number_format *format;
};

/* Returns [node_count + 1] of g. */
static struct choice *choose_conversions(size_t *count, const struct qc_graph *g, const struct qc_partition *p,
                                         struct qc_status *st)
{
    const struct qc_graph *from = p->graph;
    struct choice *chosen = calloc(g->node_count + 1, sizeof *chosen);
    struct weight w;
    int64_t length;
    *count = 0;
    if (!chosen) {
        qc_fail_memory(st, g->node_count);
        return NULL;
    }
    QC_EACH_NODE(old, from) {
        const bool any = p->dynamic[old->id] || p->input_format[old->id];
        const char *name = any ? from->values[old->outputs].name : NULL;
        const struct qc_node *n = name ? qc_node_of(g, qc_graph_find_value(g, name)) : NULL;
        if (!n) continue;
        struct choice *c = &chosen[n->id];
        c->integer = p->dynamic[old->id] &&
                     (weight_of(&w, g, n) || (n->op == QC_OP_LSTM && g->values[n->inputs[0]].type.dtype == QC_F32 &&
                                              is_recurrent_weight(g, n->inputs[QC_RECURRENT_W]) &&
                                              is_recurrent_weight(g, n->inputs[QC_RECURRENT_R])));
        c->format = qc_input_axis(&length, g, n) ? p->input_format[old->id] : NULL;
        *count += c->integer || c->format;
    }
    return chosen;
}

bool qc_make_dynamic(struct qc_graph **out, const struct qc_graph *g, const struct qc_partition *p,
                     struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    struct weight w;
    size_t count;
    *out = NULL;
    QC_FREED struct choice *chosen = choose_conversions(&count, g, p, st);
    if (!count) return chosen != NULL;
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        const struct choice *c = &chosen[n->id];
        if (c->format) {
            /* Several products that read one value share the rounding. */
            const qc_id from = n->inputs[0], x = qc_rebuild_value(&r, from, st), before = r.map[from];
            int64_t length;
            const int axis = qc_input_axis(&length, r.from, n);
            r.map[from] = qc_graph_add(r.to,
                                       QC_NODE(QC_OP_RoundInBlocks, QC_INPUTS(x),
                                               QC_ATTRS(QC_STRING("format", c->format->name), QC_INT("axis", axis),
                                                        QC_INTS("length", 1, &length))),
                                       st);
            qc_rebuild_node(&r, n->id, st);
            r.map[from] = before;
        } else if (c->integer && weight_of(&w, g, n))
            convert(&r, n, &w, st);
        else if (c->integer)
            convert_lstm(&r, n, st);
        else if (!qc_quantized_constant(g, n->op == QC_OP_Dequantize ? n->inputs[0] : n->outputs))
            qc_rebuild_node(&r, n->id, st); /* weights are converted where they are used */
    }
    return qc_rebuild_finish(out, &r, st);
}

/* Returns true if n stands at a step of this chain of first inputs. */
enum { QUANTIZED, PRODUCT, REAL, SCALED };
static bool is_step(const struct qc_graph *g, const struct qc_node *n, int step)
{
    static const enum qc_op chain[] = {QC_OP_DynamicQuantizeLinear, QC_OP_MatMulInteger, QC_OP_Cast, QC_OP_Mul};
    for (; n && n->op == chain[step]; n = qc_node_of(g, n->inputs[0]))
        if (step-- == QUANTIZED) return true;
    return false;
}

enum qc_dynamic_part qc_dynamic_part_of(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *first = n->input_count ? qc_node_of(g, n->inputs[0]) : NULL;
    if (is_step(g, n, PRODUCT)) return QC_DYNAMIC_PRODUCT;
    const bool factor = n->op == QC_OP_Mul && is_step(g, first, QUANTIZED),
               bias = n->op == QC_OP_Add && qc_constant_of(g, n->inputs[1]) && is_step(g, first, SCALED);
    return n->op == QC_OP_RoundInBlocks || is_step(g, n, QUANTIZED) || is_step(g, n, REAL) || is_step(g, n, SCALED) ||
                   factor || bias
               ? QC_DYNAMIC_REST
               : QC_DYNAMIC_NOT;
}
