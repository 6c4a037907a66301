// SPDX-License-Identifier: Apache-2.0
/* The list of passes, and who hears of them. */
#pragma once

#include "graph/core/graph.h"
#include "quantize/interface/warnings.h"
#include "rewrite/passes/partition.h"

enum qc_pass {
#define QC_PASS(name, summary) QC_PASS_##name,
#include "quantize/setup/passes.def"
#undef QC_PASS
    QC_PASS_COUNT
};

const char *qc_pass_name(enum qc_pass p);
const char *qc_pass_summary(enum qc_pass p);

/* Receives the warnings of passes, and is called after each pass with its result: a graph, or for "partition" the
   partition. Returns false to end the job with an error. */
struct qc_listener {
    struct qc_warnings *warnings;
    bool (*done)(void *user, enum qc_pass pass, const struct qc_graph *g, const struct qc_partition *partition,
                 struct qc_status *st); /* may be NULL */
    void *user;
};

/* Calls the listener. */
bool qc_pass_done(const struct qc_listener *l, enum qc_pass pass, const struct qc_graph *g,
                  const struct qc_partition *partition, struct qc_status *st);
