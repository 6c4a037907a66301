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

/* Returns the type of an argument that must be a tensor; that of nothing, of rank 0, after a failure. */
static const struct qc_type *asked_type(const struct qc_asked *c)
{
    const struct qc_type *t = argument_type(c->frame, c->args);
    if (!t)
        qc_expression_fail(c->frame, QC_BAD_INPUT,
                           c->args->kind == QC_FVALUE_ABSENT ? "an input that is needed is missing"
                                                             : "a tensor was expected");
    return t ? t : &c->frame->to->values[0].type;
}

static int64_t whole_of(const struct qc_asked *c, unsigned i)
{
    if (c->args[i].kind != QC_FVALUE_NUMBER || c->args[i].number.real)
        qc_expression_fail(c->frame, QC_BAD_INPUT, "a whole number was expected");
    return c->args[i].number.i;
}

static struct qc_fvalue list_of(struct qc_number **items, const struct qc_asked *c, size_t count)
{
    if (count > QC_EXPRESSION_ITEMS)
        return qc_expression_fail(c->frame, QC_UNSUPPORTED, "a list of more than 64 elements");
    return qc_expression_list(items, c->frame, count);
}

static const struct qc_type *known_rank(const struct qc_asked *c)
{
    const struct qc_type *t = asked_type(c);
    if (t->shape.rank < 0)
        qc_expression_fail(c->frame, QC_UNSUPPORTED, "the number of dimensions of an input is not known");
    return t;
}

static struct qc_fvalue run_rank(const struct qc_asked *c)
{
    return qc_fvalue_whole(known_rank(c)->shape.rank);
}

static int64_t axis_in(const struct qc_asked *c, int64_t axis, int64_t rank)
{
    if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
    qc_fail(c->frame->st, QC_BAD_INPUT, "axis %" PRId64 " of a tensor of %" PRId64 " dimensions", axis, rank);
    return 0;
}

static struct qc_fvalue run_axis(const struct qc_asked *c)
{
    const int rank = known_rank(c)->shape.rank;
    return qc_fvalue_whole(axis_in(c, whole_of(c, 1), rank));
}

/* Returns a dimension: a number if it is fixed, else a tensor of one element. */
static struct qc_fvalue dimension(const struct qc_asked *c, int64_t axis)
{
    const struct qc_number index = qc_number_whole(axis);
    const int64_t size = asked_type(c)->shape.dim[axis];
    if (size != QC_FREE) return qc_fvalue_whole(size);
    const struct qc_fvalue pick[] = {qc_expanding_node(c->frame, QC_OP_Shape, 1, c->args),
                                     {.kind = QC_FVALUE_LIST, .count = 1, .items = &index}};
    return qc_expanding_node(c->frame, QC_OP_Gather, 2, pick);
}

static struct qc_fvalue run_dim(const struct qc_asked *c)
{
    const int rank = known_rank(c)->shape.rank;
    return dimension(c, axis_in(c, whole_of(c, 1), rank));
}

static struct qc_fvalue run_shape(const struct qc_asked *c)
{
    struct qc_fvalue parts[QC_RANK_MAX];
    struct qc_number *none;
    if (c->count == 1 && !qc_shape_fixed(&asked_type(c)->shape))
        return qc_expanding_node(c->frame, QC_OP_Shape, 1, c->args);
    const int64_t rank = known_rank(c)->shape.rank;
    int64_t from = c->count > 1 ? whole_of(c, 1) : 0, to = c->count > 2 ? whole_of(c, 2) : rank;
    if (from < 0) from += rank;
    if (to < 0) to += rank;
    if (from < 0 || to > rank) return qc_expression_fail(c->frame, QC_BAD_INPUT, "an input has too few dimensions");
    if (from >= to) return list_of(&none, c, 0);
    for (int64_t i = from; i < to; i++) parts[i - from] = dimension(c, i);
    return qc_expanding_concat(c->frame, parts, (size_t)(to - from));
}

static struct qc_fvalue run_dtype(const struct qc_asked *c)
{
    return qc_fvalue_whole(qc_dtype_info(asked_type(c)->dtype)->onnx);
}

static double is_present(const struct qc_asked *c)
{
    return c->args->kind != QC_FVALUE_ABSENT;
}

