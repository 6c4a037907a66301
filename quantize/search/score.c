// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/score.h"

#include <math.h>

#include "base/scope.h"
#include "quantize/make/make.h"

struct qc_selection qc_measured_samples(const struct qc_dataset *data)
{
    const size_t batch = qc_dataset_batch(data) > 1 ? (size_t)qc_dataset_batch(data) : 1;
    return (struct qc_selection){.samples = QC_MEASURED_BATCHES * batch};
}

struct qc_measure_options qc_measure_options_of(const struct qc_network *net)
{
    return (struct qc_measure_options){.accumulator = net->scheme.plan.accumulator,
                                       .rounding = net->scheme.plan.rounding,
                                       .run = qc_run_options_of(net->scheme.options, net->setup->progress)};
}

bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_network *net, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st)
{
    const struct qc_measure_options o = qc_measure_options_of(net);
    const bool fewer = qc_dataset_samples(data) > some->samples;
    bool ok = !fewer || qc_dataset_select(data, some, st);
    if (ok && !*keys) ok = (*keys = QC_NEW_ARRAY(net->setup->arena, uint64_t, qc_dataset_units(data), st)) != NULL;
    ok = ok && qc_output_errors(sums, qc_evidence_outputs(net->evidence, net->real), *keys, net->real, net->produced,
                                data, &o, st);
    if (fewer && !qc_model_select_again(data, data == net->setup->eval ? NULL : net->scheme.options, st)) return false;
    return ok;
}

double qc_outputs_sqnr_db(const struct qc_error *sums, size_t outputs)
{
    return -10 * log10(qc_trials_noise(sums, outputs, 0, 1, 1));
}

enum { SHARE = 3, UNITS_MIN = 16, UNITS_MAX = 256 };

struct pair {
    const struct qc_network *net;
    const struct qc_graph *const *graphs;
};

static bool make_trial(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct pair *both = user;
    return qc_network_realise(out, both->net, both->graphs[k], st);
}

static double gain_of(struct qc_error *const errors[2], size_t outputs, size_t first, size_t end, size_t step)
{
    return qc_trials_gain(qc_trials_noise(errors[0], outputs, first, end, step),
                          qc_trials_noise(errors[1], outputs, first, end, step));
}

bool qc_trial_compare(struct qc_trial_gain *out, const struct qc_network *net, const struct qc_graph *const graphs[2],
                      size_t units, bool held, struct qc_status *st)
{
    struct qc_trial_options how = qc_trial_options_of(net);
    struct pair both = {net, graphs};
    const size_t outputs = net->real->output_count;
    struct qc_trials *trials = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_error *errors[2] = {NULL, NULL};
    how.held = held;
    *out = (struct qc_trial_gain){.of_half = {(double)NAN, (double)NAN}};
    bool ok = (a || qc_fail_memory(st, 1)) && qc_trials_new(&trials, net->real, net->setup->data, units, &how, st);
    const size_t n = out->units = ok ? qc_trials_units(trials) : 0;
    for (size_t k = 0; ok && k < 2; k++) ok = (errors[k] = QC_NEW_ARRAY(a, struct qc_error, n * outputs, st)) != NULL;
    ok = ok && qc_trials_run(errors, NULL, trials, make_trial, &both, 2, 0, n, st) &&
         qc_trials_gain_error(&out->error, NULL, errors[0], errors[1], outputs, n, st);
    if (ok) out->gain = gain_of(errors, outputs, 0, n, 1);
    for (size_t h = 0; ok && n > 1 && h < 2; h++) out->of_half[h] = gain_of(errors, outputs, h, n, 2);
    qc_trials_free(trials);
    return ok;
}

size_t qc_trial_units(const struct qc_network *net)
{
    const size_t share = qc_dataset_units(net->setup->data) / SHARE;
    return share < UNITS_MIN ? UNITS_MIN : share > UNITS_MAX ? UNITS_MAX : share;
}

struct qc_trial_options qc_trial_options_of(const struct qc_network *net)
{
    return (struct qc_trial_options){.keys = net->evidence->keys,
                                     .known = qc_evidence_outputs(net->evidence, net->real),
                                     .how = {.rounding =
                                                 QC_CONTRACT_ONNX}, /* the written file does not depend on --rounding */
                                     .run = qc_run_options_of(net->scheme.options, net->setup->progress)};
}
