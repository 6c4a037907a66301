// SPDX-License-Identifier: Apache-2.0
/* Nodes and constants of an expanded function. */
#include <string.h>

#include "graph/types/small_float.h"
#include "rewrite/language/expansion_parts.h"

static bool put(void *to, enum qc_dtype dtype, size_t i, struct qc_number n)
{
    const double f = qc_number_double(n);
    const int64_t v = n.real ? (f > -0x1p63 && f < 0x1p63 ? (int64_t)f : 0) : n.i;
    switch (dtype) {
    case QC_F32: ((float *)to)[i] = (float)f; return true;
    case QC_F64: ((double *)to)[i] = f; return true;
    case QC_F16: ((uint16_t *)to)[i] = qc_float_to_half((float)f); return true;
    case QC_BF16: ((uint16_t *)to)[i] = qc_float_to_bfloat((float)f); return true;
    case QC_I64: ((int64_t *)to)[i] = v; return true;
    case QC_U64: ((uint64_t *)to)[i] = (uint64_t)v; return true;
    case QC_I32: ((int32_t *)to)[i] = (int32_t)v; return true;
    case QC_U32: ((uint32_t *)to)[i] = (uint32_t)v; return true;
    case QC_I16: ((int16_t *)to)[i] = (int16_t)v; return true;
    case QC_U16: ((uint16_t *)to)[i] = (uint16_t)v; return true;
    case QC_I8: ((int8_t *)to)[i] = (int8_t)v; return true;
    case QC_U8: ((uint8_t *)to)[i] = (uint8_t)v; return true;
    case QC_BOOL: ((uint8_t *)to)[i] = f != 0; return true;
    case QC_U4:
    case QC_I4:
    case QC_U2:
    case QC_I2:
    QC_CASE_SMALL_FLOATS:
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
    return false;
}

bool qc_expanding_constant(qc_id *out, struct qc_expanding *x, enum qc_dtype dtype, const struct qc_fvalue *v,
                           struct qc_status *st)
{
    const bool list = v->kind == QC_FVALUE_LIST;
    const size_t count = list ? v->count : 1;
    const struct qc_shape shape = {.rank = list, .dim = {list ? (int64_t)count : 0}};
    struct qc_tensor *t;
    if (!list && v->kind != QC_FVALUE_NUMBER)
        return qc_fail(st, QC_BAD_INPUT, "a number or a list was expected, got %s",
                       v->kind == QC_FVALUE_TEXT ? "a text" : "nothing");
    if (!(t = qc_tensor_new(dtype, &shape, st))) return false;
    for (size_t i = 0; i < count; i++)
        if (!put(t->data, dtype, i, list ? v->items[i] : v->number)) {
            qc_tensor_unref(t);
            return qc_fail(st, QC_UNSUPPORTED, "numbers of type %s are not handled here", qc_dtype_info(dtype)->name);
        }
    return (*out = qc_graph_add_made_constant(x->g, NULL, t, st)) != 0;
}

/* Returns true for ops whose number arguments have the type of their tensors. Numbers of other ops are indices. */
static bool same_types(enum qc_op op)
{
    static const enum qc_op ops[] = {
        QC_OP_Add,         QC_OP_Sub,   QC_OP_Mul,     QC_OP_Div,   QC_OP_Pow,   QC_OP_Mod,
        QC_OP_Max,         QC_OP_Min,   QC_OP_Sum,     QC_OP_PRelu, QC_OP_Clip,  QC_OP_Less,
        QC_OP_LessOrEqual, QC_OP_Equal, QC_OP_Greater, QC_OP_Where, QC_OP_And,   QC_OP_GreaterOrEqual,
        QC_OP_Or,          QC_OP_Range, QC_OP_MatMul,  QC_OP_Gemm,  QC_OP_Concat};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i] == op) return true;
    return false;
}

static bool operands(qc_id in[QC_EXPANSION_ARGS], struct qc_expanding *x, enum qc_op op, const struct qc_fvalue *args,
                     unsigned count, struct qc_status *st)
{
    enum qc_dtype like = QC_NONE;
    const unsigned first = op == QC_OP_Where ? 1 : 0;
    for (unsigned i = first; i < count && like == QC_NONE; i++)
        if (args[i].kind == QC_FVALUE_TENSOR) like = x->g->values[args[i].id].type.dtype;
    for (unsigned i = 0; i < count; i++) {
        const bool follows = (same_types(op) && i >= first) || (op == QC_OP_Pad && i == 2);
        const enum qc_dtype own = qc_fvalue_dtype(&args[i]);
        in[i] = QC_ABSENT;
        if (args[i].kind == QC_FVALUE_TENSOR)
            in[i] = args[i].id;
        else if (args[i].kind != QC_FVALUE_ABSENT &&
                 !qc_expanding_constant(&in[i], x, follows && like != QC_NONE ? like : own, &args[i], st))
            return false;
    }
    return true;
}

bool qc_expanding_node(qc_id *first, struct qc_expanding *x, enum qc_op op, const struct qc_fvalue *args,
                       unsigned arg_count, unsigned outputs, const struct qc_attr *attrs, unsigned attr_count,
                       struct qc_status *st)
{
    qc_id in[QC_EXPANSION_ARGS];
    if (!operands(in, x, op, args, arg_count, st)) return false;
    while (arg_count && !in[arg_count - 1]) arg_count--;
    const unsigned k = x->used[op]++;
    const char *name = k ? qc_arena_printf(x->arena, st, "%s/%s_%u", x->call->label, qc_op_info(op)->name, k)
                         : qc_arena_printf(x->arena, st, "%s/%s", x->call->label, qc_op_info(op)->name);
    const struct qc_node_def def = {.op = op,
                                    .name = name,
                                    .input_count = arg_count,
                                    .output_count = outputs,
                                    .inputs = in,
                                    .attr_count = attr_count,
                                    .attrs = attrs};
    return name && (*first = qc_graph_add(x->g, &def, st));
}

bool qc_expanding_concat(struct qc_fvalue *out, struct qc_expanding *x, const struct qc_fvalue *items, size_t count,
                         struct qc_status *st)
{
    struct qc_fvalue parts[QC_EXPANSION_ARGS];
    struct qc_number *run = QC_NEW_ARRAY(x->arena, struct qc_number, QC_EXPANSION_ITEMS, st);
    const struct qc_attr axis = QC_INT("axis", 0);
    size_t filled = 0;
    unsigned n = 0;
    qc_id id;
    if (!run) return false;
    for (size_t i = 0; i < count; i++) {
        const bool number = items[i].kind == QC_FVALUE_NUMBER;
        const bool joins = number && n && parts[n - 1].kind == QC_FVALUE_LIST;
        if (!number && items[i].kind != QC_FVALUE_TENSOR)
            return qc_fail(st, QC_BAD_INPUT, "a list of numbers and sizes was expected");
        if (n == QC_EXPANSION_ARGS && !joins) return qc_fail(st, QC_UNSUPPORTED, "a shape of too many parts");
        if (joins) {
            parts[n - 1].count++;
            run[filled++] = items[i].number;
        } else {
            parts[n++] =
                number ? (struct qc_fvalue){.kind = QC_FVALUE_LIST, .count = 1, .items = run + filled} : items[i];
            if (number) run[filled++] = items[i].number;
        }
    }
    if (n == 1) {
        *out = parts[0];
        return true;
    }
    if (!qc_expanding_node(&id, x, QC_OP_Concat, parts, n, 1, &axis, 1, st)) return false;
    *out = qc_fvalue_tensor(id);
    return true;
}
