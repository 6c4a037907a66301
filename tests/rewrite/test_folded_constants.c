// SPDX-License-Identifier: Apache-2.0
/* Weights in integers that several graphs share. */
#include <criterion/criterion.h>
#include <string.h>

#include "graph/text/text.h"
#include "rewrite/passes/folded_constants.h"
#include "rewrite_passes.h"
#include "simq/plan/plan.h"
#include "tests/graph_reader/graph_reader.h"

static size_t evaluated; /* weights */

static bool count_weights(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node, struct qc_status *st)
{
    evaluated += g->qparams_of[g->values[g->nodes[node].outputs].type.qparams].is_weight;
    return qc_evaluate(outputs, g, node, st);
}

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
    struct qc_status st = QC_STATUS_INIT;
    struct qc_plan *plan;
    struct qc_runner *r;
    cr_assert(qc_plan_new(&plan, g, &shape, NULL, &st) && qc_runner_new(&r, plan, &st), "%s", st.message);
    float *x = qc_runner_input(r, 0).data;
    for (int i = 0; i < 32; i++) x[i] = (float)(i - 11) / 4;
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    memcpy(y, qc_runner_output(r, 0).data, 32 * sizeof(float));
    qc_runner_free(r);
    qc_plan_free(plan);
}

/* Another scale of the input changes the bias and no weight; another scale of the weight does. */
Test(folded_constants, weights_are_made_once_for_equal_parameters)
{
    static const char text[] = "graph \"g\"\ninput %1 \"x\" f32[N,2,4,4]\n"
                               "const %2 \"w\" f32[2,2,1,1] = {0.5, -0.25, 0.125, 1}\n"
                               "const %3 \"b\" f32[2] = {3, -1}\n"
                               "%4 \"y\" = Conv(%1, %2, %3)\noutput \"y\" %4\n";
    struct qc_status st = QC_STATUS_INIT;
    struct qc_folded_constants *shared = NULL;
    struct passes p[3];
    struct qc_graph *g = NULL, *made[3];
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st) && qc_folded_constants_new(&shared, QC_FORMS_KEPT, &st), "%s",
              st.message);
    for (size_t i = 0; i < 3; i++) {
        struct pass_setup setup = PASS_SETUP;
        setup.binding_count = 2;
        setup.bindings[0].quantizer = "x";
        setup.bindings[0].scale = i ? 0.25f : 0.125f;
        setup.bindings[0].zero_point = i == 1 ? 100 : 128;
        setup.bindings[1].quantizer = "w";
        setup.bindings[1].scale = i == 2 ? 0.02f : 0.01f;
        cr_assert(passes_run(&p[i], g, &setup, &st), "%s", st.message);
        /* as trials do: copies of one graph, so of the same constants */
        cr_assert(qc_to_integer_shared(&made[i], shared, p[i].folded, count_weights, &st), "%s", st.message);
        char *with = qc_graph_print(made[i], &QC_TEXT_ALL, &st),
             *without = qc_graph_print(p[i].produced, &QC_TEXT_ALL, &st);
        cr_expect_str_eq(with, without);
        uint8_t expected[32 * sizeof(float)], y[32 * sizeof(float)];
        run(expected, p[i].produced);
        run(y, made[i]);
        cr_expect_arr_eq(y, expected, sizeof y, "graph %zu computes another result with weights that are packed once",
                         i);
        free(with);
        free(without);
    }
    cr_expect_eq(evaluated, 2, "%zu weights were made", evaluated);
    cr_expect(weight_of(made[0]) && weight_of(made[0]) == weight_of(made[1]), "two graphs do not share a weight");
    cr_expect_neq(weight_of(made[0]), weight_of(made[2]));
    cr_expect(weight_of(made[0])->forms, "no other forms of a weight are kept");
    /* What is forgotten is made again. */
    struct qc_graph *again;
    qc_folded_constants_trim(shared, qc_folded_constants_count(shared) - 1);
    cr_assert(qc_to_integer_shared(&again, shared, p[0].folded, count_weights, &st), "%s", st.message);
    cr_expect(weight_of(again) == weight_of(made[0]) && evaluated == 2);
    qc_graph_free(again);
    qc_folded_constants_trim(shared, 0);
    cr_assert(qc_to_integer_shared(&again, shared, p[0].folded, count_weights, &st), "%s", st.message);
    cr_expect(weight_of(again) != weight_of(made[0]) && evaluated == 3);
    qc_graph_free(again);
    for (size_t i = 0; i < 3; i++) {
        qc_graph_free(made[i]);
        passes_free(&p[i]);
    }
    qc_folded_constants_free(shared);
    qc_graph_free(g);
}

/* In a large model both graphs have the same file, and nothing is held in memory beside it. */
Test(folded_constants, large_weights_are_in_one_file)
{
    enum { SIDE = 1024 };
    struct qc_status st = QC_STATUS_INIT;
    const struct qc_shape x = QC_SHAPE(1, SIDE, 1, 1), w = QC_SHAPE(SIDE, SIDE, 1, 1);
    struct qc_graph *g = qc_graph_new(&st), *made[2];
    struct qc_tensor *t = qc_tensor_new(QC_F32, &w, &st);
    struct qc_folded_constants *shared = NULL;
    const struct qc_qparams of_x = {.name = "x", .dtype = QC_U8},
                            of_w = {.name = "w", .dtype = QC_I8, .is_weight = true};
    const qc_id q[] = {qc_graph_add_quantizer(g, &of_x, &st), qc_graph_add_quantizer(g, &of_w, &st)};
    qc_id in[] = {qc_graph_add_input(g, "x", QC_F32, &x, &st), qc_graph_add_constant(g, "w", t, &st)};
    g->simulated = g->spills = true;
    qc_tensor_unref(t);
    for (size_t i = 0; i < 2; i++) {
        const struct qc_node_def quantize = {.op = QC_OP_Quantize, .input_count = 1, .inputs = &in[i], .qparams = q[i]};
        cr_assert(qc_graph_bind_quantizer(g, q[i], 1, (const float[]){1}, (const int32_t[]){0}, &st), "%s", st.message);
        in[i] = qc_graph_add(g, &quantize, &st);
    }
    const struct qc_node_def conv = {.op = QC_OP_Conv,
                                     .input_count = 2,
                                     .inputs = in,
                                     .qparams = qc_graph_add_product(g, q[0], q[1], &st)};
    const qc_id sum = qc_graph_add(g, &conv, &st);
    const struct qc_node_def real = {.op = QC_OP_Dequantize, .input_count = 1, .inputs = &sum};
    cr_assert(qc_graph_add_output(g, "y", qc_graph_add(g, &real, &st), &st) &&
                  qc_folded_constants_new(&shared, QC_FORMS_NOT_KEPT, &st),
              "%s", st.message);
    for (size_t i = 0; i < 2; i++)
        cr_assert(qc_to_integer_shared(&made[i], shared, g, qc_evaluate, &st), "%s", st.message);
    cr_expect(weight_of(made[0])->map && weight_of(made[1]) == weight_of(made[0]));
    for (size_t i = 0; i < 2; i++) qc_graph_free(made[i]);
    qc_folded_constants_free(shared);
    qc_graph_free(g);
}
