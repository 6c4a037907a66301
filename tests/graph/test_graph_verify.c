// SPDX-License-Identifier: Apache-2.0

#include "graph/core/verify.h"
#include "graph_cases.h"
#include "tests/check.h"

static const char model[] =
    "graph \"g\" opset 13\n"
    "qparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 3 observed %1\n"
    "qparams @2 quantizer \"w\" i8 symmetric weight restricted per_channel bound scale 0.5 0.25 zero 0 0 observed %2\n"
    "qparams @3 product @1 @2\n"
    "input %1 \"x\" f32[N,1,2,2]\n"
    "const %2 \"w\" f32[2,1,1,1] = {1, -0.25}\n"
    "%3 : u8[N,1,2,2] @1 = Quantize(%1)\n"
    "%4 : i8[2,1,1,1] @2 = Quantize(%2)\n"
    "%5 \"acc\" : i32[N,2,2,2] @3 axis 1 = Conv \"conv\"(%3, %4) {group=1, pads=[0,0,0,0]}\n"
    "%6 \"y\" : f32[N,2,2,2] = Dequantize(%5)\n"
    "output \"y\" %6\n";

/* One thing is broken in each; the graph is put right again by freeing it. */
static void order(struct qc_graph *g)
{
    ((qc_id *)(uintptr_t)g->nodes[1].inputs)[0] = 6;
}
static void self(struct qc_graph *g)
{
    ((qc_id *)(uintptr_t)g->nodes[1].inputs)[0] = 3;
}
static void absent(struct qc_graph *g)
{
    ((qc_id *)(uintptr_t)g->nodes[3].inputs)[1] = 0;
}
static void no_op(struct qc_graph *g)
{
    g->nodes[1].op = QC_OP_COUNT;
}
static void arity(struct qc_graph *g)
{
    g->nodes[3].input_count = 1;
}
static void outputs(struct qc_graph *g)
{
    g->nodes[4].outputs = 99;
}
static void outputs_again(struct qc_graph *g)
{
    g->nodes[4].outputs = 5;
}
static void maker(struct qc_graph *g)
{
    g->values[6].node = 3;
}
static void maker_range(struct qc_graph *g)
{
    g->values[6].node = 77;
}
static void dtype(struct qc_graph *g)
{
    g->values[6].type.dtype = QC_F16;
}
static void no_dtype(struct qc_graph *g)
{
    g->values[1].type.dtype = QC_NONE;
}
static void rank(struct qc_graph *g)
{
    g->values[1].type.shape.rank = 9;
}
static void dimension(struct qc_graph *g)
{
    g->values[1].type.shape.dim[1] = -5;
}
static void shape(struct qc_graph *g)
{
    g->values[5].type.shape.dim[1] = 3;
}
static void qparams(struct qc_graph *g)
{
    g->values[3].type.qparams = 0;
}
static void qparams_range(struct qc_graph *g)
{
    g->values[3].type.qparams = 9;
}
static void axis(struct qc_graph *g)
{
    g->values[5].type.axis = 0;
}
static void axis_range(struct qc_graph *g)
{
    g->values[5].type.axis = 4;
}
static void name(struct qc_graph *g)
{
    g->values[6].name = "acc";
}
static void constant_type(struct qc_graph *g)
{
    g->values[2].type.dtype = QC_I32;
}
static void input_qparams(struct qc_graph *g)
{
    g->values[1].type.qparams = 1;
}
static void attribute(struct qc_graph *g)
{
    ((struct qc_attr *)(uintptr_t)g->nodes[3].attrs)[0].name = "pads";
}
static void attribute_value(struct qc_graph *g)
{
    ((struct qc_attr *)(uintptr_t)g->nodes[3].attrs)[0].i = 2;
}
static void scale(struct qc_graph *g)
{
    ((float *)(uintptr_t)g->qparams_of[1].scale)[0] = 0;
}
static void scale_nan(struct qc_graph *g)
{
    ((float *)(uintptr_t)g->qparams_of[1].scale)[0] = NAN;
}
static void scale_denormal(struct qc_graph *g)
{
    ((float *)(uintptr_t)g->qparams_of[2].scale)[1] = 1e-40f;
}
static void zero(struct qc_graph *g)
{
    ((int32_t *)(uintptr_t)g->qparams_of[1].zero_point)[0] = 256;
}
static void zero_restricted(struct qc_graph *g)
{
    ((int32_t *)(uintptr_t)g->qparams_of[2].zero_point)[0] = -128;
}
static void count(struct qc_graph *g)
{
    g->qparams_of[1].count = 0;
}
static void per_channel(struct qc_graph *g)
{
    g->qparams_of[2].per_channel = false;
}
static void product(struct qc_graph *g)
{
    ((float *)(uintptr_t)g->qparams_of[3].scale)[1] = 0.5f;
}
static void product_zero(struct qc_graph *g)
{
    ((int32_t *)(uintptr_t)g->qparams_of[3].zero_point)[0] = 1;
}
static void product_state(struct qc_graph *g)
{
    g->qparams_of[3].state = QC_QPARAMS_UNBOUND;
}
static void product_factor(struct qc_graph *g)
{
    g->qparams_of[3].b = 3;
}
static void product_type(struct qc_graph *g)
{
    g->qparams_of[3].dtype = QC_I16;
}
static void quantizer_type(struct qc_graph *g)
{
    g->qparams_of[1].dtype = QC_F32;
}
static void quantizer_name(struct qc_graph *g)
{
    g->qparams_of[1].name = NULL;
}
static void observed(struct qc_graph *g)
{
    ((qc_id *)(uintptr_t)g->qparams_of[1].observed)[0] = 7;
}
static void port(struct qc_graph *g)
{
    g->outputs[0].value = 7;
}
static void port_kind(struct qc_graph *g)
{
    g->inputs[0].value = 2;
}
static void port_count(struct qc_graph *g)
{
    g->input_count = 0;
}
static void port_name(struct qc_graph *g)
{
    g->outputs[0].name = NULL;
}

