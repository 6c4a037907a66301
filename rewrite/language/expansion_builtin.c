// SPDX-License-Identifier: Apache-2.0
/* Builtin functions of the rule language: one row each, listed in docs/rule-language.md. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/core/body.h"
#include "rewrite/language/expansion.h"
#include "rewrite/language/expansion_parts.h"

static const struct qc_type *argument_type(const struct qc_frame *f, const struct qc_fvalue *v)
{
    return v->kind == QC_FVALUE_TENSOR ? &f->to->values[v->id].type : NULL;
}

static bool tensor_of(const struct qc_type **t, const struct qc_frame *f, const struct qc_fvalue *v,
                      struct qc_status *st)
{
    *t = argument_type(f, v);
    return *t || qc_fail(st, QC_BAD_INPUT,
                         v->kind == QC_FVALUE_ABSENT ? "an input that is needed is missing" : "a tensor was expected");
}

static bool whole_of(int64_t *out, const struct qc_fvalue *v, struct qc_status *st)
{
    if (v->kind != QC_FVALUE_NUMBER || v->number.real) return qc_fail(st, QC_BAD_INPUT, "a whole number was expected");
    *out = v->number.i;
    return true;
}

static bool list_of(struct qc_fvalue *out, struct qc_frame *f, size_t count, struct qc_status *st)
{
    if (count > QC_EXPRESSION_ITEMS) return qc_fail(st, QC_UNSUPPORTED, "a list of more than 64 elements");
    *out = (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = count};
    return (out->items = QC_NEW_ARRAY(f->arena, struct qc_number, count, st)) != NULL;
}

/* Returns the elements of a list made by list_of. */
static struct qc_number *items_of(const struct qc_fvalue *list)
{
    return (struct qc_number *)(uintptr_t)list->items;
}

static bool known_rank(const struct qc_type **t, const struct qc_frame *f, const struct qc_fvalue *v,
                       struct qc_status *st)
{
    if (!tensor_of(t, f, v, st)) return false;
    return (*t)->shape.rank >= 0 || qc_fail(st, QC_UNSUPPORTED, "the number of dimensions of an input is not known");
}

static bool run_rank(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t;
    if (!known_rank(&t, c->frame, c->args, st)) return false;
    *out = qc_fvalue_whole(t->shape.rank);
    return true;
}

static bool axis_in(int64_t *axis, int64_t rank, struct qc_status *st)
{
    if (*axis < -rank || *axis >= rank)
        return qc_fail(st, QC_BAD_INPUT, "axis %" PRId64 " of a tensor of %" PRId64 " dimensions", *axis, rank);
    if (*axis < 0) *axis += rank;
    return true;
}

static bool run_axis(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t;
    int64_t axis;
    if (!known_rank(&t, c->frame, c->args, st) || !whole_of(&axis, c->args + 1, st) ||
        !axis_in(&axis, t->shape.rank, st))
        return false;
    *out = qc_fvalue_whole(axis);
    return true;
}

/* *out: a dimension: a number if it is fixed, else a tensor of one element. */
static bool dimension(struct qc_fvalue *out, struct qc_frame *f, const struct qc_fvalue *x, int64_t axis,
                      struct qc_status *st)
{
    const struct qc_number index = qc_number_whole(axis);
    const int64_t size = argument_type(f, x)->shape.dim[axis];
    struct qc_fvalue pick[] = {*x, {.kind = QC_FVALUE_LIST, .count = 1, .items = &index}};
    *out = qc_fvalue_whole(size);
    return size != QC_FREE || (qc_expanding_node(&pick[0], f->x, QC_OP_Shape, x, 1, 1, NULL, 0, st) &&
                               qc_expanding_node(out, f->x, QC_OP_Gather, pick, 2, 1, NULL, 0, st));
}

static bool run_dim(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t;
    int64_t axis;
    return known_rank(&t, c->frame, c->args, st) && whole_of(&axis, c->args + 1, st) &&
           axis_in(&axis, t->shape.rank, st) && dimension(out, c->frame, c->args, axis, st);
}

