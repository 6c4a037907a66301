// SPDX-License-Identifier: Apache-2.0
/* Text form of the IR. The tests have a reader of it (tests/graph_reader). */
#pragma once

#include "graph/core/graph.h"

struct qc_text_options {
    size_t constants; /* constants of up to this many elements are printed with their data, larger ones as "..." with a
                         hash */
};
#define QC_TEXT_ALL ((struct qc_text_options){.constants = SIZE_MAX})
#define QC_TEXT_SHORT ((struct qc_text_options){.constants = 8})

/* Returns the text, which the caller frees; NULL and a status if out of memory. */
char *qc_graph_print(const struct qc_graph *g, const struct qc_text_options *options, struct qc_status *st);
