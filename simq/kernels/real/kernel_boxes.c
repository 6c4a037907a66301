// SPDX-License-Identifier: Apache-2.0
/* NonMaxSuppression-11: the shape of the result gives the number of selected boxes. */
#include "graph/infer/boxes.h"
#include "simq/core/kernel_util.h"

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    bool *centred = QC_NEW_STATE(p, bool, st);
    if (centred) *centred = qc_attr_int(p->node, "center_point_box", 0) != 0;
    return centred != NULL;
}

static struct qc_tensor tensor_of(const struct qc_view *v)
{
    return (struct qc_tensor){.dtype = v->dtype,
                              .shape = qc_shape_of(v->rank, v->dim),
                              .count = qc_view_count(v),
                              .data = v->data};
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *y = &r->out[0];
    struct qc_tensor in[5];
    const struct qc_tensor *limit[3] = {NULL};
    for (unsigned i = 0; i < r->input_count && i < 5; i++) {
        in[i] = tensor_of(&r->in[i]);
        if (i > 1 && r->in[i].rank >= 0) limit[i - 2] = &in[i];
    }
    struct qc_boxes b = {.boxes = &in[0], .scores = &in[1], .centred = *(const bool *)r->state};
    qc_boxes_limits(&b, limit[0], limit[1], limit[2]);
    struct qc_arena *a = qc_arena_new();
    int64_t *list = NULL;
    size_t count = 0;
    bool ok = a ? qc_boxes_select(&list, &count, &b, a, st) : qc_fail_memory(st, sizeof b);
    if (ok && (int64_t)count != y->dim[0])
        ok = qc_fail(st, QC_BAD_INPUT, "%zu boxes are selected, which does not match the shape of the result", count);
    for (size_t i = 0; ok && i < 3 * count; i++)
        ((int64_t *)y->data)[(int64_t)(i / 3) * y->stride[0] + (int64_t)(i % 3) * y->stride[1]] = list[i];
    qc_arena_free(a);
    return ok;
}

QC_KERNEL(non_max_suppression, .order = QC_ORDER_ROW, .prepare = prepare, .run = run);
