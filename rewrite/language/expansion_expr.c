// SPDX-License-Identifier: Apache-2.0
/* Expressions of functions: docs/rule-language.md, "Functions". */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/language/expansion_parts.h"

enum { DEPTH = 40 };

static struct qc_fexpr *new_expr(struct qc_function_parser *f, enum qc_fexpr_kind kind, struct qc_status *st)
{
    struct qc_fexpr *e = QC_NEW(f->p->rules->arena, struct qc_fexpr, st);
    if (!e) return NULL;
    e->kind = kind;
    e->line = f->p->x.token.line;
    e->column = f->p->x.token.column;
    return e;
}

static bool error_at(const struct qc_function_parser *f, const char *expected, struct qc_status *st)
{
    return qc_lexer_error(&f->p->x, expected, st);
}

bool qc_parse_function_name(const char **name, struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    struct qc_arena *a = f->p->rules->arena;
    const char *more;
    if (!qc_lexer_name(name, x, "the name of an operator", a, st)) return false;
    while (qc_lexer_take(x, ".", st)) {
        if (!qc_lexer_name(&more, x, "a name", a, st)) return false;
        if (!(*name = qc_arena_printf(a, st, "%s.%s", *name, more))) return false;
    }
    if (!qc_lexer_take(x, ":", st)) return st->code == QC_OK;
    if (!qc_lexer_expect(x, ":", st) || !qc_lexer_name(&more, x, "the name of an operator", a, st)) return false;
    return (*name = qc_arena_printf(a, st, "%s::%s", *name, more)) != NULL;
}

/* EXPR { "," EXPR } up to the closing sign, or nothing. */
static bool parse_list(struct qc_fexpr *e, struct qc_function_parser *f, const char *close, unsigned most,
                       struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    if (!(e->args = QC_NEW_ARRAY(f->p->rules->arena, struct qc_fexpr *, most, st))) return false;
    if (qc_lexer_take(x, close, st)) return true;
    do {
        if (e->arg_count == most) return error_at(f, "fewer arguments", st);
        if (!(e->args[e->arg_count++] = qc_parse_fexpr(f, st))) return false;
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, close, st);
}

/* { name = EXPR, ... } */
static bool parse_attributes(struct qc_fexpr *e, struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    struct qc_arena *a = f->p->rules->arena;
    if (!qc_lexer_take(x, "{", st)) return st->code == QC_OK;
    e->attr_names = QC_NEW_ARRAY(a, const char *, QC_EXPANSION_ARGS, st);
    e->attrs = QC_NEW_ARRAY(a, struct qc_fexpr *, QC_EXPANSION_ARGS, st);
    if (!e->attr_names || !e->attrs) return false;
    do {
        if (e->attr_count == QC_EXPANSION_ARGS) return error_at(f, "at most 12 attributes", st);
        if (!qc_lexer_name(&e->attr_names[e->attr_count], x, "an attribute", a, st) || !qc_lexer_expect(x, "=", st) ||
            !(e->attrs[e->attr_count] = qc_parse_fexpr(f, st)))
            return false;
        e->attr_count++;
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, "}", st);
}

static struct qc_fexpr *parse_call(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_fexpr *e = new_expr(f, QC_FEXPR_OP, st);
    if (!e || !qc_parse_function_name(&e->text, f, st)) return NULL;
    e->op = qc_op_from_name(e->text);
    if (e->op == QC_OP_INVALID) e->kind = QC_FEXPR_FUNCTION;
    if (!qc_lexer_expect(&f->p->x, "(", st) || !parse_list(e, f, ")", QC_EXPANSION_ARGS, st) ||
        !parse_attributes(e, f, st))
        return NULL;
    return e;
}

static struct qc_fexpr *parse_number(struct qc_function_parser *f, struct qc_status *st)
{
    const struct qc_token t = f->p->x.token;
    struct qc_fexpr *e = new_expr(f, QC_FEXPR_NUMBER, st);
    char text[64], *end;
    double v;
    if (!e || !qc_lexer_number(&v, &f->p->x, st)) return NULL;
    memcpy(text, t.start, t.size); /* qc_lexer_number has checked that it fits */
    text[t.size] = '\0';
    const long long i = strtoll(text, &end, 10);
    e->number = *end ? qc_number_real(v) : qc_number_whole(i);
    return e;
}

