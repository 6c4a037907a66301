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

/* The parameters of one or two quantizers by one method, from the ranges that the observer gave them. */
static bool place(const struct solving_methods *s, struct qc_one_scale_seen *points, const qc_id of[2],
                  const struct qc_range solved[2], size_t method, struct qc_status *st)
{
    const struct qc_chooser *k = s->chooser;
    struct qc_affine *params = s->params + method * (k->g->qparams_count + 1);
    struct qc_range range[2] = {solved[0], solved[1]};
    bool shared = false;
    for (size_t i = 0; i < 2 && !shared; i++) {
        if (!of[i] || !is_solved(k, of[i])) continue;
        if (i == 0 && of[1] &&
            !qc_chooser_shares(&shared, &range[0], &range[1], points, k, of[0], s->methods[method].observer, &range[0],
                               st))
            return false;
        for (size_t j = i; j <= i + shared; j++) {
            const struct qc_qparams *q = &k->g->qparams_of[of[j]];
            params[of[j]] = qc_affine_from_range(range[j].lo, range[j].hi, qc_qparams_levels(q), q->symmetry);
        }
    }
    return true;
}

static bool solve_methods(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct solving_methods *s = user;
    const struct qc_chooser *k = s->chooser;
    const qc_id id = (qc_id)item + 1, of[2] = {id, k->pairs ? k->pairs[id].behind : 0};
    (void)worker;
    if (k->pairs && k->pairs[id].before) return true; /* that one's item has it */
    struct qc_one_scale_seen points = {0};
    bool ok = true;
    for (size_t m = 0; ok && m < s->count; m++) {
        struct qc_range solved[2] = {{0}};
        for (size_t i = 0; ok && i < 2; i++)
            ok = !of[i] || !is_solved(k, of[i]) || solve(&solved[i], k, &s->methods[m], of[i], st);
        ok = ok && place(s, &points, of, solved, m, st);
    }
    qc_one_scale_forget(&points);
    return ok;
}

bool qc_solve_methods(struct qc_affine *params, struct qc_graph *g, const struct qc_collection *seen,
                      const char *source, const struct qc_method *methods, size_t count,
                      const struct qc_calibration_options *options, struct qc_status *st)
{
    struct solving_methods s = {.methods = methods, .count = count, .params = params};
    const struct qc_pool_options pool = {.workers = options->workers ? options->workers : 1};
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
