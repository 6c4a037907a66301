// SPDX-License-Identifier: Apache-2.0
/* Integer inputs and outputs of a model are exported unchanged, without a second quantization. */
#include "export/formats/exporter.h"
#include "graph/core/verify.h"
#include "rewrite/canonical/canonical.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

#define HEAD                                                                                                           \
    "graph \"g\" opset 13\n"                                                                                           \
    "input %1 \"x\" u8[1,2]\n"                                                                                         \
    "const %2 \"half\" f32[] = {0.5}\n"                                                                                \
    "const %3 \"z\" u8[] = {3}\n"                                                                                      \
    "const %4 \"w\" i8[2,2] = {1, 2, 3, -4}\n"                                                                         \
    "const %5 \"zero\" i8[] = {0}\n"                                                                                   \
    "const %6 \"two\" f32[] = {2}\n"                                                                                   \
    "%7 : f32[1,2] = DequantizeLinear(%1, %2, %3)\n"                                                                   \
    "%8 : f32[2,2] = DequantizeLinear(%4, %2, %5)\n"                                                                   \
    "%9 : f32[1,2] = MatMul(%7, %8)\n"

static struct qc_graph *exported(const char *text, const char *format)
{
    OWN(qc_rules) *rules = qc_rules_new(ST), *fold = qc_rules_new(ST);
    struct qc_graph *from, *canonical, *produced, *to;
    MUST(qc_rules_add_builtin(rules, "patterns.rules", ST) && qc_rules_add_builtin(rules, "allow.rules", ST) &&
         qc_rules_add_builtin(fold, "requantize.rules", ST) && qc_graph_parse(&from, text, strlen(text), ST) &&
         qc_canonical(&canonical, NULL, from, rules, ST) &&
         qc_canonical_finish(&produced, canonical, rules, fold, qc_evaluate, ST) &&
         qc_exporter_find(format)->lower(&to, produced, NULL, ST) && qc_graph_verify(to, ST));
    qc_graph_free(produced);
    qc_graph_free(canonical);
    qc_graph_free(from);
    return to;
}

/* Nodes whose result is used: files hold no others. */
static size_t count(const struct qc_graph *g, enum qc_op op)
{
    const uint32_t *uses = qc_graph_uses(g, test_arena(), ST);
    size_t n = 0;
    cr_assert(uses);
    for (qc_id id = 1; id <= g->node_count; id++) n += g->nodes[id].op == op && uses[g->nodes[id].outputs] > 0;
    return n;
}

static const char one[] = HEAD "%10 \"y\" : u8[1,2] = QuantizeLinear(%9, %2, %3)\noutput \"out\" %10\n";

Test(passage, a_qdq_model_has_no_pair_more_than_it_had)
{
    OWN(qc_graph) *g = exported(one, "qdq");
    HOLD(count(g, QC_OP_DequantizeLinear) == 2, count(g, QC_OP_QuantizeLinear) == 1);
    cr_expect_str_eq(g->values[g->outputs[0].value].name, "y", "the integers keep their name: no Identity is needed");
    cr_expect_eq(qc_node_of(g, g->outputs[0].value)->op, QC_OP_QuantizeLinear);
}

Test(passage, a_qoperator_model_is_integers_from_input_to_output)
{
    OWN(qc_graph) *g = exported(one, "qoperator");
    const struct qc_node *n = qc_node_of(g, g->outputs[0].value);
    HOLD(n->op == QC_OP_QLinearMatMul, n->inputs[0] == g->inputs[0].value,
         strcmp(g->values[g->outputs[0].value].name, "y") == 0);
}

/* Read with other parameters than they are written with. */
Test(passage, other_parameters_are_no_passage)
{
    OWN(qc_graph) *g = exported(HEAD "%10 : u8[1,2] = QuantizeLinear(%9, %2, %3)\n"
                                     "%11 : f32[1,2] = DequantizeLinear(%10, %2, %3)\n"
                                     "%12 \"y\" : u8[1,2] = QuantizeLinear(%11, %6, %3)\noutput \"out\" %12\n",
                                "qdq");
    HOLD(count(g, QC_OP_QuantizeLinear) == 2, count(g, QC_OP_DequantizeLinear) == 3);
}
