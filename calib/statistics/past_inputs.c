// SPDX-License-Identifier: Apache-2.0
/* Inputs of a decoder that can be made from its tokens. */
#include <string.h>

#include "calib/statistics/stream.h"
#include "graph/core/uses.h"

/* Makes a cache without entries of the spec: the axis that grows has none, and other free dimensions are those of what
   is appended. Returns false, and leaves the spec, if nothing is appended to the input. */
static bool empty_cache(struct qc_input_spec *spec, const struct qc_uses *u, qc_id v, int64_t *dims)
{
    const struct qc_graph *g = u->graph;
    struct qc_cache cache;
    if (!qc_cache_of(&cache, u, v)) return false;
    const struct qc_shape *by = &g->values[cache.joins->inputs[1]].type.shape;
    const unsigned axis = (unsigned)cache.axis;
    for (unsigned d = 0; d < spec->rank; d++) {
        dims[d] = d == axis ? QC_FREE : spec->dims[d];
        if (d == 0 || d == axis) continue;
        if (dims[d] < 0 && by->rank == (int)spec->rank) dims[d] = by->dim[d];
        if (dims[d] < 0) return false;
    }
    spec->dims = dims;
    spec->made = QC_MADE_EMPTY;
    return true;
}

bool qc_stream_past(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_uses uses;
    size_t caches = 0;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        int64_t *dims = QC_NEW_ARRAY(a, int64_t, specs[i].rank + 1, st);
        if (!dims) return false;
        caches += empty_cache(&specs[i], &uses, g->inputs[i].value, dims);
    }
    for (size_t i = 0; caches && i < g->input_count; i++) {
        const bool unread = qc_readers(&uses, g->inputs[i].value).count == 0;
        if (specs[i].rank == 0 && unread) specs[i].made = QC_MADE_ONES; /* only handed on: any number will do */
        if (specs[i].rank != 2 || specs[i].made != QC_MADE_NOT) continue;
        if (strcmp(specs[i].name, "attention_mask") == 0) specs[i].made = QC_MADE_ONES;
        if (strcmp(specs[i].name, "position_ids") == 0) specs[i].made = QC_MADE_POSITIONS;
    }
    return true;
}