static bool run_shape(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    struct qc_fvalue parts[QC_RANK_MAX];
    const struct qc_type *t;
    int64_t from = 0, to;
    if (!tensor_of(&t, c->frame, c->args, st)) return false;
    if (c->count == 1 && !qc_shape_fixed(&t->shape))
        return qc_expanding_node(out, c->frame->x, QC_OP_Shape, c->args, 1, 1, NULL, 0, st);
    if (!known_rank(&t, c->frame, c->args, st)) return false;
    to = t->shape.rank;
    if ((c->count > 1 && !whole_of(&from, c->args + 1, st)) || (c->count > 2 && !whole_of(&to, c->args + 2, st)))
        return false;
    if (from < 0) from += t->shape.rank;
    if (to < 0) to += t->shape.rank;
    if (from < 0 || to > t->shape.rank) return qc_fail(st, QC_BAD_INPUT, "an input has too few dimensions");
    if (from >= to) return list_of(out, c->frame, 0, st);
    for (int64_t i = from; i < to; i++)
        if (!dimension(&parts[i - from], c->frame, c->args, i, st)) return false;
    return qc_expanding_concat(out, c->frame->x, parts, (size_t)(to - from), st);
}

static bool run_dtype(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t;
    if (!tensor_of(&t, c->frame, c->args, st)) return false;
    *out = qc_fvalue_whole(qc_dtype_info(t->dtype)->onnx);
    return true;
}

static double is_present(const struct qc_asked *c)
{
    return c->args->kind != QC_FVALUE_ABSENT;
}

static bool run_ranked(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t;
    if (!tensor_of(&t, c->frame, c->args, st)) return false;
    *out = qc_fvalue_whole(t->shape.rank >= 0);
    return true;
}

/* The most operators that are looked at for one value. */
enum { CONSTANT_NODES = 64 };

static bool is_constant(const struct qc_graph *g, qc_id v, unsigned *left)
{
    const struct qc_node *n = v ? qc_node_of(g, v) : NULL;
    if (!n) return v && qc_constant_of(g, v);
    if (!*left || !n->input_count || qc_op_has_bodies(n->op) || n->op == QC_OP_QuantizeLinear ||
        n->op == QC_OP_DequantizeLinear)
        return false;
    --*left;
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && !is_constant(g, n->inputs[i], left)) return false;
    return true;
}

bool qc_is_constant(const struct qc_graph *g, qc_id v)
{
    unsigned left = CONSTANT_NODES;
    return is_constant(g, v, &left);
}

static double is_computed(const struct qc_asked *c)
{
    return c->args->kind == QC_FVALUE_TENSOR && qc_is_constant(c->frame->to, c->args->id);
}

static double is_product(const struct qc_asked *c)
{
    const struct qc_node *made = c->args->kind == QC_FVALUE_TENSOR ? qc_node_of(c->frame->to, c->args->id) : NULL;
    return made && (made->op == QC_OP_MatMul || made->op == QC_OP_Gemm);
}

static double is_known(const struct qc_asked *c)
{
    return c->args->kind != QC_FVALUE_TENSOR && c->args->kind != QC_FVALUE_ABSENT;
}

static struct qc_number element(const struct qc_tensor *t, size_t i)
{
    return qc_dtype_info(t->dtype)->is_float ? qc_number_real(qc_tensor_float(t, i))
                                             : qc_number_whole(qc_tensor_int(t, i));
}

static const struct qc_tensor *constant_at(const struct qc_asked *c)
{
    return c->args->kind == QC_FVALUE_TENSOR ? qc_constant_of(c->frame->to, c->args->id) : NULL;
}

static bool run_value(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_tensor *t = constant_at(c);
    (void)st;
    if (t && t->count == 1) *out = (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = element(t, 0)};
    return true;
}

static bool run_items(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_tensor *t = constant_at(c);
    if (!t || t->shape.rank > 1 || t->count > QC_EXPRESSION_ITEMS) return true;
    if (!list_of(out, c->frame, t->count, st)) return false;
    for (size_t i = 0; i < t->count; i++) items_of(out)[i] = element(t, i);
    return true;
}

static bool run_cast(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t = argument_type(c->frame, c->args);
    int64_t to;
    if (c->args->kind == QC_FVALUE_ABSENT) return true;
    if (!whole_of(&to, c->args + 1, st)) return false;
    const enum qc_dtype dtype = to < 0 || to > 99 ? QC_NONE : qc_dtype_from_onnx((int)to);
    if (dtype == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "type %" PRId64 " of ONNX is not handled", to);
    const struct qc_attr attr = QC_INT("to", to);
    *out = *c->args;
    if (t) return t->dtype == dtype || qc_expanding_node(out, c->frame->x, QC_OP_Cast, c->args, 1, 1, &attr, 1, st);
    out->kind = QC_FVALUE_TENSOR;
    return qc_expression_constant(&out->id, c->frame->to, dtype, c->args, st);
}

