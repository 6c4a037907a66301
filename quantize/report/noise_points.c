// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/noise_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/report/layer_index.h"
#include "quantize/report/produced_ops.h"

struct look {
    const struct qc_graph *g;
    const struct qc_measurement *m;
    const struct qc_report *r;
    double *ratio;  /* [value_count + 1]: N */
    double *signal; /* sum of squares; 0: unknown */
    bool *measured;
    size_t *source;
};

double qc_noise_ratio(double db)
{
    return isnan(db) ? (double)NAN : pow(10, -db / 10);
}

/* Takes the measurement of a value itself. Not if its range was chosen by the error after a function: the result of the
   function shows that error, this value does not. */
static void look(struct look *f, qc_id v)
{
    qc_id s = f->g->values[v].type.qparams;
    if (!s || f->g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || f->g->qparams_of[s].is_weight ||
        !f->m->quantizers[s].count)
        return;
    size_t i = qc_layer_of(f->r, f->g, s);
    if (i == QC_NO_INDEX || isnan(f->r->layers[i].sqnr_db) || f->r->layers[i].solver.behind) return;
    f->source[v] = i;
    f->measured[v] = true;
    f->ratio[v] = qc_noise_ratio(f->r->layers[i].sqnr_db);
    f->signal[v] = f->m->quantizers[s].signal;
}

/* Returns the weight of input k for the noise of an op: relative to its signal, or absolute for sums and Concat. */
static double noise_by(const struct look *f, const struct qc_node *n, unsigned k)
{
    const qc_id v = n->inputs[k];
    bool sum = n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Concat;
    for (unsigned i = 0; i < n->input_count; i++) sum = sum && f->signal[n->inputs[i]] > 0;
    return f->ratio[v] * (sum ? f->signal[v] : 1);
}

static double ratio_behind(const struct look *f, qc_id v, size_t *source)
{
    const struct qc_node *n = qc_node_of(f->g, v);
    double most = 0;
    for (unsigned k = 0; n && k < n->input_count; k++) {
        if (!(f->ratio[n->inputs[k]] > most)) continue;
        most = f->ratio[n->inputs[k]];
        *source = f->source[n->inputs[k]];
    }
    return most;
}

static bool begin(struct look *f, struct qc_arena *a, struct qc_status *st)
{
    const size_t n = f->g->value_count + 1;
    f->ratio = QC_NEW_ARRAY(a, double, n, st);
    f->signal = QC_NEW_ARRAY(a, double, n, st);
    f->measured = QC_NEW_ARRAY(a, bool, n, st);
    f->source = QC_NEW_ARRAY(a, size_t, n, st);
    return f->ratio && f->signal && f->measured && f->source;
}

/* Computes N for all values. weights: NULL, or the noise of each weight quantizer, which counts as measured. */
static void forward(struct look *f, const double *weights)
{
    f->source[0] = QC_NO_INDEX;
    for (qc_id v = 1; v <= f->g->value_count; v++) {
        f->source[v] = QC_NO_INDEX;
        look(f, v);
        const qc_id q = f->g->values[v].type.qparams;
        if (weights && q && f->g->qparams_of[q].is_weight) {
            f->ratio[v] = weights[q];
            f->measured[v] = weights[q] > 0;
        }
        if (!f->measured[v]) f->ratio[v] = ratio_behind(f, v, &f->source[v]);
    }
}

/* Takes the measurements of float outputs, which are not layers. */
static void look_at_outputs(struct look *f)
{
    for (size_t k = 0; k < f->g->output_count; k++) {
        double n = f->m->outputs[k].count ? qc_noise_ratio(f->r->outputs[k].sqnr_db) : 0;
        qc_id v = f->g->outputs[k].value;
        if (f->measured[v] || f->g->values[v].type.qparams != QC_REAL || !isfinite(n) || !(n > 0)) continue;
        f->measured[v] = true;
        f->ratio[v] = n;
        f->source[v] = QC_NO_INDEX;
    }
}

