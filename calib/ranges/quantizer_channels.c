// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/quantizer_channels.h"

#include <math.h>
#include <stdlib.h>

bool qc_quantizers_have_channels(const struct qc_graph *g)
{
    for (qc_id s = 1; s <= g->qparams_count; s++)
        if (g->qparams_of[s].kind == QC_QPARAMS_QUANTIZER && g->qparams_of[s].per_channel &&
            !g->qparams_of[s].is_weight)
            return true;
    return false;
}

int qc_quantizer_axis(const struct qc_uses *u, qc_id quantizer, qc_id value)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *from =
        qc_node_of(g, value); /* an operator of a pattern that stores its output: the value is dequantized from there */
    if (from && from->op == QC_OP_Dequantize && g->values[from->inputs[0]].type.qparams == quantizer)
        return g->values[from->inputs[0]].type.axis;
    const struct qc_use_list readers = qc_readers(u, value);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        if (n->op == QC_OP_Quantize && g->values[n->outputs].type.qparams == quantizer)
            return g->values[n->outputs].type.axis;
    }
    return -1;
}

struct channel {
    float add, times, lo, hi; /* (x + add) times; ends of the levels, centred */
    uint64_t *saturated;
};

static void turn_channel(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct channel *c = user;
    float *x = data[0];
    for (int64_t i = 0; i < n; i++) {
        const float q = x[i * stride[0]] + c->add;
        if (c->saturated) *c->saturated += q <= c->lo || q >= c->hi;
        x[i * stride[0]] = q * c->times;
    }
}

void qc_quantizer_channels_real(const struct qc_view *v, const struct qc_qparams *s, int axis, bool stored,
                                uint64_t *saturated)
{
    const struct qc_levels levels = qc_qparams_levels(s);
    struct qc_view part = *v;
    part.dim[axis] = 1;
    for (size_t k = 0; k < s->count; k++) {
        struct channel c = {.add = stored ? -(float)s->zero_point[k] : 0,
                            .times = s->scale[k],
                            .lo = (float)(levels.lo - s->zero_point[k]),
                            .hi = (float)(levels.hi - s->zero_point[k]),
                            .saturated = saturated};
        part.data = (float *)v->data + (int64_t)k * v->stride[axis];
        qc_view_each(1, QC_VIEWS(&part), turn_channel, &c);
    }
}

/* Least share of the widest range that a channel's range reaches, on both sides. A channel has much less data than a
   tensor, so unseen data exceeds it more. Gains and costs: docs/decisions/0024-scales-per-channel-of-activations.md. */
static const double LEAST = 0.125;

struct sums {
    double clipped, count, lost, nonzero;
};

/* Adds the loss of one channel's range to the sums. */
static bool add_loss(struct sums *sums, struct qc_loss *loss, const struct qc_range *r, const struct qc_affine *p,
                     const struct qc_histogram *h, const struct qc_levels levels, enum qc_symmetry symmetry,
                     struct qc_status *st)
{
    const struct qc_statistics s = qc_statistics_of(h);
    const double nonzero = (double)(h->tally.count - h->tally.zeros);
    struct qc_loss one;
    double clipped;
    if (!qc_loss_of(&one, h, p, levels, st) || !qc_clipped_share(&clipped, &s, r->lo, r->hi, levels, symmetry, st))
        return false;
    sums->clipped += clipped * (double)h->tally.count;
    sums->count += (double)h->tally.count;
    sums->lost += one.lost * nonzero;
    sums->nonzero += nonzero;
    loss->signal += one.signal;
    loss->rounding += one.rounding;
    loss->clipping += one.clipping;
    return true;
}

bool qc_quantizer_channels_solve(struct qc_quantizer_channels *out, struct qc_range *range, struct qc_loss *loss,
                                 const struct qc_channel_histogram *h, const struct qc_qparams *s,
                                 const struct qc_observer *observer, const struct qc_observer_values *values,
                                 const struct qc_solve *request, struct qc_status *st)
{
    struct qc_histogram *fine = NULL;
    struct sums sums = {0};
    struct qc_range *ranges = calloc(h->channels, sizeof *ranges);
    *range = (struct qc_range){.objective = (double)NAN, .objective_minmax = (double)NAN};
    *loss = (struct qc_loss){0};
    bool ok =
        ranges ? qc_histogram_new(&fine, QC_NEED_HISTOGRAM, st) : qc_fail_memory(st, h->channels * sizeof *ranges);
    for (size_t c = 0; ok && c < h->channels; c++) {
        if (!(ok = qc_channel_histogram_fine(fine, h, c, st))) break;
        const struct qc_statistics statistics = qc_statistics_of(fine);
        ok =
            qc_observer_solve(&ranges[c], observer, values, &statistics, request, st) || qc_where(st, "channel %zu", c);
        if (!ok) break;
        range->lo = fmin(range->lo, ranges[c].lo);
        range->hi = fmax(range->hi, ranges[c].hi);
        range->candidates += ranges[c].candidates;
        range->behind = range->behind || ranges[c].behind;
    }
    if (ok) {
        for (size_t c = 0; c < h->channels; c++) {
            ranges[c].lo = fmin(ranges[c].lo, LEAST * range->lo);
            ranges[c].hi = fmax(ranges[c].hi, LEAST * range->hi);
        }
    }
    for (size_t c = 0; ok && c < h->channels; c++) {
        const struct qc_affine p = qc_affine_from_range(ranges[c].lo, ranges[c].hi, request->levels, s->symmetry);
        out->scale[c] = p.scale;
        out->zero_point[c] = p.zero_point;
        ok = qc_channel_histogram_fine(fine, h, c, st) &&
             add_loss(&sums, loss, &ranges[c], &p, fine, request->levels, s->symmetry, st);
    }
    range->clipped_fraction = sums.count > 0 ? sums.clipped / sums.count : 0;
    loss->lost = sums.nonzero > 0 ? sums.lost / sums.nonzero : 0;
    qc_histogram_free(fine);
    free(ranges);
    return ok;
}
