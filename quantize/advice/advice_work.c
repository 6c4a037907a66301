// SPDX-License-Identifier: Apache-2.0
#include "quantize/advice/advice_work.h"

#include <stdlib.h>

#include "calib/weights/round_weights.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "rewrite/passes/simulate.h"
#include "simq/plan/plan.h"

/* Cost of each operation, in float multiply-adds. A multiply-add of bytes (BYTES), of 16 bits (WIDE), of 16 bits with
   64-bit sums (WIDEST). A computed value, in float (VALUE) and in integers (INTEGER); a value observed (SCANNED) and
   compared (COMPARED); an element read (READ). A node run (NODE), and made in a branch (MADE). A sum of second moments
   (MOMENT), a step of rounding (ROUND), a range solved (SOLVED). For each weight: the plans of single layers (PLANNED),
   a branch (BRANCHED), and the stages of a job (HANDLED). Longer sums than LONG_SUM of 16-bit products need 64 bits. */
static const double BYTES = 0.25, WIDE = 5, WIDEST = 48, VALUE = 4, INTEGER = 2, SCANNED = 40, COMPARED = 120,
                    READ = 300, NODE = 1e5, MADE = 6e6, MOMENT = 1, ROUND = 4, SOLVED = 2e7, PLANNED = 300,
                    BRANCHED = 350, HANDLED = 2000;
enum { LONG_SUM = 256 };

static double elements_of(const struct qc_shape *s)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i] > 0 ? (double)s->dim[i] : 1;
    return n;
}

static enum qc_dtype type_of(const struct qc_graph *g, qc_id value)
{
    const struct qc_type *t = &qc_value(g, value)->type;
    return t->qparams == QC_REAL ? t->dtype : g->qparams_of[t->qparams].dtype;
}

/* Returns the cost of one multiply-add of the node, whose sums have `depth` products. */
static double rate(const struct qc_graph *g, const struct qc_node *n, double depth)
{
    const struct qc_dtype_info *x = qc_dtype_info(type_of(g, n->inputs[0])),
                               *w = qc_dtype_info(type_of(g, n->inputs[1]));
    if (qc_is_recurrent(n->op) || x->is_float || w->is_float) return 1;
    if (x->bits <= 8 && w->bits <= 8) return BYTES;
    return depth > LONG_SUM ? WIDEST : WIDE;
}

static bool is_free(const struct qc_graph *g)
{
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_shape *s = &g->values[v].type.shape;
        if (s->rank < 0) return true;
        for (int i = 1; i < s->rank; i++)
            if (s->dim[i] < 0) return true;
    }
    return false;
}

static double count(double *values, const struct qc_graph *g)
{
    double work = 0;
    *values = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        double made = 0;
        uint64_t products;
        bool data = false;
        for (unsigned i = 0; i < n->input_count; i++) data = data || (n->inputs[i] && !qc_constant_of(g, n->inputs[i]));
        for (unsigned i = 0; data && i < n->output_count; i++)
            made += elements_of(&g->values[n->outputs + i].type.shape);
        if (!data) continue;
        *values += made;
        work += NODE + made * (qc_dtype_info(type_of(g, n->outputs))->is_float ? VALUE : INTEGER);
        if (qc_multiplies(n->op) && qc_multiply_adds(&products, g, id))
            work += (double)products * rate(g, n, made > 0 ? (double)products / made : 0);
    }
    return work;
}

/* Sets *out to the work of reading one unit of the data and running it through g. Free shapes are those of unit 0. */
static bool unit_of(double *out, double *values, const struct qc_graph *g, const struct qc_dataset *data,
                    struct qc_status *st)
{
    struct qc_status unknown = QC_STATUS_INIT;
    struct qc_graph *fixed = NULL;
    int64_t dims[QC_DATA_RANK_MAX];
    *out = 0;
    if (is_free(g)) {
        struct qc_shape *shapes = calloc(g->input_count + 1, sizeof *shapes);
        if (!shapes) return qc_fail_memory(st, g->input_count * sizeof *shapes);
        for (size_t i = 0; i < g->input_count; i++) {
            const unsigned rank = qc_dataset_unit_dims(dims, data, i, 0);
            shapes[i] = qc_shape_of((int)rank, dims);
        }
        if (!qc_fix_shapes(&fixed, g, shapes, qc_evaluate, &unknown)) fixed = NULL; /* count with the known shapes */
        free(shapes);
    }
    *out = count(values, fixed ? fixed : g);
    for (size_t i = 0; i < g->input_count; i++) {
        const unsigned rank = qc_dataset_unit_dims(dims, data, i, 0);
        const struct qc_shape s = qc_shape_of((int)rank, dims);
        *out += READ * elements_of(&s);
    }
    qc_graph_free(fixed);
    return true;
}

static double weights_of(const struct qc_graph *g)
{
    double n = 0;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (qc_constant_of(g, v)) n += (double)qc_constant_of(g, v)->count;
    return n;
}

bool qc_advice_work_of_unit(double *out, const struct qc_pipeline *branch, struct qc_status *st)
{
    double values;
    return unit_of(out, &values, branch->produced, branch->from->data, st);
}

bool qc_advice_work_of(struct qc_advice_work *out, const struct qc_pipeline *p, const struct qc_report *r,
                       struct qc_status *st)
{
    double moments = 0, rounding = 0, trials = 0, solved = 0, values, written;
    if (!unit_of(&out->unit, &values, p->real, p->from->data, st) ||
        !unit_of(&out->quantized, &written, p->produced, p->from->data, st))
        return false;
    if (p->weight_rounding && p->seen->second_moments)
        qc_round_weights_work_of_all(&moments, &rounding, p->seen->second_moments);
    /* Sequential rounding (docs/decisions/0045-rounding-on-what-is-read.md) is not counted: it may be a quarter of a
       job, and would raise the budget of advice just where weights are improved already. */
    for (size_t i = 0; i < r->trial_count; i++) {
        trials += (double)r->trials[i].samples;
        solved += (double)r->layer_count;
    }
    const double weights = weights_of(p->real),
                 batch = qc_dataset_batch(p->from->data) > 1 ? (double)qc_dataset_batch(p->from->data) : 1,
                 run = (double)r->data_samples / batch, measured = (double)r->measured_samples / batch;
    out->layer_plans = PLANNED * weights;
    out->branch = BRANCHED * weights + MADE * (double)p->produced->node_count;
    out->job = run * (out->unit + SCANNED * values) + MOMENT * moments + ROUND * rounding + SOLVED * solved +
               trials / batch * out->quantized + measured * (out->unit + out->quantized + COMPARED * values) +
               HANDLED * weights;
    return true;
}
