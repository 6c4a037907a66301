// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/stream.h"

#include <string.h>

#include "rewrite/passes/simulate.h"

struct recording {
    struct qc_dataset *data;
    const struct qc_graph *graph;
    bool *starts; /* [units + 1]: the unit is the first of a sequence */
};

static bool record_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                        struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct recording *r = user;
    if (r->starts[at->unit + 1]) return true;
    for (size_t i = 0; i < r->graph->input_count; i++) {
        const size_t output = qc_dataset_state(r->data, i);
        if (output && !qc_dataset_record(r->data, i, at->unit + 1, qc_runner_output(runners[0], output - 1).data, st))
            return false;
    }
    return true;
}

/* Shapes of the inputs of a step, and of the states that it returns. */
struct step_shapes {
    struct qc_shape *in, *next; /* [input_count]; next: of inputs that are states */
};

static bool shape_fits(const struct qc_shape *declared, const struct qc_shape *s)
{
    bool fits = qc_shape_fixed(s) && declared->rank == s->rank;
    for (int d = 0; fits && d < s->rank; d++) fits = declared->dim[d] == QC_FREE || declared->dim[d] == s->dim[d];
    return fits;
}

/* Gives the shapes of the states that a step returns: those that follow from the shapes of its inputs, else the same.
 */
static bool infer_next(struct step_shapes *s, const struct qc_dataset *data, const struct qc_graph *g,
                       struct qc_status *st)
{
    struct qc_graph *fixed;
    if (!qc_fix_shapes(&fixed, g, s->in, qc_evaluate, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const size_t output = qc_dataset_state(data, i);
        if (!output) continue;
        const struct qc_shape *shape = &fixed->values[fixed->outputs[output - 1].value].type.shape;
        s->next[i] = shape_fits(&g->values[g->inputs[i].value].type.shape, shape) ? *shape : s->in[i];
    }
    qc_graph_free(fixed);
    return true;
}

/* Sets s->in to the shapes of a unit. *changed: they differ from those before. */
static void set_step(struct step_shapes *s, bool *changed, const struct qc_dataset *data, size_t inputs, size_t unit,
                     bool first)
{
    *changed = false;
    for (size_t i = 0; i < inputs; i++) {
        int64_t dims[QC_DATA_RANK_MAX];
        const unsigned rank = qc_dataset_unit_dims(dims, data, i, unit);
        const bool state = qc_dataset_state(data, i) != 0;
        const struct qc_shape shape = state && !first ? s->next[i] : qc_shape_of((int)rank, dims);
        *changed = *changed || !qc_shape_equal(&shape, &s->in[i]);
        s->in[i] = shape;
    }
}

bool qc_find_state_sizes(struct qc_dataset *data, const struct qc_graph *g, struct qc_status *st)
{
    const size_t sequences = qc_dataset_sequences(data), units = qc_dataset_units(data), n = g->input_count;
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool changed, known = false, grows = false;
    if (!sequences) return true;
    if (!a) return qc_fail_memory(st, 1);
    struct step_shapes s = {QC_NEW_ARRAY(a, struct qc_shape, n, st), QC_NEW_ARRAY(a, struct qc_shape, n, st)};
    int64_t **sizes = QC_NEW_ARRAY(a, int64_t *, n, st);
    bool *starts = QC_NEW_ARRAY(a, bool, units + 1, st);
    if (!s.in || !s.next || !sizes || !starts) return false;
    for (size_t k = 0; k <= sequences; k++) starts[qc_dataset_sequence(data, k)] = true;
    for (size_t i = 0; i < n; i++)
        if (qc_dataset_state(data, i) && !(sizes[i] = QC_NEW_ARRAY(a, int64_t, units * QC_RANK_MAX, st))) return false;
    for (size_t u = 0; u < units; u++) {
        set_step(&s, &changed, data, n, u, starts[u]);
        if ((changed || !known) && !infer_next(&s, data, g, st)) return false;
        known = true;
        for (size_t i = 0; i < n; i++) {
            if (!sizes[i]) continue;
            memcpy(sizes[i] + u * (size_t)s.in[i].rank, s.in[i].dim, (size_t)s.in[i].rank * sizeof **sizes);
            grows = grows || !qc_shape_equal(&s.in[i], &s.next[i]);
        }
        if (!grows && !qc_dataset_varies(data)) return true; /* all steps are like this one */
    }
    for (size_t i = 0; i < n && grows; i++)
        if (sizes[i] && !qc_dataset_set_state_sizes(data, i, sizes[i], st)) return false;
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
