// SPDX-License-Identifier: Apache-2.0
/* RNN, GRU, LSTM (opsets 7 to 22): Y [steps, directions, batch, hidden] or, with layout 1, [batch, steps, directions,
   hidden]; Y_h and Y_c [directions, batch, hidden] or [batch, directions, hidden]. */
#include "graph/core/recurrent.h"
#include "graph/infer/infer_help.h"

bool qc_infer_recurrent(struct qc_infer *c, struct qc_status *st)
{
    struct qc_recurrent r;
    const enum qc_dtype x = qc_in(c, 0)->dtype;
    if (!qc_recurrent_of(&r, c->graph, c->node, st)) return false;
    const struct qc_shape y = r.batchwise ? QC_SHAPE(r.batch, r.steps, r.directions, r.hidden)
                                          : QC_SHAPE(r.steps, r.directions, r.batch, r.hidden);
    const struct qc_shape last =
        r.batchwise ? QC_SHAPE(r.batch, r.directions, r.hidden) : QC_SHAPE(r.directions, r.batch, r.hidden);
    for (unsigned k = 0; k < c->node->output_count; k++)
        if (!qc_infer_set(c, k, x, k ? &last : &y, st)) return false;
    return true;
}

/* DynamicQuantizeLSTM has integer weights [directions, input, 4 * hidden]. */
bool qc_infer_dynamic_lstm(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *r = &qc_in(c, 2)->shape;
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    if (x->rank != 3 || r->rank != 3)
        return qc_fail(st, QC_BAD_INPUT, "X of shape %s and R of shape %s, expected rank 3", qc_shape_text(a, x),
                       qc_shape_text(b, r));
    const struct qc_shape y = QC_SHAPE(x->dim[0], r->dim[0], x->dim[1], r->dim[1]),
                          last = QC_SHAPE(r->dim[0], x->dim[1], r->dim[1]);
    for (unsigned k = 0; k < c->node->output_count; k++)
        if (!qc_infer_set(c, k, QC_F32, k ? &last : &y, st)) return false;
    return true;
}
