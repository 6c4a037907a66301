// SPDX-License-Identifier: Apache-2.0
/* What a job may take: every stage that takes memory or time in proportion to a SHAPE asks here, before it does, since
   a shape is a few bytes of a file. A budget is not changed once it is made: it is copied with the graph it belongs to
   (graph/core/graph.h), asked from any thread, and what it allows does not depend on who asked before. Folding alone
   keeps an account, of one pass. */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_budget {
    size_t memory_limit; /* bytes that the process may hold, as the user says; 0: nothing is said */
    size_t model_bytes;  /* of the model file, with data outside of it */
};

/* May the process take so many bytes beside what it holds now? Less than QC_BUDGET_GRAIN is not asked about: whoever
   takes that often takes it in proportion to a file. Otherwise QC_MACHINE, with what is needed and what there is: the
   user's limit, or what this machine has left. */
enum { QC_BUDGET_GRAIN = 1 << 20 };
bool qc_budget_hold(const struct qc_budget *b, size_t bytes, struct qc_status *st);

/* The same for so many times the bytes of a file that will be read. What cannot be looked at is said when it is read.
 */
bool qc_budget_file(const struct qc_budget *b, const char *path, size_t times, struct qc_status *st);

/* May one run of a graph hold so many bytes? Up to the user's limit; without one up to
     512 MiB + 64 bytes per byte of the model + 256 per byte of the inputs
   so that a few bytes of shapes do not take what the machine has. Else QC_MACHINE, with the numbers. What is there now
   is not looked at. */
bool qc_budget_run(const struct qc_budget *b, size_t bytes, size_t input_bytes, struct qc_status *st);

/* Folding in one pass: how many bytes of constants and how much work are left. What does not fit stays a node, and the
   same nodes do on every machine and under every limit. bytes: 256 MiB + 16 per byte of the model, of one constant 128
   MiB + 8;  work: 2^30 + 64 per byte of the model */
struct qc_folding {
    const struct qc_budget *budget;
    size_t bytes, largest;
    uint64_t work;
};
struct qc_folding qc_folding_begin(const struct qc_budget *b);
/* Takes it off when both fit. bytes: of all outputs of a node; work: elements read and written, multiply-adds. */
bool qc_folding_take(struct qc_folding *f, size_t bytes, uint64_t work);
