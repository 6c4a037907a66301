// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/searches.h"

#include <math.h>

#include "base/scope.h"
#include "quantize/make/make.h"
#include "quantize/report/job_report.h"

struct qc_selection qc_measured_samples(const struct qc_dataset *data)
{
    return (struct qc_selection){.samples = QC_MEASURED_BATCHES * qc_dataset_unit_samples(data), .in_order = true};
}

struct qc_selection qc_few_samples(const struct qc_network *net, size_t batches)
{
    const struct qc_dataset *data = net->setup->data;
    const size_t each = qc_dataset_unit_samples(data);
    const bool all = qc_dataset_units(data) == qc_dataset_total(data) / each;
    return (struct qc_selection){.samples = batches * each, .keys = all ? net->evidence->keys : NULL};
}

struct qc_checked qc_checked_samples(const struct qc_setup *s)
{
    struct qc_dataset *data = s->eval ? s->eval : s->data;
    if (!s->data) return (struct qc_checked){.data = NULL};
    struct qc_checked c = {.data = data, .some = qc_measured_samples(data)};
    c.some.others = !s->eval && qc_dataset_others(data) >= c.some.samples;
    c.on = s->eval ? QC_CHECKED_EVAL : c.some.others && !qc_has_statistics(s->in) ? QC_CHECKED_REST : QC_CHECKED_KNOWN;
    return c;
}

bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_network *net, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st)
{
    const bool fewer = some->others || qc_dataset_samples(data) > some->samples;
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

struct qc_trial_options qc_trial_options_of(const struct qc_network *net)
{
    /* without `how`: the written file does not depend on --rounding */
    return (struct qc_trial_options){.settings = net->scheme.settings,
                                     .keys = net->evidence->keys,
                                     .known = qc_evidence_outputs(net->evidence, net->real)};
}
