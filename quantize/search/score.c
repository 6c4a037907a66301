// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/score.h"

#include <math.h>

#include "base/scope.h"
#include "quantize/make/make.h"
#include "quantize/search/limits.h"

struct qc_selection qc_measured_samples(const struct qc_dataset *data)
{
    const size_t batch = qc_dataset_batch(data) > 1 ? (size_t)qc_dataset_batch(data) : 1;
    return (struct qc_selection){.samples = QC_MEASURED_BATCHES * batch};
}

bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_network *net, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st)
{
    const bool fewer = qc_dataset_samples(data) > some->samples;
    bool ok = !fewer || qc_dataset_select(data, some, st);
    if (ok && !*keys) ok = (*keys = QC_NEW_ARRAY(net->setup->arena, uint64_t, qc_dataset_units(data), st)) != NULL;
    ok = ok && qc_output_errors(sums, qc_evidence_outputs(net->evidence, net->real), *keys, net->real, net->produced,
                                data, net->scheme.settings, st);
    if (fewer && !qc_model_select_again(data, data == net->setup->eval ? NULL : net->scheme.options, st)) return false;
    return ok;
}

double qc_outputs_sqnr_db(const struct qc_error *sums, size_t outputs)
{
    return -10 * log10(qc_trials_noise(sums, outputs, 0, 1, 1));
}

double qc_worst_output(size_t *worst, const struct qc_network *net, const struct qc_measurement *m)
{
    double least = (double)INFINITY;
    *worst = QC_NO_INDEX;
    for (size_t k = 0; m && k < m->output_count; k++) {
        const double db = qc_error_sqnr_db(&m->outputs[k]);
        if (net->real->values[net->real->outputs[k].value].type.dtype != QC_F32 || !(db < least)) continue;
        least = db;
        *worst = k;
    }
    return least;
}

struct graphs {
    const struct qc_network *net;
    const struct qc_graph *const *of;
};

static bool realise(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct graphs *g = user;
    return qc_network_realise(out, g->net, g->of[k], st);
}

static bool copy(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct graphs *g = user;
    return qc_graph_copy(out, g->of[k], st);
}

static double gain_of(const struct qc_error *was, const struct qc_error *is, size_t outputs, size_t first, size_t end,
                      size_t step)
{
    return qc_trials_gain(qc_trials_noise(was, outputs, first, end, step),
                          qc_trials_noise(is, outputs, first, end, step));
}

/* Runs graphs on units of --data and sets the gain of each over the first. */
static bool compare(struct qc_trial_gain *gains, struct graphs *g, size_t count, qc_trial_graph_fn *make, size_t units,
                    bool held, struct qc_status *st)
{
    struct qc_trial_options how = qc_trial_options_of(g->net);
    struct qc_trials *trials = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    how.held = held;
    if (!a) return qc_fail_memory(st, 1);
    struct qc_error **errors = QC_NEW_ARRAY(a, struct qc_error *, count, st),
                    **judged = QC_NEW_ARRAY(a, struct qc_error *, count, st);
    bool ok = errors && judged && qc_trials_new(&trials, g->net->real, g->net->setup->data, units, &how, st);
    const size_t n = ok ? qc_trials_units(trials) : 0, outputs = ok ? qc_trials_parts(trials)->count : 0;
    const bool probabilities = ok && qc_trials_have_probabilities(trials);
    for (size_t k = 0; ok && k < count; k++)
        ok = (errors[k] = QC_NEW_ARRAY(a, struct qc_error, n * outputs, st)) &&
             (!probabilities || (judged[k] = QC_NEW_ARRAY(a, struct qc_error, n * outputs, st)));
    ok = ok && qc_trials_run(errors, probabilities ? judged : NULL, trials, make, g, count, 0, n, st);
    for (size_t k = 0; ok && k < count; k++) {
        struct qc_trial_gain *to = &gains[k];
        const double gain = gain_of(errors[0], errors[k], outputs, 0, n, 1);
        *to = (struct qc_trial_gain){.units = n, .gain = gain, .of_half = {(double)NAN, (double)NAN}};
        to->of_probabilities = probabilities ? gain_of(judged[0], judged[k], outputs, 0, n, 1) : gain;
        for (size_t h = 0; n > 1 && h < 2; h++) to->of_half[h] = gain_of(errors[0], errors[k], outputs, h, n, 2);
        ok = !k || qc_trials_gain_error(&to->error, &to->without_best, errors[0], errors[k], outputs, n, st);
    }
    qc_trials_free(trials);
    return ok;
}

bool qc_trial_compare(struct qc_trial_gain *out, const struct qc_network *net, const struct qc_graph *const graphs[2],
                      size_t units, bool held, struct qc_status *st)
{
    struct graphs g = {net, graphs};
    struct qc_trial_gain gains[2] = {{0}, {0}};
    const bool ok = compare(gains, &g, 2, realise, units, held, st);
    *out = gains[1];
    return ok;
}

bool qc_compare_networks(struct qc_trial_gain *gains, const struct qc_network *job,
                         const struct qc_network *const *networks, size_t count, size_t units, bool held,
                         struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    const struct qc_graph **produced = a ? QC_NEW_ARRAY(a, const struct qc_graph *, count, st) : NULL;
    struct graphs g = {job, produced};
    if (!produced) return qc_fail_memory(st, 1);
    for (size_t k = 0; k < count; k++) produced[k] = networks[k]->produced;
    return compare(gains, &g, count, copy, units, held, st);
}

size_t qc_trial_units(const struct qc_network *net)
{
    const size_t share = qc_dataset_units(net->setup->data) / QC_TRIAL_SHARE;
    return share < QC_TRIAL_UNITS_MIN ? QC_TRIAL_UNITS_MIN : share > QC_TRIAL_UNITS_MAX ? QC_TRIAL_UNITS_MAX : share;
}

struct qc_trial_options qc_trial_options_of(const struct qc_network *net)
{
    /* without `how`: the written file does not depend on --rounding */
    return (struct qc_trial_options){.settings = net->scheme.settings,
                                     .keys = net->evidence->keys,
                                     .known = qc_evidence_outputs(net->evidence, net->real)};
}
