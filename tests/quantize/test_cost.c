// SPDX-License-Identifier: Apache-2.0
/* The cost of a network: work is counted by kind, and costs order placements as ONNX Runtime's times do. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "quantize/search/cost.h"
#include "tests/graph_reader/graph_reader.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

static const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};

static struct qc_graph *graph_of(const char *text)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st), "%s", st.message);
    return g;
}

Test(cost, counts_products_by_kind)
{
    static const struct {
        const char *text;
        enum qc_work kind;
        double amount;
    } cases[] = {
        {"graph \"g\"\ninput %1 \"x\" f32[1,8,6,6]\ninput %2 \"w\" f32[16,8,3,3]\n%3 \"y\" = Conv \"c\"(%1, "
         "%2)\noutput \"y\" %3\n",
         QC_WORK_FLOAT_PRODUCT, 16 * 8 * 9 * 16},
        {"graph \"g\"\ninput %1 \"x\" f32[1,16,6,6]\ninput %2 \"w\" f32[16,1,3,3]\n%3 \"y\" = Conv \"c\"(%1, "
         "%2) {group=16}\noutput \"y\" %3\n",
         QC_WORK_FLOAT_DEPTHWISE, 16 * 9 * 16},
        {"graph \"g\"\ninput %1 \"x\" f32[1,8]\ninput %2 \"w\" f32[8,4]\n%3 \"y\" = MatMul \"c\"(%1, "
         "%2)\noutput \"y\" %3\n",
         QC_WORK_FLOAT_ROW, 8 * 4},
        {"graph \"g\"\ninput %1 \"x\" f32[5,8]\n%2 \"y\" = Sigmoid \"c\"(%1)\noutput \"y\" %2\n", QC_WORK_FLOAT_HEAVY,
         40},
        {"graph \"g\"\ninput %1 \"x\" f32[5,8]\n%2 \"y\" = Transpose \"c\"(%1) {perm=[1,0]}\noutput \"y\" %2\n",
         QC_WORK_MOVED, 160},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_graph *g = graph_of(cases[i].text);
        double amount[QC_WORKS] = {0};
        cr_assert(qc_count_work(amount, g, true, &st), "%s", st.message);
        cr_expect_float_eq(amount[cases[i].kind], cases[i].amount, 1e-9, "case %zu: %g", i, amount[cases[i].kind]);
        cr_expect_eq(amount[QC_WORK_NODE], 1);
        qc_graph_free(g);
    }
}

Test(cost, is_unknown_if_a_shape_is)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = graph_of("graph \"g\"\ninput %1 \"x\" f32[1,N,8]\ninput %2 \"w\" f32[8,4]\n%3 \"y\" = "
                                  "MatMul \"c\"(%1, %2)\noutput \"y\" %3\n");
    double amount[QC_WORKS] = {0};
    cr_assert(qc_count_work(amount, g, true, &st), "%s", st.message);
    cr_expect(isnan(amount[QC_WORK_NODE]));
    qc_graph_free(g);
}

static struct qc_report_cost cost_with(enum qc_option option, const char *value)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    struct qc_options o;
    struct made_network m;
    struct qc_report_cost cost;
    cr_assert(qc_options_init(&o, QC_COMMAND_quantize, a, &st) && qc_options_set(&o, QC_OPTION_SAMPLES, "8", &st) &&
              qc_options_set(&o, QC_OPTION_METHOD, "minmax", &st) && qc_options_set(&o, QC_OPTION_THREADS, "1", &st) &&
              (!value || qc_options_set(&o, option, value, &st)));
    cr_assert(make_network(&m, &o, &in, NULL, &st) && qc_cost_of(&cost, m.c->network, &st), "%s", st.message);
    free_network(&m);
    qc_arena_free(a);
    return cost;
}

/* ONNX Runtime has no kernels for 16 bits; a target that has is not asked to compute in float. */
Test(cost, of_bits)
{
    const struct qc_report_cost bytes = cost_with(QC_OPTION_THREADS, NULL),
                                wide = cost_with(QC_OPTION_ACTIVATION_TYPE, "uint16"),
                                part = cost_with(QC_OPTION_SKIP, "res1_conv_node"),
                                small = cost_with(QC_OPTION_WEIGHT_TYPE, "int4");
    cr_expect(wide.latency > 1 && wide.latency > bytes.latency, "%g %g", wide.latency, bytes.latency);
    cr_expect(part.bytes > bytes.bytes && small.bytes < bytes.bytes);
    cr_expect(bytes.latency > 0.2 && bytes.latency < 1.5, "%g", bytes.latency);
}