/* What a name stands for that is no input, attribute or let: a type, by the number that ONNX has for it, inf, pi. */
static bool parse_constant_name(struct qc_fexpr *e, const char *name)
{
    const enum qc_dtype dtype = qc_dtype_from_name(name);
    e->kind = QC_FEXPR_NUMBER;
    if (dtype != QC_NONE)
        e->number = qc_number_whole(qc_dtype_info(dtype)->onnx);
    else if (strcmp(name, "inf") == 0)
        e->number = qc_number_real((double)INFINITY);
    else if (strcmp(name, "pi") == 0)
        e->number = qc_number_real(3.14159265358979323846);
    else if (strcmp(name, "absent") == 0)
        e->kind = QC_FEXPR_ABSENT;
    else
        return false;
    return true;
}

static struct qc_fexpr *parse_if(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_fexpr *e = new_expr(f, QC_FEXPR_IF, st);
    if (!e || !(e->args = QC_NEW_ARRAY(f->p->rules->arena, struct qc_fexpr *, 3, st))) return NULL;
    e->arg_count = 3;
    if (!(e->args[0] = qc_parse_fexpr(f, st)) || !qc_lexer_expect(&f->p->x, "then", st) ||
        !(e->args[1] = qc_parse_fexpr(f, st)) || !qc_lexer_expect(&f->p->x, "else", st) ||
        !(e->args[2] = qc_parse_fexpr(f, st)))
        return NULL;
    return e;
}

static struct qc_fexpr *parse_name(struct qc_function_parser *f, struct qc_status *st)
{
    const struct qc_lexer before = f->p->x;
    struct qc_fexpr *e = new_expr(f, QC_FEXPR_SLOT, st);
    const char *name;
    if (!e || !qc_lexer_name(&name, &f->p->x, "a value", f->p->rules->arena, st)) return NULL;
    if (qc_lexer_is(&f->p->x, "(") && (e->builtin = qc_fbuiltin_find(name))) {
        e->kind = QC_FEXPR_BUILTIN;
        if (!qc_lexer_next(&f->p->x, st) || !parse_list(e, f, ")", e->builtin->most, st)) return NULL;
        if (e->arg_count < e->builtin->least) {
            qc_lexer_error(&before, e->builtin->help, st);
            return NULL;
        }
        return e;
    }
    for (unsigned i = f->slot_count; i; i--)
        if (strcmp(f->slots[i - 1].name, name) == 0) {
            e->slot = i - 1;
            return e;
        }
    if (parse_constant_name(e, name)) return e;
    qc_lexer_error(&before, "an input, an attribute, a name that was given a value, or a function of the language", st);
    return NULL;
}

/* A name in upper case with arguments, or one with a domain. Attributes may have such names too. */
static bool at_call(const struct qc_lexer *x)
{
    if (x->at + 1 >= x->end) return false;
    return *x->at == '.' || (*x->at == ':' && x->at[1] == ':') ||
           (*x->at == '(' && isupper((unsigned char)*x->token.start));
}

static struct qc_fexpr *parse_primary(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    struct qc_fexpr *e = NULL;
    switch (x->token.kind) {
    case QC_TOKEN_NUMBER: return parse_number(f, st);
    case QC_TOKEN_TEXT:
        if (!(e = new_expr(f, QC_FEXPR_TEXT, st)) || !qc_lexer_text(&e->text, x, f->p->rules->arena, st)) return NULL;
        return e;
    case QC_TOKEN_NAME:
        if (qc_lexer_take(x, "if", st)) return parse_if(f, st);
        return at_call(x) ? parse_call(f, st) : parse_name(f, st);
    case QC_TOKEN_SIGN:
        if (qc_lexer_take(x, "(", st)) return (e = qc_parse_fexpr(f, st)) && qc_lexer_expect(x, ")", st) ? e : NULL;
        if (qc_lexer_is(x, "[")) {
            if (!(e = new_expr(f, QC_FEXPR_LIST, st)) || !qc_lexer_next(x, st)) return NULL;
            return parse_list(e, f, "]", 16, st) ? e : NULL;
        }
        break;
    case QC_TOKEN_END: break;
    }
    error_at(f, "a value", st);
    return NULL;
}

