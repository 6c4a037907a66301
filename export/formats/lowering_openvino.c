// SPDX-License-Identifier: Apache-2.0
/* Forms of operators that OpenVINO (2026.4) does not compute otherwise (docs/openvino.md), and Pads of integers, which
   files for ONNX Runtime have too. */
#include <math.h>
#include <string.h>

#include "arith/params.h"
#include "export/formats/lowering.h"
#include "graph/core/rebuild.h"
#include "graph/core/recurrent.h"

/* Pads. If a Pad reads a dequantized value and fills along one axis, OpenVINO moves the DequantizeLinear behind it,
   with a zero point and a scale for each position along that axis. The operators behind it read wrong numbers then,
   unless zero point and fill value are 0. */

/* *value: what the Pad fills with. Returns false if it is computed. */
static bool fill_value(float *value, const struct qc_graph *g, const struct qc_node *n)
{
    *value = 0;
    if (n->input_count < 3 || !n->inputs[2]) return true;
    const struct qc_tensor *t = qc_constant_of(g, n->inputs[2]);
    if (!t || t->count != 1 || g->values[n->inputs[2]].type.qparams != QC_REAL) return false;
    *value = (float)qc_tensor_float(t, 0);
    return true;
}

/* Returns the parameters of the value that the node reads or dequantizes; NULL if it reads a float value. */
static const struct qc_qparams *read_as(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *dq = qc_node_of(g, n->inputs[0]);
    const qc_id v = dq && dq->op == QC_OP_Dequantize ? dq->inputs[0] : n->inputs[0];
    return g->values[v].type.qparams ? &g->qparams_of[g->values[v].type.qparams] : NULL;
}

static bool has_zero_point(const struct qc_qparams *s)
{
    return s && (s->count != 1 || s->zero_point[0] != 0);
}

static bool pad_moves(const struct qc_lowering *x, const struct qc_node *n)
{
    const bool pads_constant = x->options.target->openvino && n->op == QC_OP_Pad &&
                               strcmp(qc_attr_string(n, "mode", "constant"), "constant") == 0;
    const struct qc_tensor *pads = pads_constant ? qc_constant_of(x->from, n->inputs[1]) : NULL;
    float value;
    size_t axes = 0; /* along which it fills */
    for (size_t i = 0; pads && i < pads->count / 2; i++)
        axes += qc_tensor_int(pads, i) != 0 || qc_tensor_int(pads, i + pads->count / 2) != 0;
    if (axes != 1) return false;
    const struct qc_qparams *s = read_as(x->from, n);
    return has_zero_point(s) || (s && (!fill_value(&value, x->from, n) || value != 0));
}

/* An average pool that counts its padding is computed on integers, whose padding is 0 instead of the zero point. */
static bool averages_padding(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_AveragePool || !qc_attr_int(n, "count_include_pad", 0)) return false;
    const struct qc_attr *pads = qc_attr_find(n, "pads");
    bool padded = strncmp(qc_attr_string(n, "auto_pad", "NOTSET"), "SAME", 4) == 0;
    for (size_t i = 0; pads && i < pads->count; i++) padded = padded || pads->ints[i] != 0;
    return padded && has_zero_point(read_as(g, n));
}

bool qc_lower_pad(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    const qc_id in = n->op == QC_OP_Pad ? n->inputs[0] : QC_ABSENT;
    const bool fills = in && strcmp(qc_attr_string(n, "mode", "constant"), "constant") == 0;
    float value = 0;
    if (!in || !x->integer[in] || g->values[in].type.qparams != g->values[n->outputs].type.qparams ||
        (fills && !fill_value(&value, g, n)) ||
        (x->options.target->openvino ? !pad_moves(x, n) : !x->options.target->onnxruntime))
        return false;
    const struct qc_qparams *s = &g->qparams_of[g->values[n->outputs].type.qparams];
    const enum qc_dtype type = qc_lower_type(s);
    if (s->count != 1 || (type != QC_U8 && type != QC_I8)) return false;
    qc_lower_moving(x, n, "padding", st);
    return true;
}

