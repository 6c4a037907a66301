// SPDX-License-Identifier: Apache-2.0
/* Cache of a graph's outputs on units of data. Units are identified by the key of their inputs (struct qc_unit), so any
   run on any selection of samples can fill and use it. */
#pragma once

#include "base/memo.h"
#include "simq/plan/plan.h"

/* Where outputs are kept, and how many: up to 64 MiB in memory, or those of up to 48 units in temporary files, for
   large models: there a run takes much longer than to read a file, and --memory-limit need not count it. */
enum qc_known_place { QC_KNOWN_IN_MEMORY, QC_KNOWN_IN_FILES };
enum { QC_KNOWN_OUTPUTS_BYTES = 64 << 20, QC_KNOWN_OUTPUTS_FILES = 48 };

struct qc_known_outputs;

/* count: outputs of the graph. budget: of memory, borrowed; NULL: none. The functions below are thread safe, except ref
 * and free. */
bool qc_known_outputs_new(struct qc_known_outputs **out, size_t count, enum qc_known_place place,
                          struct qc_memo_budget *budget, struct qc_status *st);
/* Adds a reference; the last qc_known_outputs_free frees. NULL-safe. Only the thread of the job may call both. */
struct qc_known_outputs *qc_known_outputs_ref(struct qc_known_outputs *k);
void qc_known_outputs_free(struct qc_known_outputs *k); /* NULL-safe */

/* Marks that the plan of the graph knew all output shapes before the run. */
void qc_known_outputs_settle(struct qc_known_outputs *k);
bool qc_known_outputs_settled(const struct qc_known_outputs *k); /* false if k is NULL */

/* Returns true if outputs of a unit should be kept in advance. Trials ask for at most 256 units, those of the lowest
   keys. In a larger data set of `units` units about 384 of the lowest keys are kept, so that memory does not grow with
   samples. In files about 24: most trials end after 8 or 16 units. k may be NULL. */
bool qc_known_outputs_wanted(const struct qc_known_outputs *k, uint64_t key, size_t units);

/* Copies the outputs of a runner for the unit of this key, unless they are known or there is no room, also on the disk.
   Does nothing if k is NULL. */
bool qc_known_outputs_keep(struct qc_known_outputs *k, uint64_t key, struct qc_runner *r, struct qc_status *st);
/* Returns the outputs of a unit, valid as long as k; NULL if unknown or k is NULL. */
struct qc_known;
const struct qc_known *qc_known_outputs_find(struct qc_known_outputs *k, uint64_t key);
/* Returns an output as the runner had it. */
struct qc_view qc_known_view(const struct qc_known *u, size_t output);
