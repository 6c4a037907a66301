// SPDX-License-Identifier: Apache-2.0
#include "simq/core/kernel_util.h"

#include <math.h>
#include <string.h>

bool qc_scores_of(enum qc_scores *out, const struct qc_node *n, struct qc_status *st)
{
    static const char *const names[] = {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"};
    const char *name = qc_attr_string(n, "post_transform", "NONE");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum qc_scores)i;
            return true;
        }
    return qc_fail(st, QC_UNSUPPORTED, "post_transform %.40s is not handled", name);
}

static float logistic(float v)
{
    const float x = 1 / (1 + expf(-fabsf(v)));
    return v < 0 ? 1 - x : x;
}

/* The approximation of ONNX Runtime. */
static float probit(float v)
{
    const float w = 2 * v - 1, log = logf((1 - w) * (1 + w)), a = 2 / (3.14159f * 0.147f) + 0.5f * log,
                b = log / 0.147f;
    return 1.41421356f * (w < 0 ? -1.0f : 1.0f) * sqrtf(-a + sqrtf(a * a - b));
}

void qc_scores_set(float *y, size_t width, const double *v, size_t count, enum qc_scores transform,
                   enum qc_scores_form form)
{
    for (size_t i = 0; i < width; i++) y[i] = i < count ? (float)v[i] : 0;
    if (transform == QC_SCORES_PROBIT) {
        for (size_t i = 0; i < count; i++) y[i] = probit(y[i]);
    } else if (count > 1 && transform == QC_SCORES_LOGISTIC) {
        for (size_t i = 0; i < count; i++) y[i] = logistic(y[i]);
    } else if (count > 1 && transform != QC_SCORES_NONE) {
        const bool zero = transform == QC_SCORES_SOFTMAX_ZERO; /* scores of 0 stay 0, since e^0 is not */
        float most = -3.4e38f, sum = 0;
        for (size_t i = 0; i < count; i++) most = fmaxf(most, y[i]);
        for (size_t i = 0; i < count; i++) {
            if (zero && fabsf(y[i]) <= 1e-7f) {
                y[i] *= expf(-most);
                continue;
            }
            y[i] = expf(y[i] - most);
            sum += y[i];
        }
        for (size_t i = 0; i < count; i++) y[i] /= sum;
    } else if (count == 1 && width == 2 && form != QC_SCORES_PLAIN) {
        const float s = y[0];
        const bool logit = transform == QC_SCORES_LOGISTIC && form != QC_SCORES_SHARE;
        y[0] = logit ? logistic(-s) : form == QC_SCORES_SHARE ? 1 - s : -s;
        y[1] = logit ? logistic(s) : s;
    }
}
