// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/overflow.h"

bool qc_overflows_new(struct qc_overflows *out, const struct qc_plan *p, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_status *st)
{
    struct qc_overflows o = {.count = qc_plan_overflow_count(p)};
    if (!(o.layers = QC_NEW_ARRAY(a, struct qc_layer_overflow, o.count, st))) return false;
    for (size_t k = 0; k < o.count; k++) {
        o.layers[k].node = qc_plan_overflow_node(p, k);
        if (!(o.layers[k].name = qc_node_name(g, &g->nodes[o.layers[k].node], a, st))) return false;
        struct qc_sums *s = &o.layers[k].sums;
        s->channels = qc_plan_overflow_channels(p, k);
        s->lowest = QC_NEW_ARRAY(a, int64_t, s->channels, st);
        s->highest = QC_NEW_ARRAY(a, int64_t, s->channels, st);
        if (!s->lowest || !s->highest) return false;
    }
    *out = o;
    return true;
}

/* Returns the bits of two's complement that hold v. */
static unsigned bits_of(int64_t v)
{
    unsigned bits = 1;
    for (uint64_t u = (uint64_t)(v < 0 ? ~v : v); u; u >>= 1) bits++;
    return bits;
}

void qc_overflows_add(struct qc_overflows *o, const struct qc_runner *r)
{
    for (size_t k = 0; k < o->count; k++) {
        const struct qc_sums *from = qc_runner_sums(r, k);
        struct qc_layer_overflow *to = &o->layers[k];
        if (!from->results) continue;
        to->sums.results += from->results;
        to->sums.overflows += from->overflows;
        for (size_t c = 0; c < from->channels; c++) {
            int64_t *lo = &to->sums.lowest[c], *hi = &to->sums.highest[c];
            *lo = from->lowest[c] < *lo ? from->lowest[c] : *lo;
            *hi = from->highest[c] > *hi ? from->highest[c] : *hi;
            const unsigned low = bits_of(*lo), high = bits_of(*hi);
            if (low > to->bits) to->bits = low;
            if (high > to->bits) to->bits = high;
        }
    }
}

const struct qc_layer_overflow *qc_overflow_of(const struct qc_overflows *o, qc_id node)
{
    for (size_t k = 0; k < o->count; k++)
        if (o->layers[k].node == node) return &o->layers[k];
    return NULL;
}
