// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/used_bias.h"

#include <math.h>

#include "calib/trials/correct_used.h"
#include "calib/trials/output_means.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/round_options.h"
#include "quantize/trials/trial_graph.h"

/* The first half of the units, or so many, shows the errors, the others whether it helps. */
enum { UNITS_LEAST = 16, UNITS_FIT = 64, UNITS = 256 };
/* Whose outputs show what the last layers take up. With fewer nothing is taken up: ranges and weights are made for the
   same samples, and on others the mean error is another. */
enum { OUTPUT_UNITS = 64 };
/* So much is luck, or so many standard errors where that is more. */
static const double GAIN_DB = 0.1, ERRORS = 2;

static bool can_correct(const struct qc_pipeline *p)
{
    return p->from->data && p->rounded && qc_corrects_bias(p->options) && p->how.accumulator.bits % 32 == 0;
}

bool qc_correct_used_biases(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_trial_options how = qc_trial_options_of(p);
    const size_t outputs = p->real->output_count;
    struct qc_used_correction done = {0};
    struct qc_trials *trials = NULL;
    struct qc_graph *corrected = NULL;
    struct qc_error *errors[2] = {NULL, NULL};
    struct qc_trial_pair both = {.p = p};
    if (!p->options->propagate || !can_correct(p)) return true;
    struct qc_arena *a = qc_arena_new();
    bool ok = (a || qc_fail_memory(st, 1)) && qc_trials_new(&trials, p->real, p->from->data, UNITS, &how, st);
    const size_t units = ok ? qc_trials_units(trials) : 0, fit = units / 2 < UNITS_FIT ? units / 2 : UNITS_FIT;
    ok = ok && (units < UNITS_LEAST ||
                qc_correct_used(&corrected, &done, p->rounded, p->real, p->from->data, trials, fit, &how, st));
    if (ok && corrected && done.layers) {
        both.graphs[0] = p->rounded;
        both.graphs[1] = corrected;
        for (size_t k = 0; ok && k < 2; k++)
            ok = (errors[k] = QC_NEW_ARRAY(a, struct qc_error, units * outputs, st)) != NULL;
        ok = ok && qc_trials_run(errors, NULL, trials, qc_trial_of_pair, &both, 2, fit, units - fit, st);
        if (ok) {
            p->used_bias.layers = done.layers;
            p->used_bias.gain_db = qc_trials_gain(qc_trials_noise(errors[0], outputs, fit, units, 1),
                                                  qc_trials_noise(errors[1], outputs, fit, units, 1));
            ok = qc_trials_gain_error(&p->used_bias.error_db, NULL, errors[0] + fit * outputs,
                                      errors[1] + fit * outputs, outputs, units - fit, st);
            p->used_bias.kept = p->used_bias.gain_db > fmax(GAIN_DB, ERRORS * p->used_bias.error_db);
        }
        if (ok && p->used_bias.kept) {
            struct qc_graph *was = p->rounded;
            p->rounded = corrected;
            corrected = was;
        }
    }
    qc_forget_integers(p);
    qc_graph_free(corrected);
    qc_trials_free(trials);
    qc_arena_free(a);
    return ok;
}

static bool make_rounded(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_pipeline *p = user;
    (void)k;
    return qc_trial_graph(out, p, p->rounded, st);
}

bool qc_correct_output_biases(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_trial_options how = qc_trial_options_of(p);
    struct qc_trials *trials = NULL;
    struct qc_graph *corrected = NULL;
    if (!p->auto_method || !p->auto_method->trial_count || !can_correct(p)) return true;
    if (qc_dataset_units(p->from->data) < OUTPUT_UNITS) return true;
    bool ok = qc_trials_new(&trials, p->real, p->from->data, OUTPUT_UNITS, &how, st) &&
              qc_correct_outputs(&corrected, &p->output_bias, p->rounded, trials, make_rounded, p, st);
    if (ok && corrected) {
        if (p->uncorrected)
            qc_graph_free(p->rounded);
        else
            p->uncorrected = p->rounded;
        p->rounded = corrected;
    }
    qc_trials_free(trials);
    return ok;
}
