// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "calib/statistics/stream.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

void qc_warn_chance_level(struct qc_warnings *w, const struct qc_metric *const metrics[], size_t count,
                          const char *data)
{
    const struct qc_metric *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (!best || metrics[i]->value > best->value) best = metrics[i];
    if (!best || !qc_metric_is_chance_level(best)) return;
    qc_warn(w,
            "%s: top-1 %.2f %% of %zu samples is no better than guessing among %zu classes; are the samples prepared "
            "as for training (--preprocess), and are "
            "these the model's labels?",
            data, 100 * best->value, best->samples, best->classes);
}

enum { UNITS = 8 };
static const double too_far = 8;

/* Returns the batch norm that an input reaches through Transpose, Reshape, Pad and at most one Conv or Gemm; 0 if there
   is none. */
static qc_id find_norm(const struct qc_graph *g, const struct qc_uses *u, qc_id v)
{
    for (bool layer = false;;) {
        const qc_id reader = qc_only_reader(u, v);
        const struct qc_node *n = reader ? &g->nodes[reader] : NULL;
        if (!n || n->inputs[0] != v) return 0;
        switch ((int)n->op) {
        case QC_OP_BatchNormalization: return reader;
        case QC_OP_Conv:
        case QC_OP_Gemm:
            if (layer) return 0;
            layer = true;
            break;
        case QC_OP_Transpose:
        case QC_OP_Reshape:
        case QC_OP_Pad: break;
        default: return 0;
        }
        v = n->outputs;
    }
}

/* Sums of the elements of a value, for each channel of axis 1. */
struct seen {
    size_t channels;
    double *sum, *squares, count;
};

static bool look_at_samples(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                            struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct seen *s = user;
    const struct qc_view v = qc_runner_output(runners[0], 0);
    const float *x = v.data;
    if (v.rank < 2 || v.dtype != QC_F32 || (size_t)v.dim[1] != s->channels || v.dim[0] < 1) return true;
    const size_t outer = (size_t)v.dim[0], inner = qc_view_count(&v) / outer / s->channels;
    for (size_t n = 0; n < outer; n++)
        for (size_t c = 0; c < s->channels; c++)
            for (size_t i = 0; i < inner; i++, x++) {
                s->sum[c] += (double)*x;
                s->squares[c] += (double)*x * (double)*x;
            }
    s->count += (double)(outer * inner);
    return true;
}

/* Returns the median over the channels of the standard deviation relative to that of the norm; 0 if unknown. */
static double median_ratio(const struct seen *s, const struct qc_tensor *variance, double epsilon, struct qc_arena *a,
                           struct qc_status *st)
{
    const float *v = variance->data;
    size_t n = 0;
    double *ratio = QC_NEW_ARRAY(a, double, s->channels, st);
    for (size_t c = 0; ratio && s->count > 1 && c < s->channels; c++) {
        const double mean = s->sum[c] / s->count, spread = s->squares[c] / s->count - mean * mean;
        /* Ignores dead channels. */
        if ((double)v[c] > 100 * epsilon && spread > 0) ratio[n++] = sqrt(spread / ((double)v[c] + epsilon));
    }
    if (n < 1 || 2 * n < s->channels) return 0;
    qsort(ratio, n, sizeof *ratio, qc_order_double);
    return ratio[n / 2];
}

/* Elements of an input in the first units. */
struct values {
    float low, high;
    double mean, deviation;
};

