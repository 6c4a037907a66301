// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/accuracy.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

static bool largest_label(int64_t *out, const struct qc_scoring *s, struct qc_status *st)
{
    int64_t *labels = malloc(qc_scoring_truth_bytes(s));
    bool ok = labels ? true : qc_fail_memory(st, qc_scoring_truth_bytes(s));
    *out = 0;
    for (size_t u = 0; ok && u < qc_dataset_units(s->data); u++) {
        ok = qc_dataset_read_labels(labels, s->data, u, st);
        const size_t count = qc_dataset_unit_label_count(s->data, u);
        for (size_t i = 0; ok && i < count; i++) *out = labels[i] > *out ? labels[i] : *out;
    }
    free(labels);
    return ok;
}

/* Returns the classes of an output with labels for each position of a sample: its dimensions are those of the labels,
   with the classes last or after the batch. 0 if it is no such output. */
static size_t classes_by_position(bool *first, const struct qc_scoring *s, const struct qc_view *v)
{
    const int64_t *dims;
    const int rank = (int)qc_dataset_label_dims(&dims, s->data, 0);
    if (v->rank != rank + 2) return 0;
    bool behind = true, before = true;
    for (int d = 0; d < rank; d++) {
        behind = behind && v->dim[1 + d] == dims[d];
        before = before && v->dim[2 + d] == dims[d];
    }
    *first = !behind;
    return behind ? (size_t)v->dim[rank + 1] : before ? (size_t)v->dim[1] : 0;
}

/* Returns true if a softmax makes the value, possibly stored in 8 bits and in another shape. */
static bool is_softmax(const struct qc_graph *g, qc_id v)
{
    for (const struct qc_node *n = qc_node_of(g, v); n; n = qc_node_of(g, n->inputs[0])) {
        if (n->op == QC_OP_Softmax || n->op == QC_OP_QLinearSoftmax) return true;
        const bool moves = qc_op_info(n->op)->affine == QC_AFFINE_KEEP || n->op == QC_OP_Quantize ||
                           n->op == QC_OP_Dequantize || n->op == QC_OP_Requantize || n->op == QC_OP_QuantizeLinear ||
                           n->op == QC_OP_DequantizeLinear || n->op == QC_OP_Cast;
        if (!moves) return false;
    }
    return false;
}

/* Returns true if the output can be scored: float32, or with `integers` a stored output that can be dequantized. */
static bool is_scored(float *scale, int32_t *zero_point, const struct qc_graph *g, size_t k, enum qc_dtype t,
                      bool integers)
{
    *scale = 0;
    *zero_point = 0;
    if (!integers) return t == QC_F32;
    if (t != QC_I8 && t != QC_U8 && t != QC_I16 && t != QC_U16) return false;
    /* Find scale and zero point of integers from a QuantizeLinear, through operators that only move them */
    const struct qc_node *n = qc_node_of(g, g->outputs[k].value);
    while (n && qc_op_info(n->op)->affine == QC_AFFINE_KEEP) n = qc_node_of(g, n->inputs[0]);
    if (!n || n->op != QC_OP_QuantizeLinear) return false;
    const struct qc_tensor *s = qc_constant_of(g, n->inputs[1]);
    const struct qc_tensor *z = n->input_count > 2 ? qc_constant_of(g, n->inputs[2]) : NULL;
    if (!s || s->count != 1 || s->dtype != QC_F32 || (n->input_count > 2 && n->inputs[2] && (!z || z->count != 1)))
        return false;
    *scale = ((const float *)s->data)[0];
    *zero_point = z ? (int32_t)qc_tensor_int(z, 0) : 0;
    return *scale > 0;
}

/* Finds an output whose number of elements for unit 0, whose shapes the probe has, fits labels or target. Of several
   the one with the fewest classes that cover all labels wins; if none covers them, the one with the most. */
