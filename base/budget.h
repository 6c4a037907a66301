// SPDX-License-Identifier: Apache-2.0
/* Limits on memory and work. A shape is a few bytes of a file, so every stage that takes memory or time in proportion
   to a shape asks here first. A budget does not change once it is made, so any thread may ask. It is copied with its
   graph (graph/core/graph.h). Only constant folding keeps an account, one for each pass. */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_budget {
    size_t memory_limit; /* bytes that the process may hold (--memory-limit); 0: no limit is given */
    size_t model_bytes;  /* of the model file and its external data */
};

/* Checks that the process may take `bytes` more than it holds. Requests below QC_BUDGET_GRAIN always pass: frequent
   small requests are in proportion to a file. Fails with QC_MACHINE and both numbers if the user's limit or the memory
   left on the machine does not suffice. */
enum { QC_BUDGET_GRAIN = 1 << 20 };
bool qc_budget_hold(const struct qc_budget *b, size_t bytes, struct qc_status *st);

/* The same for `times` the bytes of a file that will be read. Returns true if the file cannot be examined: reading it
   will report the error. */
bool qc_budget_file(const struct qc_budget *b, const char *path, size_t times, struct qc_status *st);

/* Checks that one run of a graph may hold `bytes`, up to the user's limit or, without one, up to
     512 MiB + 64 bytes per byte of the model + 256 per byte of the inputs
   so that a few bytes of shapes cannot take all memory of the machine. Fails with QC_MACHINE and the numbers. Memory
   that is held already is not examined. */
bool qc_budget_run(const struct qc_budget *b, size_t bytes, size_t input_bytes, struct qc_status *st);

/* Constant folding in one pass: the bytes of constants and the work that are left. A node that exceeds them is not
   folded; the same nodes are folded on every machine and under every limit. bytes: 256 MiB + 16 per byte of the model;
   largest (one constant): 128 MiB + 8 per byte; work: 2^30 + 64 per byte. */
struct qc_folding {
    const struct qc_budget *budget;
    size_t bytes, largest;
    uint64_t work;
};
struct qc_folding qc_folding_begin(const struct qc_budget *b);
/* Subtracts both if both fit, else returns false. bytes: of all outputs of a node; work: elements read and written,
   plus multiply-adds. */
bool qc_folding_take(struct qc_folding *f, size_t bytes, uint64_t work);