/* Products of integers. Operators behind one are computed before the scales of its channels are applied. */

static bool is_arithmetic(const struct qc_node *n)
{
    return n->op == QC_OP_Neg || (n->op >= QC_OP_Add && n->op <= QC_OP_Div);
}

/* Returns the product of integers without a bias that v is, or is computed from by operators that pass scales on or, if
   they are asked for, by arithmetic with constants. NULL if there is none. */
static const struct qc_node *product_behind(const struct qc_lowering *x, qc_id v, bool arithmetic)
{
    const struct qc_node *of = qc_node_of(x->to, x->real[v]);
    while (of && (qc_op_info(of->op)->affine == QC_AFFINE_KEEP || qc_op_info(of->op)->affine == QC_AFFINE_BOUND ||
                  of->op == QC_OP_Concat || (arithmetic && is_arithmetic(of))))
        of = qc_node_of(x->to, of->inputs[of->input_count > 1 && qc_constant_of(x->to, of->inputs[0])]);
    const struct qc_node *dq = of && qc_op_info(of->op)->affine == QC_AFFINE_PRODUCT && of->input_count < 3
                                   ? qc_node_of(x->to, of->inputs[0])
                                   : NULL;
    return dq && dq->op == QC_OP_DequantizeLinear ? of : NULL;
}

/* Returns true for an operator that needs the scales of the columns of a matrix along another axis, or other scales:
   a Resize or pool along the last axis, or a Reshape that adds axes of one element behind it. */
static bool moves_columns(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_shape *from = &g->values[n->inputs[0]].type.shape, *to = &g->values[n->outputs].type.shape;
    if (from->rank < 3) return false;
    if (n->op == QC_OP_Reshape || n->op == QC_OP_Unsqueeze) return to->rank > from->rank && to->dim[to->rank - 1] == 1;
    return (n->op == QC_OP_Resize || n->op == QC_OP_MaxPool) && to->dim[to->rank - 1] != from->dim[from->rank - 1];
}

/* Returns true for a BatchNormalization, or a product or quotient with a constant of several rows and one column. Its
   numbers are taken for those of columns. */
static bool scales_rows(const struct qc_graph *g, const struct qc_node *n, unsigned i)
{
    if (n->op == QC_OP_BatchNormalization) return i == 0 && g->values[n->inputs[0]].type.shape.rank > 2;
    const struct qc_tensor *c = n->op == QC_OP_Mul || n->op == QC_OP_Div ? qc_constant_of(g, n->inputs[1 - i]) : NULL;
    return c && c->count > 1 && c->shape.dim[c->shape.rank - 1] == 1;
}

/* Scales have other dimensions than the result of a Gather then. */
static bool reads_product(const struct qc_lowering *x, const struct qc_node *n, unsigned i)
{
    if (i == 0 && n->op == QC_OP_Gather) return product_behind(x, n->inputs[0], false) != NULL;
    if (i > 1 || !(scales_rows(x->from, n, i) || (i == 0 && moves_columns(x->from, n)))) return false;
    const struct qc_node *product = product_behind(x, n->inputs[i], true);
    return product && product->op == QC_OP_MatMul;
}

/* A normalization is computed on integers, and its epsilon is lost. Returns true if that changes more than the rounding
   to 8 bits: if the epsilon is above a tenth of the square of a scale, and for a product, whose scales are not known.
 */
static bool loses_epsilon(const struct qc_lowering *x, const struct qc_node *n)
{
    if (n->op != QC_OP_LayerNormalization && n->op != QC_OP_InstanceNormalization) return false;
    const struct qc_qparams *s = read_as(x->from, n);
    const double epsilon = (double)qc_attr_float(n, "epsilon", 1e-5f);
    for (size_t i = 0; s && i < s->count; i++)
        if (epsilon > 0.1 * (double)s->scale[i] * (double)s->scale[i]) return true;
    return !s && product_behind(x, n->inputs[0], true);
}

