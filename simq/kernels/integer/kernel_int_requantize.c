// SPDX-License-Identifier: Apache-2.0
/* DequantizeLinear of int32 values and Quantize as one step, under the fixed-point contracts: a requantize of the
   integers. (Under "onnx" they are two float32 steps, as in ONNX Runtime.) */
#include <math.h>

#include "simq/core/convert.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_convert *c = QC_NEW_STATE(p, struct qc_convert, st);
    if (!c) return false;
    const struct qc_scales from = {.rounds = true,
                                   .count = 1,
                                   .scale = p->in[1].data,
                                   .zero_point = (const int32_t[]){0},
                                   .levels = qc_levels_of(QC_I32, false)};
    const struct qc_convert_how how = {.contract = p->contract, .graph = p->graph};
    p->detail = "int32";
    return qc_convert_of(c, (struct qc_convert_end){QC_I32, &from},
                         (struct qc_convert_end){p->out[0].dtype, &p->out_scales[0]}, -INFINITY, INFINITY, &how,
                         p->arena, st);
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    qc_convert_view(r->state, &r->out[0], &r->in[0]);
    return true;
}

QC_KERNEL(int_requantize, .order = QC_ORDER_ANY, .prepare = prepare, .run = run);
