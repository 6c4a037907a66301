// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/calibrate_parts.h"

struct solving_methods {
    struct qc_chooser *chooser;
    const struct qc_method *methods;
    size_t count;
    struct qc_affine *params;
};

static bool solve(struct qc_range *range, const struct qc_chooser *k, const struct qc_method *method, qc_id id,
                  struct qc_status *st)
{
    const struct qc_qparams *q = &k->g->qparams_of[id];
    const struct qc_statistics seen = qc_statistics_of(k->histograms[id]);
    struct qc_solve request = QC_SOLVE_INIT(qc_qparams_levels(q), q->symmetry);
    request.known_lo = k->c->choices[id].known_lo;
    request.known_hi = k->c->choices[id].known_hi;
    if (k->looks && k->looks[id].text) request.behind = &k->looks[id].behind;
    if (!qc_observer_solve(range, method->observer, &method->values, &seen, &request, st))
        return qc_where(st, "quantizer '%s'", q->name);
    return qc_chooser_unseen(range, k, id, method, st);
}

static bool is_solved(const struct qc_chooser *k, qc_id id)
{
    const struct qc_histogram *h = k->histograms[id];
    return h && !k->channels[id].seen && !k->g->qparams_of[id].given && h->tally.count > h->tally.zeros;
}

static bool solve_methods(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct solving_methods *s = user;
    const struct qc_chooser *k = s->chooser;
    const qc_id id = (qc_id)item + 1;
    (void)worker;
    for (size_t m = 0; is_solved(k, id) && m < s->count; m++) {
        struct qc_range range;
        if (!solve(&range, k, &s->methods[m], id, st)) return false;
        s->params[m * (k->g->qparams_count + 1) + id] = qc_chooser_affine(k, id, range);
    }
    return true;
}

bool qc_solve_methods(struct qc_affine *params, struct qc_graph *g, const struct qc_collection *seen,
                      const char *source, const struct qc_method *methods, size_t count,
                      const struct qc_calibration_options *options, struct qc_status *st)
{
    struct solving_methods s = {.methods = methods, .count = count, .params = params};
    const struct qc_pool_options pool = {.workers = options->run.workers ? options->run.workers : 1};
    if (!qc_chooser_new(&s.chooser, g, seen, source, options, st)) return false;
    for (size_t i = 0; i < count * (g->qparams_count + 1); i++) params[i] = (struct qc_affine){.scale = 0};
    bool ok = true;
    for (qc_id id = 1; ok && id <= g->qparams_count; id++) ok = qc_chooser_merge(s.chooser, id, st);
    ok = ok && qc_pool_run(g->qparams_count, solve_methods, &s, &pool, st);
    qc_chooser_free(s.chooser);
    return ok;
}

bool qc_bind_params(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen,
                    const char *source, const struct qc_affine *params, const struct qc_calibration_options *options,
                    struct qc_status *st)
{
    struct qc_chooser *k = NULL;
    bool ok = qc_chooser_new(&k, g, seen, source, options, st);
    for (qc_id id = 1; ok && id <= g->qparams_count; id++) {
        const struct qc_qparams *q = &g->qparams_of[id];
        if (q->kind != QC_QPARAMS_QUANTIZER || !q->observed_count) continue;
        ok = params[id].scale > 0 ? qc_graph_bind_quantizer(g, id, 1, &params[id].scale, &params[id].zero_point, st)
                                  : qc_chooser_quantizer(k, id, st);
    }
    if (ok) return qc_chooser_finish(out, k, st);
    qc_chooser_free(k);
    return false;
}