/* Returns the op that the noise of a value is attributed to, looking through quantize, requantize and dequantize. */
static qc_id op_of(const struct qc_graph *g, qc_id v)
{
    qc_id node = qc_maker(g, v);
    while (node && g->nodes[node].op == QC_OP_Dequantize) node = qc_maker(g, g->nodes[node].inputs[0]);
    return node;
}

static int by_added(const void *a, const void *b)
{
    const struct qc_noise_point *x = a, *y = b;
    double dx = x->after - x->before, dy = y->after - y->before;
    return dx > dy ? -1 : dx < dy ? 1 : x->node < y->node ? -1 : x->node > y->node;
}

bool qc_noise_points_find(struct qc_noise_points *out, const struct qc_graph *g, const struct qc_measurement *m,
                          const struct qc_report *r, struct qc_arena *a, struct qc_status *st)
{
    size_t n = g->value_count + 1, ignored;
    struct look f = {.g = g, .m = m, .r = r};
    *out = (struct qc_noise_points){.points = QC_NEW_ARRAY(a, struct qc_noise_point, n, st)};
    if (!out->points || !begin(&f, a, st)) return false;
    out->source = f.source;
    forward(&f, NULL);
    look_at_outputs(&f);
    for (qc_id v = 1; v <= g->value_count; v++) {
        double before = ratio_behind(&f, v, &ignored);
        qc_id node = f.measured[v] && f.ratio[v] > before ? op_of(g, v) : 0;
        if (node)
            out->points[out->count++] =
                (struct qc_noise_point){.node = node, .layer = f.source[v], .before = before, .after = f.ratio[v]};
    }
    qsort(out->points, out->count, sizeof *out->points, by_added);
    return true;
}

double qc_weight_noise(const struct qc_layer *l)
{
    const struct qc_report_rounding *r = l->rounding;
    const double left = r && r->judged && r->error_nearest > 0 ? fmin(1, r->error / r->error_nearest) : 1;
    return left * qc_noise_ratio(l->alone_db);
}

/* Distributes the output noise from the outputs back to the quantizers. The noise of a value that its own rounding does
   not explain comes from the inputs of its op, in proportion to their noise. */
static void go_back(double *believed, double *share, const struct look *f, const double *own)
{
    const struct qc_graph *g = f->g;
    for (size_t k = 0; k < g->output_count; k++) share[g->outputs[k].value] += 1 / (double)g->output_count;
    for (qc_id v = (qc_id)g->value_count; v >= 1; v--) {
        const qc_id s = f->measured[v] ? g->values[v].type.qparams : 0;
        const struct qc_node *n = qc_node_of(g, v);
        double all = 0, left = share[v];
        for (unsigned k = 0; n && k < n->input_count; k++) all += noise_by(f, n, k);
        if (s) {
            const double mine = all > 0 ? left * fmin(1, own[s] / f->ratio[v]) : left;
            believed[s] += mine;
            left -= mine;
        }
        for (unsigned k = 0; all > 0 && k < n->input_count; k++) share[n->inputs[k]] += left * noise_by(f, n, k) / all;
    }
}

bool qc_noise_believed(double **out, const struct qc_graph *g, const struct qc_measurement *m,
                       const struct qc_report *r, struct qc_arena *a, struct qc_status *st)
{
    struct look f = {.g = g, .m = m, .r = r};
    double *own = QC_NEW_ARRAY(a, double, g->qparams_count + 1, st),
           *share = QC_NEW_ARRAY(a, double, g->value_count + 1, st);
    *out = QC_NEW_ARRAY(a, double, g->qparams_count + 1, st);
    if (!own || !share || !*out || !begin(&f, a, st)) return false;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        const size_t i = g->qparams_of[s].kind == QC_QPARAMS_QUANTIZER ? qc_layer_of(r, g, s) : QC_NO_INDEX;
        const double noise = i == QC_NO_INDEX ? 0 : qc_weight_noise(&r->layers[i]);
        own[s] = isnan(noise) ? 0 : noise;
    }
    forward(&f, own);
    look_at_outputs(&f);
    go_back(*out, share, &f, own);
    return true;
}
