// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"

struct qc_graph *test_graph(const char *text)
{
    struct qc_graph *g = NULL;
    cr_assert(qc_graph_parse(&g, text, strlen(text), ST), "%s in\n%.1000s", failure.message, text);
    return g;
}

qc_id test_quantizer(struct qc_graph *g, const char *name, enum qc_dtype t, bool weight, float scale, int32_t zero)
{
    const struct qc_qparams def = {.name = name, .dtype = t, .is_weight = weight};
    const qc_id id = qc_graph_add_quantizer(g, &def, ST);
    MUST(id && qc_graph_bind_quantizer(g, id, 1, &scale, &zero, ST));
    return id;
}
