// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "rewrite/language/expansion_parts.h"

/* Expressions of functions: docs/rule-language.md, "Functions". */

enum { DEPTH = 40 };

static struct qc_fexpr *new_function_expr(struct qc_function_parser *f, enum qc_fexpr_kind kind, struct qc_status *st)
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

/* NAME, or DOMAIN::NAME with dots in the domain. */
static bool parse_function_name(const char **name, struct qc_function_parser *f, struct qc_status *st)
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

static struct qc_fexpr *parse_fexpr(struct qc_function_parser *p, struct qc_status *st);

/* EXPR { "," EXPR } up to the closing sign, or an empty list. */
static bool parse_list(struct qc_fexpr *e, struct qc_function_parser *f, const char *close, unsigned most,
                       struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    if (!(e->args = QC_NEW_ARRAY(f->p->rules->arena, struct qc_fexpr *, most, st))) return false;
    if (qc_lexer_take(x, close, st)) return true;
    do {
        if (e->arg_count == most) return error_at(f, "fewer arguments", st);
        if (!(e->args[e->arg_count++] = parse_fexpr(f, st))) return false;
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, close, st);
}

/* { name = EXPR, ... } */
static bool parse_call_attributes(struct qc_fexpr *e, struct qc_function_parser *f, struct qc_status *st)
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
            !(e->attrs[e->attr_count] = parse_fexpr(f, st)))
            return false;
        e->attr_count++;
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, "}", st);
}

static struct qc_fexpr *parse_function_call(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_fexpr *e = new_function_expr(f, QC_FEXPR_OP, st);
    if (!e || !parse_function_name(&e->text, f, st)) return NULL;
    e->op = qc_op_from_name(e->text);
    if (e->op == QC_OP_INVALID) e->kind = QC_FEXPR_FUNCTION;
    if (!qc_lexer_expect(&f->p->x, "(", st) || !parse_list(e, f, ")", QC_EXPANSION_ARGS, st) ||
        !parse_call_attributes(e, f, st))
        return NULL;
    return e;
}

static struct qc_fexpr *parse_function_number(struct qc_function_parser *f, struct qc_status *st)
{
    const struct qc_token t = f->p->x.token;
    struct qc_fexpr *e = new_function_expr(f, QC_FEXPR_NUMBER, st);
    char text[64], *end;
    double v;
    if (!e || !qc_lexer_number(&v, &f->p->x, st)) return NULL;
    memcpy(text, t.start, t.size); /* qc_lexer_number has checked the size. */
    text[t.size] = '\0';
    const long long i = strtoll(text, &end, 10);
    e->number = *end ? qc_number_real(v) : qc_number_whole(i);
    return e;
}

/* Constants by name: inf, pi, and types, which have their ONNX numbers. */
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
    struct qc_fexpr *e = new_function_expr(f, QC_FEXPR_IF, st);
    if (!e || !(e->args = QC_NEW_ARRAY(f->p->rules->arena, struct qc_fexpr *, 3, st))) return NULL;
    e->arg_count = 3;
    if (!(e->args[0] = parse_fexpr(f, st)) || !qc_lexer_expect(&f->p->x, "then", st) ||
        !(e->args[1] = parse_fexpr(f, st)) || !qc_lexer_expect(&f->p->x, "else", st) ||
        !(e->args[2] = parse_fexpr(f, st)))
        return NULL;
    return e;
}

/* Finds a name that was declared or given a value, and marks it as read. */
static bool read_slot(unsigned *slot, struct qc_function_parser *f, const char *name)
{
    for (unsigned i = 0; i < f->slot_count; i++)
        if (strcmp(f->slots[i].name, name) == 0) {
            *slot = i;
            return f->slots[i].read = true;
        }
    return false;
}

