// SPDX-License-Identifier: Apache-2.0

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "graph/core/uses.h"
#include "graph/types/number_format.h"
#include "rewrite/passes/channel_layout.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/partition.h"

/* Weights with fewer elements stay in float beside integers: the operators that convert them take a part of the bytes
   that are saved, and small filters and a first convolution by a rule of costs matter more than their bytes. */
enum { STORED_WEIGHT = 1024, STORED_BY_RULE = 4096 };

enum { PRODUCT_BITS = 24, LIST = 600, SLIGHT_ONE_IN = 15, TABLE_ONE_IN = 100 };

/* Returns the last choice that matches a node of the match, or NULL. *at: index of the node in the match. */
static const struct qc_type_choice *choice_of(unsigned *at, const struct qc_partition *p, const struct qc_match *m,
                                              bool weight, bool *used)
{
    const struct qc_partition_options *o = &p->options;
    const struct qc_type_choice *all = weight ? o->weight_types : o->activation_types, *found = NULL;
    const size_t count = weight ? o->weight_type_count : o->activation_type_count;
    for (size_t i = 0; i < count; i++)
        for (unsigned k = 0; k < m->node_count; k++) {
            if (!qc_node_fits(all[i].glob, o, p->graph, &p->graph->nodes[m->nodes[k]])) continue;
            if (used) used[i] = true;
            *at = k;
            found = &all[i];
            break;
        }
    const struct qc_scheme_clause *clause = weight ? &m->rule->weight : &m->rule->activation;
    if (found || clause->dtype != QC_NONE || p->edge_type[weight].dtype == QC_NONE) return found;
    for (unsigned k = 0; k < m->node_count; k++) {
        if (!p->edge[m->nodes[k]]) continue;
        *at = k;
        return &p->edge_type[weight];
    }
    return NULL;
}

static bool is_layer(const struct qc_graph *g, const struct qc_node *n)
{
    return qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT && qc_constant_of(g, n->inputs[1]);
}

bool qc_types_find_edges(struct qc_partition *p, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    const struct qc_partition_options *o = &p->options;
    if (o->edge_activation == QC_NONE || o->part) return true;
    bool *behind = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st),
         *before = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    if (!behind || !before || !(p->edge = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st))) return false;
    p->edge_type[0].dtype = o->edge_activation;
    p->edge_type[1].dtype = o->edge_weight;
    QC_EACH_NODE(n, g) { /* behind a layer */
        bool follows = false;
        for (unsigned i = 0; i < n->input_count; i++) follows = follows || behind[n->inputs[i]];
        p->edge[n->id] = is_layer(g, n) && !follows;
        for (unsigned i = 0; i < n->output_count; i++) behind[n->outputs + i] = follows || is_layer(g, n);
    }
    QC_EACH_NODE_BACK(n, g) { /* before a layer */
        bool precedes = false;
        for (unsigned i = 0; i < n->output_count; i++) precedes = precedes || before[n->outputs + i];
        p->edge[n->id] = p->edge[n->id] || (is_layer(g, n) && !precedes);
        for (unsigned i = 0; i < n->input_count; i++)
            before[n->inputs[i]] = before[n->inputs[i]] || precedes || is_layer(g, n);
    }
    return true;
}

size_t qc_types_count_edges(const struct qc_partition *p)
{
    size_t count = 0;
    for (qc_id id = 1; p->edge && id <= p->graph->node_count; id++) {
        unsigned at;
        const struct qc_match *m = p->matches.at[id];
        count += m && p->edge[id] && m->nodes[0] == id && choice_of(&at, p, m, false, NULL) == &p->edge_type[0];
    }
    return count;
}

/* Returns true if inputs that are not stored are quantized at run time. */
static bool is_dynamic(const struct qc_partition *p, const struct qc_match *m)
{
    unsigned at;
    const struct qc_type_choice *choice = choice_of(&at, p, m, false, NULL);
    return choice ? choice->dynamic : p->options.dynamic;
}

