// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "calib/metrics/measure.h"
#include "calib/weights/sum_bound.h"

/* Computes the integers of a Quantize node over a constant; *out is NULL, without an error, for another value. */
static bool integers(struct qc_tensor **out, const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const struct qc_node *n = qc_node_of(g, value);
    *out = NULL;
    if (!n || n->op != QC_OP_Quantize || !qc_constant_of(g, n->inputs[0])) return true;
    return qc_evaluate(out, g, g->values[value].node, st);
}

bool qc_accumulator_bits(unsigned *bits, const struct qc_graph *g, qc_id node, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[node];
    struct qc_tensor *w = NULL, *b = NULL;
    int64_t *up = NULL; /* [2][channels]: sums of the positive and of the negative weights of a channel */
    double widest = 0;
    bool ok = false;
    *bits = 0;
    if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT || n->op == QC_OP_ConvTranspose) return true;
    const struct qc_qparams *x = qc_graph_parameters(g, n->inputs[0]), *ws = qc_graph_parameters(g, n->inputs[1]);
    if (!x || !ws) return true;
    if (!integers(&w, g, n->inputs[1], st) ||
        (n->input_count > 2 && n->inputs[2] && !integers(&b, g, n->inputs[2], st)))
        goto out;
    ok = true;
    if (!w) goto out;
    const int axis = qc_sum_axis(g, n);
    size_t channels = (size_t)w->shape.dim[axis], inner = 1;
    for (int i = axis + 1; i < w->shape.rank; i++) inner *= (size_t)w->shape.dim[i];
    up = calloc(2 * channels + 1, sizeof *up);
    if (!up) {
        ok = qc_fail_memory(st, 2 * channels * sizeof *up);
        goto out;
    }
    struct qc_levels levels = qc_qparams_levels(x);
    const int64_t *down = up + channels;
    qc_tensor_parts(up, up + channels, w, channels, inner, ws->zero_point, ws->count);
    for (size_t c = 0; c < channels; c++) {
        const double zero = x->zero_point[x->count == 1 ? 0 : c], below = (double)levels.lo - zero,
                     above = (double)levels.hi - zero;
        const double most = (double)up[c] * above + (double)down[c] * below,
                     least = (double)up[c] * below + (double)down[c] * above;
        const double bias = b && c < b->count ? (double)qc_tensor_int(b, c) : 0;
        widest =
            fmax(widest, fmax(most + fmax(bias, 0), -least + fmax(-bias, 0))); /* the bias may be added first or last */
    }
    *bits = qc_bits_for(widest);
out:
    free(up);
    qc_tensor_unref(w);
    qc_tensor_unref(b);
    return ok;
}
