// SPDX-License-Identifier: Apache-2.0
/* QOperator: integers between operators, with those of ONNX Runtime's CPU provider (1.16 to 1.31, each tested with u8
   and i8):
     Conv, MatMul -> Requantize   QLinearConv, QLinearMatMul        Gemm -> Requantize | Dequantize   QGemm
     Add, Mul, LeakyRelu, Sigmoid, AveragePool, GlobalAveragePool   QLinear...
     Concat                       QLinearConcat if an operand is requantized for it, else Concat of integers
     MatMul, Gemm of a weight in blocks   MatMulNBits     Gather of a table in blocks   GatherBlockQuantized
     LSTM, MatMul, Gemm of --activation-type dynamic    DynamicQuantizeLSTM, DynamicQuantizeMatMul,
                                  MatMulIntegerToFloat
     Relu, Clip                   Clip between integers
     MaxPool, Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Slice, Split, Gather, Expand, Tile, Pad   on integers
   Other operators, types and per-channel forms are lowered as in QDQ. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/scope.h"
#include "export/formats/lowering.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/core/recurrent.h"

/* MatMulNBits of ONNX Runtime (1.17 and later): a weight [N,K] in blocks along K, with sizes that are powers of two
   from 16, as [N, blocks, bytes] of 2, 4 or 8 bits, the first in the lowest bits; packed_scales [N * blocks]; zero
   points of each row packed likewise, omitted if all are the middle level. Integers are unsigned: signed ones are
   shifted by half the range. GatherBlockQuantized (1.31; 10 times as slow with INT4 as with bytes) has tables in the
   same form, but as [N, bytes] with a last block that is not padded, and with [N, blocks] packed_scales. */

static bool is_attr_number(const struct qc_node *n, const char *name, float number)
{
    return !(qc_attr_float(n, name, 1) < number) && !(qc_attr_float(n, name, 1) > number);
}

static bool is_block(int64_t block)
{
    return block >= 16 && !(block & (block - 1));
}

static unsigned bits_of(const struct qc_qparams *s)
{
    return s->bits == 2 ? 2 : qc_dtype_info(s->dtype)->bits;
}

/* MatMulNBits and GatherBlockQuantized (export/formats/qoperator.c): whether a node can be one. */
static bool lower_has_nbits(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    if (n->op == QC_OP_Gather) {
        /* True if the rows of the table fill whole bytes. */
        const qc_id table = qc_lower_table_of(x, n);
        if (!table) return false;
        const struct qc_type *t = &x->from->values[table].type;
        const struct qc_qparams *s = &x->from->qparams_of[t->qparams];
        return is_block(s->block) && t->shape.dim[1] * bits_of(s) % 8 == 0;
    }
    if ((n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) || g->values[n->inputs[0]].type.dtype != QC_F32) return false;
    const qc_id weight = qc_lower_in_blocks(g, qc_node_of(g, n->inputs[1]));
    const int64_t block = weight ? g->qparams_of[g->values[weight].type.qparams].block : 0;
    if (!is_block(block)) return false;
    const bool turned = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
    if (g->values[weight].type.axis != turned) return false;
    if (n->op == QC_OP_MatMul) return true;
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const struct qc_shape *b = &g->values[bias].type.shape;
    return is_attr_number(n, "alpha", 1) && !qc_attr_int(n, "transA", 0) &&
           (!bias ||
            (is_attr_number(n, "beta", 1) && b->rank == 1 && b->dim[0] == g->values[weight].type.shape.dim[!turned]));
}

struct packing {
    const struct qc_tensor *t;
    const struct qc_qparams *s;
    struct qc_scale_layout layout;
    bool turned;                  /* the tensor is [N,K], not [K,N] */
    size_t outputs, sums, blocks; /* N, K, blocks in a row */
    bool table;                   /* of GatherBlockQuantized */
    size_t row;                   /* bytes for an output */
    unsigned bits;                /* 2, 4 or 8 */
    int32_t shift;                /* added to signed integers */
};

static void put_bits(uint8_t *bytes, size_t at, unsigned bits, int32_t level)
{
    const size_t each = 8 / bits;
    bytes[at / each] |= (uint8_t)((uint32_t)level << (at % each * bits));
}

static size_t scale_of(const struct packing *p, size_t output, size_t block)
{
    const size_t k = block * p->layout.block;
    return qc_scale_at(&p->layout, p->turned ? output * p->sums + k : k * p->outputs + output);
}

