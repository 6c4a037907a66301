// SPDX-License-Identifier: Apache-2.0
/* Collects statistics of channels. All workers share one table per value: counts add up to the same in any order. */
#pragma once

#include "graph/core/graph.h"
#include "observers/channel_histogram.h"
#include "simq/core/view.h"

/* Computes *axes: [count], for each name the axis of the channels of that value of g (rewrite/passes/channel_layout.h),
   or -1; in the arena. Fails if memory is out. */
bool qc_named_channel_axes(const int **axes, size_t count, const char *const *names, const struct qc_graph *g,
                           struct qc_arena *a, struct qc_status *st);

struct qc_channel_locks;
bool qc_channel_locks_new(struct qc_channel_locks **out, size_t count, struct qc_status *st);
void qc_channel_locks_free(struct qc_channel_locks *l); /* NULL-safe */

/* Adds a float32 value. at: index of its lock. scratch: room for all its elements. Fails with QC_BAD_INPUT if the value
   has another number of channels. Thread safe. */
bool qc_channels_take(struct qc_channel_histogram *h, struct qc_channel_locks *l, size_t at, const struct qc_view *v,
                      float *scratch, struct qc_status *st);
