// SPDX-License-Identifier: Apache-2.0
/* Softmax of 8- and 16-bit integers under the contracts "tflite" and "xnnpack": Dequantize, Softmax along the last axis
   and Quantize to the parameters that the contract fixes, as one step on integers. */
#include "arith/tflite.h"
#include "simq/core/convert.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"

struct softmax {
    struct qc_tflite_softmax row;
    struct qc_tflite_softmax16 *wide; /* NULL: 8 bits */
    struct qc_litert_softmax *table;  /* 8 bits under "xnnpack"; otherwise NULL */
    int32_t lowest;
    size_t n; /* of a row */
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct softmax *s = QC_NEW_STATE(p, struct softmax, st);
    const struct qc_view *x = &p->in[0];
    if (!s) return false;
    s->row = qc_tflite_softmax_of(p->in_scales[0].scale[0], 1);
    if (x->dtype == QC_I16) {
        if (!(s->wide = QC_NEW(p->arena, struct qc_tflite_softmax16, st))) return false;
        qc_tflite_softmax16_of(s->wide, p->in_scales[0].scale[0], 1);
    } else if (p->contract == QC_CONTRACT_XNNPACK) {
        if (!(s->table = QC_NEW(p->arena, struct qc_litert_softmax, st))) return false;
        qc_litert_softmax_of(s->table, p->in_scales[0].scale[0], 1);
    }
    s->lowest = p->out_scales[0].levels.lo;
    s->n = (size_t)x->dim[x->rank - 1];
    p->scratch = s->n * sizeof(int32_t);
    return true;
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    const struct softmax *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const size_t count = qc_view_count(y);
    int32_t *level = r->scratch;
    (void)st;
    for (size_t i = 0; i < count; i += s->n) {
        qc_load_levels(level, x->dtype, qc_at(x, (int64_t)i), s->n);
        if (s->wide)
            qc_tflite_softmax16_row(s->wide, level, level, s->n);
        else if (s->table)
            qc_litert_softmax_row(s->table, level, level, s->n, s->lowest);
        else
            qc_tflite_softmax_row(&s->row, level, level, s->n, s->lowest);
        qc_store_levels(y->dtype, qc_at(y, (int64_t)i), level, s->n);
    }
    return true;
}

QC_KERNEL(int_softmax, .order = QC_ORDER_ROW, .prepare = prepare, .run = run);