static struct qc_fexpr *unary_of(struct qc_function_parser *f, enum qc_fexpr_kind kind, struct qc_fexpr *arg,
                                 struct qc_status *st)
{
    struct qc_fexpr *e = arg ? new_expr(f, kind, st) : NULL;
    if (!e || !(e->args = QC_NEW_ARRAY(f->p->rules->arena, struct qc_fexpr *, 2, st))) return NULL;
    e->args[0] = arg;
    e->arg_count = 1;
    return e;
}

static struct qc_fexpr *parse_postfix(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_fexpr *e;
    if (qc_lexer_take(&f->p->x, "-", st)) return unary_of(f, QC_FEXPR_NEGATE, parse_postfix(f, st), st);
    e = parse_primary(f, st);
    while (e && qc_lexer_take(&f->p->x, "[", st)) {
        if (!(e = unary_of(f, QC_FEXPR_INDEX, e, st)) || !(e->args[1] = qc_parse_fexpr(f, st)) ||
            !qc_lexer_expect(&f->p->x, "]", st))
            return NULL;
        e->arg_count = 2;
    }
    return e;
}

struct level {
    unsigned count;
    struct {
        const char *text;
        enum qc_sign sign;
    } signs[6];
};

static const struct level levels[] = {
    {1, {{"or", QC_SIGN_OR}}},
    {1, {{"and", QC_SIGN_AND}}},
    {6,
     {{"==", QC_SIGN_EQ},
      {"!=", QC_SIGN_NE},
      {"<", QC_SIGN_LT},
      {"<=", QC_SIGN_LE},
      {">", QC_SIGN_GT},
      {">=", QC_SIGN_GE}}},
    {2, {{"+", QC_SIGN_ADD}, {"-", QC_SIGN_SUB}}},
    {3, {{"*", QC_SIGN_MUL}, {"/", QC_SIGN_DIV}, {"%", QC_SIGN_MOD}}},
};
enum { NOT_LEVEL = 2, SUM_LEVEL = 3, LEVELS = sizeof levels / sizeof *levels };

static bool take_sign(enum qc_sign *sign, struct qc_function_parser *f, unsigned level, struct qc_status *st)
{
    const struct qc_token *t = &f->p->x.token;
    for (unsigned i = 0; i < levels[level].count; i++)
        if (qc_lexer_is(&f->p->x, levels[level].signs[i].text)) {
            *sign = levels[level].signs[i].sign;
            return qc_lexer_next(&f->p->x, st);
        }
    /* "a -1": the number takes the sign with it. */
    *sign = QC_SIGN_ADD;
    return level == SUM_LEVEL && t->kind == QC_TOKEN_NUMBER && *t->start == '-';
}

static struct qc_fexpr *parse_level(struct qc_function_parser *f, unsigned level, struct qc_status *st)
{
    enum qc_sign sign;
    if (level == LEVELS) return parse_postfix(f, st);
    if (level == NOT_LEVEL && qc_lexer_take(&f->p->x, "not", st))
        return unary_of(f, QC_FEXPR_NOT, parse_level(f, level, st), st);
    struct qc_fexpr *e = parse_level(f, level + 1, st);
    while (e && st->code == QC_OK && take_sign(&sign, f, level, st)) {
        if (!(e = unary_of(f, QC_FEXPR_BINARY, e, st)) || !(e->args[1] = parse_level(f, level + 1, st))) return NULL;
        e->arg_count = 2;
        e->sign = sign;
    }
    return st->code == QC_OK ? e : NULL;
}

struct qc_fexpr *qc_parse_fexpr(struct qc_function_parser *f, struct qc_status *st)
{
    if (++f->depth > DEPTH) {
        error_at(f, "at most 40 levels of brackets", st);
        return NULL;
    }
    struct qc_fexpr *e = parse_level(f, 0, st);
    f->depth--;
    return e;
}
