// SPDX-License-Identifier: Apache-2.0
/* MatMulNBits of ONNX Runtime (1.17 and later): a weight [N,K] in blocks along K, with sizes that are powers of two
   from 16, as [N, blocks, bytes] of 2, 4 or 8 bits, the first in the lowest bits; scales [N * blocks]; zero points of
   each row packed likewise, omitted if all are the middle level. Integers are unsigned: signed ones are shifted by half
   the range. GatherBlockQuantized (1.31; 10 times as slow with INT4 as with bytes) has tables in the same form, but as
   [N, bytes] with a last block that is not padded, and with [N, blocks] scales. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "export/formats/lowering.h"
#include "graph/core/rebuild.h"
#include "graph/core/scale_layout.h"

static bool is_number(const struct qc_node *n, const char *name, float number)
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

/* Returns true if the rows of the table fill whole bytes. */
static bool has_rows(const struct qc_lowering *x, const struct qc_node *n)
{
    const qc_id table = qc_lower_table_of(x, n);
    if (!table) return false;
    const struct qc_type *t = &x->from->values[table].type;
    const struct qc_qparams *s = &x->from->qparams_of[t->qparams];
    return is_block(s->block) && t->shape.dim[1] * bits_of(s) % 8 == 0;
}

bool qc_lower_has_nbits(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    if (n->op == QC_OP_Gather) return has_rows(x, n);
    if ((n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) || g->values[n->inputs[0]].type.dtype != QC_F32) return false;
    const qc_id weight = qc_lower_in_blocks(g, qc_node_of(g, n->inputs[1]));
    const int64_t block = weight ? g->qparams_of[g->values[weight].type.qparams].block : 0;
    if (!is_block(block)) return false;
    const bool turned = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
    if (g->values[weight].type.axis != turned) return false;
    if (n->op == QC_OP_MatMul) return true;
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    const struct qc_shape *b = &g->values[bias].type.shape;
    return is_number(n, "alpha", 1) && !qc_attr_int(n, "transA", 0) &&
           (!bias ||
            (is_number(n, "beta", 1) && b->rank == 1 && b->dim[0] == g->values[weight].type.shape.dim[!turned]));
}

bool qc_lower_is_nbits_weight(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_use_list readers = qc_readers(&x->uses, n->outputs);
    if (!qc_lower_in_blocks(x->from, n) || !readers.count) return false;
    for (size_t i = 0; i < readers.count; i++)
        if (!readers.of[i].node || !qc_lower_has_nbits(x, &x->from->nodes[readers.of[i].node])) return false;
    return true;
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

static void put(uint8_t *bytes, size_t at, unsigned bits, int32_t level)
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
    uint8_t *data = calloc(all, 1);
    if (!data) return qc_fail_memory(st, all);
    for (size_t o = 0; o < p->outputs; o++)
        for (size_t k = 0; k < p->sums; k++) {
            int32_t q;
            qc_tensor_ints(&q, p->t, p->turned ? o * p->sums + k : k * p->outputs + o, 1);
            put(data + o * p->row, k, p->bits, q + p->shift);
        }
    const qc_id v = qc_lower_constant(x, QC_U8, &shape, data, base, "packed", st);
    free(data);
    return v;
}

static qc_id scales(struct qc_lowering *x, const struct packing *p, struct qc_status *st)
{
    const struct qc_shape vector = QC_SHAPE((int64_t)p->s->count),
                          matrix = QC_SHAPE((int64_t)p->outputs, (int64_t)p->blocks);
    float *scale = malloc(p->s->count * sizeof *scale);
    if (!scale) return qc_fail_memory(st, p->s->count * sizeof *scale);
    for (size_t o = 0; o < p->outputs; o++)
        for (size_t b = 0; b < p->blocks; b++) scale[o * p->blocks + b] = p->s->scale[scale_of(p, o, b)];
    const qc_id v = qc_lower_constant(x, QC_F32, p->table ? &matrix : &vector, scale, p->s->name, "scales", st);
    free(scale);
    return v;
}

