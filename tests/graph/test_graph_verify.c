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

/* What is broken, how, and a part of the message; the graph is put right again by freeing it. */
#define CASES(X)                                                                                                       \
    X(order, ((qc_id *)(uintptr_t)g->nodes[1].inputs)[0] = 6,                                                          \
      "node 1 '%3' (Quantize): input 0 (%6) is not made before it")                                                    \
    X(self, ((qc_id *)(uintptr_t)g->nodes[1].inputs)[0] = 3, "input 0 (%3) is not made before it")                     \
    X(absent, ((qc_id *)(uintptr_t)g->nodes[3].inputs)[1] = 0, "node 3 'conv' (Conv): input 1 is missing")             \
    X(no_op, g->nodes[1].op = QC_OP_COUNT, "is not of a known op")                                                     \
    X(arity, g->nodes[3].input_count = 1, "has 1 inputs and 1 outputs")                                                \
    X(outputs, g->nodes[4].outputs = 99, "value %6 'y': is not an output of the node it names")                        \
    X(outputs_again, g->nodes[4].outputs = 5, "is not an output")                                                      \
    X(maker, g->values[6].node = 3, "is not an output of the node it names")                                           \
    X(maker_range, g->values[6].node = 77, "node 77, which does not exist")                                            \
    X(dtype, g->values[6].type.dtype = QC_F16, "output 0 is f16[N,2,2,2] @0 axis 0, expected f32[N,2,2,2] @0 axis 0")  \
    X(no_dtype, g->values[1].type.dtype = QC_NONE, "value %1 'x': has no type")                                        \
    X(rank, g->values[1].type.shape.rank = 9, "value %1 'x': has no type")                                             \
    X(dimension, g->values[1].type.shape.dim[1] = -5, "value %1 'x': has no type")                                     \
    X(shape, g->values[5].type.shape.dim[1] = 3, "scales for axis 1 of shape [N,3,2,2]")                               \
    X(qparams, g->values[3].type.qparams = 0, "expected u8[N,1,2,2] @1")                                               \
    X(qparams_range, g->values[3].type.qparams = 9, "qparams @9 does not exist")                                       \
    X(axis, g->values[5].type.axis = 0, "axis 0, expected i32[N,2,2,2] @3 axis 1")                                     \
    X(axis_range, g->values[5].type.axis = 4, "per-channel axis 4")                                                    \
    X(name, g->values[6].name = "acc", "its name is not its own")                                                      \
    X(constant_type, g->values[2].type.dtype = QC_I32, "type and data of the constant differ")                         \
    X(input_qparams, g->values[1].type.qparams = 1, "an input with qparams")                                           \
    X(attribute, ((struct qc_attr *)(uintptr_t)g->nodes[3].attrs)[0].name = "pads", "attribute 'pads' is duplicated")  \
    X(attribute_value, ((struct qc_attr *)(uintptr_t)g->nodes[3].attrs)[0].i = 2,                                      \
      "with group 2 take 2 input channels")                                                                            \
    X(scale, ((float *)(uintptr_t)g->qparams_of[1].scale)[0] = 0, "qparams @1 'x': scale 0")                           \
    X(scale_nan, ((float *)(uintptr_t)g->qparams_of[1].scale)[0] = NAN, "scale nan")                                   \
    X(scale_denormal, ((float *)(uintptr_t)g->qparams_of[2].scale)[1] = 1e-40f,                                        \
      "qparams @2 'w': scale 9.99995e-41 (channel 1)")                                                                 \
    X(zero, ((int32_t *)(uintptr_t)g->qparams_of[1].zero_point)[0] = 256, "zero point 256")                            \
    X(zero_restricted, ((int32_t *)(uintptr_t)g->qparams_of[2].zero_point)[0] = -128,                                  \
      "zero point -128 (channel 0) is outside [-127, 127]")                                                            \
    X(count, g->qparams_of[1].count = 0, "0 scales")                                                                   \
    X(per_channel, g->qparams_of[2].per_channel = false, "2 scales for per-tensor qparams")                            \
    X(product, ((float *)(uintptr_t)g->qparams_of[3].scale)[1] = 0.5f, "parameters of channel 1 are not the product")  \
    X(product_zero, ((int32_t *)(uintptr_t)g->qparams_of[3].zero_point)[0] = 1,                                        \
      "parameters of channel 0 are not the product")                                                                   \
    X(product_state, g->qparams_of[3].state = QC_QPARAMS_UNBOUND, "if and only if both of its factors are")            \
    X(product_factor, g->qparams_of[3].b = 3, "factors @1 and @3 are not earlier qparams")                             \
    X(product_type, g->qparams_of[3].dtype = QC_I16, "accumulator of type i16")                                        \
    X(quantizer_type, g->qparams_of[1].dtype = QC_F32, "cannot be quantized to f32")                                   \
    X(quantizer_name, g->qparams_of[1].name = NULL, "has no name")                                                     \
    X(observed, ((qc_id *)(uintptr_t)g->qparams_of[1].observed)[0] = 7, "observes %7, which is not a value")           \
    X(port, g->outputs[0].value = 7, "graph output 0 ('y') is %7")                                                     \
    X(port_kind, g->inputs[0].value = 2, "graph input 0 is %2")                                                        \
    X(port_count, g->input_count = 0, "the graph has 0 inputs, but 1 values are inputs")                               \
    X(port_name, g->outputs[0].name = NULL, "graph output 0")

#define X(name, damage, part)                                                                                          \
    static void name(struct qc_graph *g)                                                                               \
    {                                                                                                                  \
        damage;                                                                                                        \
    }
CASES(X)
#undef X

static const struct {
    void (*damage)(struct qc_graph *g);
    const char *name, *part;
} cases[] = {
#define X(name, damage, part) {name, #name, part},
    CASES(X)
#undef X
};

Test(verify, finds_each_kind_of_damage)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = test_graph(model);
        MUST(qc_graph_verify(g, ST));
        cases[i].damage(g);
        REFUSES_ROW(cases[i].name, qc_graph_verify(g, ST), QC_BAD_INPUT, cases[i].part);
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
    FAILS(qc_graph_verify_heavy(two, &before, "expand", ST), "pass 'expand' made 2 MatMul nodes of 1");
    qc_graph_count_ops(&before, two);
    cr_expect(qc_graph_verify_heavy(one, &before, "fold", ST), "fewer is fine: %s", failure.message);
    qc_graph_count_ops(&before, one);
    cr_expect(qc_graph_verify_heavy(biased, &before, "round", ST), "a product may get a bias: %s", failure.message);
    cr_expect(!qc_graph_verify_heavy(mixed, &before, "round", ST), "one more, of another op");
}
