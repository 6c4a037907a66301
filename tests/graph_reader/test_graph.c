// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"

struct qc_graph *test_graph(const char *text)
{
    struct qc_graph *g = NULL;
    cr_assert(qc_graph_parse(&g, text, strlen(text), ST), "%s in\n%.1000s", failure.message, text);
    return g;
}