/* A Clip of levels becomes their range, with other levels, unless its limits are levels. */
static bool clips_between_levels(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_qparams *s = n->op == QC_OP_Clip ? read_as(g, n) : NULL;
    if (!s || s->count != 1) return false;
    const struct qc_levels levels = qc_qparams_levels(s);
    for (unsigned i = 1; i < n->input_count; i++) {
        const struct qc_tensor *limit = n->inputs[i] ? qc_constant_of(g, n->inputs[i]) : NULL;
        const double at =
            limit && limit->count == 1 ? qc_tensor_float(limit, 0) / (double)s->scale[0] + s->zero_point[0] : 0;
        if (at > levels.lo && at < levels.hi && fabs(at - rint(at)) > 1e-4) return true;
    }
    return false;
}

/* A sum or mean along axis 1 of a value of three dimensions is computed on integers, and only that of the first
   position of the batch is right. */
static bool sums_rows(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_ReduceSum && n->op != QC_OP_ReduceMean) return false;
    const struct qc_shape *s = &g->values[n->inputs[0]].type.shape;
    const int64_t *axes;
    const size_t count = qc_attr_ints(n, "axes", &axes);
    bool rows = count == 0; /* all, or computed */
    for (size_t i = 0; i < count; i++) rows = rows || axes[i] == 1 || axes[i] == -2;
    return rows && s->rank == 3 && s->dim[0] != 1 && read_as(g, n);
}

bool qc_lower_reads_apart(const struct qc_lowering *x, const struct qc_node *n, unsigned i)
{
    if (reads_product(x, n, i)) return true;
    if (i == 0)
        return pad_moves(x, n) || averages_padding(x->from, n) || clips_between_levels(x->from, n) ||
               sums_rows(x->from, n) || loses_epsilon(x, n);
    /* A recurrent operator whose weights it does not take for constants is refused. */
    const struct qc_node *w = n->inputs[i] ? qc_node_of(x->from, n->inputs[i]) : NULL;
    return qc_is_recurrent(n->op) && i <= 2 && w && w->op == QC_OP_Dequantize;
}

/* Results that a Max of two equal inputs keeps apart from what reads them. OpenVINO removes identities of one input. */

/* It adds up the constants of ((x - a) * v) + b and of (x + c) + b, such as those of a mask and a bias of positions. A
   large one takes all digits of the other. Returns true for a product or sum of real numbers with a constant of 1000
   and more, or its inverse. */
static bool has_large_constant(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_type *t = &g->values[n->outputs].type;
    if (n->op < QC_OP_Add || n->op > QC_OP_Div || t->dtype != QC_F32 || t->qparams != QC_REAL) return false;
    const bool divides = n->op == QC_OP_Div;
    for (unsigned i = divides; i < 2; i++) {
        const struct qc_tensor *c = qc_constant_of(g, n->inputs[i]);
        for (size_t k = 0; c && c->dtype == QC_F32 && k < c->count; k++) {
            const double v = fabs(qc_tensor_float(c, k));
            if (divides ? v > 0 && v <= 1e-3 : v >= 1e3) return true;
        }
    }
    return false;
}

/* It reads the integers of int8 that a Concat joins for a Conv as others. */
static bool joins_int8(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_type *t = &x->from->values[n->outputs].type;
    if (n->op != QC_OP_Concat || !t->qparams || qc_lower_type(&x->from->qparams_of[t->qparams]) != QC_I8) return false;
    const struct qc_use_list readers = qc_readers(&x->uses, n->outputs);
    for (size_t i = 0; i < readers.count; i++)
        if (x->from->nodes[readers.of[i].node].op == QC_OP_Conv) return true;
    return false;
}

/* Returns true for a matrix product of at most 8 rows, none of whose dimensions is above 256. */
static bool is_small_product(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_shape *t = &g->values[n->outputs].type.shape;
    if ((n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) || t->rank != 2 || !qc_constant_of(g, n->inputs[1]))
        return false;
    const int64_t *weight = qc_constant_of(g, n->inputs[1])->shape.dim;
    return t->dim[0] > 0 && t->dim[0] <= 8 && weight[0] <= 256 && weight[1] <= 256;
}

