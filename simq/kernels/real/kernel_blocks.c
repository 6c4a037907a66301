// SPDX-License-Identifier: Apache-2.0
/* RoundInBlocks: rounds values to a number format whose blocks lie along one axis, with scales from the values
   (graph/types/number_format.h). The last block may be shorter. */
#include <math.h>

#include "arith/float_level.h"
#include "graph/types/number_format.h"
#include "simq/core/kernel_util.h"

struct blocks {
    const struct qc_number_format *format;
    int axis;
};

static bool prepare_in_blocks(struct qc_prepare *p, struct qc_status *st)
{
    struct blocks *b = QC_NEW(p->arena, struct blocks, st);
    if (!(p->state = b) || !qc_kernel_axis(&b->axis, p, -1, st)) return false;
    b->format = qc_number_format_named(qc_attr_string(p->node, "format", ""));
    return true;
}

static float largest_of(const float *x, int64_t n, int64_t stride)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i * stride]));
    return largest;
}

static bool run_in_blocks(const struct qc_run *r, struct qc_status *st)
{
    const struct blocks *b = r->state;
    const struct qc_view *v = &r->in[0];
    int64_t outer = 1, stride = 1;
    for (int i = 0; i < v->rank; i++) *(i < b->axis ? &outer : &stride) *= i == b->axis ? 1 : v->dim[i];
    const int64_t length = v->dim[b->axis], block = b->format->block;
    const bool rows = b->format->scale == QC_SCALE_FLOAT8;
    const struct qc_levels levels = b->format->levels;
    const float lo = (float)levels.lo, hi = (float)levels.hi;
    for (int64_t i = 0; i < outer * stride; i++) {
        const int64_t at = i / stride * length * stride + i % stride;
        const float *x = (const float *)v->data + at;
        float *y = (float *)r->out[0].data + at;
        const float of_row = rows ? largest_of(x, length, stride) : 0;
        for (int64_t k = 0; k < length; k += block) {
            const int64_t n = length - k < block ? length - k : block;
            const float scale = qc_block_scale(b->format, largest_of(x + k * stride, n, stride), of_row);
            for (int64_t j = k * stride; j < (k + n) * stride; j += stride) {
                const float q = x[j] / scale, within = q < lo ? lo : q > hi ? hi : q;
                y[j] = scale * (levels.mantissa ? qc_float_level(q, lo, hi, levels.mantissa, levels.least)
                                                : nearbyintf(within));
            }
        }
    }
    return true;
}

QC_KERNEL(round_in_blocks, .order = QC_ORDER_ROW, .prepare = prepare_in_blocks, .run = run_in_blocks);