static struct qc_fexpr *parse_name(struct qc_function_parser *f, struct qc_status *st)
{
    const struct qc_lexer before = f->p->x;
    struct qc_fexpr *e = new_function_expr(f, QC_FEXPR_SLOT, st);
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
    if (read_slot(&e->slot, f, name)) return e;
    if (parse_constant_name(e, name)) return e;
    qc_lexer_error(&before, "an input, an attribute, a name that was given a value, or a function of the language", st);
    return NULL;
}

/* Returns true at a name in upper case with arguments, or one with a domain. Attributes may have such names too. */
static bool at_call(const struct qc_lexer *x)
{
    if (x->at + 1 >= x->end) return false;
    return *x->at == '.' || (*x->at == ':' && x->at[1] == ':') ||
           (*x->at == '(' && isupper((unsigned char)*x->token.start));
}

static struct qc_fexpr *parse_function_primary(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    struct qc_fexpr *e = NULL;
    switch (x->token.kind) {
    case QC_TOKEN_NUMBER: return parse_function_number(f, st);
    case QC_TOKEN_TEXT:
        if (!(e = new_function_expr(f, QC_FEXPR_TEXT, st)) || !qc_lexer_text(&e->text, x, f->p->rules->arena, st))
            return NULL;
        return e;
    case QC_TOKEN_NAME:
        if (qc_lexer_take(x, "if", st)) return parse_if(f, st);
        return at_call(x) ? parse_function_call(f, st) : parse_name(f, st);
    case QC_TOKEN_SIGN:
        if (qc_lexer_take(x, "(", st)) return (e = parse_fexpr(f, st)) && qc_lexer_expect(x, ")", st) ? e : NULL;
        if (qc_lexer_is(x, "[")) {
            if (!(e = new_function_expr(f, QC_FEXPR_LIST, st)) || !qc_lexer_next(x, st)) return NULL;
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
    struct qc_fexpr *e = arg ? new_function_expr(f, kind, st) : NULL;
    if (!e || !(e->args = QC_NEW_ARRAY(f->p->rules->arena, struct qc_fexpr *, 2, st))) return NULL;
    e->args[0] = arg;
    e->arg_count = 1;
    return e;
}

static struct qc_fexpr *parse_postfix(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_fexpr *e;
    if (qc_lexer_take(&f->p->x, "-", st)) return unary_of(f, QC_FEXPR_NEGATE, parse_postfix(f, st), st);
    e = parse_function_primary(f, st);
    while (e && qc_lexer_take(&f->p->x, "[", st)) {
        if (!(e = unary_of(f, QC_FEXPR_INDEX, e, st)) || !(e->args[1] = parse_fexpr(f, st)) ||
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
    /* "a -1": the sign belongs to the number. */
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

static struct qc_fexpr *parse_fexpr(struct qc_function_parser *f, struct qc_status *st)
{
    if (++f->depth > DEPTH) {
        error_at(f, "at most 40 levels of brackets", st);
        return NULL;
    }
    struct qc_fexpr *e = parse_level(f, 0, st);
    f->depth--;
    return e;
}

/* Arithmetic of numbers that are known during expansion. */

struct qc_number qc_number_whole(int64_t i)
{
    return (struct qc_number){.i = i};
}

struct qc_number qc_number_real(double f)
{
    return (struct qc_number){.real = true, .f = f};
}

double qc_number_double(struct qc_number n)
{
    return n.real ? n.f : (double)n.i;
}

struct qc_fvalue qc_fvalue_whole(int64_t i)
{
    return (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = qc_number_whole(i)};
}

struct qc_fvalue qc_fvalue_tensor(qc_id id)
{
    return (struct qc_fvalue){.kind = id ? QC_FVALUE_TENSOR : QC_FVALUE_ABSENT, .id = id};
}

enum qc_dtype qc_fvalue_dtype(const struct qc_fvalue *v)
{
    bool real = v->kind == QC_FVALUE_NUMBER && v->number.real;
    for (size_t i = 0; v->kind == QC_FVALUE_LIST && i < v->count; i++) real = real || v->items[i].real;
    return real ? QC_F32 : QC_I64;
}

bool qc_fvalue_holds(const struct qc_fvalue *v)
{
    return v->kind == QC_FVALUE_NUMBER && (v->number.real ? v->number.f != 0 : v->number.i != 0);
}

static bool whole_binary(struct qc_number *out, enum qc_sign sign, int64_t a, int64_t b, struct qc_status *st)
{
    int64_t r = 0;
    bool fits = true;
    if (sign == QC_SIGN_DIV || sign == QC_SIGN_MOD) {
        if (b == 0) return qc_fail(st, QC_BAD_INPUT, "a size is divided by 0");
        if (b == -1) return whole_binary(out, QC_SIGN_MUL, a, sign == QC_SIGN_DIV ? -1 : 0, st);
        if (sign == QC_SIGN_DIV && a % b) {
            *out = qc_number_real((double)a / (double)b);
            return true;
        }
        r = sign == QC_SIGN_DIV ? a / b : a % b;
    } else if (sign == QC_SIGN_MUL) {
        fits = qc_mul_i64(&r, a, b);
    } else if (sign == QC_SIGN_ADD) {
        fits = qc_add_i64(&r, a, b);
    } else {
        fits = b != INT64_MIN && qc_add_i64(&r, a, -b);
    }
    *out = qc_number_whole(r);
    return fits || qc_fail(st, QC_BAD_INPUT, "a size is too large");
}

bool qc_number_binary(struct qc_number *out, enum qc_sign sign, struct qc_number a, struct qc_number b,
                      struct qc_status *st)
{
    if (!a.real && !b.real) return whole_binary(out, sign, a.i, b.i, st);
    const double x = qc_number_double(a), y = qc_number_double(b);
    switch (sign) {
    case QC_SIGN_ADD: *out = qc_number_real(x + y); return true;
    case QC_SIGN_SUB: *out = qc_number_real(x - y); return true;
    case QC_SIGN_MUL: *out = qc_number_real(x * y); return true;
    case QC_SIGN_DIV: *out = qc_number_real(x / y); return true;
    case QC_SIGN_MOD: *out = qc_number_real(fmod(x, y)); return true;
    case QC_SIGN_EQ:
    case QC_SIGN_NE:
    case QC_SIGN_LT:
    case QC_SIGN_LE:
    case QC_SIGN_GT:
    case QC_SIGN_GE:
    case QC_SIGN_AND:
    case QC_SIGN_OR: break;
    }
    return qc_fail(st, QC_BAD_INPUT, "not arithmetic");
}

static bool in_order(enum qc_sign sign, int order)
{
    switch (sign) {
    case QC_SIGN_EQ: return order == 0;
    case QC_SIGN_NE: return order != 0;
    case QC_SIGN_LT: return order < 0;
    case QC_SIGN_LE: return order <= 0;
    case QC_SIGN_GT: return order > 0;
    case QC_SIGN_GE: return order >= 0;
    case QC_SIGN_ADD:
    case QC_SIGN_SUB:
    case QC_SIGN_MUL:
    case QC_SIGN_DIV:
    case QC_SIGN_MOD:
    case QC_SIGN_AND:
    case QC_SIGN_OR: break;
    }
    return false;
}

bool qc_fvalue_compare(enum qc_sign sign, const struct qc_fvalue *a, const struct qc_fvalue *b)
{
    if (a->kind == QC_FVALUE_TEXT && b->kind == QC_FVALUE_TEXT) return in_order(sign, strcmp(a->text, b->text));
    if (a->kind != QC_FVALUE_NUMBER || b->kind != QC_FVALUE_NUMBER) return sign == QC_SIGN_NE;
    if (!a->number.real && !b->number.real)
        return in_order(sign, a->number.i < b->number.i ? -1 : a->number.i > b->number.i);
    const double x = qc_number_double(a->number), y = qc_number_double(b->number);
    if (!(x <= y) && !(x >= y)) return sign == QC_SIGN_NE;
    return in_order(sign, x < y ? -1 : x > y);
}

static bool add_slot(struct qc_function_parser *f, const char *name, enum qc_fslot_kind kind, const struct qc_lexer *at,
                     struct qc_status *st)
{
    for (unsigned i = 0; i < f->slot_count; i++)
        if (strcmp(f->slots[i].name, name) == 0) return qc_lexer_error(at, "a name that is not taken yet", st);
    if (f->slot_count == QC_EXPANSION_SLOTS) return qc_lexer_error(at, "at most 160 names in a function", st);
    f->slots[f->slot_count++] = (struct qc_fslot){.name = name, .kind = kind};
    return true;
}

/* "(" [ NAME ["?"] { "," NAME ["?"] } ] ")" */
static bool parse_inputs(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const char *name;
    if (!qc_lexer_expect(x, "(", st)) return false;
    if (qc_lexer_take(x, ")", st)) return true;
    do {
        const struct qc_lexer at = *x;
        if (!qc_lexer_name(&name, x, "an input", f->p->rules->arena, st) || !add_slot(f, name, QC_FSLOT_INPUT, &at, st))
            return false;
        f->slots[f->slot_count - 1].index = f->slot_count - 1;
        f->slots[f->slot_count - 1].optional = qc_lexer_take(x, "?", st);
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, ")", st);
}

/* "{" NAME [ "?" | "=" EXPR ] ... "}" */
static bool parse_declared_attributes(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const char *name;
    if (!qc_lexer_take(x, "{", st)) return st->code == QC_OK;
    do {
        const struct qc_lexer at = *x;
        if (!qc_lexer_name(&name, x, "an attribute", f->p->rules->arena, st) ||
            !add_slot(f, name, QC_FSLOT_ATTRIBUTE, &at, st))
            return false;
        struct qc_fslot *s = &f->slots[f->slot_count - 1];
        if (!(s->optional = qc_lexer_take(x, "?", st)) && qc_lexer_take(x, "=", st) && !(s->value = parse_fexpr(f, st)))
            return false;
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, "}", st);
}

/* "let" NAME { "," NAME } "=" EXPR */
static bool parse_let(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const struct qc_lexer at = *x;
    const char *names[QC_EXPANSION_OUTPUTS];
    unsigned count = 0;
    do {
        if (count == QC_EXPANSION_OUTPUTS) return qc_lexer_error(x, "at most 8 names", st);
        if (!qc_lexer_name(&names[count++], x, "a name", f->p->rules->arena, st)) return false;
    } while (qc_lexer_take(x, ",", st));
    if (st->code != QC_OK || !qc_lexer_expect(x, "=", st)) return false;
    const struct qc_lexer before = *x;
    struct qc_fexpr *e = parse_fexpr(f, st); /* Parsed before the names are added: they are not visible in their own
                                                   definition. */
    if (!e) return false;
    if (count > 1 && e->kind != QC_FEXPR_OP && e->kind != QC_FEXPR_FUNCTION)
        return qc_lexer_error(&before, "an op, which has several outputs", st);
    for (unsigned i = 0; i < count; i++) {
        if (!add_slot(f, names[i], QC_FSLOT_LET, &at, st)) return false;
        struct qc_fslot *s = &f->slots[f->slot_count - 1];
        s->index = i;
        s->first = f->slot_count - 1 - i;
        s->count = count;
        s->value = e;
    }
    return true;
}

static bool keep(struct qc_rules *rs, const struct qc_function_rule *f, struct qc_status *st)
{
    size_t kept = 0;
    for (size_t i = 0; i < rs->function_count; i++) /* A later file replaces all functions of that name. */
        if (strcmp(rs->functions[i].file, f->file) == 0 || strcmp(rs->functions[i].name, f->name) != 0)
            rs->functions[kept++] = rs->functions[i];
    rs->function_count = kept;
    struct qc_function_rule *more =
        qc_grown(rs->functions, rs->function_count, &rs->function_capacity, sizeof *more, st);
    if (!more) return false;
    rs->functions = more;
    rs->functions[rs->function_count++] = *f;
    return true;
}

static bool parse_opset(struct qc_function_rule *f, struct qc_function_parser *p, struct qc_status *st)
{
    struct qc_lexer *x = &p->p->x;
    double from = 1, to = QC_EXPANSION_NEWEST;
    if (qc_lexer_take(x, "opset", st)) {
        if (!qc_lexer_number(&from, x, st)) return false;
        if (qc_lexer_take(x, "to", st) && !qc_lexer_number(&to, x, st)) return false;
    }
    if (!(from >= 1 && to >= from && to <= QC_EXPANSION_NEWEST)) return qc_lexer_error(x, "opsets from 1 on", st);
    f->opset_from = (int)from;
    f->opset_to = (int)to;
    return st->code == QC_OK;
}

/* "ignore" NAME { "," NAME }: inputs and attributes that change no number */
static bool parse_ignore(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const char *name;
    unsigned slot;
    do {
        const struct qc_lexer at = *x;
        if (!qc_lexer_name(&name, x, "an input or an attribute", f->p->rules->arena, st)) return false;
        if (!read_slot(&slot, f, name)) return qc_lexer_error(&at, "an input or an attribute", st);
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK;
}

static bool parse_body(struct qc_function_rule *f, struct qc_function_parser *p, struct qc_status *st)
{
    struct qc_lexer *x = &p->p->x;
    struct qc_fclause clauses[QC_EXPANSION_CLAUSES];
    struct qc_arena *a = p->p->rules->arena;
    for (;;) {
        if (qc_lexer_take(x, "let", st)) {
            if (!parse_let(p, st)) return false;
            continue;
        }
        if (qc_lexer_take(x, "ignore", st)) {
            if (!parse_ignore(p, st)) return false;
            continue;
        }
        const bool refuse = qc_lexer_is(x, "refuse");
        if (!refuse && !qc_lexer_is(x, "when")) break;
        struct qc_fclause c = {.refusal = NULL};
        if (f->clause_count == QC_EXPANSION_CLAUSES) return qc_lexer_error(x, "at most 24 of when and refuse", st);
        if (!qc_lexer_next(x, st)) return false;
        if (refuse && (!qc_lexer_text(&c.refusal, x, a, st) || !qc_lexer_expect(x, "when", st))) return false;
        if (!(c.condition = parse_fexpr(p, st))) return false;
        clauses[f->clause_count++] = c;
    }
    if (st->code != QC_OK || !qc_lexer_expect(x, "give", st)) return false;
    if (!(f->give = QC_NEW_ARRAY(a, struct qc_fexpr *, QC_EXPANSION_OUTPUTS, st))) return false;
    do {
        if (f->give_count == QC_EXPANSION_OUTPUTS) return qc_lexer_error(x, "at most 8 outputs", st);
        if (!(f->give[f->give_count++] = parse_fexpr(p, st))) return false;
    } while (qc_lexer_take(x, ",", st));
    f->clauses = qc_arena_dup(a, clauses, f->clause_count, sizeof *clauses, st);
    return st->code == QC_OK && f->clauses;
}

static bool parse_signature(struct qc_function_parser *p, struct qc_status *st)
{
    struct qc_function_rule f = {.file = p->p->x.file, .line = p->p->x.token.line};
    if (!parse_function_name(&f.name, p, st) || !parse_inputs(p, st)) return false;
    f.input_count = p->slot_count;
    if (!parse_opset(&f, p, st) || !parse_declared_attributes(p, st) || !parse_body(&f, p, st)) return false;
    f.slot_count = p->slot_count;
    f.slots = qc_arena_dup(p->p->rules->arena, p->slots, p->slot_count, sizeof *p->slots, st);
    return f.slots && keep(p->p->rules, &f, st);
}

bool qc_parse_function(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_function_parser *f = calloc(1, sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    f->p = p;
    const bool ok = parse_signature(f, st);
    free(f);
    return ok && st->code == QC_OK;
}
