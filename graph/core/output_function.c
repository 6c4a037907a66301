// SPDX-License-Identifier: Apache-2.0
#include "graph/core/output_function.h"

#include <string.h>

#include "graph/core/stored_values.h"

/* Places: 0 not reached, 1 values of the quantizer, k + 2 result of step k. */
enum { NOWHERE, QUANTIZER, FIRST_STEP };

/* Visits nodes in order, but only those that matter: nodes that make values of the quantizer, and readers of reached
   values. Apart from these arrays, the state belongs to one quantizer and is cleared after each. */
struct walk {
    const struct qc_graph *g;
    const struct qc_uses *uses;
    struct qc_stored_values stored;
    size_t reached_count, node_count; /* values that have a place; nodes found */
    qc_id *reached, *found;           /* [value_count], [node_count] */
    bool *is_found;                   /* [node_count + 1] */
    size_t next_count;
    qc_id *next; /* [node_count]: a heap of nodes found but not yet visited, the first one on top */
    qc_id quantizer;
    unsigned *place;                               /* [value_count + 1] */
    uint64_t open[FIRST_STEP + QC_FUNCTION_STEPS]; /* by place: uses by nodes outside the function */
    struct qc_function f;
};

static void find_node(struct walk *w, qc_id node)
{
    if (!node || w->is_found[node]) return;
    w->is_found[node] = true;
    w->found[w->node_count++] = node;
    size_t i = w->next_count++;
    for (; i && w->next[(i - 1) / 2] > node; i = (i - 1) / 2) w->next[i] = w->next[(i - 1) / 2];
    w->next[i] = node;
}

static qc_id take_first(struct walk *w)
{
    const qc_id first = w->next[0], last = w->next[--w->next_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->next_count; i = child) {
        if (child + 1 < w->next_count && w->next[child + 1] < w->next[child]) child++;
        if (w->next[child] >= last) break;
        w->next[i] = w->next[child];
    }
    w->next[i] = last;
    return first;
}

static void reach(struct walk *w, qc_id value, unsigned place)
{
    const struct qc_use_list uses = qc_all_uses(w->uses, value);
    if (!w->place[value]) w->reached[w->reached_count++] = value;
    w->place[value] = place;
    w->open[place] += uses.count;
    for (size_t i = 0; i < uses.count; i++) find_node(w, uses.of[i].node);
}

static void close_inputs(struct walk *w, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && w->place[n->inputs[i]]) w->open[w->place[n->inputs[i]]]--;
}

/* Reads a constant of one number, quantized or not. */
static bool number_of(float *out, const struct qc_graph *g, qc_id v)
{
    for (const struct qc_node *n = qc_node_of(g, v); n && (n->op == QC_OP_Dequantize || n->op == QC_OP_Quantize);
         n = qc_node_of(g, v))
        v = n->inputs[0];
    const struct qc_tensor *t = qc_constant_of(g, v);
    if (!t || t->dtype != QC_F32 || t->count != 1 || g->values[v].type.qparams != QC_REAL) return false;
    *out = (float)qc_tensor_float(t, 0);
    return true;
}

/* Returns whether the node passes on the elements of one place. Other inputs (shapes, axes) are constants. */
static bool moves(const struct walk *w, const struct qc_node *n, unsigned *place)
{
    const bool passes = n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize || qc_node_affine(n) == QC_AFFINE_KEEP ||
                        qc_node_affine(n) == QC_AFFINE_JOIN;
    *place = NOWHERE;
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        const unsigned p = v ? w->place[v] : NOWHERE;
        if (!v || (!p && i && qc_node_affine(n) == QC_AFFINE_KEEP && qc_constant_of(w->g, v))) continue;
        if (!p || (*place && *place != p)) return false;
        *place = p;
    }
    return passes && *place;
}

