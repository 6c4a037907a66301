// SPDX-License-Identifier: Apache-2.0
/* Quantize, Dequantize, Requantize: from the space of the input to the space of the output, whatever these are. */
#include <math.h>

#include "simq/rounding.h"

struct state {
    struct qc_rounding rounding;
    int axis;
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW(p->arena, struct state, st);
    if (!s) return false;
    if (p->in[0].dtype != QC_F32 || p->out[0].dtype != QC_F32)
        return qc_fail(st, QC_UNSUPPORTED, "element type %s, only f32 is handled", qc_dtype_info(p->in[0].dtype)->name);
    s->axis = p->in_scales[0].count > 1 ? p->in_scales[0].axis : p->out_scales[0].axis;
    p->state = s;
    return qc_rounding_of(&s->rounding, &p->in_scales[0], &p->out_scales[0], -INFINITY, INFINITY, p->arena, st);
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    (void)st;
    qc_rounding_view(&s->rounding, s->axis, &r->out[0], &r->in[0]);
    return true;
}

const struct qc_kernel qc_kernel_quantize = {
    .name = "quantize", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
const struct qc_kernel qc_kernel_dequantize = {
    .name = "dequantize", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
const struct qc_kernel qc_kernel_requantize = {
    .name = "requantize", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
