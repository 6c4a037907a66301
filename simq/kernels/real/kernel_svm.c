// SPDX-License-Identifier: Apache-2.0
/* SVMClassifier-1 of ai.onnx.ml: labels [N] and scores [N,classes], or a score for each pair of more than two classes
   without probabilities (prob_a, prob_b). Probabilities of pairs are coupled by the second method of Wu, Lin and Weng
   (2004), as in libsvm. SVMRegressor is a function (rewrite/rules/functions_ml.rules). */
#include <math.h>
#include <string.h>

#include "simq/core/kernel_util.h"

struct state {
    size_t classes, vectors, features, pairs; /* vectors 0: a row of coefficients for each class */
    const int64_t *labels, *per_class;
    const float *coefficients, *support, *rho, *prob_a, *prob_b;
    enum { LINEAR, POLY, RBF, SIGMOID } kernel;
    float gamma, coef0, degree;
    enum qc_scores scores;
    bool positive; /* no coefficient is negative */
};

static size_t floats_of(const float **out, const struct qc_node *n, const char *name)
{
    const struct qc_attr *a = qc_attr_find(n, name);
    *out = a && a->kind == QC_ATTR_FLOATS ? a->floats : NULL;
    return *out ? a->count : 0;
}

static bool prepare_svm(struct qc_prepare *p, struct qc_status *st)
{
    static const char *const kernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    const struct qc_node *n = p->node;
    const float *params;
    const char *kernel = qc_attr_string(n, "kernel_type", "LINEAR");
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !qc_scores_of(&s->scores, n, st)) return false;
    s->classes = qc_attr_ints(n, "classlabels_ints", &s->labels);
    s->pairs = s->classes * (s->classes - 1) / 2;
    const size_t groups = qc_attr_ints(n, "vectors_per_class", &s->per_class),
                 coefficients = floats_of(&s->coefficients, n, "coefficients"),
                 support = floats_of(&s->support, n, "support_vectors"), rho = floats_of(&s->rho, n, "rho"),
                 prob_a = floats_of(&s->prob_a, n, "prob_a"), prob_b = floats_of(&s->prob_b, n, "prob_b");
    for (size_t i = 0; i < groups; i++) s->vectors += s->per_class[i] > 0 ? (size_t)s->per_class[i] : 0;
    s->features = s->vectors ? support / s->vectors : coefficients / s->classes;
    if (floats_of(&params, n, "kernel_params") >= 3) s->gamma = params[0], s->coef0 = params[1], s->degree = params[2];
    for (unsigned i = 0; s->vectors && i < 4; i++)
        if (strcmp(kernels[i], kernel) == 0) s->kernel = i;
    s->positive = true;
    for (size_t i = 0; i < coefficients; i++) s->positive = s->positive && s->coefficients[i] >= 0;
    const int64_t given = p->in[0].dim[p->in[0].rank - 1];
    if (prob_a != prob_b || (prob_a && prob_a < s->pairs) || rho < (s->vectors ? s->pairs : 1) ||
        (s->vectors && (groups != s->classes || coefficients < (s->classes - 1) * s->vectors)) ||
        s->features != (size_t)given)
        return qc_fail(st, QC_BAD_INPUT, "its attributes do not fit each other, or its %lld features",
                       (long long)given);
    p->scratch = (s->vectors + s->pairs + s->classes * (2 * s->classes + 3)) * sizeof(double);
    return true;
}

/* Returns the kernel function of a row and a vector. */
static double kernel_of(const struct state *s, const struct qc_view *x, int64_t row, const float *vector)
{
    const int64_t step = x->stride[x->rank - 1];
    double sum = 0;
    for (size_t i = 0; i < s->features; i++) {
        const double v = qc_kernel_number(x, row + (int64_t)i * step), w = (double)vector[i];
        sum += s->kernel == RBF ? (v - w) * (v - w) : v * w;
    }
    switch (s->kernel) {
    case LINEAR: return sum;
    case POLY: return pow((double)s->gamma * sum + (double)s->coef0, (double)s->degree);
    case RBF: return exp(-(double)s->gamma * sum);
    case SIGMOID: return tanh((double)s->gamma * sum + (double)s->coef0);
    }
    return sum;
}

