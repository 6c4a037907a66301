// SPDX-License-Identifier: Apache-2.0
#include "calib/accuracy.h"

#include <math.h>
#include <stdlib.h>

#include "calib/calibrate.h"
#include "calib/interval.h"

struct tally {
    uint64_t labels, top1, top5;
    double clamped, plain;      /* squared errors of one unit, of the output clamped to [0, peak] and as it is */
    uint64_t elements, outside; /* outside: elements of the target beyond [0, peak] */
};

struct evaluation {
    const struct qc_dataset *data;
    size_t output, classes, label_count, target_count;
    struct tally *units;
    int64_t **labels; /* per worker */
    float **targets;
    double peak;
};

static bool score_labels(struct tally *t, const float *scores, const int64_t *labels, size_t count, size_t classes,
                         struct qc_status *st)
{
    for (size_t i = 0; i < count; i++) {
        const float *s = scores + i * classes;
        if (labels[i] < 0 || (uint64_t)labels[i] >= classes)
            return qc_fail(st, QC_BAD_INPUT, "label %lld is outside the %zu classes of the output",
                           (long long)labels[i], classes);
        size_t label = (size_t)labels[i], better = 0;
        bool number = !isnan(s[label]);
        for (size_t c = 0; c < classes; c++)
            better += c != label && (s[c] > s[label] || (s[c] == s[label] && c < label));
        t->top1 += number && better == 0;
        t->top5 += number && better < 5;
    }
    t->labels = count;
    return true;
}

static bool finish_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                        struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct evaluation *e = user;
    struct qc_view out = qc_runner_output(runners[0], e->output);
    struct tally *t = &e->units[at->unit];
    const float *y = out.data;
    if (e->label_count) {
        int64_t *labels = e->labels[at->worker];
        if (!qc_dataset_read_labels(labels, e->data, at->unit, st)) return false;
        return score_labels(t, y, labels, e->label_count, e->classes, st) ||
               qc_where(st, "%s: sample %llu", qc_dataset_file(e->data), (unsigned long long)at->sample);
    }
    float *target = e->targets[at->worker];
    if (!qc_dataset_read_target(target, e->data, at->unit, scratch, st)) return false;
    for (size_t i = 0; i < e->target_count; i++) {
        double v = (double)y[i], to = (double)target[i], d = v - to;
        t->plain += d * d;
        d = (v < 0 ? 0 : v > e->peak ? e->peak : v) - to;
        t->clamped += d * d;
        t->outside += !(to >= 0 && to <= e->peak);
    }
    t->elements = e->target_count;
    return true;
}

/* The output that the truth belongs to: f32, and so many elements per unit that labels or target fit. */
static bool find_output(struct evaluation *e, const struct qc_graph *g, struct qc_runner *runner, struct qc_status *st)
{
    size_t found = 0;
    for (size_t k = 0; k < g->output_count; k++) {
        struct qc_view v = qc_runner_output(runner, k);
        size_t n = qc_view_count(&v);
        if (v.dtype != QC_F32) continue;
        bool fits = e->label_count ? n > e->label_count && n % e->label_count == 0 : n == e->target_count;
        if (!fits || (found && e->label_count && n / e->label_count >= e->classes)) continue;
        e->output = k;
        e->classes = e->label_count ? n / e->label_count : 0;
        found++;
    }
    if (found) return true;
    return qc_fail(st, QC_BAD_INPUT, "%s: no float output of the model fits the %s of the data",
                   qc_dataset_file(e->data), e->label_count ? "labels" : "target");
}

