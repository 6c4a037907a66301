// SPDX-License-Identifier: Apache-2.0
#include "graph/core/function.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "graph/core/uses.h"

bool qc_op_in_function(enum qc_op op)
{
    static const enum qc_op others[] = {QC_OP_Gelu, QC_OP_Abs, QC_OP_Neg, QC_OP_Relu, QC_OP_Clip, QC_OP_Add,
                                        QC_OP_Sub,  QC_OP_Mul, QC_OP_Div, QC_OP_Max,  QC_OP_Min};
    if (op <= QC_OP_INVALID || op >= QC_OP_COUNT) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] == op) return true;
    return qc_op_info(op)->unary;
}

bool qc_function_takes(enum qc_op op, unsigned count)
{
    if (!qc_op_in_function(op) || count > QC_FUNCTION_ARGS) return false;
    if (op == QC_OP_Max || op == QC_OP_Min) return count == 2;
    const struct qc_op_info *info = qc_op_info(op);
    return count >= info->inputs_min && count <= info->inputs_max;
}

static bool same_step(const struct qc_function_step *a, const struct qc_function_step *b)
{
    if (a->op != b->op || a->arg_count != b->arg_count || a->attr_count != b->attr_count) return false;
    for (unsigned i = 0; i < a->arg_count; i++)
        if (a->args[i].kind != b->args[i].kind ||
            (a->args[i].kind == QC_ARG_STEP && a->args[i].step != b->args[i].step) ||
            (a->args[i].kind == QC_ARG_NUMBER && memcmp(&a->args[i].number, &b->args[i].number, sizeof(float)) != 0))
            return false;
    for (unsigned i = 0; i < a->attr_count; i++)
        if (!qc_attr_equal(&a->attrs[i], &b->attrs[i])) return false;
    return true;
}

bool qc_function_put(unsigned *step, struct qc_function *f, const struct qc_function_step *s)
{
    for (unsigned i = 0; i < f->count; i++)
        if (same_step(&f->steps[i], s)) {
            *step = i;
            return true;
        }
    if (f->count == QC_FUNCTION_STEPS) return false;
    f->steps[f->count] = *s;
    *step = f->count++;
    return true;
}

struct reader {
    const char *text, *at;
    struct qc_arena *arena;
    unsigned depth;
};

static bool wrong(const struct reader *x, const char *expected, struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "function '%.80s': expected %s at character %zu", x->text, expected,
                   (size_t)(x->at - x->text) + 1);
}

static bool accept_character(struct reader *x, char c)
{
    while (*x->at == ' ') x->at++;
    if (*x->at != c) return false;
    x->at++;
    return true;
}

static const char *word(struct reader *x, const char *what, struct qc_status *st)
{
    while (*x->at == ' ') x->at++;
    const char *start = x->at;
    while (isalnum((unsigned char)*x->at) || *x->at == '_') x->at++;
    if (x->at != start) return qc_arena_strndup(x->arena, start, (size_t)(x->at - start), st);
    wrong(x, what, st);
    return NULL;
}

static bool read_number(float *out, struct reader *x, struct qc_status *st)
{
    char *end;
    *out = strtof(x->at, &end);
    if (end == x->at) return wrong(x, "a number", st);
    x->at = end;
    return true;
}

static bool read_arg(struct qc_function_arg *out, struct qc_function *f, struct reader *x, struct qc_status *st);