/* Returns the format to which inputs of products are rounded at run time, or NULL. */
static const struct qc_number_format *input_format(const struct qc_partition *p, const struct qc_match *m)
{
    unsigned at;
    const struct qc_type_choice *choice = choice_of(&at, p, m, false, NULL);
    return choice ? choice->format : p->options.activation.format;
}

static enum qc_dtype template_type(const struct qc_partition *p, const struct qc_match *m, bool weight, bool *used)
{
    unsigned at;
    const struct qc_type_choice *choice = choice_of(&at, p, m, weight, used);
    const struct qc_scheme_clause *clause = weight ? &m->rule->weight : &m->rule->activation;
    if (choice) return choice->dtype;
    if (clause->dtype != QC_NONE) return clause->dtype;
    return weight ? p->options.weight.dtype : p->options.activation.dtype;
}

struct weight {
    qc_id value;
    int axis;
};

/* Returns the first constant that the template quantizes per channel. */
static struct weight weight_input(const struct qc_partition *p, const struct qc_match *m, const struct qc_expr *e,
                                  const struct qc_expr *taker)
{
    struct weight none = {0};
    if (e->kind != QC_EXPR_OP) return none;
    const qc_id v = qc_template_quantizes(m, e);
    if (v) {
        if (!qc_constant_of(p->graph, v) || e->qparams.product || e->qparams.axis_kind == QC_AXIS_TENSOR) return none;
        return (struct weight){.value = v, .axis = qc_template_axis(m, p->graph, &e->qparams, taker)};
    }
    for (unsigned i = 0; i < e->arg_count; i++) {
        const struct weight w = weight_input(p, m, e->args[i], e);
        if (w.value) return w;
    }
    return none;
}

/* Notes that the weights alone of a node are quantized, and what becomes of its input. */
static void note_input(struct qc_partition *p, const struct qc_match *m, qc_id node, bool dynamic)
{
    const struct qc_number_format *format = input_format(p, m);
    int64_t length;
    p->dynamic[node] = dynamic;
    p->input_format[node] = format && qc_input_axis(&length, p->graph, &p->graph->nodes[node]) ? format : NULL;
    p->reason[node] = dynamic                 ? "its input is quantized at run time"
                      : p->input_format[node] ? "computed in float32, from values in blocks"
                      : is_dynamic(p, m) || format
                          ? "computed in float from quantized weights" /* no faster integer op exists */
                          : "only the weights are quantized (--activation-type none)";
}

/* Returns the number of weights that the template quantizes. A single one is rounded without the template (weight_of),
   several by the template. */
static unsigned weight_count(const struct qc_partition *p, const struct qc_match *m, const struct qc_expr *e)
{
    const qc_id v = qc_template_quantizes(m, e);
    unsigned n = v && qc_constant_of(p->graph, v) && !e->qparams.product && e->qparams.axis_kind != QC_AXIS_TENSOR;
    for (unsigned i = 0; !v && e->kind == QC_EXPR_OP && i < e->arg_count; i++) n += weight_count(p, m, e->args[i]);
    return n;
}

enum { BLOCK_BITS = 8 }; /* no format has blocks of wider types */

/* Returns the axis that a product sums over if its weight may have blocks along it, else -1. A convolution of one tap
   counts as such a product if it reads real numbers, or has fewer than 8 bits, for which no runtime has integer
   convolutions; otherwise integers are better. For a table whose rows are gathered: the axis within a row. Weights of
   recurrent ops have rows of gates, also where the template joins their directions. */
