// SPDX-License-Identifier: Apache-2.0
#include "one_number.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/graph_reader/test_graph.h"
#include "tests/simq/plan_print.h"
float one_number(char **plan_text, const char *graph, const float *data, const struct qc_plan_options *options,
                 const char *name)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_plan *plan = NULL;
    struct qc_runner *r = NULL;
    struct qc_graph *g = test_graph(graph);
    cr_assert(qc_plan_new(&plan, g, &g->values[g->inputs[0].value].type.shape, options, &st) &&
                  qc_runner_new(&r, plan, &st) && (!plan_text || (*plan_text = plan_print(plan, &st))),
              "%s: %s", name, st.message);
    const struct qc_view x = qc_runner_input(r, 0);
    memcpy(x.data, data, qc_view_count(&x) * sizeof(float));
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s: %s", name, st.message);
    const float y = *(const float *)qc_runner_output(r, 0).data;
    qc_runner_free(r);
    qc_plan_free(plan);
    qc_graph_free(g);
    return y;
}
