// SPDX-License-Identifier: Apache-2.0
/* Statistics of channels while the data stream through: one table for all workers, since counts add up to the same in
 * any order. */
#pragma once

#include "graph/core/graph.h"
#include "observers/channel_histogram.h"
#include "simq/core/view.h"

/* *axes: [count], the axis of the channels of the value of g that has each name (rewrite/passes/channel_axis.h), or -1.
 * In the arena. Errors: memory. */
bool qc_named_channel_axes(const int **axes, size_t count, const char *const *names, const struct qc_graph *g,
                           struct qc_arena *a, struct qc_status *st);

struct qc_channel_locks;
bool qc_channel_locks_new(struct qc_channel_locks **out, size_t count, struct qc_status *st);
void qc_channel_locks_free(struct qc_channel_locks *l); /* NULL-safe */

/* Adds a float32 value; at: its lock. scratch: room for all its elements. Errors: a value without that many channels
 * (QC_BAD_INPUT). From any thread. */
bool qc_channels_take(struct qc_channel_histogram *h, struct qc_channel_locks *l, size_t at, const struct qc_view *v,
                      float *scratch, struct qc_status *st);
