// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/least.h"

#include <assert.h>

void qc_least_begin(struct qc_least *l, double limit)
{
    *l = (struct qc_least){.best = limit, .which = QC_LEAST_MOST};
}

void qc_least_add(struct qc_least *l, double bound)
{
    size_t at = l->left++;
    assert(l->count < QC_LEAST_MOST);
    for (; at > 0 && l->bounds[l->order[at - 1]] <= bound; at--) l->order[at] = l->order[at - 1];
    l->order[at] = l->count;
    l->bounds[l->count++] = bound;
}

/* Returns true if a value would be the least so far. Of equal ones the first counts, but none that equals the limit. */
static bool is_least(const struct qc_least *l, size_t number, double value)
{
    return value < l->best || (value <= l->best && l->which < QC_LEAST_MOST && number < l->which);
}

bool qc_least_next(size_t *number, struct qc_least *l)
{
    while (l->left > 0) {
        *number = l->order[--l->left];
        if (is_least(l, *number, l->bounds[*number])) return true;
    }
    return false;
}

void qc_least_take(struct qc_least *l, size_t number, double value)
{
    if (!is_least(l, number, value)) return;
    l->best = value;
    l->which = number;
}