static int axis_of_blocks(const struct qc_graph *g, const struct qc_node *n, struct weight w, bool real)
{
    const struct qc_shape *s = &g->values[w.value].type.shape;
    if (n->input_count < 2 || qc_constant_of(g, w.value)->count == 0) return -1;
    if (n->op == QC_OP_Gather && n->inputs[0] == w.value)
        return s->rank == 2 && w.axis == 0 && !qc_attr_int(n, "axis", 0) ? 1 : -1;
    if (qc_is_recurrent(n->op))
        return n->inputs[QC_RECURRENT_W] == w.value || n->inputs[QC_RECURRENT_R] == w.value ? 2 : -1;
    if (n->inputs[1] != w.value) return -1;
    if (n->op == QC_OP_MatMul || n->op == QC_OP_Gemm) return s->rank == 2 ? 1 - w.axis : -1;
    bool one_tap = real && n->op == QC_OP_Conv && qc_attr_int(n, "group", 1) == 1 && s->rank > 2;
    for (int i = 2; one_tap && i < s->rank; i++) one_tap = s->dim[i] == 1;
    return one_tap ? 1 : -1;
}

/* Notes the axis of blocks of all weights that the template quantizes. Returns true if any of them is in blocks. */
static bool note_all_blocks(struct qc_partition *p, const struct qc_match *m, const struct qc_expr *e,
                            const struct qc_expr *taker, enum qc_dtype type, bool real)
{
    bool any = false;
    if (e->kind != QC_EXPR_OP) return false;
    if (qc_template_quantizes(m, e)) {
        const struct weight w = weight_input(p, m, e, taker);
        if (!w.value || !p->options.weight_block || qc_dtype_info(type)->bits > BLOCK_BITS) return false;
        for (unsigned k = 0; k < m->node_count; k++) {
            const int axis =
                axis_of_blocks(p->graph, &p->graph->nodes[m->nodes[k]], w, real || qc_dtype_info(type)->bits < 8);
            if (axis < 0 || (p->block_axis[w.value] && p->block_axis[w.value] != axis + 1)) continue;
            p->block_axis[w.value] = axis + 1;
            if (!real) p->reason[m->nodes[k]] = "its weights are in blocks, which no sum of integers has";
            return true;
        }
        return false;
    }
    for (unsigned i = 0; i < e->arg_count; i++) any = note_all_blocks(p, m, e->args[i], e, type, real) || any;
    return any;
}

static unsigned quantized_count(const struct qc_match *m, const struct qc_expr *e)
{
    if (qc_template_quantizes(m, e)) return 1;
    unsigned n = 0;
    for (unsigned i = 0; e->kind == QC_EXPR_OP && i < e->arg_count; i++) n += quantized_count(m, e->args[i]);
    return n;
}

bool qc_types_weights_alone(const struct qc_partition *p, const struct qc_match *m)
{
    const unsigned n = weight_count(p, m, m->rule->give);
    return n && n == quantized_count(m, m->rule->give);
}

bool qc_types_is_table(const struct qc_partition *p, const struct qc_match *m)
{
    return qc_node_affine(&p->graph->nodes[m->nodes[0]]) == QC_AFFINE_KEEP && qc_types_weights_alone(p, m);
}

static void note_weight(struct qc_partition *p, const struct qc_match *m, struct weight w, bool dynamic,
                        enum qc_dtype type)
{
    const bool four = type == QC_I4 && p->options.dynamic_int4;
    for (unsigned k = 0; k < m->node_count; k++) {
        const struct qc_node *n = &p->graph->nodes[m->nodes[k]];
        for (unsigned i = 0; i < n->input_count; i++) {
            if (n->inputs[i] != w.value) continue;
            p->weight_only_count += p->weight_of[m->nodes[k]] == 0;
            p->weight_of[m->nodes[k]] = w.value;
            p->weight_axis[m->nodes[k]] = w.axis;
            note_input(p, m, m->nodes[k], dynamic && qc_dynamic_op(n, four && !qc_is_recurrent(n->op) ? QC_I8 : type));
        }
    }
}

