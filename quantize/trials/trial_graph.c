// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/trial_graph.h"

#include <math.h>
#include <string.h>

#include "quantize/collect/collecting.h"

bool qc_narrows_bias(const struct qc_options *o)
{
    return strcmp(o->bias, "narrowed") == 0;
}

bool qc_corrects_bias(const struct qc_options *o)
{
    return strcmp(o->bias_correction, "on") == 0 && !qc_narrows_bias(o);
}

bool qc_rounds_weights(const struct qc_options *o)
{
    return strcmp(o->weight_rounding, "compensated") == 0 || qc_corrects_bias(o);
}

struct qc_round_weights_options qc_round_weights_options_of(const struct qc_pipeline *p)
{
    const struct qc_options *o = p->options;
    return (struct qc_round_weights_options){.compensate = strcmp(o->weight_rounding, "compensated") == 0,
                                             .correct_bias = qc_corrects_bias(o),
                                             .add_ops = !o->require_integer,
                                             .accumulator_bits = p->how.accumulator.bits,
                                             .known = p->rounded_layers,
                                             .file = p->rounded_file,
                                             .run = qc_run_options_of(o, p->progress)};
}

const struct qc_second_moments *qc_moments_of(const struct qc_pipeline *p)
{
    return p->second_moments ? p->second_moments : p->seen ? p->seen->second_moments : NULL;
}

enum { SHARE = 3, UNITS_MIN = 16, UNITS_MAX = 256 };

bool qc_trial_graph(struct qc_graph **out, const struct qc_pipeline *p, const struct qc_graph *bound,
                    struct qc_status *st)
{
    struct qc_graph *expanded = NULL, *folded = NULL;
    const bool ok = qc_propagate_qdq(&expanded, bound, p->from->rules, p->scheme.one_scale_joins, st) &&
                    qc_fold(&folded, expanded, p->from->fold_rules, st) &&
                    qc_to_integer_shared(out, p->shared, folded, qc_evaluate, st);
    qc_graph_free(folded);
    qc_graph_free(expanded);
    return ok;
}

struct pair {
    const struct qc_pipeline *p;
    const struct qc_graph *const *graphs;
};

static bool make_trial(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct pair *both = user;
    return qc_trial_graph(out, both->p, both->graphs[k], st);
}

static double gain_of(struct qc_error *const errors[2], size_t outputs, size_t first, size_t end, size_t step)
{
    return qc_trials_gain(qc_trials_noise(errors[0], outputs, first, end, step),
                          qc_trials_noise(errors[1], outputs, first, end, step));
}

bool qc_trial_compare(struct qc_trial_gain *out, const struct qc_pipeline *p, const struct qc_graph *const graphs[2],
                      size_t units, bool held, struct qc_status *st)
{
    struct qc_trial_options how = qc_trial_options_of(p);
    struct pair both = {p, graphs};
    const size_t outputs = p->real->output_count;
    struct qc_trials *trials = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_error *errors[2] = {NULL, NULL};
    how.held = held;
    *out = (struct qc_trial_gain){.of_half = {(double)NAN, (double)NAN}};
    bool ok = (a || qc_fail_memory(st, 1)) && qc_trials_new(&trials, p->real, p->from->data, units, &how, st);
    const size_t n = out->units = ok ? qc_trials_units(trials) : 0;
    for (size_t k = 0; ok && k < 2; k++) ok = (errors[k] = QC_NEW_ARRAY(a, struct qc_error, n * outputs, st)) != NULL;
    ok = ok && qc_trials_run(errors, NULL, trials, make_trial, &both, 2, 0, n, st) &&
         qc_trials_gain_error(&out->error, NULL, errors[0], errors[1], outputs, n, st);
    if (ok) out->gain = gain_of(errors, outputs, 0, n, 1);
    for (size_t h = 0; ok && n > 1 && h < 2; h++) out->of_half[h] = gain_of(errors, outputs, h, n, 2);
    qc_trials_free(trials);
    return ok;
}

void qc_forget_integers(const struct qc_pipeline *p)
{
    if (p->shared && p->options->memory_limit) qc_folded_constants_trim(p->shared, 0);
}

size_t qc_trial_units(const struct qc_pipeline *p)
{
    const size_t share = qc_dataset_units(p->from->data) / SHARE;
    return share < UNITS_MIN ? UNITS_MIN : share > UNITS_MAX ? UNITS_MAX : share;
}

struct qc_trial_options qc_trial_options_of(const struct qc_pipeline *p)
{
    return (struct qc_trial_options){.keys = p->from->keys,
                                     .known = qc_outputs_known(p),
                                     .how = {.rounding =
                                                 QC_CONTRACT_ONNX}, /* the written file does not depend on --rounding */
                                     .run = qc_run_options_of(p->options, p->progress)};
}
