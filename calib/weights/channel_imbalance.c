// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/round_weights.h"
#include "calib/weights/sum_bound.h"

#include <math.h>
#include <stdlib.h>

/* Of struct qc_channel_imbalance: an 8-bit scale leaves channels below SMALL about three levels. */
#define SMALL 0.01f
enum { SHARE = 4 };

bool qc_weight_imbalance(struct qc_channel_imbalance *out, const struct qc_graph *g, struct qc_status *st)
{
    *out = (struct qc_channel_imbalance){0};
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_node *q = n->input_count > 1 && n->inputs[1] ? qc_node_of(g, n->inputs[1]) : NULL;
        if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT || !q || q->op != QC_OP_Quantize) continue;
        const struct qc_qparams *s = &g->qparams_of[g->values[q->outputs].type.qparams];
        const struct qc_tensor *t = qc_constant_of(g, q->inputs[0]); /* a weight with one scale */
        if (!s->is_weight || s->per_channel || !t || t->dtype != QC_F32 || t->shape.rank < 2 || !t->count) continue;
        const int axis = n->op == QC_OP_ConvTranspose ? 1 : qc_sum_axis(g, n);
        const size_t channels = (size_t)t->shape.dim[axis];
        size_t inner = 1, small = 0, all = 0;
        float largest = 0, *top = calloc(channels, sizeof *top);
        if (!top) return qc_fail_memory(st, channels * sizeof *top);
        for (int i = axis + 1; i < t->shape.rank; i++) inner *= (size_t)t->shape.dim[i];
        for (size_t i = 0; i < t->count; i++) {
            const size_t c = i / inner % channels;
            top[c] = fmaxf(top[c], fabsf(((const float *)t->data)[i]));
            largest = fmaxf(largest, top[c]);
        }
        for (size_t c = 0; c < channels; c++) {
            all += top[c] > 0;
            small += top[c] > 0 && top[c] < SMALL * largest;
        }
        free(top);
        if (small * SHARE < all || !small) continue;
        out->layers++;
        if (out->worst && small * out->channels <= out->small * all) continue;
        out->worst = id;
        out->small = small;
        out->channels = all;
    }
    return true;
}
