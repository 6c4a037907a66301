// SPDX-License-Identifier: Apache-2.0
/* Reads the text form of a graph (graph/text/text.h). Only tests do: they write their graphs as text. */
#pragma once

#include "graph/core/graph.h"

/* Parses what qc_graph_print printed with QC_TEXT_ALL ("..." constants are an error). Errors give the line. */
bool qc_graph_parse(struct qc_graph **out, const char *text, size_t size, struct qc_status *st);
