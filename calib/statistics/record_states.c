// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/stream.h"

struct recording {
    struct qc_dataset *data;
    const struct qc_graph *graph;
    bool *starts; /* [units + 1]: the unit is the first of a sequence */
};

static bool record_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                        struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct recording *r = user;
    (void)scratch;
    if (r->starts[at->unit + 1]) return true;
    for (size_t i = 0; i < r->graph->input_count; i++) {
        const size_t output = qc_dataset_state(r->data, i);
        if (output && !qc_dataset_record(r->data, i, at->unit + 1, qc_runner_output(runners[0], output - 1).data, st))
            return false;
    }
    return true;
}

bool qc_record_states(struct qc_dataset *data, const struct qc_graph *g, const struct qc_settings *settings,
                      struct qc_status *st)
{
    const size_t sequences = qc_dataset_sequences(data);
    struct qc_plan *plan = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct recording r = {.data = data, .graph = g};
    if (!sequences) return true;
    if (!a) return qc_fail_memory(st, 1);
    if (!(r.starts = QC_NEW_ARRAY(a, bool, qc_dataset_units(data) + 1, st))) return false;
    for (size_t k = 0; k <= sequences; k++) r.starts[qc_dataset_sequence(data, k)] = true;
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .fed = 1,
                               .unit = record_unit,
                               .user = &r,
                               .progress = settings->progress,
                               .progress_user = settings->progress_user};
    bool ok = qc_dataset_record_begin(data, st) && qc_stream_plan(&plan, g, data, NULL, st);
    stream.plans[0] = plan;
    ok = ok && qc_stream_fit(&stream.workers, settings, data, qc_plan_runner_bytes(plan), st) &&
         qc_stream_run(&stream, st);
    qc_plan_free(plan);
    return ok;
}