static qc_id packed(struct qc_lowering *x, const struct packing *p, const char *base, struct qc_status *st)
{
    const struct qc_shape matrix = QC_SHAPE((int64_t)p->outputs, (int64_t)p->row),
                          blocks = QC_SHAPE((int64_t)p->outputs, (int64_t)p->blocks, (int64_t)(p->row / p->blocks)),
                          shape = p->table ? matrix : blocks;
    size_t all;
    if (!qc_shape_count(&all, &shape)) return qc_fail(st, QC_UNSUPPORTED, "weight '%s' is too large", base);
    QC_FREED uint8_t *data = calloc(all, 1);
    if (!data) return qc_fail_memory(st, all);
    for (size_t o = 0; o < p->outputs; o++)
        for (size_t k = 0; k < p->sums; k++) {
            int32_t q;
            qc_tensor_ints(&q, p->t, p->turned ? o * p->sums + k : k * p->outputs + o, 1);
            put_bits(data + o * p->row, k, p->bits, q + p->shift);
        }
    return qc_lower_constant(x, QC_U8, &shape, data, base, "packed", st);
}

static qc_id packed_scales(struct qc_lowering *x, const struct packing *p, struct qc_status *st)
{
    const struct qc_shape vector = QC_SHAPE((int64_t)p->s->count),
                          matrix = QC_SHAPE((int64_t)p->outputs, (int64_t)p->blocks);
    QC_FREED float *scale = malloc(p->s->count * sizeof *scale);
    if (!scale) return qc_fail_memory(st, p->s->count * sizeof *scale);
    for (size_t o = 0; o < p->outputs; o++)
        for (size_t b = 0; b < p->blocks; b++) scale[o * p->blocks + b] = p->s->scale[scale_of(p, o, b)];
    return qc_lower_constant(x, QC_F32, p->table ? &matrix : &vector, scale, p->s->name, "scales", st);
}

/* Returns the zero points; QC_ABSENT if all are the middle level. */
static qc_id packed_zero_points(struct qc_lowering *x, const struct packing *p, struct qc_status *st)
{
    const size_t row = (p->blocks * p->bits + 7) / 8;
    const struct qc_shape vector = QC_SHAPE((int64_t)(p->outputs * row)),
                          matrix = QC_SHAPE((int64_t)p->outputs, (int64_t)row);
    bool middle = true;
    QC_FREED uint8_t *zero = calloc(p->outputs, row);
    if (!zero) return qc_fail_memory(st, p->outputs * row);
    for (size_t o = 0; o < p->outputs; o++)
        for (size_t b = 0; b < p->blocks; b++) {
            const int32_t level = p->s->zero_point[scale_of(p, o, b)] + p->shift;
            middle = middle && level == 1 << (p->bits - 1);
            put_bits(zero + o * row, b, p->bits, level);
        }
    return middle ? QC_ABSENT
                  : qc_lower_constant(x, QC_U8, p->table ? &matrix : &vector, zero, p->s->name, "zero_points", st);
}

static struct packing packing_of(const struct qc_graph *g, qc_id weight, bool table)
{
    const struct qc_type *type = &g->values[weight].type;
    const struct qc_qparams *s = &g->qparams_of[type->qparams];
    struct packing p = {.t = g->values[weight].constant,
                        .s = s,
                        .layout = qc_scale_layout_of(s, &type->shape, type->axis),
                        .turned = type->axis == 1,
                        .table = table,
                        .outputs = (size_t)type->shape.dim[1 - type->axis],
                        .sums = (size_t)type->shape.dim[type->axis],
                        .bits = bits_of(s)};
    p.blocks = p.layout.blocks;
    p.row = (table ? p.sums : p.blocks * p.layout.block) * p.bits / 8;
    p.shift = qc_dtype_info(s->dtype)->is_signed ? 1 << (p.bits - 1) : 0;
    return p;
}

