// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/attempts.h"

#include <math.h>

#include "graph/core/rebuild.h"
#include "quantize/search/own_metric.h"
#include "quantize/search/searches.h"
#include "quantize/setup/model.h"

static bool draw(struct qc_demand *d, size_t wanted, struct qc_status *st)
{
    const struct qc_network *net = d->c->network;
    d->how = qc_trial_options_of(net);
    d->how.how = &net->scheme.settings->plan;
    if (d->data != net->setup->data) d->how.keys = NULL; /* the keys are those of --data */
    d->file = qc_dataset_file(d->data);
    return qc_trials_new(&d->trials, net->real, d->data, wanted, &d->how, st) &&
           (d->errors = QC_NEW_ARRAY(d->c->arena, struct qc_error,
                                     qc_trials_units(d->trials) * qc_trials_parts(d->trials)->count, st)) != NULL;
}

bool qc_demand_begin(struct qc_demand *d, struct qc_candidate *c, struct qc_status *st)
{
    const struct qc_options *o = c->setup->options;
    struct qc_dataset *eval = c->setup->eval;
    d->c = c;
    d->data = eval ? eval : c->setup->data;
    d->max_drop = o->demand.max_drop;
    d->min_sqnr = o->demand.min_sqnr;
    d->max_nll = o->demand.max_nll;
    /* Warn of a --max-drop that is less than one sample of --eval. */
    const size_t count = d->fp32.positions ? d->fp32.positions : d->fp32.samples;
    const double one = count ? 100 / (double)count : 0;
    if (d->fp32.kind == QC_METRIC_TOP1 && d->max_drop > 0 && d->max_drop < one)
        qc_warn(d->c->warnings, "--max-drop %g is less than one of the %zu %s of --eval, %.3g points: none may be lost",
                d->max_drop, count, d->fp32.positions ? "positions" : "samples", one);
    return isnan(d->min_sqnr) || draw(d, eval ? qc_dataset_units(d->data) : QC_DEMAND_UNITS_MAX, st);
}

bool qc_demand_begin_outputs(struct qc_demand *d, struct qc_candidate *c, double min_sqnr, struct qc_status *st)
{
    d->c = c;
    d->data = c->setup->data;
    d->outputs_alone = true;
    d->max_drop = d->max_nll = (double)NAN;
    d->min_sqnr = min_sqnr;
    return draw(d, QC_DEMAND_UNITS_FEW, st);
}

void qc_demand_end(struct qc_demand *d)
{
    qc_trials_free(d->trials);
    d->trials = NULL;
}

static bool copy_produced(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_network *net = user;
    (void)k;
    return qc_graph_copy(out, net->produced, st);
}

bool qc_demand_measure_outputs(struct qc_standing *s, struct qc_demand *d, struct qc_status *st)
{
    struct qc_network *net = d->c->network;
    struct qc_progress *progress = d->c->setup->progress;
    s->sqnr_db = (double)NAN;
    if (!d->trials) return true;
    const struct qc_output_parts *parts = qc_trials_parts(d->trials);
    const size_t units = qc_trials_units(d->trials);
    struct qc_error *const errors[] = {d->errors};
    size_t worst = 0;
    for (size_t i = 0; i < units * parts->count; i++) d->errors[i] = (struct qc_error){0};
    qc_progress_phase(progress, "error of the outputs");
    const struct qc_trial_graphs produced = {copy_produced, net, 1};
    const bool ok = qc_trials_run(errors, NULL, d->trials, &produced, 0, units, st);
    qc_progress_end(progress);
    if (!ok) return false;
    s->sqnr_db = -10 * log10(qc_trials_worst(&worst, d->errors, parts->count, units));
    s->output = net->real->outputs[parts->of[worst].output].name;
    return true;
}

bool qc_demand_measure(struct qc_standing *out, struct qc_demand *d, struct qc_status *st)
{
    const struct qc_setup *s = d->c->setup;
    const struct qc_network *net = d->c->network;
    if (s->options->data.metric && !d->outputs_alone) {
        if (!qc_own_metric_of_network(&out->metric, net, st)) return false;
    } else if (s->eval && !d->outputs_alone) {
        const struct qc_evaluation e = {.graph = net->produced,
                                        .data = s->eval,
                                        .how = &net->scheme.settings->plan,
                                        .settings = net->scheme.settings};
        const bool ok = qc_evaluate_sums(&out->metric, &out->overflows, &e, d->c->arena, st);
        qc_progress_end(s->progress);
        if (!ok) return false;
    }
    return qc_demand_measure_outputs(out, d, st);
}

static bool drop_met(const struct qc_demand *d, const struct qc_standing *s)
{
    return isnan(d->max_drop) || qc_metric_drop(&d->fp32, &s->metric) <= d->max_drop;
}

bool qc_demand_met(const struct qc_demand *d, const struct qc_standing *s)
{
    return drop_met(d, s) && (isnan(d->min_sqnr) || s->sqnr_db >= d->min_sqnr) &&
           (isnan(d->max_nll) || s->metric.nll <= d->max_nll);
}

bool qc_demand_check(bool *drop, const struct qc_demand *d, const struct qc_standing *s, struct qc_status *st)
{
    static const char kept[] = "even with wider types for the worst layers; the model was written without this demand, "
                               "and the report lists the attempts";
    const struct qc_metric *a = &d->fp32, *b = &s->metric;
    *drop = !drop_met(d, s);
    if (*drop) {
        const bool top1 = a->kind == QC_METRIC_TOP1;
        const double unit = top1 ? 100 : 1;
        return qc_fail(st, QC_DEMAND,
                       "--max-drop %g: %s falls by %.2f %s (%.2f to %.2f), even with wider types for the worst "
                       "layers; no model was written, the report lists the layers and the attempts",
                       d->max_drop,
                       top1                       ? "top-1"
                       : a->kind == QC_METRIC_OWN ? "the metric"
                                                  : "PSNR",
                       qc_metric_drop(a, b),
                       top1                       ? "points"
                       : a->kind == QC_METRIC_OWN ? "units"
                                                  : "dB",
                       unit * a->value, unit * b->value);
    }
    if (!isnan(d->min_sqnr) && !(s->sqnr_db >= d->min_sqnr))
        return qc_fail(st, QC_DEMAND, "--min-sqnr %g: output '%.80s' has %.2f dB, %s", d->min_sqnr, s->output,
                       s->sqnr_db, kept);
    if (!isnan(d->max_nll) && !(b->nll <= d->max_nll))
        return qc_fail(st, QC_DEMAND, "--max-nll %g: it is %.4f nats (%.4f in float), %s", d->max_nll, b->nll, a->nll,
                       kept);
    return true;
}
