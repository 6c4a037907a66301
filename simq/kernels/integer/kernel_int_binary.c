// SPDX-License-Identifier: Apache-2.0
/* Add, Sub and Mul on stored integers: arith/qbinary.h. */
#include "arith/qbinary.h"
#include "simq/core/convert.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"

enum { BLOCK = 256 };

static bool prepare_int_binary(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_qbinary *s = QC_NEW_STATE(p, struct qc_qbinary, st);
    const enum qc_op op = p->node->op;
    const struct qc_scales *const scales[] = {&p->in_scales[0], &p->in_scales[1], &p->out_scales[0]};
    struct qc_affine parameters[3];
    struct qc_levels levels[3];
    if (!s) return false;
    for (int i = 0; i < 3; i++) {
        parameters[i] = (struct qc_affine){scales[i]->scale[0], scales[i]->zero_point[0]};
        levels[i] = scales[i]->levels;
    }
    return qc_qbinary_of(s, p->contract,
                         op == QC_OP_Add   ? QC_QBINARY_ADD
                         : op == QC_OP_Sub ? QC_QBINARY_SUB
                                           : QC_QBINARY_MUL,
                         parameters, levels, st);
}

struct call {
    const struct qc_qbinary *s;
    enum qc_dtype type[3]; /* result, a, b */
};

/* Returns n contiguous elements: in place, or copied to block. An element that is repeated (stride 0) is in the block
   already unless it is the first that is gathered. */
static const void *gathered(void *block, enum qc_dtype t, void *data, int64_t at, int64_t n, int64_t stride)
{
    const int64_t size = (int64_t)qc_dtype_size(t);
    char *from = (char *)data + at * stride * size;
    if (stride == 1) return from;
    if (stride == 0 && at > 0) return block;
    const struct qc_view x = {.dtype = t, .rank = 1, .dim = {n}, .stride = {stride}, .data = from},
                         y = {.dtype = t, .rank = 1, .dim = {n}, .stride = {1}, .data = block};
    qc_view_copy(&y, &x);
    return block;
}

static void each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    static const int64_t ones[] = {1, 1, 1};
    const struct call *c = user;
    const bool real = c->s->rule == QC_REQUANTIZE_FLOAT,
               u8 = real && c->type[0] == QC_U8 && c->type[1] == QC_U8 && c->type[2] == QC_U8,
               i8 = real && c->type[0] == QC_I8 && c->type[1] == QC_I8 && c->type[2] == QC_I8;
    const int64_t size = (int64_t)qc_dtype_size(c->type[0]);
    int32_t block[3][BLOCK], level[3][BLOCK];
    if ((u8 || i8) && stride[0] == 1 && stride[1] == 1 && stride[2] == 1) {
        if (u8)
            qc_qbinary_u8(c->s, data[0], data[1], data[2], (size_t)n, ones);
        else
            qc_qbinary_i8(c->s, data[0], data[1], data[2], (size_t)n, ones);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const void *a = gathered(block[1], c->type[1], data[1], i, count, stride[1]),
                   *b = gathered(block[2], c->type[2], data[2], i, count, stride[2]);
        char *to = (char *)data[0] + i * stride[0] * size;
        void *y = stride[0] == 1 ? (void *)to : block[0];
        if (u8) {
            qc_qbinary_u8(c->s, y, a, b, (size_t)count, ones);
        } else if (i8) {
            qc_qbinary_i8(c->s, y, a, b, (size_t)count, ones);
        } else {
            qc_load_levels(level[1], c->type[1], a, (size_t)count);
            qc_load_levels(level[2], c->type[2], b, (size_t)count);
            qc_qbinary_run(c->s, level[0], level[1], level[2], (size_t)count);
            qc_store_levels(c->type[0], y, level[0], (size_t)count);
        }
        if (stride[0] == 1) continue;
        const struct qc_view from = {.dtype = c->type[0], .rank = 1, .dim = {count}, .stride = {1}, .data = y},
                             out = {.dtype = c->type[0], .rank = 1, .dim = {count}, .stride = {stride[0]}, .data = to};
        qc_view_copy(&out, &from);
    }
}

static bool run_int_binary(const struct qc_run *r, struct qc_status *st)
{
    struct call c = {.s = r->state, .type = {r->out[0].dtype, r->in[0].dtype, r->in[1].dtype}};
    const struct qc_view a = qc_view_broadcast(&r->in[0], &r->out[0]), b = qc_view_broadcast(&r->in[1], &r->out[0]);
    qc_view_each(3, QC_VIEWS(&r->out[0], &a, &b), each, &c);
    return true;
}

QC_KERNEL(int_binary, .order = QC_ORDER_ANY, .in_place = 3, .prepare = prepare_int_binary, .run = run_int_binary);
