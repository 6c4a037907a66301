// SPDX-License-Identifier: Apache-2.0
#include "quantize/noise_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/produced_ops.h"

struct look {
    const struct qc_graph *g;
    const struct qc_measurement *m;
    const struct qc_report *r;
    double *ratio; /* N */
    bool *measured;
    size_t *source;
};

double qc_noise_ratio(double db)
{
    return isnan(db) ? (double)NAN : pow(10, -db / 10);
}

size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams)
{
    for (size_t i = 0; qparams && i < r->layer_count; i++)
        if (strcmp(r->layers[i].name, g->qparams_of[qparams].name) == 0) return i;
    return QC_NO_INDEX;
}

/* What was measured at a value itself. Where the range was chosen by the error behind a function, the function's value
   shows it and this one does not. */
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

static void forward(struct look *f)
{
    f->source[0] = QC_NO_INDEX;
    for (qc_id v = 1; v <= f->g->value_count; v++) {
        f->source[v] = QC_NO_INDEX;
        look(f, v);
        if (!f->measured[v]) f->ratio[v] = ratio_behind(f, v, &f->source[v]);
    }
}

/* Float outputs are measured too, but are no layers. */
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

/* The op that the noise of a value is of: behind quantize, requantize and dequantize. */
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
    *out = (struct qc_noise_points){.points = QC_NEW_ARRAY(a, struct qc_noise_point, n, st),
                                    .source = QC_NEW_ARRAY(a, size_t, n, st)};
    f.ratio = QC_NEW_ARRAY(a, double, n, st);
    f.measured = QC_NEW_ARRAY(a, bool, n, st);
    f.source = out->source;
    if (!out->points || !out->source || !f.ratio || !f.measured) return false;
    forward(&f);
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