static void sum_up(struct qc_metric *out, const struct evaluation *e, size_t units)
{
    uint64_t labels = 0, top1 = 0, top5 = 0, elements = 0, outside = 0;
    double clamped = 0, plain = 0;
    for (size_t u = 0; u < units; u++) {
        labels += e->units[u].labels;
        top1 += e->units[u].top1;
        top5 += e->units[u].top5;
        clamped += e->units[u].clamped;
        plain += e->units[u].plain;
        outside += e->units[u].outside;
        elements += e->units[u].elements;
    }
    *out = (struct qc_metric){.top5 = (double)NAN, .mse = (double)NAN, .low = (double)NAN, .high = (double)NAN};
    if (e->label_count) {
        out->kind = QC_METRIC_TOP1;
        out->name = "top1";
        out->samples = labels;
        out->classes = e->classes;
        out->value = (double)top1 / (double)labels;
        if (e->classes > 5) out->top5 = (double)top5 / (double)labels;
        qc_interval(&out->low, &out->high, top1, labels, 0.95);
    } else {
        out->kind = QC_METRIC_PSNR;
        out->name = "psnr";
        out->samples = qc_dataset_samples(e->data);
        out->mse = (outside ? plain : clamped) / (double)elements;
        out->value = 10 * log10(e->peak * e->peak / out->mse);
    }
}

bool qc_metric_is_chance(const struct qc_metric *m)
{
    if (m->kind != QC_METRIC_TOP1 || m->samples < 50 || m->classes < 2) return false;
    const double guess = 1 / (double)m->classes;
    return (m->value - guess) / (1 - guess) < 0.1;
}

bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, struct qc_arena *overflow_arena,
                      const struct qc_graph *g, const struct qc_dataset *data, const struct qc_plan_options *how,
                      unsigned workers, size_t memory_limit, qc_pool_progress_fn *progress, void *progress_user,
                      struct qc_status *st)
{
    struct evaluation e = {.data = data, .label_count = qc_dataset_label_count(data), .peak = 1};
    struct qc_arena *a = qc_arena_new();
    struct qc_plan *plan = NULL;
    struct qc_runner *probe = NULL;
    bool ok = false;
    double t0 = qc_seconds();
    const int64_t *dims;
    unsigned rank, used;
    if (!a) return qc_fail_memory(st, 1);
    if (!e.label_count) {
        if (!qc_dataset_target_dims(&rank, &dims, data)) {
            qc_fail(st, QC_BAD_INPUT, "%s: has neither a data set 'labels' nor 'target' to measure accuracy with",
                    qc_dataset_file(data));
            goto out;
        }
        e.target_count = 1;
        for (unsigned i = 0; i < rank; i++) e.target_count *= (size_t)dims[i];
        e.peak = qc_dataset_target_peak(data);
    }
    const struct qc_shape *shapes = qc_stream_shapes(g, data, a, st);
    size_t units = qc_dataset_units(data);
    if (!shapes || !qc_plan_new(&plan, g, shapes, how, st) || !qc_runner_new(&probe, plan, st) ||
        !qc_overflows_new(overflows, plan, g, overflow_arena, st) || !find_output(&e, g, probe, st) ||
        !qc_stream_fit(&used, workers, memory_limit, data, qc_plan_runner_bytes(plan), st))
        goto out;
    e.units = QC_NEW_ARRAY(a, struct tally, units, st);
    e.labels = QC_NEW_ARRAY(a, int64_t *, used, st);
    e.targets = QC_NEW_ARRAY(a, float *, used, st);
    for (unsigned w = 0; e.units && e.labels && e.targets && w < used; w++) {
        e.labels[w] = QC_NEW_ARRAY(a, int64_t, e.label_count, st);
        e.targets[w] = QC_NEW_ARRAY(a, float, e.target_count, st);
        if (!e.labels[w] || !e.targets[w]) goto out;
    }
    if (st->code != QC_OK) goto out;
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .plans = {plan},
                               .overflows = {overflows},
                               .workers = used,
                               .unit = finish_unit,
                               .user = &e,
                               .progress = progress,
                               .progress_user = progress_user};
    if (!qc_stream_run(&stream, st)) goto out;
    sum_up(out, &e, units);
    out->seconds = qc_seconds() - t0;
    ok = true;
out:
    qc_runner_free(probe);
    qc_plan_free(plan);
    qc_arena_free(a);
    return ok;
}

bool qc_evaluate_graph(struct qc_metric *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, unsigned workers, size_t memory_limit,
                       qc_pool_progress_fn *progress, void *progress_user, struct qc_status *st)
{
    struct qc_overflows unused;
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_evaluate_sums(out, &unused, a, g, data, how, workers, memory_limit, progress, progress_user, st);
    qc_arena_free(a);
    return ok;
}
