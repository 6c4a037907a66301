// SPDX-License-Identifier: Apache-2.0
/* Reshape, Flatten, Squeeze, Unsqueeze: the same elements in the same logical order under another shape. */
#include <string.h>

#include "simq/core/kernel_util.h"

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct qc_view *from = &r->in[0], *to = &r->out[0];
    const size_t bytes = qc_view_count(to) * qc_dtype_size(to->dtype);
    if (bytes && to->data != from->data) memmove(to->data, from->data, bytes);
    return true;
}

QC_KERNEL(copy, .halves = true, .order = QC_ORDER_ROW, .alias = true, .run = run);