static void lower_nbits(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    if (n->op == QC_OP_Gather) {
        const qc_id table = qc_lower_table_of(x, n);
        const struct packing p = packing_of(x->from, table, true);
        const qc_id in[4] = {packed(x, &p, qc_lower_base(x, table), st), qc_lower_real(x, n->inputs[1], st),
                             packed_scales(x, &p, st), packed_zero_points(x, &p, st)};
        x->real[n->outputs] = qc_graph_add(x->to,
                                           QC_NODE(QC_OP_GatherBlockQuantized, .name = n->name,
                                                   .input_count = in[3] ? 4 : 3, .inputs = in,
                                                   QC_ATTRS(QC_INT("bits", p.bits), QC_INT("block_size", p.s->block),
                                                            QC_INT("gather_axis", 0), QC_INT("quantize_axis", 1)),
                                                   QC_RESULT(qc_lower_inner_name(x, n->outputs, st))),
                                           st);
        return;
    }
    const qc_id weight = qc_lower_in_blocks(g, qc_node_of(g, n->inputs[1]));
    const struct packing p = packing_of(g, weight, false);
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const qc_id in[6] = {qc_lower_real(x, n->inputs[0], st),
                         packed(x, &p, qc_lower_base(x, weight), st),
                         packed_scales(x, &p, st),
                         packed_zero_points(x, &p, st),
                         QC_ABSENT,
                         bias ? qc_lower_real(x, bias, st) : QC_ABSENT};
    const unsigned count = in[5] ? 6 : in[3] ? 4 : 3;
    x->real[n->outputs] = qc_graph_add(x->to,
                                       QC_NODE(QC_OP_MatMulNBits, .name = n->name, .input_count = count, .inputs = in,
                                               QC_ATTRS(QC_INT("K", (int64_t)p.sums), QC_INT("N", (int64_t)p.outputs),
                                                        QC_INT("bits", p.bits), QC_INT("block_size", p.s->block),
                                                        QC_INT("accuracy_level", x->options.accuracy_level)),
                                               QC_RESULT(qc_lower_inner_name(x, n->outputs, st))),
                                       st);
}

/* DynamicQuantizeLSTM of ONNX Runtime. W [directions, input, 4 * hidden] and R [directions, hidden, 4 * hidden] have 8
   bits and are transposed in comparison with an LSTM. Scales are one for each row of each gate [directions, 4 * hidden]
   or for each direction; zero points have the same shape and are all equal. */

/* Returns the affine constant behind a lstm_weight of an LSTM, or 0. A Reshape may separate the directions. */
static qc_id stored_behind(const struct qc_graph *g, const struct qc_node *n)
{
    if (n && n->op == QC_OP_Reshape) n = qc_node_of(g, n->inputs[0]);
    return n && n->op == QC_OP_Dequantize && qc_constant_of(g, n->inputs[0]) ? n->inputs[0] : 0;
}

static bool is_stored_weight(const struct qc_graph *g, qc_id v, size_t rows)
{
    const qc_id w = stored_behind(g, qc_node_of(g, v));
    if (!w) return false;
    const struct qc_qparams *s = &g->qparams_of[g->values[w].type.qparams];
    return !qc_lower_zero_points_differ(s) && (s->dtype == QC_I8 || s->dtype == QC_U8) && !s->block &&
           (s->count == 1 || s->count == rows);
}

static bool lower_has_lstm(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    if (n->op != QC_OP_LSTM || !qc_attr_int(n, QC_RECURRENT_DYNAMIC, 0) || g->values[n->inputs[0]].type.dtype != QC_F32)
        return false;
    const struct qc_shape *r = &g->values[n->inputs[QC_RECURRENT_R]].type.shape;
    if (!qc_shape_fixed(r) || !qc_shape_fixed(&g->values[n->inputs[QC_RECURRENT_W]].type.shape)) return false;
    const size_t rows = (size_t)r->dim[0] * (size_t)r->dim[1];
    return is_stored_weight(g, n->inputs[QC_RECURRENT_W], rows) && is_stored_weight(g, n->inputs[QC_RECURRENT_R], rows);
}

static bool lower_is_lstm_weight(const struct qc_lowering *x, const struct qc_node *n);

static bool reads_lstm_weight(const struct qc_lowering *x, const struct qc_node *reader)
{
    return reader->op == QC_OP_Reshape ? lower_is_lstm_weight(x, reader) : lower_has_lstm(x, reader);
}

/* Returns true for the Dequantize or Reshape of a weight that only such LSTMs read. */
static bool lower_is_lstm_weight(const struct qc_lowering *x, const struct qc_node *n)
{
    return stored_behind(x->from, n) && qc_lower_all_read(x, n, reads_lstm_weight);
}

