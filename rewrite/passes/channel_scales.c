// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "rewrite/passes/channels.h"

/* Most sweeps over all groups. A chain of layers changes little after that. */
enum { SWEEPS = 100 };
/* The sweep that changes no scale by more than this factor is the last. */
#define SETTLED 1.01
/* Least share of a channel relative to the largest one: smaller values are rounded to 0 in any case. */
#define FLOOR 1e-3
/* Assumed largest element of a normalised value, in standard deviations. */
#define DEVIATIONS 3.0

struct solver {
    struct qc_channels *c;
    double *made, *shift, *read, *column; /* [channels of the widest group] */
};

static double largest(const double *x, int64_t n)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i]);
    return top;
}

/* Adds the rows of a weight that makes the group. */
static void add_rows(struct solver *s, qc_id id)
{
    const struct qc_node *n = &s->c->graph->nodes[id];
    const double *in = qc_channel_scales(s->c, n->inputs[0]), *out = qc_channel_scales(s->c, n->outputs);
    const struct qc_layer_weight *w = &s->c->weights[id];
    for (int64_t o = 0; o < w->outputs; o++)
        for (int64_t i = 0; i < w->inputs; i++)
            s->made[o] =
                fmax(s->made[o], (double)w->magnitude[o * w->inputs + i] * in[qc_weight_channel(w, o, i)] / out[o]);
}

/* Adds the columns of a weight that reads the group, relative to the largest. */
static void add_columns(struct solver *s, qc_id id)
{
    const struct qc_node *n = &s->c->graph->nodes[id];
    const double *in = qc_channel_scales(s->c, n->inputs[0]), *out = qc_channel_scales(s->c, n->outputs);
    const struct qc_layer_weight *w = &s->c->weights[id];
    const int64_t channels = w->inputs * w->conv_groups;
    memset(s->column, 0, (size_t)channels * sizeof *s->column);
    for (int64_t o = 0; o < w->outputs; o++)
        for (int64_t i = 0; i < w->inputs; i++) {
            const int64_t channel = qc_weight_channel(w, o, i);
            s->column[channel] =
                fmax(s->column[channel], (double)w->magnitude[o * w->inputs + i] * in[channel] / out[o]);
        }
    const double top = largest(s->column, channels);
    double *read = s->read + s->c->layout[n->inputs[0]].offset;
    for (int64_t i = 0; top > 0 && i < channels; i++) read[i] = fmax(read[i], s->column[i] / top);
}

/* Adds the magnitudes of a bias, a shift or a gain of value v, divided by the current scales, to sum. */
static void add_constant(double *sum, const struct qc_channels *c, qc_id v, const struct qc_tensor *t, double factor)
{
    const int64_t first = c->layout[v].offset, count = qc_channel_count(c, v);
    const double *scale = qc_channel_scales(c, v);
    for (int64_t i = 0; t && i < count; i++)
        sum[first + i] += factor * fabs(qc_tensor_float(t, t->count == 1 ? 0 : (size_t)i)) / scale[i];
}

/* s->made: the share of each channel in the constants that make the group, at most 1. Returns false if all are 0. A
   layer's bias counts like its weights, relative to the largest bias: dividing a channel of small weights and a large
   bias by a small number would widen the range of the whole tensor. A gain and its shifts are added: their sum is the
   magnitude of the result. */
static bool find_made(struct solver *s, qc_id group)
{
    const struct qc_channels *c = s->c;
    const struct qc_channel_group *q = &c->groups[group];
    bool gain = false;
    memset(s->made, 0, (size_t)q->count * sizeof *s->made);
    memset(s->shift, 0, (size_t)q->count * sizeof *s->shift);
    for (qc_id id = c->first_maker[group]; id; id = c->next_maker[id]) {
        const struct qc_node *n = &c->graph->nodes[id];
        const qc_id operand = n->inputs[1 - (c->data[id] & 1)];
        if (c->role[id] == QC_CHANNELS_LAYER) {
            add_rows(s, id);
            if (n->input_count > 2) add_constant(s->shift, c, n->outputs, qc_constant_of(c->graph, n->inputs[2]), 1);
        } else if (c->role[id] == QC_CHANNELS_GAIN) {
            add_constant(s->made, c, n->outputs, qc_constant_of(c->graph, operand), DEVIATIONS);
            gain = true;
        } else if (c->role[id] == QC_CHANNELS_SHIFT)
            add_constant(s->shift, c, n->outputs, qc_constant_of(c->graph, operand), 1);
    }
    for (int64_t i = 0; gain && i < q->count; i++) s->made[i] += s->shift[i];
    const double top = largest(s->made, q->count), high = gain ? 0 : largest(s->shift, q->count);
    for (int64_t i = 0; top > 0 && i < q->count; i++)
        s->made[i] = fmax(s->made[i] / top, high > 0 ? s->shift[i] / high : 0);
    return top > 0;
}

/* s <- s * sqrt(made / read). Returns the factor of the largest change. */
static double step(struct solver *s, qc_id group)
{
    const struct qc_channels *c = s->c;
    struct qc_channel_group *q = &c->groups[group];
    double change = 1;
    bool weighed = false;
    if (!find_made(s, group)) return 1;
    memset(s->read, 0, (size_t)q->count * sizeof *s->read);
    for (qc_id id = c->first_reader[group]; id; id = c->next_reader[id]) {
        if (c->role[id] != QC_CHANNELS_LAYER) continue;
        add_columns(s, id);
        weighed = true;
    }
    for (int64_t i = 0; weighed && i < q->count; i++) {
        if (q->held[i]) continue;
        const double factor = sqrt(fmax(s->made[i], FLOOR) / fmax(s->read[i], FLOOR));
        q->scale[i] *= factor;
        change = fmax(change, fmax(factor, 1 / factor));
    }
    return change;
}

bool qc_channels_solve(struct qc_channels *c, struct qc_status *st)
{
    struct solver s = {.c = c};
    const struct qc_graph *g = c->graph;
    int64_t widest = 0;
    double change = 2 * SETTLED;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (c->group[v] == v && c->groups[v].count > widest) widest = c->groups[v].count;
    s.made = QC_NEW_ARRAY(c->arena, double, widest, st);
    s.shift = QC_NEW_ARRAY(c->arena, double, widest, st);
    s.read = QC_NEW_ARRAY(c->arena, double, widest, st);
    s.column = QC_NEW_ARRAY(c->arena, double, widest, st);
    if (!s.made || !s.shift || !s.read || !s.column) return false;
    for (int k = 0; k < SWEEPS && change > SETTLED; k++) {
        change = 1;
        for (qc_id i = 1; i <= g->value_count; i++) {
            const qc_id v = k % 2 ? (qc_id)g->value_count + 1 - i
                                  : i; /* alternating directions: a change at one end reaches the other in one sweep */
            if (c->group[v] == v && !c->groups[v].fixed) change = fmax(change, step(&s, v));
        }
    }
    return true;
}
