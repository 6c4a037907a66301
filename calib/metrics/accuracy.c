// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/accuracy.h"

#include <stdlib.h>

#include "base/clock.h"
#include "calib/metrics/scoring.h"

struct evaluation {
    struct qc_scoring scoring;
    struct qc_score *units;
    void **truth; /* per worker */
};

static bool finish_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                        struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct evaluation *e = user;
    const struct qc_view out = qc_runner_output(runners[0], e->scoring.output);
    return qc_scoring_read(e->truth[at->worker], &e->scoring, at->unit, scratch, st) &&
           qc_scoring_unit(&e->units[at->unit], &e->scoring, &out, e->truth[at->worker], at->unit, st);
}

bool qc_evaluate_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, struct qc_status *st)
{
    struct qc_plan *plan = NULL;
    const bool ok = qc_stream_plan(&plan, g, data, how, st);
    if (ok) *out = qc_plan_constant_bytes(plan) + qc_plan_runner_bytes(plan);
    qc_plan_free(plan);
    return ok;
}

bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, const struct qc_evaluation *of,
                      struct qc_arena *overflow_arena, struct qc_status *st)
{
    const struct qc_graph *g = of->graph;
    const struct qc_dataset *data = of->data;
    struct evaluation e = {0};
    struct qc_score all = {0};
    struct qc_arena *a = qc_arena_new();
    struct qc_plan *plan = NULL;
    struct qc_runner *probe = NULL;
    bool ok = false;
    double t0 = qc_seconds();
    unsigned used;
    if (!a) return qc_fail_memory(st, 1);
    size_t units = qc_dataset_units(data);
    if (!qc_stream_plan(&plan, g, data, of->how, st) ||
        !qc_stream_fit(&used, &of->run, data, qc_plan_runner_bytes(plan), st) || !qc_runner_new(&probe, plan, st) ||
        !qc_overflows_new(overflows, plan, g, overflow_arena, st) || !qc_scoring_begin(&e.scoring, g, probe, data, st))
        goto out;
    qc_runner_free(probe);
    probe = NULL;
    e.units = QC_NEW_ARRAY(a, struct qc_score, units, st);
    e.truth = QC_NEW_ARRAY(a, void *, used, st);
    for (unsigned w = 0; e.units && e.truth && w < used; w++)
        if (!(e.truth[w] = QC_NEW_ARRAY(a, int64_t, qc_scoring_truth_bytes(&e.scoring) / sizeof(int64_t) + 1, st)))
            goto out;
    if (st->code != QC_OK) goto out;
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .plans = {plan},
                               .overflows = {overflows},
                               .workers = used,
                               .unit = finish_unit,
                               .user = &e,
                               .progress = of->run.progress,
                               .progress_user = of->run.progress_user};
    if (!qc_stream_run(&stream, st)) goto out;
    for (size_t u = 0; u < units; u++) qc_score_add(&all, &e.units[u]);
    if (e.scoring.label_count && !all.labels) {
        qc_fail(st, QC_BAD_INPUT, "%s: all labels are negative, so accuracy cannot be measured", qc_dataset_file(data));
        goto out;
    }
    qc_scoring_metric(out, &e.scoring, &all);
    out->seconds = qc_seconds() - t0;
    ok = true;
out:
    qc_runner_free(probe);
    qc_plan_free(plan);
    qc_arena_free(a);
    return ok;
}