static bool read_call(struct qc_function_arg *out, const char *name, struct qc_function *f, struct reader *x,
                      struct qc_status *st)
{
    struct qc_function_step s = {.op = qc_op_from_name(name)};
    if (!qc_op_in_function(s.op))
        return qc_fail(st, QC_BAD_INPUT, "function '%.80s': '%s' is no op of a function of one variable", x->text,
                       name);
    if (!accept_character(x, '(')) return wrong(x, "'('", st);
    do {
        if (s.arg_count == QC_FUNCTION_ARGS) return wrong(x, "at most 3 arguments", st);
        if (!read_arg(&s.args[s.arg_count++], f, x, st)) return false;
    } while (accept_character(x, ','));
    while (accept_character(x, ';')) {
        struct qc_attr *a = &s.attrs[s.attr_count];
        if (s.attr_count == QC_FUNCTION_ATTRS) return wrong(x, "at most 2 attributes", st);
        if (!(a->name = word(x, "an attribute", st))) return false;
        if (!accept_character(x, '=')) return wrong(x, "'='", st);
        while (*x->at == ' ') x->at++;
        a->kind = isalpha((unsigned char)*x->at) && strncmp(x->at, "inf", 3) != 0 && strncmp(x->at, "nan", 3) != 0
                      ? QC_ATTR_STRING
                      : QC_ATTR_FLOAT;
        if (a->kind == QC_ATTR_STRING ? !(a->s = word(x, "a value", st)) : !read_number(&a->f, x, st)) return false;
        s.attr_count++;
    }
    if (!accept_character(x, ')')) return wrong(x, "')'", st);
    if (!qc_function_takes(s.op, s.arg_count))
        return qc_fail(st, QC_BAD_INPUT, "function '%.80s': %s has %u arguments", x->text, name, s.arg_count);
    for (unsigned i = 1; s.op == QC_OP_Clip && i < s.arg_count; i++)
        if (s.args[i].kind != QC_ARG_NUMBER && s.args[i].kind != QC_ARG_ABSENT)
            return qc_fail(st, QC_BAD_INPUT, "function '%.80s': a bound of Clip is a number", x->text);
    out->kind = QC_ARG_STEP;
    return qc_function_put(&out->step, f, &s) ||
           qc_fail(st, QC_BAD_INPUT, "function '%.80s': more than %d steps", x->text, (int)QC_FUNCTION_STEPS);
}

static bool read_arg(struct qc_function_arg *out, struct qc_function *f, struct reader *x, struct qc_status *st)
{
    *out = (struct qc_function_arg){.kind = QC_ARG_NUMBER};
    while (*x->at == ' ') x->at++;
    bool starts_number = isdigit((unsigned char)*x->at) ||
                         ((*x->at == '-' || *x->at == '+') && (isalnum((unsigned char)x->at[1]) || x->at[1] == '.')) ||
                         strncmp(x->at, "inf", 3) == 0 || strncmp(x->at, "nan", 3) == 0;
    if (starts_number) return read_number(&out->number, x, st);
    if (accept_character(x, '-')) {
        out->kind = QC_ARG_ABSENT;
        return true;
    }
    const char *name = word(x, "x, a number or an op", st);
    if (!name) return false;
    if (strcmp(name, "x") == 0) {
        out->kind = QC_ARG_X;
        return true;
    }
    if (++x->depth > QC_FUNCTION_STEPS) return wrong(x, "fewer levels of brackets", st);
    bool ok = read_call(out, name, f, x, st);
    x->depth--;
    return ok;
}

bool qc_function_parse(struct qc_function *f, const char *text, struct qc_arena *a, struct qc_status *st)
{
    struct reader x = {.text = text, .at = text, .arena = a};
    struct qc_function_arg top;
    *f = (struct qc_function){0};
    if (strlen(text) >= QC_FUNCTION_TEXT)
        return qc_fail(st, QC_BAD_INPUT, "a function of %zu characters, fewer than %d are handled", strlen(text),
                       (int)QC_FUNCTION_TEXT);
    if (!read_arg(&top, f, &x, st)) return false;
    if (top.kind != QC_ARG_STEP) return qc_fail(st, QC_BAD_INPUT, "function '%.80s': an op expected", text);
    while (*x.at == ' ') x.at++;
    return !*x.at || wrong(&x, "the end", st);
}

static void print_step(FILE *out, const struct qc_function *f, unsigned step)
{
    const struct qc_function_step *s = &f->steps[step];
    fprintf(out, "%s(", qc_op_info(s->op)->name);
    for (unsigned i = 0; i < s->arg_count && ftell(out) < QC_FUNCTION_TEXT; i++) {
        if (i) fputs(", ", out);
        switch (s->args[i].kind) {
        case QC_ARG_ABSENT: fputc('-', out); break;
        case QC_ARG_X: fputc('x', out); break;
        case QC_ARG_STEP: print_step(out, f, s->args[i].step); break;
        case QC_ARG_NUMBER: fputs(qc_float_text((char[QC_NUMBER_TEXT]){""}, s->args[i].number), out); break;
        }
    }
    for (unsigned i = 0; i < s->attr_count; i++) {
        fprintf(out, "; %s=", s->attrs[i].name);
        if (s->attrs[i].kind == QC_ATTR_STRING)
            fputs(s->attrs[i].s, out);
        else
            fputs(qc_float_text((char[QC_NUMBER_TEXT]){""}, s->attrs[i].f), out);
    }
    fputc(')', out);
}