bool qc_types_find_slight(struct qc_partition *p, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    size_t count = 0, all = 0, sum = 0;
    if (!p->options.weight_block) return true;
    size_t *sizes = QC_NEW_ARRAY(p->arena, size_t, g->node_count + 1, st);
    if (!sizes) return false;
    QC_EACH_NODE(n, g) {
        for (unsigned i = QC_RECURRENT_W; qc_is_recurrent(n->op) && i <= QC_RECURRENT_R; i++)
            all += qc_constant_of(g, n->inputs[i]) ? qc_constant_of(g, n->inputs[i])->count : 0;
        const struct qc_tensor *t =
            qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT ? qc_constant_of(g, n->inputs[1]) : NULL;
        if (!t || t->shape.rank < 2) continue;
        sizes[count++] = t->count;
        all += t->count;
    }
    qsort(sizes, count, sizeof *sizes, qc_order_size);
    for (size_t i = 0; i < count && (sum += sizes[i]) <= all / SLIGHT_ONE_IN; i++)
        if (i + 1 == count || sizes[i + 1] > sizes[i]) p->slight = sizes[i];
    p->slight_table = all / TABLE_ONE_IN;
    return true;
}

static bool is_product_op(const struct qc_partition *p, const struct qc_match *m)
{
    bool product = false;
    for (unsigned k = 0; k < m->node_count; k++)
        product = product || qc_op_info(p->graph->nodes[m->nodes[k]].op)->affine == QC_AFFINE_PRODUCT;
    return product;
}

bool qc_types_small_floats(const struct qc_partition *p, const struct qc_match *m)
{
    return qc_is_small_float(template_type(p, m, false, NULL));
}

/* Returns true for a weight of a product that is also a table whose rows are gathered, in the type of tables. Both
   are stored once if their types are the same. */
static bool is_tied(const struct qc_partition *p, const struct qc_match *m, const struct qc_tensor *t)
{
    const struct qc_partition_options *o = &p->options;
    if (!o->target->onnxruntime || !is_product_op(p, m)) return false;
    for (qc_id id = 0; (id = qc_next_tied_table(p->graph, t, id));) {
        bool named = false;
        for (size_t i = 0; i < o->weight_type_count; i++)
            named = named || qc_node_fits(o->weight_types[i].glob, o, p->graph, &p->graph->nodes[id]);
        if (!named) return true;
    }
    return false;
}

/* Returns the type that a weight gets instead of the common one, or NULL. A table whose rows are gathered has no sums
   in which errors cancel. One scale of fewer than 8 bits costs more than all products together (a small GPT: 0.022 of
   0.024 nats a character). With products of 8 bits in blocks, 8 bits for the table cause five sixths of the loss, so a
   small table gets 16. With 8-bit floats it gets integers, which are nearer to most numbers of a row. A type requested
   by name is not changed. */
static const struct qc_type_choice *widened_type(const struct qc_partition *p, const struct qc_match *m)
{
    static const struct qc_type_choice of[2][2] = {{{.dtype = QC_U8}, {.dtype = QC_I8}},
                                                   {{.dtype = QC_U16}, {.dtype = QC_I16}}};
    const struct qc_dtype_info *info = qc_dtype_info(p->options.weight.dtype);
    const qc_id v = weight_input(p, m, m->rule->give, NULL).value;
    const struct qc_tensor *t = v ? qc_constant_of(p->graph, v) : NULL;
    const int64_t block = p->options.weight_block;
    const bool table = qc_types_is_table(p, m), few = info->bits < 8,
               slight_table = block && t && t->count <= p->slight_table;
    if (m->rule->weight.dtype != QC_NONE || !info->bits || info->bits > 8) return NULL;
    if (qc_is_small_float(p->options.weight.dtype) && !few && table) return &of[slight_table][1];
    if (!few) return table && slight_table ? &of[1][info->is_signed] : NULL;
    bool conv = false;
    for (unsigned k = 0; k < m->node_count; k++) conv = conv || p->graph->nodes[m->nodes[k]].op == QC_OP_Conv;
    /* Fewer elements per output than a block: depthwise and first convolutions have a few percent of the weights but
       lose more than all others, because the errors of nine taps do not cancel. */
    const bool shorter =
        conv && t && t->shape.rank > 2 && t->shape.dim[0] > 0 && (int64_t)t->count / t->shape.dim[0] < block;
    /* A product among the smallest, which are a small part of the file. A layer adds as much error to the output as one
       a hundred times its size. */
    const bool slight = t && t->count <= p->slight && is_product_op(p, m);
    return table || shorter || slight || (t && is_tied(p, m, t)) ? &of[0][info->is_signed] : NULL;
}