static bool run_len(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    if (c->args->kind != QC_FVALUE_LIST) return qc_fail(st, QC_BAD_INPUT, "a list was expected");
    *out = qc_fvalue_whole((int64_t)c->args->count);
    return true;
}

static bool run_seq(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    int64_t from, to;
    if (!whole_of(&from, c->args, st) || !whole_of(&to, c->args + 1, st)) return false;
    if (from < -QC_EXPRESSION_ITEMS || to > QC_EXPRESSION_ITEMS) return list_of(out, c->frame, SIZE_MAX, st);
    if (!list_of(out, c->frame, to > from ? (size_t)(to - from) : 0, st)) return false;
    for (size_t i = 0; i < out->count; i++) items_of(out)[i] = qc_number_whole(from + (int64_t)i);
    return true;
}

static bool run_repeat(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    int64_t count;
    if (c->args->kind != QC_FVALUE_NUMBER) return qc_fail(st, QC_BAD_INPUT, "a number was expected");
    if (!whole_of(&count, c->args + 1, st) || !list_of(out, c->frame, count > 0 ? (size_t)count : 0, st)) return false;
    for (size_t i = 0; i < out->count; i++) items_of(out)[i] = c->args->number;
    return true;
}

/* Replaces the elements `at` of a list (each from -count on) by one number or by as many numbers. */
static bool run_replace(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    for (unsigned i = 0; i < 3; i++)
        if (c->args[i].kind != QC_FVALUE_LIST) return qc_fail(st, QC_BAD_INPUT, "three lists were expected");
    if (c->args[1].count != c->args[2].count) return qc_fail(st, QC_BAD_INPUT, "lists of different length");
    if (!list_of(out, c->frame, c->args->count, st)) return false;
    if (c->args->count) memcpy(items_of(out), c->args->items, c->args->count * sizeof *c->args->items);
    for (size_t i = 0; i < c->args[1].count; i++) {
        int64_t at = c->args[1].items[i].i;
        if (c->args[1].items[i].real || !axis_in(&at, (int64_t)c->args->count, st))
            return qc_fail(st, QC_BAD_INPUT, "indices were expected");
        items_of(out)[at] = c->args[2].items[i];
    }
    return true;
}

/* Minimum or maximum of numbers, or element by element of lists. */
static bool extreme_of(struct qc_fvalue *out, struct qc_frame *f, const struct qc_fvalue *a, enum qc_sign sign,
                       struct qc_status *st)
{
    const struct qc_fvalue *longer = a->kind == QC_FVALUE_LIST ? a : a + 1;
    for (unsigned i = 0; i < 2; i++)
        if (a[i].kind != QC_FVALUE_NUMBER && a[i].kind != QC_FVALUE_LIST)
            return qc_fail(st, QC_UNSUPPORTED, "a size has to be known here");
    if (longer->kind != QC_FVALUE_LIST) {
        *out = a[qc_fvalue_compare(sign, a, a + 1) ? 0 : 1];
        return true;
    }
    if (!list_of(out, f, longer->count, st)) return false;
    for (size_t i = 0; i < out->count; i++) {
        struct qc_fvalue pair[2];
        for (unsigned k = 0; k < 2; k++) {
            if (a[k].kind == QC_FVALUE_LIST && a[k].count <= i)
                return qc_fail(st, QC_BAD_INPUT, "lists of different length");
            pair[k] = (struct qc_fvalue){.kind = QC_FVALUE_NUMBER,
                                         .number = a[k].kind == QC_FVALUE_LIST ? a[k].items[i] : a[k].number};
        }
        items_of(out)[i] = pair[qc_fvalue_compare(sign, pair, pair + 1) ? 0 : 1].number;
    }
    return true;
}

static bool run_min(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    return extreme_of(out, c->frame, c->args, QC_SIGN_LE, st);
}

static bool run_max(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    return extreme_of(out, c->frame, c->args, QC_SIGN_GE, st);
}