const char *qc_function_print(const struct qc_function *f, struct qc_arena *a, struct qc_status *st)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) print_step(out, f, f->count - 1);
    const bool ok = out && fclose(out) == 0;
    if (!ok) qc_fail_memory(st, QC_FUNCTION_TEXT);
    const char *kept = ok && size < QC_FUNCTION_TEXT ? qc_arena_strdup(a, text, st) : NULL;
    free(text);
    return kept;
}

const char *qc_function_names(const struct qc_function *f, struct qc_arena *a, struct qc_status *st)
{
    const char *all = "";
    for (unsigned k = 0; all && k + 1 < f->count; k++) {
        const char *node = f->steps[k].node, *value = f->steps[k].value;
        all = qc_arena_printf(a, st, "%s%s%s;%s", all, k ? ";" : "", node && !strchr(node, ';') ? node : "",
                              value && !strchr(value, ';') ? value : "");
    }
    return all;
}

/* Returns the text up to the next ';', or NULL if it is empty. */
static const char *next_name(const char **at, struct qc_arena *a, struct qc_status *st)
{
    size_t n = strcspn(*at, ";");
    const char *name = n ? qc_arena_strndup(a, *at, n, st) : NULL;
    *at += n + ((*at)[n] == ';');
    return name;
}

bool qc_function_of(struct qc_function *f, const struct qc_node *n, struct qc_arena *a, struct qc_status *st)
{
    const char *at = qc_attr_string(n, "names", "");
    if (!qc_function_parse(f, qc_attr_string(n, "f", ""), a, st)) return false;
    for (unsigned k = 0; k + 1 < f->count; k++) {
        f->steps[k].node = next_name(&at, a, st);
        f->steps[k].value = next_name(&at, a, st);
    }
    return st->code == QC_OK;
}

qc_id qc_function_write_out(struct qc_graph *g, const struct qc_function *f, qc_id x, const char *node,
                            const char *name, struct qc_status *st)
{
    qc_id results[QC_FUNCTION_STEPS];
    for (unsigned k = 0; k < f->count; k++) {
        const struct qc_function_step *s = &f->steps[k];
        bool last = k + 1 == f->count;
        qc_id inputs[QC_FUNCTION_ARGS] = {QC_ABSENT};
        for (unsigned i = 0; i < s->arg_count; i++) {
            switch (s->args[i].kind) {
            case QC_ARG_ABSENT: continue;
            case QC_ARG_X: inputs[i] = x; break;
            case QC_ARG_STEP: inputs[i] = results[s->args[i].step]; break;
            case QC_ARG_NUMBER:
                inputs[i] =
                    qc_graph_add_made_constant(g, NULL, qc_tensor_of(QC_F32, &QC_SCALAR, &s->args[i].number, st), st);
                break;
            }
        }
        const char *inner = last || s->value ? (last ? name : s->value)
                            : !name          ? NULL
                                    : qc_arena_printf(g->arena, st, "%s_%s_%u", name, qc_op_info(s->op)->name, k);
        const char *called = last || s->node ? (last ? node : s->node)
                             : !node         ? NULL
                                     : qc_arena_printf(g->arena, st, "%s_%s_%u", node, qc_op_info(s->op)->name, k);
        struct qc_node_def def = {.op = s->op,
                                  .name = called,
                                  .input_count = s->arg_count,
                                  .inputs = inputs,
                                  .attr_count = s->attr_count,
                                  .attrs = s->attrs,
                                  .output_names = &inner};
        results[k] = qc_graph_add(g, &def, st);
    }
    return results[f->count - 1];
}

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

static void find_function_node(struct walk *w, qc_id node)
{
    if (!node || w->is_found[node]) return;
    w->is_found[node] = true;
    w->found[w->node_count++] = node;
    size_t i = w->next_count++;
    for (; i && w->next[(i - 1) / 2] > node; i = (i - 1) / 2) w->next[i] = w->next[(i - 1) / 2];
    w->next[i] = node;
}

