// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/constant_products.h"

#include <string.h>

#include "base/scope.h"
#include "graph/core/infer.h"
#include "graph/core/rebuild.h"
#include "graph/core/source_call.h"
#include "rewrite/language/expansion.h"

/* ---- Equations of Einsum ---- */

enum { PARTS = 4, ATTRS = 8 };

/* The letters of an Einsum of an activation x and a constant w, sorted by where they occur. */
struct equation {
    const uint8_t *x, *w, *y;
    int x_rank, w_rank, y_rank;
    uint8_t batch[QC_RANK_MAX], rows[QC_RANK_MAX], summed[QC_RANK_MAX], columns[QC_RANK_MAX];
    int batch_count, row_count, summed_count, column_count;
};

static int letter_place(const uint8_t *letters, int count, uint8_t letter)
{
    for (int d = 0; d < count; d++)
        if (letters[d] == letter) return d;
    return -1;
}

static bool is_set(const uint8_t *letters, int count)
{
    for (int d = 0; d < count; d++)
        if (letter_place(letters, count, letters[d]) != d) return false;
    return true;
}

/* Sorts the letters. Returns false unless the equation is a product of matrices: no letter occurs in one operand
   alone, and shared dimensions are known and equal. */
static bool sort_letters(struct equation *e, const struct qc_shape *x, const struct qc_shape *w)
{
    if (!is_set(e->x, e->x_rank) || !is_set(e->w, e->w_rank) || !is_set(e->y, e->y_rank)) return false;
    for (int d = 0; d < e->x_rank; d++) {
        const uint8_t l = e->x[d];
        const int in_w = letter_place(e->w, e->w_rank, l), in_y = letter_place(e->y, e->y_rank, l);
        if ((in_w < 0 && in_y < 0) || (in_w >= 0 && (x->dim[d] == QC_FREE || x->dim[d] != w->dim[in_w]))) return false;
        if (in_w < 0)
            e->rows[e->row_count++] = l;
        else if (in_y < 0)
            e->summed[e->summed_count++] = l;
        else
            e->batch[e->batch_count++] = l;
    }
    for (int d = 0; d < e->y_rank; d++)
        if (letter_place(e->x, e->x_rank, e->y[d]) < 0) e->columns[e->column_count++] = e->y[d];
    return e->summed_count && e->batch_count + e->summed_count + e->column_count == e->w_rank &&
           (!e->batch_count || (e->row_count && e->summed_count == 1 && e->column_count == 1));
}

/* Returns true if x is [front..., summed..., back...] and the result [front..., columns..., back...]. */
static bool sums_in_the_middle(int *front, const struct equation *e)
{
    const int first = letter_place(e->x, e->x_rank, e->summed[0]), last = first + e->summed_count - 1;
    *front = first;
    if (e->batch_count || !e->column_count || last + 1 >= e->x_rank || e->x[last] != e->summed[e->summed_count - 1])
        return false;
    for (int d = 0; d < e->y_rank; d++) {
        const int back = d - e->column_count + e->summed_count;
        const bool fits = d < first                     ? e->y[d] == e->x[d]
                          : d < first + e->column_count ? letter_place(e->columns, e->column_count, e->y[d]) >= 0
                                                        : e->y[d] == e->x[back];
        if (!fits) return false;
    }
    return true;
}

/* Adds the permutation of a tensor with `letters` to the letters of the parts, unless it changes nothing. */
static void add_turn(struct qc_call *call, struct qc_attr *attrs, const char *name, const uint8_t *letters, int rank,
                     const uint8_t *to, struct qc_arena *a, struct qc_status *st)
{
    int64_t *perm = QC_NEW_ARRAY(a, int64_t, QC_RANK_MAX, st);
    bool turns = false;
    for (int d = 0; perm && d < rank; d++) {
        perm[d] = letter_place(letters, rank, to[d]);
        turns = turns || perm[d] != d;
    }
    if (turns) attrs[call->attr_count++] = QC_INTS(name, (size_t)rank, perm);
}

static int join(uint8_t *out, int count, const uint8_t *letters, int more)
{
    if (more) memcpy(out + count, letters, (size_t)more);
    return count + more;
}

