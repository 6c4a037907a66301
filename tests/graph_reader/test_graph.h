// SPDX-License-Identifier: Apache-2.0
/* Graphs that a test has written. */
#pragma once

#include <criterion/criterion.h>
#include <string.h>

#include "tests/graph_reader/graph_reader.h"

/* Reads a graph; ends the test if the text is wrong. */
static inline struct qc_graph *test_graph(const char *text)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st), "%s in\n%.1000s", st.message, text);
    return g;
}
