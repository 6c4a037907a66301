// SPDX-License-Identifier: Apache-2.0
#include "one_number.h"

#include "tests/check.h"
#include "tests/simq/plan_print.h"
float one_number(char **plan_text, const char *graph, const float *data, const struct qc_plan_options *options,
                 const char *name)
{
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    OWN(qc_graph) *g = test_graph(graph);
    cr_assert(qc_plan_new(&plan, g, &g->values[g->inputs[0].value].type.shape, options, ST) &&
                  qc_runner_new(&r, plan, ST) && (!plan_text || (*plan_text = plan_print(plan, ST))),
              "%s: %s", name, failure.message);
    const struct qc_view x = qc_runner_input(r, 0);
    memcpy(x.data, data, qc_view_count(&x) * sizeof(float));
    cr_assert(qc_runner_run(r, NULL, NULL, ST), "%s: %s", name, failure.message);
    const float y = *(const float *)qc_runner_output(r, 0).data;
    return y;
}