static bool find_output_of(bool *out, struct qc_scoring *s, const struct qc_graph *g, struct qc_runner *probe,
                           bool integers, struct qc_status *st)
{
    bool found = false;
    int64_t largest = 0;
    /* Values that a carried part reads follow the model's outputs. */
    const size_t outputs = g->carried ? g->carried->output_count : g->output_count;
    const size_t labels = qc_dataset_unit_label_count(s->data, 0), target = qc_dataset_unit_target_elements(s->data, 0);
    if (s->label_count && outputs > 1 && !largest_label(&largest, s, st)) return false;
    for (size_t k = 0; k < outputs && g->outputs[k].judging != QC_ONLY_JUDGED; k++) {
        const struct qc_view v = qc_runner_output(probe, k);
        const size_t n = qc_view_count(&v);
        float scale;
        int32_t zero_point;
        if (!is_scored(&scale, &zero_point, g, k, v.dtype, integers)) continue;
        bool class_first = false;
        const bool fits = s->label_count ? n > labels && n % labels == 0 : n == target;
        const size_t classes = !s->label_count || !fits ? 0
                               : s->by_position         ? classes_by_position(&class_first, s, &v)
                                                        : n / labels;
        if (!fits || (s->by_position && classes < 2)) continue;
        const bool holds = classes > (uint64_t)largest, held = s->classes > (uint64_t)largest;
        if (found && s->label_count && (holds == held ? holds == (classes >= s->classes) : held)) continue;
        s->output = k;
        s->output_name = g->outputs[k].name;
        s->scale = scale;
        s->zero_point = zero_point;
        s->classes = classes;
        s->class_first = class_first;
        s->probabilities = is_softmax(g, g->outputs[k].value);
        found = true;
    }
    *out = found;
    return true;
}

bool qc_scoring_begin(struct qc_scoring *out, const struct qc_graph *g, struct qc_runner *probe,
                      const struct qc_dataset *data, struct qc_status *st)
{
    struct qc_scoring s = {.data = data, .label_count = qc_dataset_label_count(data), .peak = 1};
    const int64_t *dims;
    if (!s.label_count && !qc_dataset_target_elements(data))
        return qc_fail(st, QC_BAD_INPUT, "%s: has neither a data set 'labels' nor 'target' to measure accuracy with",
                       qc_dataset_file(data));
    s.by_position = qc_dataset_units(data) > 0 && qc_dataset_label_dims(&dims, data, 0) > 0;
    if (!s.label_count) {
        s.target_count = qc_dataset_target_elements(data);
        s.peak = qc_dataset_target_peak(data);
    }
    if (qc_dataset_units(data) && !qc_stream_unit_shapes(probe, data, g->input_count, 0, st)) return false;
    bool found;
    if (!find_output_of(&found, &s, g, probe, false, st)) return false;
    if (!found && !find_output_of(&found, &s, g, probe, true, st)) return false;
    if (!found && g->carried && g->carried->output_count < g->carried->model_output_count)
        return qc_fail(st, QC_UNSUPPORTED, "%s: none of the computed float outputs fits the %s of the data",
                       qc_dataset_file(s.data), s.label_count ? "labels" : "target");
    if (!found)
        return qc_fail(st, QC_BAD_INPUT, "%s: no float output of the model fits the %s of the data",
                       qc_dataset_file(s.data), s.label_count ? "labels" : "target");
    *out = s;
    return true;
}

size_t qc_scoring_truth_bytes(const struct qc_scoring *s)
{
    return s->label_count ? s->label_count * sizeof(int64_t) : s->target_count * sizeof(float);
}

bool qc_scoring_read(void *truth, const struct qc_scoring *s, size_t unit, struct qc_dataset_scratch *scratch,
                     struct qc_status *st)
{
    return s->label_count ? qc_dataset_read_labels(truth, s->data, unit, st)
                          : qc_dataset_read_target(truth, s->data, unit, scratch, st);
}

/* The scores of one label: `count` scores, `step` apart. */
struct row {
    const float *at;
    size_t count, step;
};

/* Returns the negative log-likelihood in nats. Probabilities are at least 2^-24, the resolution of float32 at 1: an
   output of 8 bits may round them to 0. */
static double negative_log(const struct row *r, size_t label, bool probabilities)
{
    double most = -(double)INFINITY, sum = 0, likelihood = 0;
    bool positive = true;
    for (size_t c = 0; c < r->count; c++) {
        const double v = (double)r->at[c * r->step];
        if (isnan(v)) return (double)NAN;
        most = v > most ? v : most;
        sum += v;
        positive = positive && v >= 0;
    }
    const double own = (double)r->at[label * r->step];
    if (probabilities || (positive && fabs(sum - 1) < 1e-3)) return -log(own > 0x1p-24 ? own : 0x1p-24);
    for (size_t c = 0; c < r->count; c++) likelihood += exp((double)r->at[c * r->step] - most);
    return most - own + log(likelihood);
}