static void reach(struct walk *w, qc_id value, unsigned place)
{
    const struct qc_use_list uses = qc_all_uses(w->uses, value);
    if (!w->place[value]) w->reached[w->reached_count++] = value;
    w->place[value] = place;
    w->open[place] += uses.count;
    for (size_t i = 0; i < uses.count; i++) find_function_node(w, uses.of[i].node);
}

static void close_inputs(struct walk *w, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && w->place[n->inputs[i]]) w->open[w->place[n->inputs[i]]]--;
}

/* Reads a constant of one number, quantized or not. */
static bool number_of_argument(float *out, const struct qc_graph *g, qc_id v)
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
        else if (number_of_argument(&arg->number, w->g, n->inputs[i]))
            arg->kind = QC_ARG_NUMBER;
        else
            return false;
        if (n->op == QC_OP_Clip && i && p) return false; /* bounds must be constants */
    }
    return true;
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
    bool reads = false;
    for (unsigned i = 0; i < n->input_count; i++) reads = reads || (n->inputs[i] && w->place[n->inputs[i]]);
    if (!reads) {
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

static bool function_of(const char **text, struct walk *w, qc_id quantizer, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = w->g;
    bool ok = true, whole = false;
    w->quantizer = quantizer;
    w->f = (struct qc_function){0};
    memset(w->open, 0, sizeof w->open);
    for (size_t i = w->stored.first[quantizer]; i < w->stored.first[quantizer + 1]; i++) {
        const struct qc_value *v = &g->values[w->stored.value[i]];
        if (v->kind == QC_VALUE_RESULT) find_function_node(w, v->node);
    }
    while (ok && !whole && w->next_count) {
        /* Take the first node off the heap. */
        const qc_id first = w->next[0], last = w->next[--w->next_count];
        size_t i = 0;
        for (size_t child; (child = 2 * i + 1) < w->next_count; i = child) {
            if (child + 1 < w->next_count && w->next[child + 1] < w->next[child]) child++;
            if (w->next[child] >= last) break;
            w->next[i] = w->next[child];
        }
        w->next[i] = last;
        ok = join_node(w, &g->nodes[first], a, st);
        /* Only the last step may be read from outside, and the function must not be linear. */
        const unsigned count = w->f.count;
        whole = ok && count && !w->open[QUANTIZER];
        for (unsigned k = 0; whole && k + 1 < count; k++) whole = !w->open[FIRST_STEP + k];
        whole = whole && w->open[FIRST_STEP + count - 1] > 0 && !is_linear(&w->f, count - 1);
    }
    /* Every observed value must be what the quantizer quantizes. */
    const struct qc_qparams *s = &g->qparams_of[quantizer];
    bool observed = whole && s->observed_count > 0;
    for (size_t i = 0; observed && i < s->observed_count; i++) {
        observed = w->place[s->observed[i]] == QUANTIZER;
        const struct qc_use_list readers = qc_readers(w->uses, s->observed[i]);
        for (size_t k = 0; !observed && k < readers.count; k++) {
            const struct qc_node *n = &g->nodes[readers.of[k].node];
            observed = n->op == QC_OP_Quantize && w->place[n->outputs] == QUANTIZER;
        }
    }
    if (observed) {
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
    QC_ARENA_SCOPE *own = qc_arena_new();
    struct walk *w = QC_NEW(own, struct walk, st);
    if (!w) return false;
    *w = (struct walk){.g = g,
                       .uses = uses,
                       .place = QC_NEW_ARRAY(own, unsigned, g->value_count + 1, st),
                       .reached = QC_NEW_ARRAY(own, qc_id, g->value_count, st),
                       .found = QC_NEW_ARRAY(own, qc_id, g->node_count, st),
                       .next = QC_NEW_ARRAY(own, qc_id, g->node_count, st),
                       .is_found = QC_NEW_ARRAY(own, bool, g->node_count + 1, st)};
    *texts = QC_NEW_ARRAY(a, const char *, g->qparams_count + 1, st);
    bool ok = st->code == QC_OK && qc_stored_values_of(&w->stored, g, own, st);
    for (qc_id s = 1; ok && s <= g->qparams_count; s++)
        ok = !g->qparams_of[s].observed_count || function_of(&(*texts)[s], w, s, a, st) ||
             qc_where(st, "quantizer '%s'", g->qparams_of[s].name);
    return ok;
}