/* *call: the function for an Einsum of an activation and a constant, with the constant second; op NULL if none. */
static bool describe_einsum(struct qc_call *call, const struct qc_graph *g, const struct qc_node *n, qc_id *inputs,
                            struct qc_arena *a, struct qc_status *st)
{
    struct qc_einsum parsed;
    struct qc_attr *attrs = QC_NEW_ARRAY(a, struct qc_attr, ATTRS, st);
    call->op = NULL;
    if (!attrs) return false;
    if (n->input_count != 2) return true;
    const unsigned k = qc_is_constant(g, n->inputs[1]) ? 1 : 0;
    const struct qc_shape *x = &g->values[n->inputs[1 - k]].type.shape, *w = &g->values[n->inputs[k]].type.shape;
    if (!qc_is_constant(g, n->inputs[k]) || qc_is_constant(g, n->inputs[1 - k]) || x->rank < 0) return true;
    if (!qc_einsum_of(&parsed, g, n, st)) return false;
    struct equation e = {.x = parsed.label[1 - k],
                         .w = parsed.label[k],
                         .y = parsed.result,
                         .x_rank = parsed.rank[1 - k],
                         .w_rank = parsed.rank[k],
                         .y_rank = parsed.result_rank};
    uint8_t to[PARTS * QC_RANK_MAX];
    int front, count;
    if (!sort_letters(&e, x, w)) return true;
    if (k == 0) {
        const qc_id first = inputs[0];
        inputs[0] = inputs[1];
        inputs[1] = first;
    }
    call->op = "qcalib::einsum";
    call->attrs = attrs;
    call->attr_count = 0;
    attrs[call->attr_count++] = QC_INT("summed", e.summed_count);
    attrs[call->attr_count++] = QC_INT("columns", e.column_count);
    if (sums_in_the_middle(&front, &e)) {
        call->op = "qcalib::einsum_left";
        attrs[call->attr_count++] = QC_INT("front", front);
        attrs[call->attr_count++] = QC_INT("back", e.x_rank - front - e.summed_count);
        count = join(to, join(to, 0, e.columns, e.column_count), e.summed, e.summed_count);
        add_turn(call, attrs, "turn_w", e.w, count, to, a, st);
        return st->code == QC_OK;
    }
    attrs[call->attr_count++] = QC_INT("batch", e.batch_count);
    attrs[call->attr_count++] = QC_INT("rows", e.row_count);
    /* All dimensions of the result but the columns, as MatMul has them: the last row after the batch. */
    const int last = e.row_count ? 1 : 0, ahead = join(to, 0, e.rows, e.row_count - last);
    const int outer = join(to, join(to, ahead, e.batch, e.batch_count), e.rows + e.row_count - last, last);
    count = join(to, outer, e.summed, e.summed_count);
    add_turn(call, attrs, "turn_x", e.x, count, to, a, st);
    count = join(to, outer, e.columns, e.column_count);
    add_turn(call, attrs, "turn_y", to, count, e.y, a, st);
    count =
        join(to, join(to, join(to, 0, e.batch, e.batch_count), e.summed, e.summed_count), e.columns, e.column_count);
    add_turn(call, attrs, "turn_w", e.w, count, to, a, st);
    return st->code == QC_OK;
}

/* ---- The pass ---- */

/* *fits is false if no function fits the node, which is then not added. */
static void replace(bool *fits, struct qc_rebuild *r, const struct qc_node *n, const struct qc_expander *x,
                    struct qc_arena *a, struct qc_status *st)
{
    const bool wanted = true;
    const char *label = qc_node_name(r->from, n, a, st);
    qc_id *own = qc_rebuild_inputs(r, n, st), y = 0,
          *inputs = own ? qc_arena_dup(a, own, n->input_count, sizeof *own, st) : NULL;
    if (!label || !inputs) return;
    const size_t before = r->to->value_count;
    const struct qc_call call = {.op = qc_op_info(n->op)->name,
                                 .label = label,
                                 .opset = r->from->opset,
                                 .input_count = n->input_count,
                                 .output_count = 1,
                                 .attr_count = n->attr_count,
                                 .inputs = own,
                                 .attrs = n->attrs,
                                 .wanted = &wanted};
    struct qc_call described = call;
    described.inputs = inputs;
    if ((n->op == QC_OP_Einsum && !describe_einsum(&described, r->from, n, inputs, a, st)) ||
        (described.op && !x->expand(&y, fits, x->user, r->to, &described, st)))
        qc_where(st, "node '%.200s'", label);
    if (!*fits || st->code != QC_OK) return;
    qc_graph_name_value(r->to, y, r->from->values[n->outputs].name, st);
    /* The values of the function are named after their nodes: options and statistics refer to them. The only product of
       the operator keeps its name. */
    struct qc_graph *to = r->to;
    struct qc_node *product = NULL;
    unsigned products = 0;
    for (qc_id v = (qc_id)before + 1; v <= to->value_count; v++) {
        const struct qc_node *part = qc_node_of(to, v);
        if (!part || qc_op_info(part->op)->affine != QC_AFFINE_PRODUCT) continue;
        product = &to->nodes[to->values[v].node];
        products++;
    }
    if (products == 1) product->name = qc_arena_strdup(to->arena, label, st);
    for (qc_id v = (qc_id)before + 1; v <= to->value_count; v++) {
        const struct qc_node *part = qc_node_of(to, v);
        if (to->values[v].name || !part || !part->name) continue;
        const char *name = part->name;
        for (unsigned k = 1; name && (qc_graph_find_value(r->from, name) || qc_graph_find_value(to, name)); k++)
            name = qc_arena_printf(a, st, "%s_%u", part->name, k);
        qc_graph_name_value(to, v, name, st);
    }
    qc_graph_add_source_call(to, &call, &y, st);
    r->map[n->outputs] = y;
}

static bool replace_all(struct qc_graph **out, const struct qc_graph *g, const struct qc_expander *x,
                        struct qc_arena *a, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    bool any = false;
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        /* An operator with a function, and an input that is computed from constants. */
        bool fits = false, fixed = false;
        for (unsigned i = 0; i < n->input_count && i < 2; i++) fixed = fixed || qc_is_constant(g, n->inputs[i]);
        if (fixed && qc_dtype_info(g->values[n->outputs].type.dtype)->is_float &&
            (n->op == QC_OP_Einsum || x->knows(x->user, qc_op_info(n->op)->name, g->opset)))
            replace(&fits, &r, n, x, a, st);
        any = any || fits;
    }
    return any ? qc_rebuild_finish(out, &r, st) : st->code == QC_OK;
}

bool qc_replace_products(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    *out = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_rules *rules = qc_rules_new(st);
    const struct qc_expander x = qc_rules_expander(rules);
    const bool ok =
        rules && qc_rules_add_builtin(rules, "functions_products.rules", st) && replace_all(out, g, &x, a, st);
    qc_rules_free(rules);
    return ok;
}