static bool score_labels(struct qc_score *t, const float *scores, const int64_t *labels, const struct qc_scoring *by,
                         size_t unit, struct qc_status *st)
{
    const int64_t *dims;
    const unsigned rank = by->by_position ? qc_dataset_label_dims(&dims, by->data, unit) : 0;
    const size_t count = qc_dataset_unit_label_count(by->data, unit);
    size_t positions = 1; /* labels of one sample */
    for (unsigned i = 0; i < rank; i++) positions *= (size_t)dims[i];
    const size_t classes = by->classes;
    for (size_t i = 0; i < count; i++) {
        const size_t sample = i / positions, position = i % positions;
        const struct row r = {.at = scores + sample * positions * classes + position * (by->class_first ? 1 : classes),
                              .count = classes,
                              .step = by->class_first ? positions : 1};
        if (by->by_position && labels[i] < 0) continue;
        if (labels[i] < 0 || (uint64_t)labels[i] >= classes)
            return qc_fail(st, QC_BAD_INPUT,
                           "label %lld is outside the %zu classes of output '%s'; labels are whole numbers from 0 on",
                           (long long)labels[i], classes, by->output_name);
        const size_t label = (size_t)labels[i];
        const float own = r.at[label * r.step];
        size_t better = 0;
        for (size_t c = 0; c < classes; c++)
            better += c != label && (r.at[c * r.step] > own || (r.at[c * r.step] == own && c < label));
        t->top1 += !isnan(own) && better == 0;
        t->top5 += !isnan(own) && better < 5;
        t->nll += negative_log(&r, label, by->probabilities);
        t->labels++;
    }
    return true;
}

bool qc_scoring_unit(struct qc_score *out, const struct qc_scoring *s, const struct qc_view *y, const void *truth,
                     size_t unit, struct qc_status *st)
{
    const size_t n = qc_view_count(y), target = qc_dataset_unit_target_elements(s->data, unit),
                 labels = qc_dataset_unit_label_count(s->data, unit), wanted = labels ? labels * s->classes : target;
    bool ok = n == wanted;
    const float *scores = y->data;
    float *real = NULL;
    *out = (struct qc_score){0};
    if (ok && s->scale > 0) { /* dequantize */
        const struct qc_tensor t = {.dtype = y->dtype, .count = n, .data = y->data};
        scores = real = malloc((n + 1) * sizeof *real);
        if (!real) return qc_fail_memory(st, n * sizeof *real);
        for (size_t i = 0; i < n; i++) real[i] = (float)((int32_t)qc_tensor_int(&t, i) - s->zero_point) * s->scale;
    }
    if (!ok)
        qc_fail(st, QC_BAD_INPUT, "output '%s' has %zu values, but the %s need %zu", s->output_name, n,
                labels ? "labels" : "values of target", wanted);
    else if (!labels) {
        const float *target_values = truth;
        for (size_t i = 0; i < target; i++) {
            const double v = (double)scores[i], to = (double)target_values[i],
                         inside = v < 0         ? 0
                                  : v > s->peak ? s->peak
                                                : v;
            out->plain += (v - to) * (v - to);
            out->clamped += (inside - to) * (inside - to);
            out->outside += !(to >= 0 && to <= s->peak);
        }
        out->elements = target;
    } else
        ok = score_labels(out, scores, truth, s, unit, st);
    free(real);
    return ok || qc_where(st, "%s: sample %llu", qc_dataset_file(s->data),
                          (unsigned long long)qc_dataset_first_sample(s->data, unit));
}

void qc_score_add(struct qc_score *to, const struct qc_score *t)
{
    to->labels += t->labels;
    to->top1 += t->top1;
    to->top5 += t->top5;
    to->nll += t->nll;
    to->clamped += t->clamped;
    to->plain += t->plain;
    to->elements += t->elements;
    to->outside += t->outside;
}