/* Notes that the weights of a float operator are converted when the file is loaded. */
static void convert_at_load(struct qc_partition *p, const struct qc_match *m, const struct qc_expr *e)
{
    const qc_id v = qc_template_quantizes(m, e);
    if (v) p->at_load[v] = true;
    for (unsigned i = 0; !v && e->kind == QC_EXPR_OP && i < e->arg_count; i++) convert_at_load(p, m, e->args[i]);
}

bool qc_types_accept(struct qc_partition *p, const struct qc_match *m, struct qc_types_used *used)
{
    const struct weight w = weight_input(p, m, m->rule->give, NULL);
    unsigned at;
    const enum qc_dtype activation = template_type(p, m, false, used->activation);
    const struct qc_type_choice *choice = choice_of(&at, p, m, true, NULL);
    enum qc_dtype type = w.value ? template_type(p, m, true, used->weight) : QC_NONE;
    if (w.value && !choice && (choice = widened_type(p, m))) type = choice->dtype;
    if (w.value && type == QC_NONE) {
        p->reason[m->nodes[0]] = "left in float by --weight-type none";
        return false;
    }
    /* Such an operator sums integers, so it has no blocks. */
    const bool recurrent = activation == QC_NONE && weight_count(p, m, m->rule->give) > 1,
               dynamic = recurrent && is_dynamic(p, m) && p->options.qoperator &&
                         qc_dynamic_op(&p->graph->nodes[m->nodes[0]], type);
    const bool alone = qc_types_weights_alone(p, m),
               blocks = !dynamic && note_all_blocks(p, m, m->rule->give, NULL, type, alone || activation == QC_NONE);
    const bool small = qc_is_small_float(activation) || qc_is_small_float(type);
    if (qc_is_small_float(activation) && !alone && (!w.value || !is_product_op(p, m))) {
        if (!p->reason[m->nodes[0]])
            p->reason[m->nodes[0]] = "float types of few bits are for products with weights alone";
        return false;
    }
    if (small && !alone && activation != QC_NONE)
        p->reason[m->nodes[0]] = "computed in float32, from float values of few bits";
    p->real_product[m->nodes[0]] = (blocks || small) && !alone && activation != QC_NONE;
    if (activation != QC_NONE && alone && !blocks && p->options.target->onnxruntime && !qc_types_is_table(p, m))
        convert_at_load(p, m, m->rule->give);
    if (activation != QC_NONE || qc_types_is_table(p, m)) return true;
    if (recurrent) {
        p->weights_only[m->nodes[0]] = true;
        note_input(p, m, m->nodes[0], dynamic);
        return true;
    }
    if (!p->reason[m->nodes[0]])
        p->reason[m->nodes[0]] = is_dynamic(p, m)     ? "left in float by --activation-type dynamic"
                                 : input_format(p, m) ? "left in float: only inputs of products are rounded in blocks"
                                                      : "left in float by --activation-type none";
    if (w.value) note_weight(p, m, w, !blocks && is_dynamic(p, m), type);
    if (w.value && !p->weight_type[w.value]) p->weight_type[w.value] = choice;
    return false;
}