static bool run_sqrt(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    if (c->args->kind != QC_FVALUE_NUMBER) return qc_fail(st, QC_UNSUPPORTED, "a size has to be known here");
    *out = qc_fvalue_real(sqrt(qc_number_double(c->args->number)));
    return true;
}

static bool floor_of(struct qc_number *n, struct qc_status *st)
{
    if (!n->real) return true;
    if (!(fabs(n->f) < 0x1p53)) return qc_fail(st, QC_BAD_INPUT, "a size is too large");
    *n = qc_number_whole((int64_t)floor(n->f));
    return true;
}

static bool run_floor(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    *out = *c->args;
    if (c->args->kind == QC_FVALUE_NUMBER) return floor_of(&out->number, st);
    if (c->args->kind != QC_FVALUE_LIST) return qc_fail(st, QC_UNSUPPORTED, "a size has to be known here");
    if (!list_of(out, c->frame, c->args->count, st)) return false;
    for (size_t i = 0; i < c->args->count; i++) {
        items_of(out)[i] = c->args->items[i];
        if (!floor_of(&items_of(out)[i], st)) return false;
    }
    return true;
}

/* Reshapes a tensor of one element to rank 0. Numbers are returned unchanged. */
static bool run_scalar(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    const struct qc_type *t = argument_type(c->frame, c->args);
    *out = *c->args;
    return !t || t->shape.rank == 0 || qc_expanding_node(out, c->frame->x, QC_OP_Squeeze, c->args, 1, 1, NULL, 0, st);
}

static bool run_wanted(struct qc_fvalue *out, const struct qc_asked *c, struct qc_status *st)
{
    int64_t k;
    if (!whole_of(&k, c->args, st)) return false;
    *out = qc_fvalue_whole(k >= 0 && k < (int64_t)c->frame->call->output_count && c->frame->call->wanted[k]);
    return true;
}

const struct qc_builtin qc_function_builtins[] = {
    {"rank", "rank(x): number of dimensions", 1, 1, .run = run_rank},
    {"ranked", "ranked(x): the number of dimensions is known", 1, 1, .run = run_ranked},
    {"axis", "axis(x, a): a as an axis of x that is not negative", 2, 2, .run = run_axis},
    {"dim", "dim(x, a): a dimension", 2, 2, .run = run_dim},
    {"shape", "shape(x), shape(x, from), shape(x, from, to): dimensions as a list", 1, 3, .run = run_shape},
    {"dtype", "dtype(x): the type, to compare with f32, bool, ... and for cast", 1, 1, .run = run_dtype},
    {"present", "present(x): x is not left out", 1, 1, .value = is_present},
    {"constant", "constant(x): x is a constant, or computed from constants", 1, 1, .value = is_computed},
    {"product", "product(x): x is the result of a MatMul or Gemm", 1, 1, .value = is_product},
    {"known", "known(v): a number, text or list; no tensor and not absent", 1, 1, .value = is_known},
    {"value", "value(c): the number in a constant of one element, or absent", 1, 1, .run = run_value},
    {"items", "items(c): the numbers in a constant of at most one dimension, or absent", 1, 1, .run = run_items},
    {"cast", "cast(x, type): x in that type, a number or a list as a constant", 2, 2, .run = run_cast},
    {"len", "len(l): elements of a list", 1, 1, .run = run_len},
    {"seq", "seq(a, b): the list a, a + 1, ... b - 1", 2, 2, .run = run_seq},
    {"repeat", "repeat(v, n): a list of n times v", 2, 2, .run = run_repeat},
    {"replace", "replace(l, at, v): the list l with the elements of v at the places `at`", 3, 3, .run = run_replace},
    {"min", "min(a, b): of numbers, of lists element by element", 2, 2, .run = run_min},
    {"max", "max(a, b): of numbers, of lists element by element", 2, 2, .run = run_max},
    {"scalar", "scalar(x): a tensor of one element, without dimensions", 1, 1, .run = run_scalar},
    {"sqrt", "sqrt(a): of a number", 1, 1, .run = run_sqrt},
    {"floor", "floor(a): of a number, of a list element by element", 1, 1, .run = run_floor},
    {"wanted", "wanted(k): something reads output k", 1, 1, .run = run_wanted},
    {.name = NULL},
};