static struct qc_fvalue run_ranked(const struct qc_asked *c)
{
    return qc_fvalue_whole(asked_type(c)->shape.rank >= 0);
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

static struct qc_fvalue run_value(const struct qc_asked *c)
{
    const struct qc_tensor *t = constant_at(c);
    return t && t->count == 1 ? (struct qc_fvalue){.kind = QC_FVALUE_NUMBER, .number = element(t, 0)}
                              : qc_fvalue_tensor(0);
}

static struct qc_fvalue run_items(const struct qc_asked *c)
{
    const struct qc_tensor *t = constant_at(c);
    struct qc_number *items;
    if (!t || t->shape.rank > 1 || t->count > QC_EXPRESSION_ITEMS) return qc_fvalue_tensor(0);
    const struct qc_fvalue out = list_of(&items, c, t->count);
    for (size_t i = 0; i < out.count; i++) items[i] = element(t, i);
    return out;
}

static struct qc_fvalue run_cast(const struct qc_asked *c)
{
    const struct qc_type *t = argument_type(c->frame, c->args);
    if (c->args->kind == QC_FVALUE_ABSENT) return *c->args;
    const int64_t to = whole_of(c, 1);
    const enum qc_dtype dtype = to < 0 || to > 99 ? QC_NONE : qc_dtype_from_onnx((int)to);
    if (dtype == QC_NONE) qc_fail(c->frame->st, QC_UNSUPPORTED, "type %" PRId64 " of ONNX is not handled", to);
    if (c->frame->st->code != QC_OK) return qc_fvalue_tensor(0);
    const struct qc_attr attr = QC_INT("to", to);
    if (!t) return qc_fvalue_tensor(qc_expression_constant(c->frame, dtype, c->args));
    return t->dtype == dtype ? *c->args : qc_expanding_node_with(c->frame, QC_OP_Cast, 1, c->args, 1, 1, &attr);
}

static struct qc_fvalue run_len(const struct qc_asked *c)
{
    if (c->args->kind != QC_FVALUE_LIST) return qc_expression_fail(c->frame, QC_BAD_INPUT, "a list was expected");
    return qc_fvalue_whole((int64_t)c->args->count);
}

static struct qc_fvalue run_seq(const struct qc_asked *c)
{
    const int64_t from = whole_of(c, 0), to = whole_of(c, 1);
    const bool few = from >= -QC_EXPRESSION_ITEMS && to <= QC_EXPRESSION_ITEMS;
    struct qc_number *items;
    const struct qc_fvalue out = list_of(&items, c, !few ? SIZE_MAX : to > from ? (size_t)(to - from) : 0);
    for (size_t i = 0; i < out.count; i++) items[i] = qc_number_whole(from + (int64_t)i);
    return out;
}

static struct qc_fvalue run_repeat(const struct qc_asked *c)
{
    if (c->args->kind != QC_FVALUE_NUMBER) return qc_expression_fail(c->frame, QC_BAD_INPUT, "a number was expected");
    const int64_t count = whole_of(c, 1);
    struct qc_number *items;
    const struct qc_fvalue out = list_of(&items, c, count > 0 ? (size_t)count : 0);
    for (size_t i = 0; i < out.count; i++) items[i] = c->args->number;
    return out;
}

/* Replaces the elements `at` of a list (each from -count on) by one number or by as many numbers. */
static struct qc_fvalue run_replace(const struct qc_asked *c)
{
    const struct qc_fvalue *at = &c->args[1], *by = &c->args[2];
    struct qc_number *items;
    if (c->args->kind != QC_FVALUE_LIST || at->kind != QC_FVALUE_LIST || by->kind != QC_FVALUE_LIST)
        return qc_expression_fail(c->frame, QC_BAD_INPUT, "three lists were expected");
    if (at->count != by->count) return qc_expression_fail(c->frame, QC_BAD_INPUT, "lists of different length");
    const struct qc_fvalue out = list_of(&items, c, c->args->count);
    if (out.count) memcpy(items, c->args->items, out.count * sizeof *items);
    for (size_t i = 0; i < at->count; i++) {
        if (at->items[i].real) return qc_expression_fail(c->frame, QC_BAD_INPUT, "indices were expected");
        const int64_t k = axis_in(c, at->items[i].i, (int64_t)out.count);
        if (out.count) items[k] = by->items[i];
    }
    return out;
}

/* Minimum or maximum of numbers, or element by element of lists. */
static struct qc_fvalue run_extreme(const struct qc_asked *c)
{
    const enum qc_sign sign = c->upper ? QC_SIGN_GE : QC_SIGN_LE;
    const struct qc_fvalue *a = c->args, *longer = a->kind == QC_FVALUE_LIST ? a : a + 1;
    struct qc_number *items;
    for (unsigned i = 0; i < 2; i++)
        if (a[i].kind != QC_FVALUE_NUMBER && a[i].kind != QC_FVALUE_LIST)
            return qc_expression_fail(c->frame, QC_UNSUPPORTED, "a size has to be known here");
    if (longer->kind != QC_FVALUE_LIST) return a[qc_fvalue_compare(sign, a, a + 1) ? 0 : 1];
    const struct qc_fvalue out = list_of(&items, c, longer->count);
    for (size_t i = 0; i < out.count; i++) {
        struct qc_fvalue pair[2];
        for (unsigned k = 0; k < 2; k++) {
            if (a[k].kind == QC_FVALUE_LIST && a[k].count <= i)
                return qc_expression_fail(c->frame, QC_BAD_INPUT, "lists of different length");
            pair[k] = (struct qc_fvalue){.kind = QC_FVALUE_NUMBER,
                                         .number = a[k].kind == QC_FVALUE_LIST ? a[k].items[i] : a[k].number};
        }
        items[i] = pair[qc_fvalue_compare(sign, pair, pair + 1) ? 0 : 1].number;
    }
    return out;
}

static struct qc_fvalue run_sqrt(const struct qc_asked *c)
{
    if (c->args->kind != QC_FVALUE_NUMBER)
        return qc_expression_fail(c->frame, QC_UNSUPPORTED, "a size has to be known here");
    return qc_fvalue_real(sqrt(qc_number_double(c->args->number)));
}

static struct qc_number floor_of(const struct qc_asked *c, struct qc_number n)
{
    if (!n.real) return n;
    if (fabs(n.f) < 0x1p53) return qc_number_whole((int64_t)floor(n.f));
    qc_expression_fail(c->frame, QC_BAD_INPUT, "a size is too large");
    return n;
}

static struct qc_fvalue run_floor(const struct qc_asked *c)
{
    struct qc_fvalue out = *c->args;
    struct qc_number *items;
    out.number = floor_of(c, out.number);
    if (out.kind == QC_FVALUE_NUMBER) return out;
    if (out.kind != QC_FVALUE_LIST) return qc_expression_fail(c->frame, QC_UNSUPPORTED, "a size has to be known here");
    out = list_of(&items, c, c->args->count);
    for (size_t i = 0; i < out.count; i++) items[i] = floor_of(c, c->args->items[i]);
    return out;
}

/* Reshapes a tensor of one element to rank 0. Numbers are returned unchanged. */
static struct qc_fvalue run_scalar(const struct qc_asked *c)
{
    const struct qc_type *t = argument_type(c->frame, c->args);
    return !t || t->shape.rank == 0 ? *c->args : qc_expanding_node(c->frame, QC_OP_Squeeze, 1, c->args);
}

static struct qc_fvalue run_wanted(const struct qc_asked *c)
{
    const int64_t k = whole_of(c, 0);
    return qc_fvalue_whole(k >= 0 && k < (int64_t)c->frame->call->output_count && c->frame->call->wanted[k]);
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
    {"min", "min(a, b): of numbers, of lists element by element", 2, 2, .run = run_extreme},
    {"max", "max(a, b): of numbers, of lists element by element", 2, 2, .run = run_extreme, .upper = true},
    {"scalar", "scalar(x): a tensor of one element, without dimensions", 1, 1, .run = run_scalar},
    {"sqrt", "sqrt(a): of a number", 1, 1, .run = run_sqrt},
    {"floor", "floor(a): of a number, of a list element by element", 1, 1, .run = run_floor},
    {"wanted", "wanted(k): something reads output k", 1, 1, .run = run_wanted},
    {.name = NULL},
};
