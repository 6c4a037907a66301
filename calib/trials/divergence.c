// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/divergence.h"

enum { STEPS_MAX = 4096, JOINS_MAX = 4 }; /* limits: nodes visited in all, nested joins */

static enum qc_probabilities made_by(const struct qc_graph *g, qc_id v, unsigned joins, unsigned *steps)
{
    for (const struct qc_node *n; (n = qc_node_of(g, v)) && ++*steps < STEPS_MAX; v = n->inputs[0]) {
        if (n->op == QC_OP_Softmax) return QC_PARTS_OF_ONE;
        if (n->op == QC_OP_Sigmoid) return QC_OF_TWO;
        if (qc_node_affine(n) == QC_AFFINE_KEEP) continue;
        if (qc_node_affine(n) != QC_AFFINE_JOIN || joins == JOINS_MAX) break;
        const enum qc_probabilities first = made_by(g, n->inputs[0], joins + 1, steps);
        for (unsigned i = 1; i < n->input_count; i++)
            if (made_by(g, n->inputs[i], joins + 1, steps) != first) return QC_NO_PROBABILITIES;
        return first;
    }
    return QC_NO_PROBABILITIES;
}

enum qc_probabilities qc_probabilities_of(const struct qc_graph *g, size_t o)
{
    unsigned steps = 0;
    return made_by(g, g->outputs[o].value, 0, &steps);
}

static double apart(double p, double q)
{
    return p + q > 0 ? 2 * (p - q) * (p - q) / (p + q) : 0;
}

void qc_divergence_add(struct qc_error *e, enum qc_probabilities kind, const float *p, const float *q, size_t n)
{
    double signal = 0, noise = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)p[i], y = (double)q[i];
        signal += x;
        noise += apart(x, y) + (kind == QC_OF_TWO ? apart(1 - x, 1 - y) : 0);
    }
    e->count += n;
    e->signal += signal;
    e->noise += noise;
}
