// SPDX-License-Identifier: Apache-2.0
/* Ops that return another view of their input's memory. */
#include "graph/core/infer.h"
#include "simq/plan/plan_parts.h"

static int64_t bytes_of_plan_alias(const struct qc_view *v, int64_t elements)
{
    return elements * (int64_t)qc_dtype_size(v->dtype);
}

/* Reshape, Flatten, Squeeze, Unsqueeze: of row-major memory, or with dimensions of size 1 inserted or removed. */
static bool reshaped_alias(struct qc_view *out, const struct qc_view *in, const struct qc_shape *to)
{
    struct qc_view v = qc_view_of(in->dtype, to, QC_LAYOUT_ROW, NULL);
    if (!qc_view_row_major(in)) {
        int k = 0;
        for (int i = 0; i < to->rank; i++) {
            if (to->dim[i] == 1) continue;
            while (k < in->rank && in->dim[k] == 1) k++;
            if (k == in->rank || in->dim[k] != to->dim[i]) return false;
            v.stride[i] = in->stride[k++];
        }
        while (k < in->rank && in->dim[k] == 1) k++;
        if (k != in->rank) return false;
        for (int i = to->rank; i-- > 0;)
            if (to->dim[i] == 1) v.stride[i] = i + 1 < to->rank ? v.stride[i + 1] * v.dim[i + 1] : 1;
    }
    *out = v;
    return true;
}

bool qc_plan_alias(struct qc_plan_operand *out, const struct qc_graph *g, const struct qc_node *n,
                   const struct qc_plan_operand *in)
{
    const struct qc_shape *shape = &qc_value(g, n->outputs)->type.shape;
    struct qc_view v = in->view;
    v.data = NULL;
    for (unsigned i = 0; i < n->output_count; i++) {
        out[i] = *in;
        out[i].view.data = NULL;
    }
    if (n->op == QC_OP_Transpose) {
        const int64_t *perm;
        const size_t count = qc_attr_ints(n, "perm", &perm);
        struct qc_view turned = v;
        for (int i = 0; i < v.rank; i++) {
            const int from = count ? (int)perm[i] : v.rank - 1 - i;
            turned.dim[i] = v.dim[from];
            turned.stride[i] = v.stride[from];
        }
        out->view = turned;
        return true;
    }
    if (n->op == QC_OP_Slice) {
        struct qc_slice s;
        struct qc_status ignored = QC_STATUS_INIT; /* the kernel reports the error */
        if (!qc_slice_of(&s, g, n, &ignored)) return false;
        for (int i = 0; i < v.rank; i++) {
            out->offset += bytes_of_plan_alias(&v, s.start[i] * v.stride[i]);
            out->view.dim[i] = s.count[i];
            out->view.stride[i] = s.step[i] * v.stride[i];
        }
        return true;
    }
    if (n->op == QC_OP_Split) {
        int axis;
        int64_t begin = 0;
        struct qc_status ignored = QC_STATUS_INIT;
        if (!qc_axis_of(&axis, qc_attr_int(n, "axis", 0), v.rank, &ignored)) return false;
        for (unsigned i = 0; i < n->output_count; i++) {
            const int64_t size = qc_value(g, n->outputs + i)->type.shape.dim[axis];
            out[i].offset += bytes_of_plan_alias(&v, begin * v.stride[axis]);
            out[i].view.dim[axis] = size;
            begin += size;
        }
        return begin == v.dim[axis];
    }
    if (n->op == QC_OP_Expand) {
        const struct qc_view to = qc_view_of(v.dtype, shape, QC_LAYOUT_ROW, NULL);
        out->view = qc_view_broadcast(&v, &to);
        return true;
    }
    return qc_kernel_of(n->op)->alias && reshaped_alias(&out->view, &v, shape);
}