/* The lstm_weight, its scales and its zero points. sizes: of the turned one. */
static void lstm_weight(qc_id out[3], struct qc_lowering *x, const struct qc_node *n, unsigned input,
                        struct qc_status *st)
{
    const qc_id v = stored_behind(x->from, qc_node_of(x->from, n->inputs[input]));
    const struct qc_shape *shape = &x->from->values[n->inputs[input]].type.shape;
    const struct qc_qparams *s = &x->from->qparams_of[x->from->values[v].type.qparams];
    const size_t directions = (size_t)shape->dim[0], rows = (size_t)shape->dim[1], depth = (size_t)shape->dim[2],
                 count = s->count > 1 ? s->count : directions;
    const struct qc_shape turned = QC_SHAPE(shape->dim[0], shape->dim[2], shape->dim[1]),
                          each = QC_SHAPE(shape->dim[0], shape->dim[1]), one = QC_SHAPE(shape->dim[0]);
    const uint8_t *from = x->from->values[v].constant->data;
    QC_ARENA_SCOPE *a = qc_arena_new();
    uint8_t *to = QC_NEW_ARRAY(a, uint8_t, directions * rows * depth, st), *zero = QC_NEW_ARRAY(a, uint8_t, count, st);
    float *scale = QC_NEW_ARRAY(a, float, count, st);
    if (!to || !zero || !scale) return;
    for (size_t d = 0; d < directions; d++)
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < depth; k++) to[(d * depth + k) * rows + i] = from[(d * rows + i) * depth + k];
    for (size_t i = 0; i < count; i++) {
        scale[i] = s->scale[s->count > 1 ? i : 0];
        zero[i] = (uint8_t)s->zero_point[0];
    }
    out[0] = qc_lower_constant(x, s->dtype, &turned, to, qc_lower_base(x, v), "quantized", st);
    out[1] = qc_lower_constant(x, QC_F32, s->count > 1 ? &each : &one, scale, s->name, "scale", st);
    out[2] = qc_lower_constant(x, s->dtype, s->count > 1 ? &each : &one, zero, s->name, "zero_point", st);
}

static void lower_lstm(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    qc_id w[3] = {0}, r[3] = {0}, in[QC_RECURRENT_INPUTS + 4] = {QC_ABSENT};
    const char *names[] = {NULL, NULL, NULL};
    lstm_weight(w, x, n, QC_RECURRENT_W, st);
    lstm_weight(r, x, n, QC_RECURRENT_R, st);
    for (unsigned i = 0; i < n->input_count; i++)
        if (i != QC_RECURRENT_W && i != QC_RECURRENT_R && n->inputs[i]) in[i] = qc_lower_real(x, n->inputs[i], st);
    in[QC_RECURRENT_W] = w[0];
    in[QC_RECURRENT_R] = r[0];
    for (unsigned i = 0; i < 2; i++) {
        in[QC_RECURRENT_INPUTS + i] = w[i + 1];
        in[QC_RECURRENT_INPUTS + 2 + i] = r[i + 1];
    }
    struct qc_attr *attrs = QC_NEW_ARRAY(x->arena, struct qc_attr, n->attr_count, st);
    unsigned count = 0;
    for (unsigned i = 0; attrs && i < n->attr_count; i++)
        if (strcmp(n->attrs[i].name, QC_RECURRENT_DYNAMIC) != 0) attrs[count++] = n->attrs[i];
    for (unsigned k = 0; k < n->output_count; k++) names[k] = qc_lower_inner_name(x, n->outputs + k, st);
    const struct qc_node_def def = {.op = QC_OP_DynamicQuantizeLSTM,
                                    .name = n->name,
                                    .input_count = QC_RECURRENT_INPUTS + 4,
                                    .output_count = n->output_count,
                                    .inputs = in,
                                    .attr_count = count,
                                    .attrs = attrs,
                                    .output_names = names};
    const qc_id first = qc_graph_add(x->to, &def, st);
    for (unsigned k = 0; first && k < n->output_count; k++) x->real[n->outputs + k] = first + k;
}

/* Products with a dynamically quantized input (rewrite/passes/dynamic.h), as one ONNX Runtime operator, to which it
   would fuse the plain form: DynamicQuantizeMatMul if no other node reads the integers of the input, else
   MatMulIntegerToFloat after DynamicQuantizeLinear. An added bias is included. */

/* Cast(MatMulInteger(q, w, z, zw)) * (s * sw) (+ bias) */
struct dynamic_product {
    const struct qc_node *quantize, *product, *cast, *scales, *scaled, *add; /* add: NULL without a bias */
    qc_id weight_scale, bias, result;
    bool alone; /* no other node reads q, s and z */
};

static const struct qc_node *node_behind(const struct qc_graph *g, qc_id v, enum qc_op op)
{
    const struct qc_node *n = qc_node_of(g, v);
    return n && n->op == op ? n : NULL;
}

