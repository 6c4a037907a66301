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

static bool number_binary(struct qc_number *out, enum qc_sign sign, struct qc_number a, struct qc_number b,
                          struct qc_status *st)
{
    if (!a.real && !b.real) return whole_binary(out, sign, a.i, b.i, st);
    const double x = qc_number_double(a), y = qc_number_double(b);
    *out = qc_number_real(sign == QC_SIGN_ADD   ? x + y
                          : sign == QC_SIGN_SUB ? x - y
                          : sign == QC_SIGN_MUL ? x * y
                          : sign == QC_SIGN_DIV ? x / y
                                                : fmod(x, y));
    return true;
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

/* *out: a list of `count` numbers that the caller fills, returned. NULL: memory is out. */
static struct qc_number *new_list(struct qc_fvalue *out, struct qc_frame *f, size_t count, struct qc_status *st)
{
    struct qc_number *items = QC_NEW_ARRAY(f->arena, struct qc_number, count, st);
    *out = (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = count, .items = items};
    return items;
}

static bool arithmetic(struct qc_fvalue *out, struct qc_frame *f, enum qc_sign sign, const struct qc_fvalue args[2],
                       struct qc_status *st)
{
    static const enum qc_op ops[] = {[QC_SIGN_ADD] = QC_OP_Add,
                                     [QC_SIGN_SUB] = QC_OP_Sub,
                                     [QC_SIGN_MUL] = QC_OP_Mul,
                                     [QC_SIGN_DIV] = QC_OP_Div,
                                     [QC_SIGN_MOD] = QC_OP_Mod};
    const struct qc_fvalue *a = &args[0], *b = &args[1];
    if (a->kind == QC_FVALUE_TENSOR || b->kind == QC_FVALUE_TENSOR)
        return qc_expanding_node(out, f->x, ops[sign], args, 2, 1, NULL, 0, st);
    if (a->kind == QC_FVALUE_NUMBER && b->kind == QC_FVALUE_NUMBER) {
        out->kind = QC_FVALUE_NUMBER;
        return number_binary(&out->number, sign, a->number, b->number, st);
    }
    const bool first = a->kind == QC_FVALUE_LIST, second = b->kind == QC_FVALUE_LIST;
    if ((!first && a->kind != QC_FVALUE_NUMBER) || (!second && b->kind != QC_FVALUE_NUMBER))
        return qc_fail(st, QC_BAD_INPUT, "arithmetic with a text or an absent value");
    if (first && second && a->count != b->count) return qc_fail(st, QC_BAD_INPUT, "lists of different length");
    struct qc_number *items = new_list(out, f, first ? a->count : b->count, st);
    for (size_t i = 0; items && i < out->count; i++)
        if (!number_binary(&items[i], sign, first ? a->items[i] : a->number, second ? b->items[i] : b->number, st))
            return false;
    return items != NULL;
}

static bool binary(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_fvalue args[2];
    if (!qc_expr_evaluate(&args[0], f, e->args[0], st)) return false;
    if ((e->sign == QC_SIGN_AND || e->sign == QC_SIGN_OR) && qc_fvalue_holds(&args[0]) == (e->sign == QC_SIGN_OR)) {
        *out = qc_fvalue_whole(e->sign == QC_SIGN_OR);
        return true;
    }
    if (!qc_expr_evaluate(&args[1], f, e->args[1], st)) return false;
    if (e->sign <= QC_SIGN_MOD) return arithmetic(out, f, e->sign, args, st);
    *out = qc_fvalue_whole(e->sign == QC_SIGN_AND || e->sign == QC_SIGN_OR
                               ? qc_fvalue_holds(&args[1])
                               : qc_fvalue_compare(e->sign, &args[0], &args[1]));
    return true;
}

/* Splices inner lists in. If an element is a tensor, the result is a tensor of rank 1. */
static bool list(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_fvalue flat[QC_EXPRESSION_ITEMS], v;
    size_t n = 0;
    bool tensors = false;
    for (unsigned i = 0; i < e->arg_count; i++) {
        if (!qc_expr_evaluate(&v, f, e->args[i], st)) return false;
        const size_t more = v.kind == QC_FVALUE_LIST ? v.count : 1;
        if (more > QC_EXPRESSION_ITEMS - n) return qc_fail(st, QC_UNSUPPORTED, "a list of more than 64 elements");
        tensors = tensors || v.kind == QC_FVALUE_TENSOR;
        for (size_t k = 0; k < more; k++)
            flat[n++] =
                v.kind == QC_FVALUE_LIST ? (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = v.items[k]} : v;
    }
    if (tensors && f->x) return qc_expanding_concat(out, f->x, flat, n, st);
    struct qc_number *items = new_list(out, f, n, st);
    for (size_t k = 0; items && k < n; k++) {
        if (flat[k].kind != QC_FVALUE_NUMBER) return qc_fail(st, QC_BAD_INPUT, "a list of numbers was expected");
        items[k] = flat[k].number;
    }
    return items != NULL;
}

static bool element_at(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_fvalue v, at;
    if (!qc_expr_evaluate(&v, f, e->args[0], st) || !qc_expr_evaluate(&at, f, e->args[1], st)) return false;
    const bool several = at.kind == QC_FVALUE_LIST && v.kind == QC_FVALUE_LIST;
    if (!several && (at.kind != QC_FVALUE_NUMBER || at.number.real))
        return qc_fail(st, QC_BAD_INPUT, "an index was expected");
    if (v.kind == QC_FVALUE_TENSOR) {
        const struct qc_fvalue args[] = {v, {.kind = QC_FVALUE_LIST, .count = 1, .items = &at.number}};
        return qc_expanding_node(out, f->x, QC_OP_Gather, args, 2, 1, NULL, 0, st);
    }
    if (v.kind != QC_FVALUE_LIST) return qc_fail(st, QC_BAD_INPUT, "a list was expected");
    struct qc_number *items = several ? new_list(out, f, at.count, st) : &out->number;
    if (!several) out->kind = QC_FVALUE_NUMBER;
    for (size_t i = 0; items && i < (several ? at.count : 1); i++) {
        const struct qc_number index = several ? at.items[i] : at.number;
        const int64_t k = index.i < 0 ? index.i + (int64_t)v.count : index.i;
        if (index.real || k < 0 || k >= (int64_t)v.count)
            return qc_fail(st, QC_BAD_INPUT, "a list has too few elements");
        items[i] = v.items[k];
    }
    return items != NULL;
}

/* ---- The matched op and builtin functions ---- */

static bool matched_attribute(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    const struct qc_node *n = qc_match_node_of(f->match, f->graph, e);
    const struct qc_attr *a = n ? qc_attr_find(n, e->text) : NULL;
    if (!a) return qc_expr_evaluate(out, f, e->args[0], st);
    if (!e->slot && a->kind == QC_ATTR_INT)
        *out = qc_fvalue_whole(a->i);
    else if (!e->slot && a->kind == QC_ATTR_FLOAT)
        *out = qc_fvalue_real((double)a->f);
    else if (!e->slot && a->kind == QC_ATTR_STRING)
        *out = (struct qc_fvalue){.kind = QC_FVALUE_TEXT, .text = a->s};
    else if (e->slot && e->slot <= a->count && a->kind == QC_ATTR_INTS)
        *out = qc_fvalue_whole(a->ints[e->slot - 1]);
    else if (e->slot && e->slot <= a->count && a->kind == QC_ATTR_FLOATS)
        *out = qc_fvalue_real((double)a->floats[e->slot - 1]);
    return true;
}

static bool asked(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    const struct qc_builtin *b = e->builtin;
    struct qc_asked c = {.frame = f, .count = e->arg_count};
    for (unsigned i = 0; i < e->arg_count; i++)
        if (b->kinds && b->kinds[i] == 'v')
            c.args[i] = qc_fvalue_tensor(f->match->values[e->args[i]->slot]);
        else if (b->kinds && b->kinds[i] == 'q')
            c.args[i].id = f->match->qparams_of[e->args[i]->slot];
        else if (!qc_expr_evaluate(&c.args[i], f, e->args[i], st))
            return false;
    if (b->run) return b->run(out, &c, st);
    const double v = b->value(&c);
    if (v == v) *out = v == floor(v) && fabs(v) < 0x1p53 ? qc_fvalue_whole((int64_t)v) : qc_fvalue_real(v);
    return true;
}

static bool evaluate(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    struct qc_fvalue args[2] = {qc_fvalue_whole(0)};
    *out = (struct qc_fvalue){.kind = QC_FVALUE_ABSENT};
    switch (e->kind) {
    case QC_EXPR_ABSENT: return true;
    case QC_EXPR_NUMBER: *out = (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = e->number}; return true;
    case QC_EXPR_TEXT: *out = (struct qc_fvalue){.kind = QC_FVALUE_TEXT, .text = e->text}; return true;
    case QC_EXPR_CAPTURE: return f->scope->name(out, f, e->slot, st);
    case QC_EXPR_OP:
    case QC_EXPR_FUNCTION: return f->scope->op(out, f, e, st);
    case QC_EXPR_ATTRIBUTE: return matched_attribute(out, f, e, st);
    case QC_EXPR_ASKED: return asked(out, f, e, st);
    case QC_EXPR_LIST: return list(out, f, e, st);
    case QC_EXPR_INDEX: return element_at(out, f, e, st);
    case QC_EXPR_BINARY: return binary(out, f, e, st);
    case QC_EXPR_NEGATE:
        if (!qc_expr_evaluate(&args[1], f, e->args[0], st)) return false;
        return args[1].kind == QC_FVALUE_TENSOR ? qc_expanding_node(out, f->x, QC_OP_Neg, &args[1], 1, 1, NULL, 0, st)
                                                : arithmetic(out, f, QC_SIGN_SUB, args, st);
    case QC_EXPR_NOT:
        if (!qc_expr_evaluate(out, f, e->args[0], st)) return false;
        *out = qc_fvalue_whole(!qc_fvalue_holds(out));
        return true;
    case QC_EXPR_IF:
        if (!qc_expr_evaluate(out, f, e->args[0], st)) return false;
        return qc_expr_evaluate(out, f, e->args[qc_fvalue_holds(out) ? 1 : 2], st);
    case QC_EXPR_ELSE:
        if (!qc_expr_evaluate(out, f, e->args[0], st)) return false;
        return out->kind != QC_FVALUE_ABSENT || qc_expr_evaluate(out, f, e->args[1], st);
    case QC_EXPR_CHOICE: break; /* only in matches */
    }
    return false;
}

bool qc_expr_evaluate(struct qc_fvalue *out, struct qc_frame *f, const struct qc_expr *e, struct qc_status *st)
{
    return evaluate(out, f, e, st) || (f->scope && f->scope->fail && f->scope->fail(f, e, st));
}
