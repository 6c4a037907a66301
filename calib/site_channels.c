// SPDX-License-Identifier: Apache-2.0
#include "calib/site_channels.h"

#include <math.h>

int qc_site_axis(const struct qc_graph *g, qc_id site, qc_id value)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (n->op == QC_OP_Quantize && n->inputs[0] == value && g->values[n->outputs].type.space == site) return g->values[n->outputs].type.axis;
    }
    return -1;
}

struct sums {
    double clipped, count, lost, nonzero;
};

static bool solve(struct qc_site_channels *out, size_t c, struct qc_range *range, struct qc_loss *loss, struct sums *sums, const struct qc_histogram *h, const struct qc_space *s,
                  const struct qc_observer *observer, const struct qc_observer_values *values, const struct qc_solve *request, struct qc_status *st)
{
    const struct qc_statistics statistics = qc_statistics_of(h);
    struct qc_range r;
    struct qc_loss one;
    if (!qc_observer_solve(&r, observer, values, &statistics, request, st)) return qc_where(st, "channel %zu", c);
    const struct qc_affine p = qc_affine_from_range(r.lo, r.hi, request->levels, s->symmetry);
    const double nonzero = (double)(h->tally.count - h->tally.zeros);
    if (!qc_loss_of(&one, h, &p, request->levels, st)) return false;
    out->scale[c] = r.lo == 0 && r.hi == 0 ? 0 : p.scale; /* 0: mended below */
    out->zero_point[c] = p.zero_point;
    range->lo = fmin(range->lo, r.lo);
    range->hi = fmax(range->hi, r.hi);
    range->candidates += r.candidates;
    range->behind = range->behind || r.behind;
    sums->clipped += r.clipped_fraction * (double)h->tally.count;
    sums->count += (double)h->tally.count;
    sums->lost += one.lost * nonzero;
    sums->nonzero += nonzero;
    loss->signal += one.signal;
    loss->rounding += one.rounding;
    loss->clipping += one.clipping;
    return true;
}

bool qc_site_channels_solve(struct qc_site_channels *out, struct qc_range *range, struct qc_loss *loss, const struct qc_channel_histogram *h, const struct qc_space *s,
                            const struct qc_observer *observer, const struct qc_observer_values *values, const struct qc_solve *request, struct qc_status *st)
{
    struct qc_histogram *fine = NULL;
    struct sums sums = {0};
    float widest = 0;
    *range = (struct qc_range){.objective = (double)NAN, .objective_minmax = (double)NAN};
    *loss = (struct qc_loss){0};
    bool ok = qc_histogram_new(&fine, QC_NEED_HISTOGRAM, st);
    for (size_t c = 0; ok && c < h->channels; c++) {
        qc_channel_histogram_fine(fine, h, c);
        ok = solve(out, c, range, loss, &sums, fine, s, observer, values, request, st);
        if (ok && out->scale[c] > widest) widest = out->scale[c];
    }
    for (size_t c = 0; ok && c < h->channels; c++)
        if (out->scale[c] == 0) out->scale[c] = widest > 0 ? widest : 1;
    range->clipped_fraction = sums.count > 0 ? sums.clipped / sums.count : 0;
    loss->lost = sums.nonzero > 0 ? sums.lost / sums.nonzero : 0;
    qc_histogram_free(fine);
    return ok;
}
