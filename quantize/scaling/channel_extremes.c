// SPDX-License-Identifier: Apache-2.0
#include "quantize/scaling/channel_extremes.h"

#include "calib/statistics/stream.h"

struct taking {
    struct qc_channel_extremes *of;
    size_t *units, count; /* of the data set */
};

static size_t place_of(const struct taking *t, size_t unit)
{
    size_t i = 0;
    while (t->units[i] != unit) i++;
    return i;
}

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    const struct taking *t = user;
    const struct qc_channel_extremes *e = &t->of[index];
    if (e->axis >= v->rank || (size_t)v->dim[e->axis] != e->channels)
        return qc_fail(st, QC_BAD_INPUT, "has other channels than the model says (%zu along axis %d)", e->channels,
                       e->axis);
    float *lo = e->lo + place_of(t, at->unit) * e->channels, *hi = e->hi + place_of(t, at->unit) * e->channels;
    const size_t count = qc_view_count(v);
    int64_t index_of[QC_RANK_MAX] = {0}, from = 0;
    for (size_t k = 0; k < count; k++) {
        const float x = ((const float *)v->data)[from];
        const int64_t c = index_of[e->axis];
        if (x < lo[c]) lo[c] = x;
        if (x > hi[c]) hi[c] = x;
        for (int d = v->rank - 1; d >= 0; d--) {
            from += v->stride[d];
            if (++index_of[d] < v->dim[d]) break;
            from -= v->stride[d] * v->dim[d];
            index_of[d] = 0;
        }
    }
    return true;
}

bool qc_channel_extremes_take(struct qc_channel_extremes *of, size_t count, const struct qc_graph *g,
                              const struct qc_dataset *data, unsigned workers, struct qc_arena *a, struct qc_status *st)
{
    const size_t all = qc_dataset_units(data), units = all < QC_EXTREMES_UNITS ? all : QC_EXTREMES_UNITS;
    struct qc_plan *plan = NULL;
    struct taking t = {.of = of, .count = units, .units = QC_NEW_ARRAY(a, size_t, units, st)};
    qc_id *values = QC_NEW_ARRAY(a, qc_id, count, st);
    if (!t.units || !values) return false;
    for (size_t i = 0; i < units; i++) t.units[i] = i * all / units;
    for (size_t i = 0; i < count; i++) {
        values[i] = of[i].value;
        of[i].units = units;
        of[i].lo = QC_NEW_ARRAY(a, float, units *of[i].channels, st);
        of[i].hi = QC_NEW_ARRAY(a, float, units *of[i].channels, st);
        if (!of[i].lo || !of[i].hi) return false;
    }
    const struct qc_plan_options how = {.observed_count = count, .observed = values};
    const struct qc_stream stream = {.data = data,
                                     .input_count = g->input_count,
                                     .plan_count = 1,
                                     .units = t.units,
                                     .unit_count = units,
                                     .workers = workers,
                                     .observe = observe,
                                     .user = &t};
    if (!qc_stream_plan(&plan, g, data, &how, st)) return false;
    struct qc_stream run = stream;
    run.plans[0] = plan;
    const bool ok = qc_stream_run(&run, st);
    qc_plan_free(plan);
    return ok;
}