/* *p: the product that ends in a multiplication. Returns false if y is none. */
static bool scaled(struct dynamic_product *p, const struct qc_lowering *x, const struct qc_node *y)
{
    const struct qc_graph *g = x->from;
    const struct qc_node *cast = node_behind(g, y->inputs[0], QC_OP_Cast),
                         *scales = node_behind(g, y->inputs[1], QC_OP_Mul),
                         *product = cast ? node_behind(g, cast->inputs[0], QC_OP_MatMulInteger) : NULL,
                         *q = product ? node_behind(g, product->inputs[0], QC_OP_DynamicQuantizeLinear) : NULL;
    if (!scales || !q || product->input_count < 3 || product->inputs[2] != q->outputs + 2 ||
        scales->inputs[0] != q->outputs + 1)
        return false;
    const struct qc_tensor *w = qc_constant_of(g, product->inputs[1]), *s = qc_constant_of(g, scales->inputs[1]);
    if (!w || w->shape.rank != 2 || !s || !qc_only_reader(&x->uses, cast->outputs) ||
        !qc_only_reader(&x->uses, product->outputs) || !qc_only_reader(&x->uses, scales->outputs))
        return false;
    *p = (struct dynamic_product){.quantize = q,
                                  .product = product,
                                  .cast = cast,
                                  .scales = scales,
                                  .scaled = y,
                                  .weight_scale = scales->inputs[1],
                                  .result = y->outputs,
                                  .alone = true};
    for (unsigned k = 0; k < 3; k++)
        p->alone = p->alone && qc_only_reader(&x->uses, q->outputs + k) && !x->called[q->outputs + k];
    const qc_id reader = qc_only_reader(&x->uses, y->outputs);
    const struct qc_node *add = reader && g->nodes[reader].op == QC_OP_Add ? &g->nodes[reader] : NULL;
    for (unsigned i = 0; add && i < 2; i++) {
        const struct qc_tensor *t = add->inputs[1 - i] == y->outputs ? qc_constant_of(g, add->inputs[i]) : NULL;
        if (!t || t->dtype != QC_F32 || t->shape.rank != 1 || t->shape.dim[0] != w->shape.dim[1]) continue;
        p->add = add;
        p->bias = add->inputs[i];
        p->result = add->outputs;
    }
    return true;
}

/* *p: the product that a node is part of. Returns false if there is none. */
static bool leads_to(struct dynamic_product *p, const struct qc_lowering *x, const struct qc_node *n)
{
    for (int steps = 0; steps < 5; steps++) {
        if (n->op == QC_OP_Mul && scaled(p, x, n)) return true;
        if (n->op == QC_OP_Add) {
            for (unsigned i = 0; i < 2; i++) {
                const struct qc_node *y = node_behind(x->from, n->inputs[i], QC_OP_Mul);
                if (y && scaled(p, x, y) && p->result == n->outputs) return true;
            }
            return false;
        }
        if (n->op != QC_OP_DynamicQuantizeLinear && n->op != QC_OP_MatMulInteger && n->op != QC_OP_Cast &&
            n->op != QC_OP_Mul)
            return false;
        const qc_id reader = qc_only_reader(&x->uses, n->outputs);
        if (!reader) return false;
        n = &x->from->nodes[reader];
    }
    return false;
}

/* Products of dynamic quantization. Returns true if the node is part of one; the product is made with its last part. */
static bool lower_dynamic(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    struct dynamic_product p = {.result = 0};
    const bool part = leads_to(&p, x, n) && (n == p.product || n == p.cast || n == p.scales || n == p.scaled ||
                                             n == p.add || (p.alone && n == p.quantize));
    if (part && n->outputs == p.result) {
        const qc_id q = p.quantize->outputs, zero = p.product->input_count > 3 ? p.product->inputs[3] : QC_ABSENT;
        const qc_id one[] = {p.quantize->inputs[0], p.product->inputs[1], p.weight_scale, zero, p.bias},
                    two[] = {q, p.product->inputs[1], q + 1, p.weight_scale, q + 2, zero, p.bias};
        const qc_id *from = p.alone ? one : two;
        unsigned count = p.alone ? 5 : 7;
        qc_id in[7] = {QC_ABSENT};
        for (unsigned i = 0; i < count; i++)
            if (from[i]) in[i] = qc_lower_real(x, from[i], st);
        while (count && !in[count - 1]) count--;
        x->real[p.result] = qc_graph_add(x->to,
                                         QC_NODE(p.alone ? QC_OP_DynamicQuantizeMatMul : QC_OP_MatMulIntegerToFloat,
                                                 .name = p.product->name, .input_count = count, .inputs = in,
                                                 QC_RESULT(qc_lower_inner_name(x, p.result, st))),
                                         st);
    }
    return part;
}

static const struct qc_qparams *quantizer_of(const struct qc_lowering *x, qc_id v)
{
    const struct qc_parameters p = qc_value_parameters(x->from, v);
    return p.affine && p.kind == QC_QPARAMS_QUANTIZER ? &x->from->qparams_of[p.qparams] : NULL;
}