static bool step_of(struct qc_function_step *s, const struct walk *w, const struct qc_node *n)
{
    *s = (struct qc_function_step){.op = n->op, .arg_count = n->input_count, .attr_count = n->attr_count};
    if (!qc_function_takes(n->op, n->input_count) || n->attr_count > QC_FUNCTION_ATTRS || n->output_count != 1)
        return false;
    for (unsigned i = 0; i < n->attr_count; i++) {
        if (n->attrs[i].kind != QC_ATTR_FLOAT && n->attrs[i].kind != QC_ATTR_STRING) return false;
        s->attrs[i] = n->attrs[i];
    }
    for (unsigned i = 0; i < n->input_count; i++) {
        const unsigned p = n->inputs[i] ? w->place[n->inputs[i]] : NOWHERE;
        struct qc_function_arg *arg = &s->args[i];
        if (!n->inputs[i])
            arg->kind = QC_ARG_ABSENT;
        else if (p == QUANTIZER)
            arg->kind = QC_ARG_X;
        else if (p)
            *arg = (struct qc_function_arg){.kind = QC_ARG_STEP, .step = p - FIRST_STEP};
        else if (number_of(&arg->number, w->g, n->inputs[i]))
            arg->kind = QC_ARG_NUMBER;
        else
            return false;
        if (n->op == QC_OP_Clip && i && p) return false; /* bounds must be constants */
    }
    return true;
}

static bool reads_reached(const struct walk *w, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && w->place[n->inputs[i]]) return true;
    return false;
}

/* Adds the steps of a Table, with x replaced by the node's input. */
static bool put_table(struct walk *w, const struct qc_node *n, unsigned *last, struct qc_arena *a, struct qc_status *st)
{
    struct qc_function table;
    unsigned at[QC_FUNCTION_STEPS];
    const unsigned from = w->place[n->inputs[0]];
    if (!qc_function_of(&table, n, a, st)) return false;
    for (unsigned k = 0; k < table.count; k++) {
        struct qc_function_step s = table.steps[k];
        for (unsigned i = 0; i < s.arg_count; i++) {
            if (s.args[i].kind == QC_ARG_STEP) s.args[i].step = at[s.args[i].step];
            if (s.args[i].kind == QC_ARG_X && from != QUANTIZER)
                s.args[i] = (struct qc_function_arg){.kind = QC_ARG_STEP, .step = from - FIRST_STEP};
        }
        if (!qc_function_put(&at[k], &w->f, &s)) return false;
    }
    *last = at[table.count - 1];
    return true;
}

/* Adds the node if it belongs to a function of the quantizer; otherwise it remains an outside reader. */
static bool join_node(struct walk *w, const struct qc_node *n, struct qc_arena *a, struct qc_status *st)
{
    unsigned place, step;
    struct qc_function_step s;
    if (!reads_reached(w, n)) {
        for (unsigned k = 0; k < n->output_count; k++)
            if (w->g->values[n->outputs + k].type.qparams == w->quantizer) reach(w, n->outputs + k, QUANTIZER);
        return true;
    }
    if (moves(w, n, &place)) {
        close_inputs(w, n);
        for (unsigned k = 0; k < n->output_count; k++) reach(w, n->outputs + k, place);
        return true;
    }
    if (n->op == QC_OP_Table ? !put_table(w, n, &step, a, st)
                             : !step_of(&s, w, n) || !qc_function_put(&step, &w->f, &s))
        return st->code == QC_OK;
    close_inputs(w, n);
    reach(w, n->outputs, FIRST_STEP + step);
    return true;
}

/* Returns whether the step is a number times x plus a number: errors after it are proportional to errors before it. */
static bool is_linear(const struct qc_function *f, unsigned step)
{
    bool linear[QC_FUNCTION_STEPS] = {false};
    for (unsigned k = 0; k <= step; k++) {
        const struct qc_function_step *s = &f->steps[k];
        unsigned variables = 0;
        bool fits =
            s->op == QC_OP_Add || s->op == QC_OP_Sub || s->op == QC_OP_Mul || s->op == QC_OP_Div || s->op == QC_OP_Neg;
        for (unsigned i = 0; i < s->arg_count; i++) {
            variables += s->args[i].kind == QC_ARG_X || s->args[i].kind == QC_ARG_STEP;
            fits = fits && (s->args[i].kind != QC_ARG_STEP || linear[s->args[i].step]);
        }
        if (s->op == QC_OP_Div) fits = fits && s->args[1].kind == QC_ARG_NUMBER;
        linear[k] = fits && (s->op != QC_OP_Mul || variables < 2);
    }
    return linear[step];
}