void qc_scoring_metric(struct qc_metric *out, const struct qc_scoring *s, const struct qc_score *all)
{
    *out = (struct qc_metric){
        .top5 = (double)NAN, .nll = (double)NAN, .mse = (double)NAN, .low = (double)NAN, .high = (double)NAN};
    if (s->label_count) {
        out->kind = QC_METRIC_TOP1;
        out->name = "top1";
        out->samples = s->by_position ? qc_dataset_samples(s->data) : all->labels;
        out->positions = s->by_position ? all->labels : 0;
        out->nll = all->nll / (double)all->labels;
        out->classes = s->classes;
        out->value = (double)all->top1 / (double)all->labels;
        if (s->classes > 5) out->top5 = (double)all->top5 / (double)all->labels;
        qc_interval(&out->low, &out->high, all->top1, all->labels, 0.95);
    } else {
        out->kind = QC_METRIC_PSNR;
        out->name = "psnr";
        out->samples = qc_dataset_samples(s->data);
        out->mse = (all->outside ? all->plain : all->clamped) / (double)all->elements;
        out->value = 10 * log10(s->peak * s->peak / out->mse);
    }
}

bool qc_metric_is_chance_level(const struct qc_metric *m)
{
    if (m->kind != QC_METRIC_TOP1 || m->samples < 50 || m->classes < 2) return false;
    const double guess = 1 / (double)m->classes;
    return (m->value - guess) / (1 - guess) < 0.1;
}

double qc_metric_drop(const struct qc_metric *from, const struct qc_metric *to)
{
    const double drop = from->value - to->value;
    return from->kind == QC_METRIC_TOP1 ? 100 * drop : from->lower_is_better ? -drop : drop;
}

struct evaluation {
    struct qc_scoring scoring;
    struct qc_score *units;
    void **truth; /* per worker */
};

static bool finish_scored_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                               struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct evaluation *e = user;
    const struct qc_view out = qc_runner_output(runners[0], e->scoring.output);
    return qc_scoring_read(e->truth[at->worker], &e->scoring, at->unit, scratch, st) &&
           qc_scoring_unit(&e->units[at->unit], &e->scoring, &out, e->truth[at->worker], at->unit, st);
}

bool qc_evaluate_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, struct qc_status *st)
{
    struct qc_plan *plan = NULL;
    const bool ok = qc_stream_plan(&plan, g, data, how, st);
    if (ok) *out = qc_plan_constant_bytes(plan) + qc_plan_runner_bytes(plan);
    qc_plan_free(plan);
    return ok;
}

bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, const struct qc_evaluation *of,
                      struct qc_arena *overflow_arena, struct qc_status *st)
{
    const struct qc_graph *g = of->graph;
    const struct qc_dataset *data = of->data;
    struct evaluation e = {0};
    struct qc_score all = {0};
    struct qc_plan *plan = NULL;
    struct qc_runner *probe = NULL;
    const double t0 = qc_seconds();
    const size_t units = qc_dataset_units(data);
    unsigned used = 0;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_stream_plan(&plan, g, data, of->how, st) &&
              qc_stream_fit(&used, of->settings, data, qc_plan_runner_bytes(plan), st) &&
              qc_runner_new(&probe, plan, st) && qc_overflows_new(overflows, plan, g, overflow_arena, st) &&
              qc_scoring_begin(&e.scoring, g, probe, data, st);
    qc_runner_free(probe);
    ok = ok && (e.units = QC_NEW_ARRAY(a, struct qc_score, units, st)) && (e.truth = QC_NEW_ARRAY(a, void *, used, st));
    for (unsigned w = 0; ok && w < used; w++)
        ok = (e.truth[w] = QC_NEW_ARRAY(a, int64_t, qc_scoring_truth_bytes(&e.scoring) / sizeof(int64_t) + 1, st));
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .plans = {plan},
                               .overflows = {overflows},
                               .workers = used,
                               .fed = 1,
                               .unit = finish_scored_unit,
                               .user = &e,
                               .progress = of->settings->progress,
                               .progress_user = of->settings->progress_user};
    ok = ok && qc_stream_run(&stream, st);
    for (size_t u = 0; ok && u < units; u++) qc_score_add(&all, &e.units[u]);
    if (ok && e.scoring.label_count && !all.labels)
        ok = qc_fail(st, QC_BAD_INPUT, "%s: all labels are negative, so accuracy cannot be measured",
                     qc_dataset_file(data));
    if (ok) {
        qc_scoring_metric(out, &e.scoring, &all);
        out->seconds = qc_seconds() - t0;
    }
    qc_plan_free(plan);
    return ok;
}