/* Returns true for a value in u8 or i8 in the file with one scale. */
static bool is_plain(const struct qc_lowering *x, qc_id v)
{
    const struct qc_qparams *s = quantizer_of(x, v);
    return s && s->count == 1 && (qc_lower_type(s) == QC_U8 || qc_lower_type(s) == QC_I8);
}

static bool is_plain_like(const struct qc_lowering *x, qc_id v, qc_id like)
{
    return is_plain(x, v) && is_plain(x, like) &&
           qc_lower_type(quantizer_of(x, v)) == qc_lower_type(quantizer_of(x, like));
}

/* Returns the integers of a value, and adds them if necessary. */
static qc_id integers(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    if (x->from->values[v].constant) qc_lower_integer(x, v, st);
    if (!x->integer[v])
        return qc_fail(st, QC_BAD_INPUT, "the integers of '%s' are used before they are made", qc_lower_base(x, v));
    return x->integer[v];
}

/* *in: integers, scale and zero point of a value. channels: parameters are vectors if there are several. */
static void operand(qc_id in[3], struct qc_lowering *x, qc_id v, bool channels, struct qc_status *st)
{
    const struct qc_qparams *s = quantizer_of(x, v);
    in[0] = integers(x, v, st);
    qc_lower_parameters(in + 1, x, s, channels && s->count > 1, st);
}

static void result(qc_id in[2], struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    qc_lower_parameters(in, x, quantizer_of(x, v), false, st);
}

/* Adds a node whose results are the integers of n's results, named after `value`. */
static void add_like(struct qc_lowering *x, enum qc_op op, const struct qc_node *n, unsigned count, const qc_id *in,
                     qc_id value, struct qc_status *st)
{
    const char **names = QC_NEW_ARRAY(x->to->arena, const char *, n->output_count, st);
    for (unsigned k = 0; names && k < n->output_count; k++) {
        const bool product = qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT;
        /* The name of the graph output that the integers are, else "<base>_quantized". */
        const char *base = qc_lower_base(x, product ? n->outputs : value + k);
        names[k] = x->given[value + k] ? x->given[value + k] : qc_arena_printf(x->to->arena, st, "%s_quantized", base);
    }
    const struct qc_node_def with = {.op = op, .input_count = count, .inputs = in, .output_names = names};
    const qc_id first = qc_graph_add_like(x->to, x->from, n, &with, st);
    for (unsigned k = 0; first && k < n->output_count; k++) {
        const qc_id v = value + k, integer = first + k;
        const bool rounds = op != n->op; /* an op that moves integers keeps them within their levels */
        x->integer[v] = rounds ? qc_lower_cut(x, integer, quantizer_of(x, v), qc_lower_base(x, v), st) : integer;
    }
}

/* --- Products --- */

static void lower_product(struct qc_lowering *x, const struct qc_node *n, const struct qc_node *taker,
                          struct qc_status *st)
{
    qc_id in[9] = {QC_ABSENT}, y[2] = {QC_ABSENT, QC_ABSENT};
    const struct qc_qparams *s = quantizer_of(x, n->inputs[1]);
    const bool floats = taker->op == QC_OP_Dequantize;
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    operand(in, x, n->inputs[0], false, st);
    operand(in + 3, x, n->inputs[1], true, st);
    if (n->op == QC_OP_Conv && s->count > 1) /* QLinearConv has scales per channel, but one zero point. */
        in[5] = qc_lower_constant(x, qc_lower_type(s), &QC_SCALAR, &(uint8_t){(uint8_t)s->zero_point[0]}, s->name,
                                  "zero_point", st);
    if (!floats) result(y, x, taker->outputs, st);
    const qc_id b = bias ? integers(x, bias, st) : QC_ABSENT;
    const unsigned at = n->op == QC_OP_Gemm; /* place of the result's parameters behind the bias */
    in[at ? 6 : 8] = b;
    in[6 + at] = y[0];
    in[7 + at] = y[1];
    const struct qc_node_def with = {.op = QC_OP_QGemm, .input_count = b ? 7 : 6, .inputs = in};
    if (floats)
        x->real[taker->outputs] = qc_graph_add_like(x->to, x->from, n, &with, st);
    else if (n->op == QC_OP_Gemm)
        add_like(x, QC_OP_QGemm, n, 9, in, taker->outputs, st);
    else
        add_like(x, n->op == QC_OP_Conv ? QC_OP_QLinearConv : QC_OP_QLinearMatMul, n, b ? 9 : 8, in, taker->outputs,
                 st);
}

/* Returns true if the node is written together with its reader: a product whose accumulator has one reader, or a
   requantize for one Concat. */
