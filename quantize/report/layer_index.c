// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/layer_index.h"

#include <stdlib.h>
#include <string.h>

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->index < y->index ? -1 : x->index > y->index;
}

bool qc_layers_index(struct qc_report *r, struct qc_arena *a, struct qc_status *st)
{
    struct named *all = malloc((r->layer_count + 1) * sizeof *all);
    size_t *index = QC_NEW_ARRAY(a, size_t, r->layer_count, st);
    if (!all) qc_fail_memory(st, (r->layer_count + 1) * sizeof *all);
    if (!all || !index) {
        free(all);
        return false;
    }
    for (size_t i = 0; i < r->layer_count; i++) all[i] = (struct named){.name = r->layers[i].name, .index = i};
    qsort(all, r->layer_count, sizeof *all, by_name);
    for (size_t i = 0; i < r->layer_count; i++) index[i] = all[i].index;
    r->layers_by_name = index;
    free(all);
    return true;
}

size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams)
{
    size_t low = 0, high = qparams ? r->layer_count : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(r->layers[r->layers_by_name[middle]].name, g->qparams_of[qparams].name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = qparams && low < r->layer_count &&
                       strcmp(r->layers[r->layers_by_name[low]].name, g->qparams_of[qparams].name) == 0;
    return found ? r->layers_by_name[low] : QC_NO_INDEX;
}