bool qc_types_find_logarithms(struct qc_partition *p, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    if (!(p->logarithm = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st))) return false;
    QC_EACH_NODE_BACK(n, g) {
        bool follows = n->op == QC_OP_Log;
        for (unsigned k = 0; k < n->output_count && !qc_multiplies(n->op); k++)
            follows = follows || p->logarithm[n->outputs + k];
        for (unsigned i = 0; follows && i < n->input_count; i++) p->logarithm[n->inputs[i]] = true;
    }
    return true;
}

bool qc_types_store_weight(struct qc_partition *p, const struct qc_match *m, bool by_rule, const char *reason,
                           struct qc_status *st)
{
    const struct weight w = weight_input(p, m, m->rule->give, NULL);
    const struct qc_tensor *t = w.value ? qc_constant_of(p->graph, w.value) : NULL;
    const bool computed = t && t->made_from && t->made_from < t->count;
    unsigned at;
    if (!p->options.target->onnxruntime || !t || t->count < (by_rule ? STORED_BY_RULE : STORED_WEIGHT) || computed ||
        weight_count(p, m, m->rule->give) > 1 || p->logarithm[m->root])
        return true;
    for (unsigned k = 0; k < m->node_count; k++) {
        const struct qc_node *n = &p->graph->nodes[m->nodes[k]];
        for (unsigned i = 0; i < n->input_count; i++)
            if (n->inputs[i] == w.value && qc_node_is_of_call(p->graph, n)) return true;
    }
    const struct qc_type_choice *choice = choice_of(&at, p, m, true, NULL);
    const enum qc_dtype type = template_type(p, m, true, NULL);
    if (!choice) choice = widened_type(p, m);
    note_weight(p, m, w, false, type);
    if (!p->weight_type[w.value]) p->weight_type[w.value] = choice;
    p->at_load[w.value] = true;
    for (unsigned k = 0; k < m->node_count; k++)
        if (p->weight_of[m->nodes[k]] == w.value || p->graph->nodes[m->nodes[k]].outputs == m->root)
            p->reason[m->nodes[k]] = reason;
    return true;
}

void qc_types_keep_shared(struct qc_partition *p, const struct qc_uses *uses)
{
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        const qc_id w = p->weight_of[id];
        if (!w || !p->at_load[w]) continue;
        const struct qc_use_list readers = qc_all_uses(uses, w);
        bool shared = false;
        for (size_t i = 0; i < readers.count; i++)
            shared = shared || !readers.of[i].node || !p->weight_of[readers.of[i].node];
        if (!shared) continue;
        for (size_t i = 0; i < readers.count; i++) {
            p->weight_only_count -= p->weight_of[readers.of[i].node] == w;
            if (p->weight_of[readers.of[i].node] == w) p->weight_of[readers.of[i].node] = 0;
        }
        p->at_load[w] = false;
    }
}

const struct qc_scheme_source *qc_scheme_source_of(struct qc_partition *p, const struct qc_match *m,
                                                   struct qc_status *st)
{
    struct qc_scheme_source *s = QC_NEW(p->arena, struct qc_scheme_source, st);
    if (!s) return NULL;
    *s = (struct qc_scheme_source){.rule = m->rule, .activation = m->rule->activation, .weight = m->rule->weight};
    for (int weight = 0; weight < 2; weight++) {
        unsigned at;
        const struct qc_type_choice *choice = choice_of(&at, p, m, weight, NULL);
        const struct qc_type_choice *wide = choice || !weight ? NULL : widened_type(p, m);
        if (wide) s->weight.dtype = wide->dtype;
        if (!choice) continue;
        const struct qc_node *n = &p->graph->nodes[m->nodes[at]];
        struct qc_scheme_clause *clause = weight ? &s->weight : &s->activation;
        clause->dtype = choice->dtype;
        clause->bits = choice->bits;
        s->node = qc_node_name(p->graph, n, p->arena, st);
        if (!s->node) return NULL;
    }
    return s;
}

