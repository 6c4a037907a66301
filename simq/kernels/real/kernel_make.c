// SPDX-License-Identifier: Apache-2.0
/* Tensors made from shapes and numbers: Shape-15, Size-13, ConstantOfShape-9, Range-11. */
#include "simq/core/kernel.h"
#include "simq/core/kernel_util.h"

static bool prepare_shape(struct qc_prepare *p, struct qc_status *st)
{
    int64_t *begin = QC_NEW_STATE(p, int64_t, st); /* -1: the product of all dims (Size) */
    if (!begin) return false;
    const int rank = p->in[0].rank;
    int64_t start = qc_attr_int(p->node, "start", 0);
    if (start < 0) start += rank;
    *begin = p->node->op == QC_OP_Size ? -1 : start < 0 ? 0 : start > rank ? rank : start;
    return true;
}

static bool run_shape(const struct qc_run *r, struct qc_status *st)
{
    const int64_t begin = *(const int64_t *)r->state;
    int64_t *to = r->out[0].data;
    if (begin < 0) {
        *to = (int64_t)qc_view_count(&r->in[0]);
        return true;
    }
    const int64_t n = r->out[0].dim[0]; /* the shape of the output includes attribute "end" */
    for (int64_t i = 0; i < n; i++) to[i] = r->in[0].dim[begin + i];
    return true;
}

static bool prepare_constant(struct qc_prepare *p, struct qc_status *st)
{
    uint64_t *element = QC_NEW_STATE(p, uint64_t, st);
    if (!element) return false;
    const struct qc_attr *value = qc_attr_find(p->node, "value");
    if (!value) return true;
    if (value->kind != QC_ATTR_TENSOR || value->tensor->count != 1 || value->tensor->dtype != p->out[0].dtype)
        return qc_fail(st, QC_BAD_INPUT, "attribute value is not a tensor of one element of the output's type");
    /* The shape input does not matter: the plan has fixed the shape. */
    for (size_t i = 0; i < value->tensor->bytes && i < sizeof *element; i++)
        ((unsigned char *)element)[i] = ((const unsigned char *)value->tensor->data)[i];
    return true;
}

static bool run_constant(const struct qc_run *r, struct qc_status *st)
{
    qc_view_fill(&r->out[0], r->state);
    return true;
}

static bool run_range(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *to = &r->out[0];
    const int64_t n = (int64_t)qc_view_count(to);
#define QC_RANGE(NAME, T, W)                                                                                           \
    if (to->dtype == QC_##NAME) {                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                \
            ((T *)to->data)[i] = (T)((W) * (const T *)r->in[0].data + (W)i * (W) * (const T *)r->in[2].data);          \
        return true;                                                                                                   \
    }
    QC_RANGE(F32, float, float)
    QC_RANGE(F64, double, double)
    QC_RANGE(I16, int16_t, uint64_t)
    QC_RANGE(I32, int32_t, uint64_t)
    QC_RANGE(I64, int64_t, uint64_t)
#undef QC_RANGE
    return qc_kernel_no_type(to->dtype, st);
}

QC_KERNEL(shape, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_shape, .run = run_shape);
QC_KERNEL(constant_of_shape, .halves = true, .order = QC_ORDER_ROW, .prepare = prepare_constant, .run = run_constant);
QC_KERNEL(range, .order = QC_ORDER_ROW, .run = run_range);

/* Operators that are only written to files. When a file is read, functions replace them by other ops
   (rewrite/rules/functions.rules). */

static bool prepare_make(struct qc_prepare *p, struct qc_status *st)
{
    return qc_fail(st, QC_UNSUPPORTED, "%s has no kernel of its own: it is computed as a function of other operators",
                   qc_op_info(p->node->op)->onnx);
}

static bool run_make(const struct qc_run *r, struct qc_status *st)
{
    return qc_fail(st, QC_UNSUPPORTED, "is not computed");
}

QC_KERNEL(written, .order = QC_ORDER_ROW, .prepare = prepare_make, .run = run_make);
