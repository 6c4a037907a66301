// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/expression.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "rewrite/language/match.h"

/* ---- Numbers ---- */

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

struct qc_fvalue qc_fvalue_real(double f)
{
    return (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = qc_number_real(f)};
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

static struct qc_number whole_binary(enum qc_sign sign, int64_t a, int64_t b, struct qc_status *st)
{
    int64_t r = 0;
    bool fits = true;
    if (sign == QC_SIGN_DIV || sign == QC_SIGN_MOD) {
        if (b == 0) qc_fail(st, QC_BAD_INPUT, "a size is divided by 0");
        if (b == 0) return qc_number_whole(0);
        if (b == -1) return whole_binary(QC_SIGN_MUL, a, sign == QC_SIGN_DIV ? -1 : 0, st);
        if (sign == QC_SIGN_DIV && a % b) return qc_number_real((double)a / (double)b);
        r = sign == QC_SIGN_DIV ? a / b : a % b;
    } else if (sign == QC_SIGN_MUL) {
        fits = qc_mul_i64(&r, a, b);
    } else if (sign == QC_SIGN_ADD) {
        fits = qc_add_i64(&r, a, b);
    } else {
        fits = b != INT64_MIN && qc_add_i64(&r, a, -b);
    }
    if (!fits) qc_fail(st, QC_BAD_INPUT, "a size is too large");
    return qc_number_whole(r);
}

static struct qc_number number_binary(enum qc_sign sign, struct qc_number a, struct qc_number b, struct qc_status *st)
{
    if (!a.real && !b.real) return whole_binary(sign, a.i, b.i, st);
    const double x = qc_number_double(a), y = qc_number_double(b);
    return qc_number_real(sign == QC_SIGN_ADD   ? x + y
                          : sign == QC_SIGN_SUB ? x - y
                          : sign == QC_SIGN_MUL ? x * y
                          : sign == QC_SIGN_DIV ? x / y
                                                : fmod(x, y));
}

static bool in_order(enum qc_sign sign, int order)
{
    return sign == QC_SIGN_EQ   ? order == 0
           : sign == QC_SIGN_NE ? order != 0
           : sign == QC_SIGN_LT ? order < 0
           : sign == QC_SIGN_LE ? order <= 0
           : sign == QC_SIGN_GT ? order > 0
                                : order >= 0;
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

/* ---- Signs and lists ---- */

static const struct qc_fvalue absent = {.kind = QC_FVALUE_ABSENT};

struct qc_fvalue qc_expression_fail(const struct qc_frame *f, enum qc_code code, const char *message)
{
    qc_fail(f->st, code, "%s", message);
    return absent;
}

struct qc_fvalue qc_expression_list(struct qc_number **items, struct qc_frame *f, size_t count)
{
    *items = f->st->code == QC_OK ? QC_NEW_ARRAY(f->arena, struct qc_number, count, f->st) : NULL;
    return *items ? (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = count, .items = *items} : absent;
}

static struct qc_fvalue of_number(struct qc_number n)
{
    return (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = n};
}

static struct qc_fvalue arithmetic(struct qc_frame *f, enum qc_sign sign, const struct qc_fvalue args[2])
{
    static const enum qc_op ops[] = {[QC_SIGN_ADD] = QC_OP_Add,
                                     [QC_SIGN_SUB] = QC_OP_Sub,
                                     [QC_SIGN_MUL] = QC_OP_Mul,
                                     [QC_SIGN_DIV] = QC_OP_Div,
                                     [QC_SIGN_MOD] = QC_OP_Mod};
    const struct qc_fvalue *a = &args[0], *b = &args[1];
    if (a->kind == QC_FVALUE_TENSOR || b->kind == QC_FVALUE_TENSOR) return qc_expanding_node(f, ops[sign], 2, args);
    if (a->kind == QC_FVALUE_NUMBER && b->kind == QC_FVALUE_NUMBER)
        return of_number(number_binary(sign, a->number, b->number, f->st));
    const bool first = a->kind == QC_FVALUE_LIST, second = b->kind == QC_FVALUE_LIST;
    struct qc_number *items;
    if ((!first && a->kind != QC_FVALUE_NUMBER) || (!second && b->kind != QC_FVALUE_NUMBER))
        return qc_expression_fail(f, QC_BAD_INPUT, "arithmetic with a text or an absent value");
    if (first && second && a->count != b->count)
        return qc_expression_fail(f, QC_BAD_INPUT, "lists of different length");
    const struct qc_fvalue out = qc_expression_list(&items, f, first ? a->count : b->count);
    for (size_t i = 0; i < out.count; i++)
        items[i] = number_binary(sign, first ? a->items[i] : a->number, second ? b->items[i] : b->number, f->st);
    return out;
}

static struct qc_fvalue binary(struct qc_frame *f, const struct qc_expr *e)
{
    struct qc_fvalue args[2] = {qc_expr_evaluate(f, e->args[0])};
    const bool logical = e->sign == QC_SIGN_AND || e->sign == QC_SIGN_OR;
    if (logical && qc_fvalue_holds(&args[0]) == (e->sign == QC_SIGN_OR)) return qc_fvalue_whole(e->sign == QC_SIGN_OR);
    args[1] = qc_expr_evaluate(f, e->args[1]);
    if (f->st->code != QC_OK) return absent;
    if (e->sign <= QC_SIGN_MOD) return arithmetic(f, e->sign, args);
    return qc_fvalue_whole(logical ? qc_fvalue_holds(&args[1]) : qc_fvalue_compare(e->sign, &args[0], &args[1]));
}

/* Splices inner lists in. If an element is a tensor, the result is a tensor of rank 1. */
static struct qc_fvalue list(struct qc_frame *f, const struct qc_expr *e)
{
    struct qc_fvalue flat[QC_EXPRESSION_ITEMS];
    struct qc_number *items;
    size_t n = 0;
    bool tensors = false;
    for (unsigned i = 0; i < e->arg_count; i++) {
        const struct qc_fvalue v = qc_expr_evaluate(f, e->args[i]);
        const size_t more = v.kind == QC_FVALUE_LIST ? v.count : 1;
        if (more > QC_EXPRESSION_ITEMS - n)
            return qc_expression_fail(f, QC_UNSUPPORTED, "a list of more than 64 elements");
        tensors = tensors || v.kind == QC_FVALUE_TENSOR;
        for (size_t k = 0; k < more; k++) flat[n++] = v.kind == QC_FVALUE_LIST ? of_number(v.items[k]) : v;
    }
    if (tensors && f->x) return qc_expanding_concat(f, flat, n);
    const struct qc_fvalue out = qc_expression_list(&items, f, n);
    for (size_t k = 0; k < out.count; k++) {
        if (flat[k].kind != QC_FVALUE_NUMBER)
            return qc_expression_fail(f, QC_BAD_INPUT, "a list of numbers was expected");
        items[k] = flat[k].number;
    }
    return out;
}

static struct qc_number number_at(const struct qc_fvalue *list, struct qc_number at, struct qc_status *st)
{
    const int64_t count = (int64_t)list->count, i = at.i < 0 ? at.i + count : at.i;
    if (!at.real && i >= 0 && i < count) return list->items[i];
    qc_fail(st, QC_BAD_INPUT, "a list has too few elements");
    return at;
}

static struct qc_fvalue element_at(struct qc_frame *f, const struct qc_expr *e)
{
    const struct qc_fvalue v = qc_expr_evaluate(f, e->args[0]), at = qc_expr_evaluate(f, e->args[1]);
    struct qc_number *items;
    if (at.kind == QC_FVALUE_LIST && v.kind == QC_FVALUE_LIST) {
        const struct qc_fvalue out = qc_expression_list(&items, f, at.count);
        for (size_t i = 0; i < out.count; i++) items[i] = number_at(&v, at.items[i], f->st);
        return out;
    }
    if (at.kind != QC_FVALUE_NUMBER || at.number.real)
        return qc_expression_fail(f, QC_BAD_INPUT, "an index was expected");
    if (v.kind == QC_FVALUE_TENSOR) {
        const struct qc_fvalue args[] = {v, {.kind = QC_FVALUE_LIST, .count = 1, .items = &at.number}};
        return qc_expanding_node(f, QC_OP_Gather, 2, args);
    }
    if (v.kind != QC_FVALUE_LIST) return qc_expression_fail(f, QC_BAD_INPUT, "a list was expected");
    return of_number(number_at(&v, at.number, f->st));
}

/* ---- The matched op and builtin functions ---- */

static struct qc_fvalue matched_attribute(struct qc_frame *f, const struct qc_expr *e)
{
    const struct qc_node *n = qc_match_node_of(f->match, f->graph, e);
    const struct qc_attr *a = n ? qc_attr_find(n, e->text) : NULL;
    if (!a) return qc_expr_evaluate(f, e->args[0]);
    if (!e->slot && a->kind == QC_ATTR_INT) return qc_fvalue_whole(a->i);
    if (!e->slot && a->kind == QC_ATTR_FLOAT) return qc_fvalue_real((double)a->f);
    if (!e->slot && a->kind == QC_ATTR_STRING) return (struct qc_fvalue){.kind = QC_FVALUE_TEXT, .text = a->s};
    if (!e->slot || e->slot > a->count) return absent;
    if (a->kind == QC_ATTR_INTS) return qc_fvalue_whole(a->ints[e->slot - 1]);
    return a->kind == QC_ATTR_FLOATS ? qc_fvalue_real((double)a->floats[e->slot - 1]) : absent;
}

static struct qc_fvalue asked(struct qc_frame *f, const struct qc_expr *e)
{
    const struct qc_builtin *b = e->builtin;
    struct qc_asked c = {.frame = f, .upper = b->upper, .count = e->arg_count};
    for (unsigned i = 0; i < e->arg_count; i++)
        if (b->kinds && b->kinds[i] == 'v')
            c.args[i] = qc_fvalue_tensor(f->match->values[e->args[i]->slot]);
        else if (b->kinds && b->kinds[i] == 'q')
            c.args[i].id = f->match->qparams_of[e->args[i]->slot];
        else
            c.args[i] = qc_expr_evaluate(f, e->args[i]);
    if (f->st->code != QC_OK) return absent;
    if (b->run) return b->run(&c);
    const double v = b->value(&c);
    if (v != v) return absent;
    return v == floor(v) && fabs(v) < 0x1p53 ? qc_fvalue_whole((int64_t)v) : qc_fvalue_real(v);
}

static struct qc_fvalue evaluate(struct qc_frame *f, const struct qc_expr *e)
{
    struct qc_fvalue args[2] = {qc_fvalue_whole(0)};
    switch (e->kind) {
    case QC_EXPR_ABSENT: return absent;
    case QC_EXPR_NUMBER: return of_number(e->number);
    case QC_EXPR_TEXT: return (struct qc_fvalue){.kind = QC_FVALUE_TEXT, .text = e->text};
    case QC_EXPR_CAPTURE: return f->scope->name(f, e->slot);
    case QC_EXPR_OP:
    case QC_EXPR_FUNCTION: return f->scope->op(f, e);
    case QC_EXPR_ATTRIBUTE: return matched_attribute(f, e);
    case QC_EXPR_ASKED: return asked(f, e);
    case QC_EXPR_LIST: return list(f, e);
    case QC_EXPR_INDEX: return element_at(f, e);
    case QC_EXPR_BINARY: return binary(f, e);
    case QC_EXPR_NEGATE:
        args[1] = qc_expr_evaluate(f, e->args[0]);
        return args[1].kind == QC_FVALUE_TENSOR ? qc_expanding_node(f, QC_OP_Neg, 1, &args[1])
                                                : arithmetic(f, QC_SIGN_SUB, args);
    case QC_EXPR_NOT: args[0] = qc_expr_evaluate(f, e->args[0]); return qc_fvalue_whole(!qc_fvalue_holds(&args[0]));
    case QC_EXPR_IF:
        args[0] = qc_expr_evaluate(f, e->args[0]);
        return qc_expr_evaluate(f, e->args[qc_fvalue_holds(&args[0]) ? 1 : 2]);
    case QC_EXPR_ELSE:
        args[0] = qc_expr_evaluate(f, e->args[0]);
        return args[0].kind != QC_FVALUE_ABSENT ? args[0] : qc_expr_evaluate(f, e->args[1]);
    case QC_EXPR_CHOICE: break; /* only in matches */
    }
    return absent;
}

struct qc_fvalue qc_expr_evaluate(struct qc_frame *f, const struct qc_expr *e)
{
    if (f->st->code != QC_OK) return absent;
    const struct qc_fvalue v = evaluate(f, e);
    if (f->st->code == QC_OK) return v;
    if (f->scope && f->scope->fail) f->scope->fail(f, e);
    return absent;
}