static bool check_globs(const struct qc_type_choice *all, size_t count, const bool *used, const char *option,
                        struct qc_status *st)
{
    for (size_t i = 0; i < count; i++)
        if (!used[i])
            return qc_fail(
                st, QC_USAGE,
                "--%s T:%s: no quantizable node of that name, op or glob; 'qcalib inspect -v MODEL' lists them", option,
                all[i].glob);
    return true;
}

bool qc_types_check(const struct qc_partition_options *o, const struct qc_types_used *used, struct qc_status *st)
{
    return check_globs(o->activation_types, o->activation_type_count, used->activation, "activation-type", st) &&
           check_globs(o->weight_types, o->weight_type_count, used->weight, "weight-type", st);
}

bool qc_types_check_products(const struct qc_graph *g, struct qc_status *st)
{
    char list[LIST] = "", label[QC_LABEL];
    size_t found = 0, weights = 0, at = 0;
    const char *byte = "uint8";
    QC_EACH_NODE(n, g) {
        const struct qc_qparams *s = &g->qparams_of[g->values[n->outputs].type.qparams];
        if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT || g->values[n->outputs].type.qparams == QC_REAL ||
            s->kind != QC_QPARAMS_PRODUCT)
            continue;
        if (qc_dtype_info(g->qparams_of[s->a].dtype)->bits + qc_dtype_info(g->qparams_of[s->b].dtype)->bits <=
            PRODUCT_BITS)
            continue;
        if (at + 100 < sizeof list) {
            qc_text(list + at, (unsigned)(sizeof list - at), "%s'%.80s'", found ? ", " : "",
                    qc_node_label(label, g, n));
            at = strlen(list);
        }
        found++;
        qc_id w = n->inputs[1]; /* a constant, or one that is quantized and moved */
        for (const struct qc_node *q;
             (q = qc_node_of(g, w)) && (q->op == QC_OP_Quantize || q->op == QC_OP_Transpose || q->op == QC_OP_Reshape);)
            w = q->inputs[0];
        weights += g->values[w].kind == QC_VALUE_CONSTANT;
        if (qc_dtype_info(g->qparams_of[s->a].dtype)->is_signed) byte = "int8";
    }
    if (!found) return true;
    return qc_fail(st, QC_UNSUPPORTED,
                   "%s do not fit into a 32-bit accumulator: %zu op%s (%s); give them %s8-bit activations "
                   "(--activation-type %s:NODE)",
                   weights ? "16-bit weights with 16-bit activations" : "products of two 16-bit activations", found,
                   found == 1 ? "" : "s", list, weights ? "8-bit weights (--weight-type int8:NODE) or " : "", byte);
}

/* Decides which quantizers have a scale per channel. All values of a class must have the same channels in the same
   order, and no reader may sum over them. */

struct finding {
    struct qc_partition *p;
    const struct qc_graph *g;
    int *axes;         /* [value_count + 1] */
    int64_t *channels; /* [value_count + 1] by class */
    bool *wanted;      /* [value_count + 1] by class */
};

static const char moved[] = "channels are mixed, cut, joined or filled on their way";

static void refuse(struct finding *f, qc_id v, const char *reason)
{
    const char **known = &f->p->one_scale[f->p->class_of[v]];
    if (f->wanted[f->p->class_of[v]] && !*known) *known = reason;
}

/* Refuses channels if parameters that pass through the node do not lie along the axes of its input and output. */
static void take_passage(struct finding *f, const struct qc_node *n)
{
    const struct qc_graph *g = f->g;
    for (unsigned i = 0; i < n->input_count; i++)
        for (unsigned k = 0; n->inputs[i] && k < n->output_count; k++) {
            const qc_id x = n->inputs[i], y = n->outputs + k;
            if (f->p->class_of[x] == f->p->class_of[y] &&
                qc_kept_axis(g, n, &g->values[x].type.shape, &g->values[y].type.shape, f->axes[x]) != f->axes[y])
                refuse(f, x, moved);
        }
}

