// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/layer_ranking.h"

#include "calib/trials/trial_run.h"
#include "quantize/report/noise_points.h"

static bool add(struct qc_report_rank *to, const struct qc_layer_effect *e, double noise, bool measured,
                struct qc_arena *a, struct qc_status *st)
{
    *to = (struct qc_report_rank){.node = qc_arena_strdup(a, e->name, st),
                                  .op = e->op,
                                  .sqnr_db = qc_effect_sqnr_db(noise),
                                  .measured = measured};
    return to->node != NULL;
}

bool qc_fill_ranking(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m,
                     const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct qc_sensitivity *all;
    double *believed;
    r->rank_count = 0;
    if (!m) return true;
    if (!qc_noise_believed(&believed, p->folded, m, r, p->arena, st) ||
        !qc_sensitivity_believed(&all, p->simulated, believed, st))
        return false;
    const size_t first = effects ? effects->count : 0;
    /* The estimate is a share of the output noise; times this noise it is comparable with the measured effects. */
    const double noise = qc_trials_noise(m->outputs, p->real->output_count, 0, 1, 1);
    struct qc_report_rank *ranks = QC_NEW_ARRAY(p->arena, struct qc_report_rank, first + all->count, st);
    bool *done =
        QC_NEW_ARRAY(p->arena, bool, all->count + 1, st); /* by place: nodes of a graph of fixed shapes differ */
    bool ok = ranks && done;
    for (size_t i = 0; ok && i < first; i++) {
        const struct qc_layer_effect *e = &effects->layers[i];
        if (e->place < all->count) done[e->place] = true;
        ok = add(&ranks[r->rank_count++], e, e->noise, true, p->arena, st);
    }
    for (size_t i = 0; ok && i < all->count; i++) {
        const struct qc_layer_effect *e = &all->layers[i];
        if (!done[e->place]) ok = add(&ranks[r->rank_count++], e, e->noise * noise, false, p->arena, st);
    }
    r->ranks = ranks;
    qc_sensitivity_free(all);
    return ok;
}