/* *out: the zero points; QC_ABSENT if all are the middle level. */
static bool zero_points(qc_id *out, struct qc_lowering *x, const struct packing *p, struct qc_status *st)
{
    const size_t row = (p->blocks * p->bits + 7) / 8;
    const struct qc_shape vector = QC_SHAPE((int64_t)(p->outputs * row)),
                          matrix = QC_SHAPE((int64_t)p->outputs, (int64_t)row);
    bool middle = true;
    *out = QC_ABSENT;
    uint8_t *zero = calloc(p->outputs, row);
    if (!zero) return qc_fail_memory(st, p->outputs * row);
    for (size_t o = 0; o < p->outputs; o++)
        for (size_t b = 0; b < p->blocks; b++) {
            const int32_t level = p->s->zero_point[scale_of(p, o, b)] + p->shift;
            middle = middle && level == 1 << (p->bits - 1);
            put(zero + o * row, b, p->bits, level);
        }
    const bool ok = middle || (*out = qc_lower_constant(x, QC_U8, p->table ? &matrix : &vector, zero, p->s->name,
                                                        "zero_points", st));
    free(zero);
    return ok;
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

static bool lower_rows(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const qc_id table = qc_lower_table_of(x, n);
    const struct packing p = packing_of(x->from, table, true);
    qc_id in[4] = {packed(x, &p, qc_lower_base(x, table), st), qc_lower_real(x, n->inputs[1], st), scales(x, &p, st)};
    if (!in[0] || !in[1] || !in[2] || !zero_points(&in[3], x, &p, st)) return false;
    const struct qc_attr attrs[] = {QC_INT("bits", p.bits), QC_INT("block_size", p.s->block), QC_INT("gather_axis", 0),
                                    QC_INT("quantize_axis", 1)};
    const char *name = qc_lower_inner_name(x, n->outputs, st);
    const struct qc_node_def def = {.op = QC_OP_GatherBlockQuantized,
                                    .name = n->name,
                                    .input_count = in[3] ? 4 : 3,
                                    .inputs = in,
                                    .attr_count = sizeof attrs / sizeof *attrs,
                                    .attrs = attrs,
                                    .output_names = &name};
    return (x->real[n->outputs] = qc_graph_add(x->to, &def, st)) != 0;
}

bool qc_lower_nbits(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    if (n->op == QC_OP_Gather) return lower_rows(x, n, st);
    const qc_id weight = qc_lower_in_blocks(g, qc_node_of(g, n->inputs[1]));
    const struct packing p = packing_of(g, weight, false);
    qc_id in[6] = {qc_lower_real(x, n->inputs[0], st), packed(x, &p, qc_lower_base(x, weight), st), scales(x, &p, st)};
    const qc_id bias = n->input_count > 2 ? n->inputs[2] : QC_ABSENT;
    if (!in[0] || !in[1] || !in[2] || !zero_points(&in[3], x, &p, st)) return false;
    if (bias && !(in[5] = qc_lower_real(x, bias, st))) return false;
    const struct qc_attr attrs[] = {QC_INT("K", (int64_t)p.sums), QC_INT("N", (int64_t)p.outputs),
                                    QC_INT("bits", p.bits), QC_INT("block_size", p.s->block),
                                    QC_INT("accuracy_level", x->options.accuracy_level)};
    const char *name = qc_lower_inner_name(x, n->outputs, st);
    const struct qc_node_def def = {.op = QC_OP_MatMulNBits,
                                    .name = n->name,
                                    .input_count = in[5]   ? 6
                                                   : in[3] ? 4
                                                           : 3,
                                    .inputs = in,
                                    .attr_count = sizeof attrs / sizeof *attrs,
                                    .attrs = attrs,
                                    .output_names = &name};
    return (x->real[n->outputs] = qc_graph_add(x->to, &def, st)) != 0;
}
