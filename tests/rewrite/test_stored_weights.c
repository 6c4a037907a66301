// SPDX-License-Identifier: Apache-2.0
/* Weights in integers of a simulated graph, which trials and the file share. */
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/text/text.h"
#include "rewrite_passes.h"
#include "simq/plan/plan.h"
#include "tests/graph_reader/graph_reader.h"

static struct qc_status st;

static const struct qc_tensor *weight_of(const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++)
        if (g->nodes[id].op == QC_OP_Conv) return qc_constant_of(g, g->nodes[id].inputs[1]);
    return NULL;
}

/* The result of a graph on one sample, y: [32]. */
static void run(uint8_t *y, const struct qc_graph *g)
{
    const struct qc_shape shape = QC_SHAPE(1, 2, 4, 4);
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_plan_new(&plan, g, &shape, NULL, &st) && qc_runner_new(&r, plan, &st), "%s", st.message);
    float *x = qc_runner_input(r, 0).data;
    for (int i = 0; i < 32; i++) x[i] = (float)(i - 11) / 4;
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    memcpy(y, qc_runner_output(r, 0).data, 32 * sizeof(float));
}

/* The graph in integers is that of the graph without stored weights, and the simulated graph computes the same. */
Test(stored_weights, are_those_of_the_graph_in_integers)
{
    static const char text[] = "graph \"g\"\ninput %1 \"x\" f32[N,2,4,4]\n"
                               "const %2 \"w\" f32[2,2,1,1] = {0.5, -0.25, 0.125, 1}\n"
                               "const %3 \"b\" f32[2] = {3, -1}\n"
                               "%4 \"y\" = Conv(%1, %2, %3)\noutput \"y\" %4\n";
    PASSES p;
    struct pass_setup setup = PASS_SETUP;
    struct qc_graph *g = NULL, *stored = NULL, *copy = NULL, *made[2] = {NULL, NULL};
    setup.binding_count = 2;
    setup.bindings[0].quantizer = "x";
    setup.bindings[0].scale = 0.125f;
    setup.bindings[0].zero_point = 100;
    setup.bindings[1].quantizer = "w";
    setup.bindings[1].scale = 0.01f;
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st) && passes_run(&p, g, &setup, &st), "%s", st.message);
    cr_assert(qc_store_weights(&stored, p.folded, QC_FORMS_KEPT, qc_evaluate, &st) && qc_graph_copy(&copy, stored, &st),
              "%s", st.message);
    cr_assert(weight_of(stored) && weight_of(stored)->dtype == QC_I8 && weight_of(stored)->forms);
    cr_expect_eq(((const int8_t *)weight_of(stored)->data)[0], 50);
    cr_expect(stored->simulated && !weight_of(p.folded), "the old graph has weights in integers");
    cr_assert(qc_to_integer(&made[0], stored, qc_evaluate, &st) && qc_to_integer(&made[1], copy, qc_evaluate, &st),
              "%s", st.message);
    char *with = qc_graph_print(made[0], &QC_TEXT_ALL, &st), *without = qc_graph_print(p.produced, &QC_TEXT_ALL, &st);
    cr_expect_str_eq(with, without);
    cr_expect(weight_of(made[0]) == weight_of(stored) && weight_of(made[1]) == weight_of(stored),
              "two graphs do not share a weight");
    uint8_t expected[32 * sizeof(float)], y[32 * sizeof(float)];
    const struct qc_graph *const equal[] = {p.folded, stored, made[0], made[1]};
    run(expected, p.produced);
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        run(y, equal[i]);
        cr_expect_arr_eq(y, expected, sizeof y, "graph %zu computes another result", i);
    }
    free(with);
    free(without);
    for (size_t i = 0; i < 2; i++) qc_graph_free(made[i]);
    qc_graph_free(copy);
    qc_graph_free(stored);
    qc_graph_free(g);
}

/* In a large model all graphs have the same file, and nothing is held in memory beside it. */
Test(stored_weights, large_ones_are_in_one_file)
{
    enum { SIDE = 1024 };
    const struct qc_shape x = QC_SHAPE(1, SIDE, 1, 1), w = QC_SHAPE(SIDE, SIDE, 1, 1);
    struct qc_graph *g = qc_graph_new(&st), *stored, *made[2];
    struct qc_tensor *t = qc_tensor_new(QC_F32, &w, &st);
    const struct qc_qparams of_x = {.name = "x", .dtype = QC_U8},
                            of_w = {.name = "w", .dtype = QC_I8, .is_weight = true};
    const qc_id q[] = {qc_graph_add_quantizer(g, &of_x, &st), qc_graph_add_quantizer(g, &of_w, &st)};
    qc_id in[] = {qc_graph_add_input(g, "x", QC_F32, &x, &st), qc_graph_add_constant(g, "w", t, &st)};
    g->simulated = g->spills = true;
    qc_tensor_unref(t);
    for (size_t i = 0; i < 2; i++) {
        cr_assert(qc_graph_bind_quantizer(g, q[i], 1, (const float[]){1}, (const int32_t[]){0}, &st), "%s", st.message);
        in[i] = qc_graph_quantize(g, in[i], q[i], 0, &st);
    }
    const struct qc_node_def conv =
        FIELDS(.op = QC_OP_Conv, .input_count = 2, .inputs = in, .qparams = qc_graph_add_product(g, q[0], q[1], &st));
    const qc_id sum = qc_graph_add(g, &conv, &st);
    cr_assert(qc_graph_add_output(g, "y", qc_graph_dequantize(g, sum, &st), &st) &&
                  qc_store_weights(&stored, g, QC_FORMS_NOT_KEPT, qc_evaluate, &st),
              "%s", st.message);
    for (size_t i = 0; i < 2; i++) cr_assert(qc_to_integer(&made[i], stored, qc_evaluate, &st), "%s", st.message);
    cr_expect(weight_of(stored)->map && weight_of(made[0]) == weight_of(stored) &&
              weight_of(made[1]) == weight_of(stored) && !weight_of(stored)->forms);
    for (size_t i = 0; i < 2; i++) qc_graph_free(made[i]);
    qc_graph_free(stored);
    qc_graph_free(g);
}