static bool is_deferred(const struct qc_lowering *x, const struct qc_node *n)
{
    const qc_id reader = n ? qc_only_reader(&x->uses, n->outputs) : 0;
    if (!reader) return false;
    if (n->op == QC_OP_Requantize)
        return x->from->nodes[reader].op == QC_OP_Concat && is_plain_like(x, n->inputs[0], n->outputs);
    if (x->from->values[n->outputs].type.qparams == QC_REAL) return false;
    /* True if there is an operator for this product and the op that reads its accumulator. */
    const struct qc_node *taker = &x->from->nodes[reader];
    if (n->op != QC_OP_Conv && n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) return false;
    const struct qc_qparams *a = quantizer_of(x, n->inputs[0]), *w = quantizer_of(x, n->inputs[1]);
    const bool floats = taker->op == QC_OP_Dequantize;
    const enum qc_dtype t = w ? qc_lower_type(w) : QC_NONE;
    if (!w || !is_plain(x, n->inputs[0]) || (t != QC_I8 && !(t == QC_U8 && qc_lower_type(a) == QC_U8))) return false;
    if (floats ? n->op != QC_OP_Gemm : taker->op != QC_OP_Requantize || !is_plain_like(x, taker->outputs, n->inputs[0]))
        return false;
    if (n->op == QC_OP_MatMul && w->count > 1 && x->from->values[n->inputs[1]].type.shape.rank != 2) return false;
    return n->op != QC_OP_Conv || !qc_lower_zero_points_differ(w);
}

/* --- Ops that round once --- */

static enum qc_op merged(enum qc_op op)
{
    switch ((int)op) {
    case QC_OP_Add: return QC_OP_QLinearAdd;
    case QC_OP_Mul: return QC_OP_QLinearMul;
    case QC_OP_LeakyRelu: return QC_OP_QLinearLeakyRelu;
    case QC_OP_Sigmoid: return QC_OP_QLinearSigmoid;
    case QC_OP_AveragePool: return QC_OP_QLinearAveragePool;
    case QC_OP_GlobalAveragePool: return QC_OP_QLinearGlobalAveragePool;
    default: return QC_OP_INVALID;
    }
}

static bool has_merge(const struct qc_lowering *x, const struct qc_node *n)
{
    if (merged(n->op) == QC_OP_INVALID || !is_plain(x, n->outputs) || qc_attr_find(n, "dilations")) return false;
    for (unsigned i = 0; i < n->input_count; i++)
        if (!is_plain_like(x, n->inputs[i], n->outputs)) return false;
    return true;
}

/* --- Ops that move integers --- */

static void lower_concat(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    qc_id *in = QC_NEW_ARRAY(x->to->arena, qc_id, 3 * (size_t)n->input_count + 2, st);
    bool requantizes = false;
    for (unsigned i = 0; i < n->input_count; i++)
        requantizes = requantizes || is_deferred(x, qc_node_of(x->from, n->inputs[i]));
    if (!in) return;
    if (requantizes) result(in, x, n->outputs, st);
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_node *from = qc_node_of(x->from, n->inputs[i]);
        if (requantizes)
            operand(in + 2 + 3 * (size_t)i, x, is_deferred(x, from) ? from->inputs[0] : n->inputs[i], false, st);
        else
            in[i] = integers(x, n->inputs[i], st);
    }
    add_like(x, requantizes ? QC_OP_QLinearConcat : QC_OP_Concat, n,
             requantizes ? 3 * n->input_count + 2 : n->input_count, in, n->outputs, st);
}

/* Returns a level as a scalar of the qparams' type. */
static qc_id level(struct qc_lowering *x, const struct qc_qparams *s, int32_t q, const char *what, struct qc_status *st)
{
    const uint8_t byte = (uint8_t)q;
    return qc_lower_constant(x, qc_lower_type(s), &QC_SCALAR, &byte, s->name, what, st);
}

/* *q: the level of a constant number; unchanged if the input is absent. Returns false if the input is computed. */
static bool bound_level(int32_t *q, const struct qc_lowering *x, const struct qc_node *n, unsigned i,
                        const struct qc_qparams *s)
{
    if (i >= n->input_count || !n->inputs[i]) return true;
    const struct qc_tensor *t = qc_constant_of(x->from, n->inputs[i]);
    if (!t || t->count != 1 || x->from->values[n->inputs[i]].type.qparams != QC_REAL) return false;
    *q =
        qc_quantize_one((float)qc_tensor_float(t, 0),
                        (struct qc_affine){.scale = s->scale[0], .zero_point = s->zero_point[0]}, qc_qparams_levels(s));
    return true;
}