/* Returns the constant that an Add, or a product with a bias, adds if it has several elements; else NULL. */
static const struct qc_tensor *added_constant(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = n->op == QC_OP_Add ? 0 : 2; i < n->input_count; i++) {
        const struct qc_node *dq = n->inputs[i] ? qc_node_of(g, n->inputs[i]) : NULL;
        const qc_id v = dq && dq->op == QC_OP_Dequantize ? dq->inputs[0] : n->inputs[i];
        const struct qc_tensor *c = v ? qc_constant_of(g, v) : NULL;
        if (c && c->count > 1) return c;
    }
    return NULL;
}

/* Returns true if a node adds constants of columns that are not all equal. */
static bool adds_columns(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_tensor *c = added_constant(g, n);
    if (!c || c->shape.dim[c->shape.rank - 1] != (int64_t)c->count) return false;
    for (size_t k = 1; k < c->count; k++)
        if (qc_tensor_float(c, k) != qc_tensor_float(c, 0)) return true;
    return false;
}

/* Returns true if the result of a product, stored or not, gets constants of rows. */
static bool adds_rows(const struct qc_lowering *x, const struct qc_node *product)
{
    const struct qc_graph *g = x->from;
    qc_id reader = qc_only_reader(&x->uses, product->outputs);
    while (reader && g->nodes[reader].op != QC_OP_Add) reader = qc_only_reader(&x->uses, g->nodes[reader].outputs);
    const struct qc_tensor *c =
        reader && g->nodes[reader].op == QC_OP_Add ? added_constant(g, &g->nodes[reader]) : NULL;
    return c && c->shape.dim[c->shape.rank - 1] != (int64_t)c->count;
}

/* It computes two such products of integers in a row as one kernel. On processors with VNNI this kernel gives wrong
   numbers or refuses the file, unless the first product has a bias of columns, no Neg follows it, and the second has no
   bias of rows. */
static bool joins_products(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    bool biased = false, negative = false;
    qc_id reader;
    if (!is_small_product(g, n)) return false;
    for (; (reader = qc_only_reader(&x->uses, n->outputs)) != 0; n = &g->nodes[reader]) {
        const struct qc_node *next = &g->nodes[reader];
        biased = biased || adds_columns(g, n);
        negative = negative || n->op == QC_OP_Neg;
        if (is_small_product(g, next))
            return g->values[next->inputs[0]].type.qparams != QC_REAL && (!biased || negative || adds_rows(x, next));
        if (g->values[next->outputs].type.shape.rank > 2) return false;
    }
    return false;
}

/* It computes the sum of two depthwise convolutions of one pixel, such as those of a PRelu, as one kernel, which gives
   wrong numbers for a free batch of one. */
static bool sums_pixels(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_shape *s = &x->from->values[n->outputs].type.shape;
    const qc_id reader = n->op == QC_OP_Conv && s->dim[0] == QC_FREE ? qc_only_reader(&x->uses, n->outputs) : 0;
    if (!reader || s->rank < 4 || qc_attr_int(n, "group", 1) != s->dim[1]) return false;
    bool one = true;
    for (int i = 2; i < s->rank; i++) one = one && s->dim[i] == 1;
    return one;
}

bool qc_lower_is_rewritten(struct qc_lowering *x, const struct qc_node *n)
{
    /* They have no type if they are read from a file of opset 13 to 17, and operators behind them are refused. */
    if ((n->op == QC_OP_ReduceL1 || n->op == QC_OP_ReduceLogSumExp) && x->to->opset < 18) x->to->opset = 18;
    /* A QuantizeLinear behind these is computed within them, and clips to its levels before they compare. */
    if (n->op == QC_OP_ReduceMax || n->op == QC_OP_ReduceMin) return true;
    /* It computes a Conv of integers without its bias, if the batch is free and the network has a recurrent operator.
     */
    return (x->recurrent && n->op == QC_OP_Conv && n->input_count > 2 && n->inputs[2] &&
            x->from->values[n->outputs].type.shape.dim[0] < 0) ||
           joins_int8(x, n) || joins_products(x, n) || sums_pixels(x, n) || has_large_constant(x->from, n);
}