static bool look_at_values(struct values *out, const struct qc_dataset *data, size_t input, struct qc_arena *a,
                           struct qc_status *st)
{
    const size_t count = qc_dataset_elements(data, input);
    float *x = QC_NEW_ARRAY(a, float, count, st);
    struct qc_dataset_scratch *scratch = NULL;
    bool ok = x && qc_dataset_scratch_new(&scratch, st);
    double n = 0, sum = 0, squares = 0;
    *out = (struct values){.low = INFINITY, .high = -INFINITY};
    for (size_t u = 0; ok && u < UNITS && u < qc_dataset_units(data); u++) {
        ok = qc_dataset_read(x, data, input, u, scratch, st);
        const size_t here = qc_dataset_unit_elements(data, input, u);
        for (size_t i = 0; ok && i < here; i++) {
            if (x[i] < out->low) out->low = x[i];
            if (x[i] > out->high) out->high = x[i];
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
        n += (double)here;
    }
    qc_dataset_scratch_free(scratch);
    if (n > 0) {
        out->mean = sum / n;
        out->deviation = sqrt(fmax(squares / n - out->mean * out->mean, 0));
    }
    return ok;
}

/* Warns if the values of images look like pixels and the data have no attributes for preprocessing. */
static bool check_pixels(struct qc_warnings *w, const struct qc_graph *g, size_t input, const struct qc_dataset *data,
                         struct qc_arena *a, struct qc_status *st)
{
    const int64_t *dims;
    struct values v;
    if (qc_dataset_dims(&dims, data, input) < 3) return true;
    const char *line = qc_dataset_inputs(data, a, st);
    if (!line) return false;
    for (size_t k = 0; k < input && strchr(line, '\n'); k++) line = strchr(line, '\n') + 1;
    const char *end = line + strcspn(line, "\n"), *scale = strstr(line, " scale="), *mean = strstr(line, " mean="),
               *std = strstr(line, " std=");
    if ((scale && scale < end) || (mean && mean < end) || (std && std < end)) return true;
    if (!look_at_values(&v, data, input, a, st)) return false;
    if (v.low >= 0 && v.high > 64 && v.high <= 255)
        qc_warn(w,
                "%s: the values of input '%s', %.4g to %.4g, look like pixels; if the model was trained on normalised "
                "pixels, give the normalisation with --preprocess (imagenet, tensorflow, caffe, yolo, or 'scale=.. "
                "mean=.. std=..'), otherwise --preprocess none",
                qc_dataset_file(data), g->inputs[input].name, (double)v.low, (double)v.high);
    return true;
}

static bool check_input(struct qc_warnings *w, const struct qc_graph *g, const struct qc_uses *u, size_t input,
                        const struct qc_dataset *data, const struct qc_options *o, struct qc_arena *a,
                        struct qc_status *st)
{
    const qc_id id = find_norm(g, u, g->inputs[input].value);
    const struct qc_node *norm = &g->nodes[id];
    const struct qc_tensor *variance = id && norm->input_count == 5 ? qc_constant_of(g, norm->inputs[4]) : NULL;
    char label[QC_LABEL], times[64];
    struct values v;
    if (!variance || variance->dtype != QC_F32 || variance->count < 1)
        return o->data.preprocess || check_pixels(w, g, input, data, a, st);
    struct seen s = {.channels = variance->count};
    s.sum = QC_NEW_ARRAY(a, double, s.channels, st);
    s.squares = QC_NEW_ARRAY(a, double, s.channels, st);
    if (!s.sum || !s.squares) return false;
    /* Run the network up to the input of the norm, on the first units. */
    static const size_t units[UNITS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct qc_rebuild r = {.from = NULL};
    struct qc_plan *plan = NULL;
    qc_id out = 0;
    bool ok = qc_rebuild_begin(&r, g, st) && (out = qc_rebuild_value(&r, norm->inputs[0], st)) &&
              qc_graph_add_output(r.to, "seen", out, st);
    ok = ok && qc_stream_plan(&plan, r.to, data, NULL, st);
    const struct qc_stream stream = {.data = data,
                                     .input_count = g->input_count,
                                     .plan_count = 1,
                                     .plans = {plan},
                                     .units = units,
                                     .unit_count = qc_dataset_units(data) < UNITS ? qc_dataset_units(data) : UNITS,
                                     .workers = 1,
                                     .unit = look_at_samples,
                                     .user = &s};
    ok = ok && qc_stream_run(&stream, st);
    qc_plan_free(plan);
    qc_rebuild_free(&r);
    if (!ok) return false;
    const double ratio = median_ratio(&s, variance, (double)qc_attr_float(norm, "epsilon", 1e-5f), a, st);
    if (ratio == 0 || (ratio < too_far && ratio > 1 / too_far)) return true;
    if (!look_at_values(&v, data, input, a, st)) return false;
    if (ratio > 1)
        qc_text(times, sizeof times, "%.0f times as large as", ratio);
    else
        qc_text(times, sizeof times, "1/%.0f of", 1 / ratio);
    qc_warn(w,
            "%s: the values of input '%s', %.4g to %.4g, are about %s those that the model was trained on, according "
            "to its batch norm '%s'; give the preprocessing of the training with --preprocess (imagenet, tensorflow, "
            "caffe, yolo, or 'scale=.. mean=.. std=..')",
            qc_dataset_file(data), g->inputs[input].name, (double)v.low, (double)v.high, times,
            qc_node_label(label, g, norm));
    return true;
}

void qc_warn_input_range(struct qc_warnings *w, const struct qc_graph *imported, const struct qc_dataset *data,
                         const struct qc_options *o)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_uses uses;
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool ok = a && qc_dataset_units(data) && qc_uses_of(&uses, imported, a, &st);
    for (size_t k = 0; ok && k < imported->input_count; k++)
        if (imported->values[imported->inputs[k].value].type.dtype == QC_F32)
            ok = check_input(w, imported, &uses, k, data, o, a, &st);
}

/* Samples of one source differ less: between the given calibration and test data the deviations differ at most by a
   factor of 1.8, and the means by 0.7 deviations (first 8 samples each). */
static const double other_deviation = 4, other_mean = 3;

void qc_warn_prepared_otherwise(struct qc_warnings *w, const struct qc_graph *g, const struct qc_dataset *data,
                                const struct qc_dataset *eval)
{
    struct qc_status st = QC_STATUS_INIT;
    QC_ARENA_SCOPE *a = qc_arena_new();
    for (size_t k = 0; a && k < g->input_count; k++) {
        struct values x, y;
        if (g->values[g->inputs[k].value].type.dtype != QC_F32) continue;
        if (!look_at_values(&x, data, k, a, &st) || !look_at_values(&y, eval, k, a, &st)) return;
        const double most = fmax(x.deviation, y.deviation), least = fmin(x.deviation, y.deviation);
        if (!(least > 0) || (most < other_deviation * least && fabs(x.mean - y.mean) < other_mean * most)) continue;
        qc_warn(
            w,
            "%s and %s are prepared differently: input '%s' has mean %.3g and standard deviation %.3g in the first, "
            "%.3g and %.3g in the second; calibrate with samples like those of use (--preprocess, or the "
            "attributes scale, mean and std of the data)",
            qc_dataset_file(data), qc_dataset_file(eval), g->inputs[k].name, x.mean, x.deviation, y.mean, y.deviation);
    }
}

bool qc_warn_samples(struct qc_warnings *w, size_t samples, const struct qc_job_inputs *in, struct qc_arena *a,
                     struct qc_status *st)
{
    const char *files[2], *sets[2];
    struct stat s[2];
    if (samples == 1 && !in->team)
        qc_warn(w,
                "too few samples: ranges are chosen from 1 sample, and the next one may exceed them; give some dozens");
    if (!in->data.file || !in->eval.file) return true;
    if (!qc_dataset_split(&files[0], &sets[0], in->data.file, a, st) ||
        !qc_dataset_split(&files[1], &sets[1], in->eval.file, a, st))
        return false;
    /* Files are compared by inode, since they may have several names. */
    if (stat(files[0], &s[0]) == 0 && stat(files[1], &s[1]) == 0 && s[0].st_dev == s[1].st_dev &&
        s[0].st_ino == s[1].st_ino && (!sets[0] || !sets[1] || strcmp(sets[0], sets[1]) == 0))
        qc_warn(w,
                "--eval reads the samples of --data (%s): accuracy on calibration samples is too optimistic; give "
                "held-out samples to --eval",
                in->eval.file);
    return true;
}