static bool has_constants(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_qparams *s = quantizer_of(x, n->outputs);
    int32_t q;
    if (n->op == QC_OP_Clip) return bound_level(&q, x, n, 1, s) && bound_level(&q, x, n, 2, s);
    return n->op != QC_OP_Pad || bound_level(&q, x, n, 2, s);
}

void qc_lower_moving(struct qc_lowering *x, const struct qc_node *n, const char *zero, struct qc_status *st)
{
    const struct qc_qparams *s = quantizer_of(x, n->outputs);
    const bool fills = n->op == QC_OP_Pad && strcmp(qc_attr_string(n, "mode", "constant"), "constant") == 0;
    struct qc_shuffled shuffled;
    n = qc_lower_shuffle(&shuffled, x, n, st);
    qc_id in[8] = {integers(x, n->inputs[0], st)};
    unsigned count = n->input_count;
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->inputs[i] && !(n->op == QC_OP_Pad && i == 2)) in[i] = qc_lower_real(x, n->inputs[i], st);
    if (shuffled.shape) in[1] = shuffled.shape;
    if (fills) {
        int32_t q = s->zero_point[0];
        bound_level(&q, x, n, 2, s);
        in[2] = level(x, s, q, q == s->zero_point[0] ? zero : "padding", st);
        if (count < 3) count = 3;
    }
    add_like(x, n->op, n, count, in, n->outputs, st);
}

static void lower_node(struct qc_lowering *x, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &x->from->nodes[id], *from = n->input_count ? qc_node_of(x->from, n->inputs[0]) : NULL;
    if (is_deferred(x, n) || lower_is_lstm_weight(x, n) ||
        (qc_lower_in_blocks(x->from, n) && qc_lower_all_read(x, n, lower_has_nbits)))
        return;
    if (lower_has_lstm(x, n))
        lower_lstm(x, n, st);
    else if (lower_dynamic(x, n, st))
        return;
    else if (lower_has_nbits(x, n))
        lower_nbits(x, n, st);
    else if ((n->op == QC_OP_Requantize || n->op == QC_OP_Dequantize) && is_deferred(x, from))
        lower_product(x, from, n, st);
    else if (has_merge(x, n)) {
        qc_id in[8];
        for (unsigned i = 0; i < n->input_count; i++) operand(in + 3 * (size_t)i, x, n->inputs[i], false, st);
        result(in + 3 * (size_t)n->input_count, x, n->outputs, st);
        add_like(x, merged(n->op), n, 3 * n->input_count + 2, in, n->outputs, st);
    } else if (!is_plain(x, n->outputs))
        qc_lower_plain(x, id, st);
    else if (n->op == QC_OP_Concat)
        lower_concat(x, n, st);
    else if ((n->op == QC_OP_Relu || n->op == QC_OP_Clip) && has_constants(x, n)) {
        const struct qc_qparams *s = quantizer_of(x, n->outputs);
        const struct qc_levels levels = qc_qparams_levels(s);
        int32_t lo = n->op == QC_OP_Relu ? s->zero_point[0] : levels.lo, hi = levels.hi;
        bound_level(&lo, x, n, 1, s);
        bound_level(&hi, x, n, 2, s);
        const qc_id in[3] = {integers(x, n->inputs[0], st),
                             level(x, s, lo, n->op == QC_OP_Relu ? "zero_point" : "lowest", st),
                             hi < levels.hi ? level(x, s, hi, "highest", st) : QC_ABSENT};
        add_like(x, QC_OP_Clip, n, in[2] ? 3 : 2, in, n->outputs, st);
        /* ONNX Runtime runs these ops on 8-bit integers; DepthToSpace and SpaceToDepth only in the newest versions, not
           in 1.16. */
    } else if (qc_op_info(n->op)->affine == QC_AFFINE_KEEP && n->op != QC_OP_GlobalMaxPool &&
               n->op != QC_OP_GatherElements && n->op != QC_OP_DepthToSpace && n->op != QC_OP_SpaceToDepth &&
               has_constants(x, n))
        qc_lower_moving(x, n, "zero_point", st);
    else
        qc_lower_plain(x, id, st);
}

static bool lower_qoperator(struct qc_graph **out, const struct qc_graph *g, const struct qc_lower_options *options,
                            struct qc_status *st)
{
    return qc_lower_graph(out, g, lower_node, options, st);
}

extern const struct qc_exporter qc_exporter_qoperator;
const struct qc_exporter qc_exporter_qoperator = {
    .summary =
        "ONNX with operators on integers (QLinearConv, QLinearMatMul, and those of ONNX Runtime); opset 13 or later",
    .suffix = ".qoperator.onnx",
    .lower = lower_qoperator,
};
