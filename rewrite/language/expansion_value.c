// SPDX-License-Identifier: Apache-2.0
/* Numbers that are known while a function is expanded. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "rewrite/language/expansion_parts.h"

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
