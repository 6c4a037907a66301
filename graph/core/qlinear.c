// SPDX-License-Identifier: Apache-2.0
#include "graph/core/qlinear.h"

/* Input positions; -1: none. `first` is the first operand; the others follow at intervals of `step`. */
struct layout {
    enum qc_op op, real;
    int operands; /* 0: any number */
    int first, step, extra, out;
};

static const struct layout layouts[] = {
    {QC_OP_QLinearConv, QC_OP_Conv, 2, 0, 3, 8, 6},
    {QC_OP_QLinearMatMul, QC_OP_MatMul, 2, 0, 3, -1, 6},
    {QC_OP_QGemm, QC_OP_Gemm, 2, 0, 3, 6, 7},
    {QC_OP_QLinearAdd, QC_OP_Add, 2, 0, 3, -1, 6},
    {QC_OP_QLinearMul, QC_OP_Mul, 2, 0, 3, -1, 6},
    {QC_OP_QLinearConcat, QC_OP_Concat, 0, 2, 3, -1, 0},
    {QC_OP_QLinearWhere, QC_OP_Where, 2, 1, 3, 0, 7},
    {QC_OP_QLinearLeakyRelu, QC_OP_LeakyRelu, 1, 0, 3, -1, 3},
    {QC_OP_QLinearSigmoid, QC_OP_Sigmoid, 1, 0, 3, -1, 3},
    {QC_OP_QLinearSoftmax, QC_OP_Softmax, 1, 0, 3, -1, 3},
    {QC_OP_QLinearAveragePool, QC_OP_AveragePool, 1, 0, 3, -1, 3},
    {QC_OP_QLinearGlobalAveragePool, QC_OP_GlobalAveragePool, 1, 0, 3, -1, 3},
    {QC_OP_ConvInteger, QC_OP_Conv, 2, 0, 0, -1, -1},
    {QC_OP_MatMulInteger, QC_OP_MatMul, 2, 0, 0, -1, -1},
};

static const struct layout *layout_of(enum qc_op op)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].op == op) return &layouts[i];
    return NULL;
}

static qc_id input(const struct qc_node *n, int i)
{
    return i >= 0 && (unsigned)i < n->input_count ? n->inputs[i] : QC_ABSENT;
}

bool qc_qlinear_of(struct qc_qlinear *out, const struct qc_node *n)
{
    const struct layout *l = layout_of(n->op);
    if (!l) return false;
    *out = (struct qc_qlinear){.op = l->real,
                               .operands = l->operands ? (unsigned)l->operands : (n->input_count - 2) / 3,
                               .extra = input(n, l->extra)};
    out->out = (struct qc_qlinear_port){.value = n->outputs,
                                        .scale = input(n, l->out),
                                        .zero_point = l->out < 0 ? QC_ABSENT : input(n, l->out + 1)};
    out->result = out->out.scale != QC_ABSENT;
    return true;
}

/* Returns i, or -1 if the input is absent. */
static int place(const struct qc_node *n, int i)
{
    return input(n, i) ? i : -1;
}

struct qc_qlinear_places qc_qlinear_places(const struct qc_node *n, int i)
{
    const struct layout *l = layout_of(n->op);
    const int at = l->first + i * l->step;
    if (i == QC_QLINEAR_RESULT)
        return (struct qc_qlinear_places){.value = -1,
                                          .scale = place(n, l->out),
                                          .zero_point = l->out < 0 ? -1 : place(n, l->out + 1)};
    if (!l->step) return (struct qc_qlinear_places){.value = i, .scale = -1, .zero_point = place(n, 2 + i)};
    return (struct qc_qlinear_places){.value = at, .scale = place(n, at + 1), .zero_point = place(n, at + 2)};
}

int qc_qlinear_extra_place(const struct qc_node *n)
{
    return place(n, layout_of(n->op)->extra);
}

struct qc_qlinear_port qc_qlinear_operand(const struct qc_node *n, unsigned i)
{
    const struct qc_qlinear_places at = qc_qlinear_places(n, (int)i);
    return (struct qc_qlinear_port){.value = input(n, at.value),
                                    .scale = input(n, at.scale),
                                    .zero_point = input(n, at.zero_point)};
}

struct qc_node qc_qlinear_real(qc_id *inputs, const struct qc_qlinear *q, const struct qc_node *n)
{
    unsigned count = 0;
    if (q->op == QC_OP_Where) inputs[count++] = q->extra;
    for (unsigned i = 0; i < q->operands; i++) inputs[count++] = qc_qlinear_operand(n, i).value;
    if (q->op != QC_OP_Where && q->extra) inputs[count++] = q->extra;
    return (struct qc_node){.op = q->op,
                            .name = n->name,
                            .input_count = count,
                            .output_count = 1,
                            .inputs = inputs,
                            .outputs = n->outputs,
                            .attr_count = n->attr_count,
                            .attrs = n->attrs};
}
