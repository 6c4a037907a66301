// SPDX-License-Identifier: Apache-2.0
/* DepthToSpace-13 and SpaceToDepth-13 of [N,C,H,W]: one copy between two windows of rank 6. */
#include <string.h>

#include "simq/core/kernel_util.h"

struct state {
    bool to_space, crd;
    int64_t block;
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW(p->arena, struct state, st);
    if (!s) return false;
    const char *mode = qc_attr_string(p->node, "mode", "DCR");
    s->to_space = p->node->op == QC_OP_DepthToSpace;
    s->crd = s->to_space && strcmp(mode, "CRD") == 0;
    s->block = qc_attr_int(p->node, "blocksize", 1);
    if (!s->crd && strcmp(mode, "DCR") != 0)
        return qc_fail(st, QC_BAD_INPUT, "attribute mode is \"%s\", expected \"DCR\" or \"CRD\"", mode);
    if (p->in[0].rank != 4) return qc_fail(st, QC_BAD_INPUT, "input has rank %d, expected 4", p->in[0].rank);
    p->state = s;
    return true;
}

/* As [N, c, H, b, W, b]: of the tensor with large planes, and of the one with many channels. */
static struct qc_view blocked(const struct qc_view *v, const struct qc_view *deep, const struct state *s, bool is_deep)
{
    const int64_t b = s->block, channels = deep->dim[1] / (b * b);
    struct qc_view w = {.dtype = v->dtype, .rank = 6, .data = v->data};
    const int64_t dim[6] = {deep->dim[0], channels, deep->dim[2], b, deep->dim[3], b};
    for (int d = 0; d < 6; d++) w.dim[d] = dim[d];
    w.stride[0] = v->stride[0];
    if (is_deep) {
        const int64_t each =
            s->crd ? v->stride[1] : v->stride[1] * channels; /* step from block position to block position */
        w.stride[1] = s->crd ? v->stride[1] * b * b : v->stride[1];
        w.stride[2] = v->stride[2];
        w.stride[3] = each * b;
        w.stride[4] = v->stride[3];
        w.stride[5] = each;
    } else {
        w.stride[1] = v->stride[1];
        w.stride[2] = v->stride[2] * b;
        w.stride[3] = v->stride[2];
        w.stride[4] = v->stride[3] * b;
        w.stride[5] = v->stride[3];
    }
    return w;
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct state *s = r->state;
    const struct qc_view *deep = s->to_space ? &r->in[0] : &r->out[0];
    const struct qc_view from = blocked(&r->in[0], deep, s, s->to_space),
                         to = blocked(&r->out[0], deep, s, !s->to_space);
    qc_view_copy(&to, &from);
    return true;
}

QC_KERNEL(depth_space, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare, .run = run);
