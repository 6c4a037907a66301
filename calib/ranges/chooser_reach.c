// SPDX-License-Identifier: Apache-2.0
/* How far ranges reach beyond what an observer chose. */
#include <math.h>
#include <string.h>

#include "calib/ranges/calibrate_parts.h"
#include "calib/ranges/unseen.h"

/* Not an input of the network, whose values are those of the data, nor a table of constants. */
static bool is_computed(const struct qc_graph *g, qc_id id)
{
    const struct qc_qparams *s = &g->qparams_of[id];
    for (size_t i = 0; i < s->observed_count; i++)
        if (qc_node_of(g, s->observed[i])) return true;
    return false;
}

bool qc_chooser_reach(struct qc_range *range, const struct qc_chooser *k, qc_id id, const struct qc_method *by,
                      double wider)
{
    const struct qc_choice *choice = &k->c->choices[id];
    const struct qc_range solved = *range;
    const bool few = k->options->few && k->seen->extremes, further = by->lo_times > 0;
    if (!few && !further && !(wider > 1)) return false;
    if (few) qc_widen_for_few(range, k->histograms[id], &k->samples[id].series, choice->known_lo, choice->known_hi);
    if (further)
        qc_widen_range(range, k->histograms[id], by->lo_times, by->hi_times, choice->known_lo, choice->known_hi);
    if (wider > 1 && is_computed(k->g, id))
        qc_widen_range(range, k->histograms[id], wider, wider, choice->known_lo, choice->known_hi);
    if (range->lo < solved.lo || range->hi > solved.hi) range->objective = (double)NAN; /* that of the solved range */
    return true;
}

/* The least squared error, clipped values counting so many times: mse with norm 2. */
static bool by_squares(const struct qc_method *by)
{
    return strcmp(by->observer->name, "mse") == 0 && !(by->values.v[0] < 2) && !(by->values.v[0] > 2);
}

bool qc_chooser_unseen(struct qc_range *range, const struct qc_chooser *k, qc_id id, const struct qc_method *by,
                       struct qc_status *st)
{
    const struct qc_qparams *q = &k->g->qparams_of[id];
    const struct qc_choice *choice = &k->c->choices[id];
    if (!k->options->unseen || !k->seen->extremes || !by_squares(by) || range->behind || !is_computed(k->g, id))
        return true;
    const struct qc_range solved = *range;
    const struct qc_unseen what = {by->values.v[1], qc_qparams_levels(q), q->symmetry, choice->known_lo,
                                   choice->known_hi};
    if (!qc_widen_for_unseen(range, k->histograms[id], &k->samples[id].series, &what, st))
        return qc_where(st, "quantizer '%s'", q->name);
    if (range->lo < solved.lo || range->hi > solved.hi) range->objective = (double)NAN; /* that of the solved range */
    return true;
}