/* Decision values of all pairs of classes, and their votes. */
static void decide_pairs(double *score, double *votes, const struct state *s, const double *kernel)
{
    size_t pair = 0, first = 0;
    memset(votes, 0, s->classes * sizeof *votes);
    for (size_t i = 0; i + 1 < s->classes; i++) {
        size_t second = first + (size_t)s->per_class[i];
        for (size_t j = i + 1; j < s->classes; j++, pair++) {
            double sum = (double)s->rho[pair];
            for (size_t k = first; k < first + (size_t)s->per_class[i]; k++)
                sum += (double)s->coefficients[(j - 1) * s->vectors + k] * kernel[k];
            for (size_t k = second; k < second + (size_t)s->per_class[j]; k++)
                sum += (double)s->coefficients[i * s->vectors + k] * kernel[k];
            score[pair] = sum;
            votes[sum > 0 ? i : j]++;
            second += (size_t)s->per_class[j];
        }
        first += (size_t)s->per_class[i];
    }
}

/* p: probabilities of n classes from those of pairs; r: that of class i against j, at i * n + j. q: room for n * n + n.
 */
static void couple(double *p, double *q, const double *r, size_t n)
{
    double *product = q + n * n;
    for (size_t i = 0; i < n; i++) {
        p[i] = 1 / (double)n;
        q[i * n + i] = 0;
        for (size_t j = 0; j < n; j++) {
            if (j == i) continue;
            q[i * n + i] += r[j * n + i] * r[j * n + i];
            q[i * n + j] = -r[j * n + i] * r[i * n + j];
        }
    }
    for (int round = 0; round < 100; round++) {
        double all = 0, worst = 0;
        for (size_t i = 0; i < n; i++) {
            product[i] = 0;
            for (size_t j = 0; j < n; j++) product[i] += q[i * n + j] * p[j];
            all += p[i] * product[i];
        }
        for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(product[i] - all));
        if (worst < 0.005 / (double)n) return;
        for (size_t i = 0; i < n; i++) {
            const double diff = (all - product[i]) / q[i * n + i], by = 1 + diff;
            p[i] += diff;
            all = (all + diff * (diff * q[i * n + i] + 2 * product[i])) / by / by;
            for (size_t j = 0; j < n; j++) {
                product[j] = (product[j] + diff * q[i * n + j]) / by;
                p[j] /= by;
            }
        }
    }
}

static size_t largest(const double *v, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

/* Probabilities of the pairs by a logistic function of their scores. */
static void set_probabilities(double *p, double *q, double *r, const struct state *s, const double *score)
{
    const size_t n = s->classes;
    size_t pair = 0;
    for (size_t i = 0; i + 1 < n; i++)
        for (size_t j = i + 1; j < n; j++, pair++) {
            const double v = score[pair] * (double)s->prob_a[pair] + (double)s->prob_b[pair],
                         own = fmin(fmax(1 - 1 / (1 + exp(-v)), 1e-7), 1 - 1e-7);
            r[i * n + j] = own;
            r[j * n + i] = 1 - own;
        }
    couple(p, q, r, n);
}

static bool run_svm(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[1];
    const int64_t rows = x->rank > 1 ? x->dim[0] : 1;
    const size_t width = (size_t)y->dim[1], n = s->classes;
    double *kernel = r->scratch, *score = kernel + s->vectors, *votes = score + s->pairs, *p = votes + n, *q = p + n;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = x->rank > 1 ? row * x->stride[0] : 0;
        float *to = (float *)y->data + row * (int64_t)width;
        size_t best;
        if (!s->vectors) {
            for (size_t k = 0; k < n; k++)
                p[k] = (double)s->rho[0] + kernel_of(s, x, at, s->coefficients + k * s->features);
            best = largest(p, n);
            if (n == 2 && !s->prob_a && p[best] >= (s->positive ? 0.5 : 0) && (s->positive || p[best] > 0)) best = 1;
            qc_scores_set(to, width, p, n, s->scores, QC_SCORES_PLAIN);
        } else {
            for (size_t k = 0; k < s->vectors; k++) kernel[k] = kernel_of(s, x, at, s->support + k * s->features);
            decide_pairs(score, votes, s, kernel);
            best = largest(votes, n);
            if (s->prob_a) set_probabilities(p, q, q + n * n + n, s, score);
            qc_scores_set(to, width, s->prob_a ? p : score, s->prob_a ? n : s->pairs, s->scores,
                          s->scores == QC_SCORES_NONE || s->scores == QC_SCORES_LOGISTIC ? QC_SCORES_SIGN
                                                                                         : QC_SCORES_SHARE);
        }
        ((int64_t *)r->out[0].data)[row] = s->labels[best];
    }
    return true;
}

QC_KERNEL(svm, .order = QC_ORDER_ROW, .prepare = prepare_svm, .run = run_svm);
