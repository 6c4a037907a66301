// SPDX-License-Identifier: Apache-2.0
#include "graph/core/function.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool same_arg(const struct qc_function_arg *a, const struct qc_function_arg *b)
{
    return a->kind == b->kind && (a->kind != QC_ARG_STEP || a->step == b->step) &&
           (a->kind != QC_ARG_NUMBER || memcmp(&a->number, &b->number, sizeof a->number) == 0);
}

static bool same_attr(const struct qc_attr *a, const struct qc_attr *b)
{
    if (a->kind != b->kind || strcmp(a->name, b->name) != 0) return false;
    return a->kind == QC_ATTR_STRING ? strcmp(a->s, b->s) == 0 : memcmp(&a->f, &b->f, sizeof a->f) == 0;
}

static bool same_step(const struct qc_function_step *a, const struct qc_function_step *b)
{
    if (a->op != b->op || a->arg_count != b->arg_count || a->attr_count != b->attr_count) return false;
    for (unsigned i = 0; i < a->arg_count; i++)
        if (!same_arg(&a->args[i], &b->args[i])) return false;
    for (unsigned i = 0; i < a->attr_count; i++)
        if (!same_attr(&a->attrs[i], &b->attrs[i])) return false;
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

static bool read_attributes(struct qc_function_step *s, struct reader *x, struct qc_status *st)
{
    while (accept_character(x, ';')) {
        struct qc_attr *a = &s->attrs[s->attr_count];
        if (s->attr_count == QC_FUNCTION_ATTRS) return wrong(x, "at most 2 attributes", st);
        if (!(a->name = word(x, "an attribute", st))) return false;
        if (!accept_character(x, '=')) return wrong(x, "'='", st);
        while (*x->at == ' ') x->at++;
        a->kind = isalpha((unsigned char)*x->at) && strncmp(x->at, "inf", 3) != 0 && strncmp(x->at, "nan", 3) != 0
                      ? QC_ATTR_STRING
                      : QC_ATTR_FLOAT;
        if (a->kind == QC_ATTR_STRING ? !(a->s = word(x, "a value", st)) : !read_number(&a->f, x, st)) return false;
        s->attr_count++;
    }
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
    if (!read_attributes(&s, x, st)) return false;
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

/* Prints the fewest digits that read back as the same float32. */
static void print_number(FILE *out, float v)
{
    char text[32] = "";
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v) break;
    }
    fputs(text, out);
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
        case QC_ARG_NUMBER: print_number(out, s->args[i].number); break;
        }
    }
    for (unsigned i = 0; i < s->attr_count; i++) {
        fprintf(out, "; %s=", s->attrs[i].name);
        if (s->attrs[i].kind == QC_ATTR_STRING)
            fputs(s->attrs[i].s, out);
        else
            print_number(out, s->attrs[i].f);
    }
    fputc(')', out);
}

const char *qc_function_print(const struct qc_function *f, struct qc_arena *a, struct qc_status *st)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        qc_fail_memory(st, QC_FUNCTION_TEXT);
        return NULL;
    }
    print_step(out, f, f->count - 1);
    bool ok = fclose(out) == 0 ? true : qc_fail_memory(st, size);
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

/* Returns the text up to the next ';', or NULL if it is empty. *ok: false if out of memory. */
static const char *next_name(const char **at, bool *ok, struct qc_arena *a, struct qc_status *st)
{
    size_t n = strcspn(*at, ";");
    const char *name = n ? qc_arena_strndup(a, *at, n, st) : NULL;
    *ok = *ok && (name || !n);
    *at += n + ((*at)[n] == ';');
    return name;
}

bool qc_function_of(struct qc_function *f, const struct qc_node *n, struct qc_arena *a, struct qc_status *st)
{
    const char *at = qc_attr_string(n, "names", "");
    bool ok = qc_function_parse(f, qc_attr_string(n, "f", ""), a, st);
    for (unsigned k = 0; ok && k + 1 < f->count; k++) {
        f->steps[k].node = next_name(&at, &ok, a, st);
        f->steps[k].value = next_name(&at, &ok, a, st);
    }
    return ok;
}

static qc_id number(struct qc_graph *g, float v, struct qc_status *st)
{
    return qc_graph_add_made_constant(g, NULL, qc_tensor_of(QC_F32, &QC_SCALAR, &v, st), st);
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
            case QC_ARG_NUMBER: inputs[i] = number(g, s->args[i].number, st); break;
            }
            if (!inputs[i]) return 0;
        }
        const char *inner = last || s->value ? (last ? name : s->value)
                            : !name          ? NULL
                                    : qc_arena_printf(g->arena, st, "%s_%s_%u", name, qc_op_info(s->op)->name, k);
        const char *called = last || s->node ? (last ? node : s->node)
                             : !node         ? NULL
                                     : qc_arena_printf(g->arena, st, "%s_%s_%u", node, qc_op_info(s->op)->name, k);
        if (st->code != QC_OK) return 0;
        struct qc_node_def def = {.op = s->op,
                                  .name = called,
                                  .input_count = s->arg_count,
                                  .inputs = inputs,
                                  .attr_count = s->attr_count,
                                  .attrs = s->attrs,
                                  .output_names = &inner};
        if (!(results[k] = qc_graph_add(g, &def, st))) return 0;
    }
    return results[f->count - 1];
}