/* Returns whether only the last step is read from outside, and the function is not linear. */
static bool complete(const struct walk *w)
{
    if (!w->f.count || w->open[QUANTIZER]) return false;
    for (unsigned k = 0; k + 1 < w->f.count; k++)
        if (w->open[FIRST_STEP + k]) return false;
    return w->open[FIRST_STEP + w->f.count - 1] > 0 && !is_linear(&w->f, w->f.count - 1);
}

/* Returns whether every observed value is what the quantizer quantizes. */
static bool observes_quantizer(const struct walk *w)
{
    const struct qc_qparams *s = &w->g->qparams_of[w->quantizer];
    for (size_t i = 0; i < s->observed_count; i++) {
        bool found = w->place[s->observed[i]] == QUANTIZER;
        const struct qc_use_list readers = qc_readers(w->uses, s->observed[i]);
        for (size_t k = 0; !found && k < readers.count; k++) {
            const struct qc_node *n = &w->g->nodes[readers.of[k].node];
            found = n->op == QC_OP_Quantize && w->place[n->outputs] == QUANTIZER;
        }
        if (!found) return false;
    }
    return s->observed_count > 0;
}

static bool function_of(const char **text, struct walk *w, qc_id quantizer, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = w->g;
    bool ok = true, whole = false;
    w->quantizer = quantizer;
    w->f = (struct qc_function){0};
    memset(w->open, 0, sizeof w->open);
    for (size_t i = w->stored.first[quantizer]; i < w->stored.first[quantizer + 1]; i++) {
        const struct qc_value *v = &g->values[w->stored.value[i]];
        if (v->kind == QC_VALUE_RESULT) find_node(w, v->node);
    }
    while (ok && !whole && w->next_count) {
        ok = join_node(w, &g->nodes[take_first(w)], a, st);
        whole = ok && complete(w);
    }
    if (whole && observes_quantizer(w)) {
        *text = qc_function_print(&w->f, a, st);
        ok = st->code == QC_OK;
    }
    for (size_t i = 0; i < w->reached_count; i++) w->place[w->reached[i]] = NOWHERE;
    for (size_t i = 0; i < w->node_count; i++) w->is_found[w->found[i]] = false;
    w->reached_count = w->node_count = w->next_count = 0;
    return ok;
}

bool qc_output_functions(const char ***texts, const struct qc_graph *g, const struct qc_uses *uses, struct qc_arena *a,
                         struct qc_status *st)
{
    struct qc_arena *own = qc_arena_new();
    struct walk *w = own ? QC_NEW(own, struct walk, st) : NULL;
    if (!w) {
        qc_arena_free(own);
        return !own && qc_fail_memory(st, sizeof *w);
    }
    w->g = g;
    w->uses = uses;
    bool ok = (*texts = QC_NEW_ARRAY(a, const char *, g->qparams_count + 1, st)) &&
              (w->place = QC_NEW_ARRAY(own, unsigned, g->value_count + 1, st)) &&
              (w->reached = QC_NEW_ARRAY(own, qc_id, g->value_count, st)) &&
              (w->found = QC_NEW_ARRAY(own, qc_id, g->node_count, st)) &&
              (w->next = QC_NEW_ARRAY(own, qc_id, g->node_count, st)) &&
              (w->is_found = QC_NEW_ARRAY(own, bool, g->node_count + 1, st)) &&
              qc_stored_values_of(&w->stored, g, own, st);
    for (qc_id s = 1; ok && s <= g->qparams_count; s++)
        ok = !g->qparams_of[s].observed_count || function_of(&(*texts)[s], w, s, a, st) ||
             qc_where(st, "quantizer '%s'", g->qparams_of[s].name);
    qc_arena_free(own);
    return ok;
}