static void take_match(struct finding *f, const struct qc_match *m)
{
    const struct qc_graph *g = f->g;
    const int rank = g->values[m->root].type.shape.rank;
    const qc_id stored_as = qc_partition_stored_as(m);
    for (unsigned k = 0; k < m->node_count; k++) {
        const struct qc_node *n = &g->nodes[m->nodes[k]];
        if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) continue;
        const struct qc_tensor *w = qc_layer_constant(g, n);
        const struct qc_shape *x = &g->values[n->inputs[0]].type.shape;
        /* every output reads one channel and every channel is read by one output */
        const bool depthwise = n->op == QC_OP_Conv && w && x->rank > 2 && f->axes[n->inputs[0]] == 1 &&
                               qc_attr_int(n, "group", 1) == x->dim[1] && w->shape.dim[0] == x->dim[1] &&
                               w->shape.dim[1] == 1;
        for (unsigned i = depthwise; i < 2; i++)
            refuse(f, n->inputs[i], "a convolution or matrix product that reads it sums over its channels");
        if (f->axes[m->root] != (n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose ? 1 : rank - 1))
            refuse(f, m->root, "its channels are not those of the layer that makes it");
    }
    if (stored_as && f->p->class_of[stored_as] == f->p->class_of[m->root] && f->axes[stored_as] != f->axes[m->root])
        refuse(f, m->root, moved);
}

bool qc_partition_channels(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    struct finding f = {.p = p, .g = g};
    bool any = false;
    for (qc_id v = 0; v <= g->value_count; v++) p->channel_axis[v] = -1;
    for (qc_id v = 1; v <= g->value_count && !any; v++) any = qc_partition_scheme(p, p->class_of[v], false).per_channel;
    if (!any) return true;
    f.channels = QC_NEW_ARRAY(p->arena, int64_t, g->value_count + 1, st);
    f.wanted = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    if (!f.channels || !f.wanted || !qc_channel_axes(&f.axes, g, p->arena, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (p->requested[v]) f.wanted[p->class_of[v]] = qc_partition_scheme(p, p->class_of[v], false).per_channel;
    for (qc_id id = 1; id <= g->node_count; id++) { /* results of patterns with a quantizer of their own */
        const struct qc_match *m = p->matches.at[id];
        if (m && m->rule->give->op == QC_OP_Dequantize)
            f.wanted[p->class_of[m->root]] =
                f.wanted[p->class_of[m->root]] ||
                (!m->rule->give->qparams.product && qc_partition_scheme(p, p->class_of[m->root], false).per_channel);
    }
    QC_EACH_NODE(n, g) {
        if (p->matches.at[n->id])
            take_match(&f, p->matches.at[n->id]);
        else if (p->matches.live[n->id] && qc_rules_behaviour(rules, g, n) != QC_AFFINE_NONE)
            take_passage(&f, n);
    }
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id class = p->class_of[v];
        const int axis = f.axes[v];
        if (!f.wanted[class]) continue;
        if (qc_constant_of(g, v))
            refuse(&f, v, "a constant is stored as it is");
        else if (axis < 0)
            refuse(&f, v, "its channels are not known");
        else if (f.channels[class] && f.channels[class] != g->values[v].type.shape.dim[axis])
            refuse(&f, v, moved);
        else
            f.channels[class] = g->values[v].type.shape.dim[axis];
    }
    for (size_t i = 0; i < g->output_count; i++)
        refuse(&f, g->outputs[i].value, "it is an output of the model, where channels are compared with each other");
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id class = p->class_of[v];
        if (f.wanted[class] && !p->one_scale[class] && f.channels[class] > 1) p->channel_axis[v] = f.axes[v];
    }
    return true;
}
