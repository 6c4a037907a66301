// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/collection.h"

#include <pthread.h>
#include <stdlib.h>

#include "rewrite/passes/channel_layout.h"

bool qc_named_channel_axes(const int **out, const struct qc_named_values *values, const struct qc_graph *g,
                           struct qc_arena *a, struct qc_status *st)
{
    int *all, *axes = QC_NEW_ARRAY(a, int, values->count, st);
    if (!axes || !qc_channel_axes(&all, g, a, st)) return false;
    for (size_t i = 0; i < values->count; i++) {
        const qc_id v = qc_graph_find_value(g, values->names[i]);
        axes[i] = v ? all[v] : -1;
    }
    *out = axes;
    return true;
}

struct qc_channel_locks {
    size_t count;
    pthread_mutex_t *at;
};

bool qc_channel_locks_new(struct qc_channel_locks **out, size_t count, struct qc_status *st)
{
    struct qc_channel_locks *l = calloc(1, sizeof *l);
    if (!l || !(l->at = calloc(count + 1, sizeof *l->at))) {
        free(l);
        return qc_fail_memory(st, count * sizeof(pthread_mutex_t));
    }
    for (; l->count < count; l->count++) pthread_mutex_init(&l->at[l->count], NULL);
    *out = l;
    return true;
}

void qc_channel_locks_free(struct qc_channel_locks *l)
{
    if (!l) return;
    for (size_t i = 0; i < l->count; i++) pthread_mutex_destroy(&l->at[i]);
    free(l->at);
    free(l);
}

bool qc_channels_take(struct qc_channel_histogram *h, struct qc_channel_locks *l, size_t at, const struct qc_view *v,
                      float *scratch, struct qc_status *st)
{
    if (h->axis >= v->rank || (size_t)v->dim[h->axis] != h->channels)
        return qc_fail(st, QC_BAD_INPUT, "has other channels than the model says (%zu along axis %d)", h->channels,
                       h->axis);
    const size_t n = qc_view_count(v) / h->channels;
    /* Copy the values channel by channel */
    const int axis = h->axis;
    struct qc_view to = *v;
    int64_t step = 1;
    to.data = scratch;
    for (int i = v->rank - 1; i >= 0; i--) {
        to.stride[i] = i == axis ? (int64_t)n : step;
        if (i != axis) step *= v->dim[i];
    }
    qc_view_copy(&to, v);
    pthread_mutex_lock(&l->at[at]);
    qc_channel_histogram_take(h, scratch, n);
    pthread_mutex_unlock(&l->at[at]);
    return true;
}