static const struct {
    void (*damage)(struct qc_graph *g);
    const char *part;
} cases[] = {
    {order, "node 1 '%3' (Quantize): input 0 (%6) is not made before it"},
    {self, "input 0 (%3) is not made before it"},
    {absent, "node 3 'conv' (Conv): input 1 is missing"},
    {no_op, "is not of a known op"},
    {arity, "has 1 inputs and 1 outputs"},
    {outputs, "value %6 'y': is not an output of the node it names"},
    {outputs_again, "is not an output"},
    {maker, "is not an output of the node it names"},
    {maker_range, "node 77, which does not exist"},
    {dtype, "output 0 is f16[N,2,2,2] @0 axis 0, expected f32[N,2,2,2] @0 axis 0"},
    {no_dtype, "value %1 'x': has no type"},
    {rank, "value %1 'x': has no type"},
    {dimension, "value %1 'x': has no type"},
    {shape, "scales for axis 1 of shape [N,3,2,2]"},
    {qparams, "expected u8[N,1,2,2] @1"},
    {qparams_range, "qparams @9 does not exist"},
    {axis, "axis 0, expected i32[N,2,2,2] @3 axis 1"},
    {axis_range, "per-channel axis 4"},
    {name, "its name is not its own"},
    {constant_type, "type and data of the constant differ"},
    {input_qparams, "an input with qparams"},
    {attribute, "attribute 'pads' is duplicated"},
    {attribute_value, "with group 2 take 2 input channels"},
    {scale, "qparams @1 'x': scale 0"},
    {scale_nan, "scale nan"},
    {scale_denormal, "qparams @2 'w': scale 9.99995e-41 (channel 1)"},
    {zero, "zero point 256"},
    {zero_restricted, "zero point -128 (channel 0) is outside [-127, 127]"},
    {count, "0 scales"},
    {per_channel, "2 scales for per-tensor qparams"},
    {product, "parameters of channel 1 are not the product"},
    {product_zero, "parameters of channel 0 are not the product"},
    {product_state, "if and only if both of its factors are"},
    {product_factor, "factors @1 and @3 are not earlier qparams"},
    {product_type, "accumulator of type i16"},
    {quantizer_type, "cannot be quantized to f32"},
    {quantizer_name, "has no name"},
    {observed, "observes %7, which is not a value"},
    {port, "graph output 0 ('y') is %7"},
    {port_kind, "graph input 0 is %2"},
    {port_count, "the graph has 0 inputs, but 1 values are inputs"},
    {port_name, "graph output 0"},
};

Test(verify, finds_each_kind_of_damage)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = test_graph(model);
        MUST(qc_graph_verify(g, ST));
        cases[i].damage(g);
        cr_expect(!qc_graph_verify(g, ST), "damage %zu passed (%s)", i, cases[i].part);
        cr_expect_eq(failure.code, QC_BAD_INPUT);
        cr_expect(strstr(failure.message, cases[i].part), "expected '%s' in '%s'", cases[i].part, failure.message);
    }
}

Test(verify, counts_ops)
{
    OWN(qc_graph) *g = test_graph(model);
    struct qc_op_counts n;
    qc_graph_count_ops(&n, g);
    cr_expect(n.of[QC_OP_Conv] == 1 && n.of[QC_OP_Quantize] == 2 && n.of[QC_OP_Dequantize] == 1 &&
              n.of[QC_OP_Relu] == 0);
}

Test(verify, a_pass_that_duplicates_a_dense_layer_is_stopped)
{
    OWN(qc_graph) *one = test_graph("graph\ninput %1 \"x\" f32[2,2]\n%2 = MatMul(%1, %1)\n%3 = Relu(%2)\n");
    OWN(qc_graph) *two = test_graph(
        "graph\ninput %1 \"x\" f32[2,2]\n%2 = MatMul(%1, %1)\n%3 = MatMul(%2, %1)\n%4 = Relu(%2)\n%5 = Relu(%3)\n");
    OWN(qc_graph) *biased = test_graph("graph\ninput %1 \"x\" f32[2,2]\n%2 = Gemm(%1, %1)\n%3 = Relu(%2)\n");
    OWN(qc_graph) *mixed =
        test_graph("graph\ninput %1 \"x\" f32[2,2]\n%2 = Gemm(%1, %1)\n%3 = MatMul(%2, %1)\n%4 = Relu(%3)\n");
    struct qc_op_counts before;
    qc_graph_count_ops(&before, one);
    SHOULD(qc_graph_verify_heavy(one, &before, "none", ST));
    cr_expect(!qc_graph_verify_heavy(two, &before, "expand", ST));
    SHOULD(strstr(failure.message, "pass 'expand' made 2 MatMul nodes of 1"));
    qc_graph_count_ops(&before, two);
    cr_expect(qc_graph_verify_heavy(one, &before, "fold", ST), "fewer is fine: %s", failure.message);
    qc_graph_count_ops(&before, one);
    cr_expect(qc_graph_verify_heavy(biased, &before, "round", ST), "a product may get a bias: %s", failure.message);
    cr_expect(!qc_graph_verify_heavy(mixed, &before, "round", ST), "one more, of another op");
}
