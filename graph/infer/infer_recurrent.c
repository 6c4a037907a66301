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
