// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "quantize/make/evidence.h"

/* Units that are compared, and that ranges are taken from. */
enum { COMPARED_LEAST = 4, COMPARED = 16, RANGED = 64 };

/* Outputs of which the root mean square of the change is less than this part of their own are constant. */
static const double hardly = 0.01;

static struct qc_json *input_range(const struct qc_dataset *data, const char *name, size_t input, float *x,
                                   struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const size_t units = qc_dataset_units(data), count = units < RANGED ? units : RANGED;
    double low = (double)INFINITY, high = -low;
    size_t bad = 0;
    for (size_t k = 0; k < count; k++) {
        const size_t unit = k * units / count, n = qc_dataset_unit_elements(data, input, unit);
        if (!qc_dataset_read(x, data, input, unit, scratch, st)) return NULL;
        for (size_t i = 0; i < n; i++) {
            bad += isfinite(x[i]) ? 0 : 1;
            low = isfinite(x[i]) ? fmin(low, (double)x[i]) : low;
            high = isfinite(x[i]) ? fmax(high, (double)x[i]) : high;
        }
    }
    return QC_JSON("name %s min %f max %f not_finite %zu units %zu", name, low, high, bad, count);
}

static int by_label(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns how many classes there are labels of, and the number of labels of the rarest and the most frequent one. */
static struct qc_json *classes(const struct qc_dataset *data, size_t count, struct qc_status *st)
{
    const size_t each = qc_dataset_label_count(data), units = qc_dataset_units(data);
    QC_FREED int64_t *labels = calloc(units * each + 1, sizeof *labels);
    size_t all = 0, seen = 0, least = SIZE_MAX, most = 0;
    if (!labels) {
        qc_fail_memory(st, units * each * sizeof *labels);
        return NULL;
    }
    for (size_t u = 0; u < units; u++) {
        if (!qc_dataset_read_labels(labels + all, data, u, st)) return NULL;
        all += qc_dataset_unit_label_count(data, u);
    }
    qsort(labels, all, sizeof *labels, by_label);
    for (size_t i = 0, n; i < all; i += n) {
        for (n = 1; i + n < all && labels[i + n] == labels[i];) n++;
        if (labels[i] < 0) continue; /* such labels do not count */
        seen++;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    struct qc_json *o = QC_JSON("count %zu seen %zu least %zu most %zu", count, seen, seen ? least : (size_t)0, most);
    if (!o) qc_fail_memory(st, 1);
    if (!count) qc_json_set(o, "count", qc_json_null());
    return o;
}

bool qc_record_sample_facts(struct qc_report *r, const struct qc_setup *s, size_t count, struct qc_status *st)
{
    for (int k = 0; k < 2; k++) {
        const char *const key = k ? "accuracy" : "data";
        const struct qc_dataset *data = k ? s->options->data.metric ? NULL : s->eval : s->in->team ? NULL : s->data;
        if (!data) continue;
        struct qc_json *to = qc_json_copy(qc_json_get(r->record, key)), *labels = NULL;
        struct qc_status unreadable = QC_STATUS_INIT; /* labels of calibration samples have no other use */
        const bool layers = k == 1;
        struct qc_json *inputs = qc_json_array();
        struct qc_dataset_scratch *scratch = NULL;
        bool ok = qc_dataset_scratch_new(&scratch, st);
        for (size_t i = 0; ok && i < s->model.graph->input_count; i++) {
            /* True if an input is a layer, which has its range in all samples. */
            bool known = false;
            for (size_t l = 0; l < r->layer_count; l++)
                known = known || (!r->layers[l].node && !r->layers[l].is_weight &&
                                  strcmp(r->layers[l].name, s->model.graph->inputs[i].name) == 0);
            if (s->model.graph->values[s->model.graph->inputs[i].value].type.dtype != QC_F32 || (!layers && known))
                continue;
            const size_t bytes = qc_dataset_elements(data, i) * sizeof(float);
            QC_FREED float *x = malloc(bytes + 1);
            struct qc_json *range = x ? input_range(data, s->model.graph->inputs[i].name, i, x, scratch, st) : NULL;
            ok = range || (st->code != QC_OK ? false : qc_fail_memory(st, bytes));
            if (range) qc_json_add(inputs, range);
        }
        qc_dataset_scratch_free(scratch);
        qc_json_set(to, "inputs", inputs);
        if (ok && qc_dataset_label_count(data)) labels = classes(data, count, k ? st : &unreadable);
        if (unreadable.code == QC_MACHINE) ok = qc_fail(st, unreadable.code, "%s", unreadable.message);
        ok = ok && st->code == QC_OK;
        if (labels) qc_json_set(to, "classes", labels);
        qc_json_set(r->record, key, to);
        if (!ok) return false;
    }
    return true;
}

/* Returns the change of an output from unit to unit, relative to its size; NaN if that is not known. */
static double change_of(const struct qc_known *const units[COMPARED], size_t count, size_t output)
{
    const struct qc_view first = qc_known_view(units[0], output);
    const size_t n = qc_view_count(&first);
    double change = 0, size = 0;
    for (size_t u = 0; u < count; u++) {
        const struct qc_view v = qc_known_view(units[u], output);
        const float *x = v.data, *y = first.data;
        if (v.dtype != QC_F32 || qc_view_count(&v) != n || !n) return (double)NAN;
        for (size_t i = 0; i < n; i++) {
            const double by = (double)x[i] - (double)y[i];
            change += by * by;
            size += (double)x[i] * (double)x[i];
        }
    }
    if (!isfinite(change) || !isfinite(size)) return (double)NAN;
    return size > 0 ? sqrt(change / (double)(count - 1) / (size / (double)count)) : 0;
}

void qc_check_constant_outputs(struct qc_report *r, const struct qc_network *net)
{
    const struct qc_evidence *e = net->evidence;
    struct qc_known_outputs *known = qc_evidence_outputs(e, net->real);
    const struct qc_known *units[COMPARED];
    uint64_t keys[COMPARED];
    size_t count = 0, outputs = 0;
    double most = 0;
    for (size_t u = 0; known && e->keys && count < COMPARED && u < qc_dataset_units(net->setup->data); u++) {
        size_t k = 0;
        while (k < count && keys[k] != e->keys[u]) k++; /* equal samples tell nothing */
        if (k < count || !(units[count] = qc_known_outputs_find(known, e->keys[u]))) continue;
        keys[count++] = e->keys[u];
    }
    for (size_t k = 0; count >= COMPARED_LEAST && k < net->real->output_count; k++) {
        const double change = change_of(units, count, k);
        if (isnan(change)) continue;
        outputs++;
        most = fmax(most, change);
    }
    if (!outputs || most >= hardly) return;
    /* If no quantized input changes, this has a warning of its own. */
    const struct qc_calibration *c = net->calibration;
    bool quantized = false, changes = false;
    for (size_t k = 0; k < net->simulated->input_count; k++)
        for (qc_id s = 1; s <= c->qparams_count; s++) {
            const char *name = net->simulated->qparams_of[s].name;
            if (!c->choices[s].chosen || !name || strcmp(name, net->simulated->inputs[k].name) != 0) continue;
            quantized = true;
            changes = changes || c->choices[s].seen.min < c->choices[s].seen.max;
        }
    if (quantized && !changes) return;
    qc_json_set(r->record, "constant_outputs", QC_JSON("change %g samples %zu", most, count));
    char change[64] = "";
    if (most > 0) qc_text(change, sizeof change, ": they change by %.2g %% of their size", 100 * most);
    qc_warn(net->listener->warnings,
            "the outputs of the float model are %sthe same for all samples%s; are the samples prepared as for training "
            "(--preprocess)? Otherwise errors and options say nothing",
            most > 0 ? "nearly " : "", change);
}
