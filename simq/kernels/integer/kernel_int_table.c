// SPDX-License-Identifier: Apache-2.0
/* Functions of one 8-bit variable, Relu and Clip as tables of 256 entries, computed by running the real op on the
   dequantized ramp; under the contract "tflite" functions of one 16-bit variable as tables of 65536. Also selects the
   kernel of other ops on stored integers. */
#include <math.h>

#include "arith/tflite.h"
#include "simq/core/convert.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"
#include "simq/kernels/real/unary.h"

struct table {
    uint8_t entry[256];
};

/* Computes the bounds of Relu and Clip in centred units. */
static void bounds_of(float *lo, float *hi, const struct qc_prepare *p)
{
    const struct qc_scales *s = &p->in_scales[0];
    const struct qc_affine a = {.scale = s->scale[0], .zero_point = s->zero_point[0]};
    *lo = p->node->op == QC_OP_Relu ? 0 : -INFINITY;
    *hi = INFINITY;
    if (p->node->op == QC_OP_Relu) return;
    if (qc_kernel_has(p, 1))
        *lo = (float)(qc_quantize_by(p->contract, *(const float *)p->in[1].data, a, s->levels) - a.zero_point);
    if (qc_kernel_has(p, 2))
        *hi = (float)(qc_quantize_by(p->contract, *(const float *)p->in[2].data, a, s->levels) - a.zero_point);
}

static float one_function(float x, const void *context)
{
    const struct qc_unary *u = context;
    u->fn(&x, &x, 1, u->a, u->b);
    return x;
}

/* TensorFlow Lite uses the C library's functions; ours are ONNX Runtime's. */
static float tflite_sigmoid(float x, const void *context)
{
    return 1 / (1 + expf(-x));
}

static float tflite_tanh(float x, const void *context)
{
    return tanhf(x);
}

static float (*tflite_function(enum qc_op op))(float, const void *)
{
    return op == QC_OP_Sigmoid ? tflite_sigmoid : op == QC_OP_Tanh ? tflite_tanh : one_function;
}

/* TensorFlow Lite has its own arithmetic for some functions. Replaces levels of the input by those of the result. */
static bool tflite_levels(int32_t *level, size_t n, enum qc_tflite_function kind, const struct qc_prepare *p,
                          struct qc_status *st)
{
    const struct qc_scales *x = &p->in_scales[0], *y = &p->out_scales[0];
    struct qc_unary f;
    if (!qc_unary_of(&f, p->node, st)) return false;
    struct qc_tflite_unary u = {.kind = kind,
                                .input = {.scale = x->scale[0], .zero_point = x->zero_point[0]},
                                .output = {.scale = y->scale[0], .zero_point = y->zero_point[0]},
                                .levels = y->levels,
                                .alpha = f.a,
                                .function = tflite_function(p->node->op),
                                .context = &f};
    if (!qc_tflite_unary_of(&u, st)) return false;
    for (size_t i = 0; i < n; i++) level[i] = qc_tflite_unary_one(&u, level[i]);
    return true;
}

/* XNNPACK's LeakyRelu: (v * RNE(256 * ratio) + 128) >> 8. Returns false if a ratio is out of its range. */
static bool xnnpack_leaky_relu(struct table *t, const struct qc_prepare *p, const uint8_t *ramp, struct qc_status *st)
{
    const struct qc_scales *x = &p->in_scales[0], *y = &p->out_scales[0];
    struct qc_unary f;
    if (!qc_unary_of(&f, p->node, st)) return true;
    const float above = x->scale[0] / y->scale[0], below = above * f.a;
    if (!(above >= 0x1p-8f && above <= 0x1p7f && fabsf(below) >= 0x1p-8f && below <= 0x1p7f && below >= -0x1.fffep6f))
        return false;
    const long factor[] = {lrintf(256 * below), lrintf(256 * above)};
    int32_t level[256];
    qc_load_levels(level, p->in[0].dtype, ramp, 256);
    for (int i = 0; i < 256; i++) {
        const int32_t v = level[i] - x->zero_point[0];
        level[i] = qc_saturate(((v * factor[v >= 0] + 128) >> 8) + y->zero_point[0], y->levels);
    }
    qc_store_levels(p->out[0].dtype, t->entry, level, 256);
    return true;
}

/* Applies the node's function to the 256 numbers of a ramp. */
static bool apply_function(float *ramp, const struct qc_prepare *p, struct qc_status *st)
{
    struct qc_unary u;
    struct qc_composed *f;
    if (p->node->op != QC_OP_Table) {
        if (!qc_unary_of(&u, p->node, st)) return false;
        u.fn(ramp, ramp, 256, u.a, u.b);
        return true;
    }
    if (!qc_composed_of(&f, p->node, p->arena, st)) return false;
    float *scratch = QC_NEW_ARRAY(p->arena, float, qc_composed_scratch(f), st);
    if (!scratch) return false;
    qc_composed_run(f, ramp, ramp, 256, scratch);
    return true;
}

static bool prepare_int_table(struct qc_prepare *p, struct qc_status *st)
{
    struct table *t = QC_NEW_STATE(p, struct table, st);
    const enum qc_dtype from = p->in[0].dtype, to = p->out[0].dtype;
    uint8_t ramp[256];
    float real[256];
    struct qc_convert in, out;
    if (!t) return false;
    p->detail = "table";
    for (int i = 0; i < 256; i++) ramp[i] = (uint8_t)i;
    if (p->node->op == QC_OP_Relu || p->node->op == QC_OP_Clip) {
        float lo, hi;
        bounds_of(&lo, &hi, p);
        const struct qc_scales *s = &p->in_scales[0];
        qc_load_centred(real, from, ramp, 256, s->zero_point, false);
        for (int i = 0; i < 256; i++) real[i] = qc_clamp(real[i], lo, hi);
        qc_store_centred(to, t->entry, real, 256, s->zero_point, false);
        return true;
    }
    const struct qc_convert_how how = {.contract = p->contract, .graph = p->graph};
    const struct qc_scales none = {.identity = true,
                                   .count = 1,
                                   .scale = (const float[]){1},
                                   .zero_point = (const int32_t[]){0}};
    const struct qc_convert_end real_end = {QC_F32, &none};
    /* XNNPACK does not compute HardSwish of integers: the runtime takes TensorFlow Lite's kernel. */
    const bool left_out = p->contract == QC_CONTRACT_XNNPACK && p->node->op == QC_OP_HardSwish;
    if ((p->contract == QC_CONTRACT_TFLITE || left_out) && p->node->op != QC_OP_Table) {
        const enum qc_op op = p->node->op;
        const enum qc_tflite_function kind = op == QC_OP_HardSwish   ? QC_TFLITE_HARD_SWISH
                                             : op == QC_OP_LeakyRelu ? QC_TFLITE_LEAKY_RELU
                                                                     : QC_TFLITE_TABLE;
        int32_t level[256];
        qc_load_levels(level, p->in[0].dtype, ramp, 256);
        if (!tflite_levels(level, 256, kind, p, st)) return false;
        qc_store_levels(p->out[0].dtype, t->entry, level, 256);
        return true;
    }
    if (p->contract == QC_CONTRACT_XNNPACK && p->node->op == QC_OP_LeakyRelu && xnnpack_leaky_relu(t, p, ramp, st))
        return st->code == QC_OK;
    if (!qc_convert_of(&in, (struct qc_convert_end){from, &p->in_scales[0]}, real_end, -INFINITY, INFINITY, &how,
                       p->arena, st) ||
        !qc_convert_of(&out, real_end, (struct qc_convert_end){to, &p->out_scales[0]}, -INFINITY, INFINITY, &how,
                       p->arena, st))
        return false;
    qc_convert_run(&in, 0, real, ramp, 256);
    if (!apply_function(real, p, st)) return false;
    qc_convert_run(&out, 0, t->entry, real, 256);
    return true;
}

static void table_each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct table *t = user;
    uint8_t *y = data[0];
    const uint8_t *x = data[1];
    if (stride[0] == 1 && stride[1] == 1)
        qc_table_run(t->entry, y, x, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) y[i * stride[0]] = t->entry[x[i * stride[1]]];
}

static bool run_int_table(const struct qc_run *r, struct qc_status *st)
{
    return qc_kernel_map(r, table_each, r->state);
}

QC_KERNEL(int_table, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_int_table, .run = run_int_table);

/* ------------------------------------------------- 16 bits */

enum { WIDE_COUNT = 65536 };

static bool prepare_wide(struct qc_prepare *p, struct qc_status *st)
{
    const enum qc_op op = p->node->op;
    const enum qc_tflite_function kind = op == QC_OP_Sigmoid ? QC_TFLITE_SIGMOID_16
                                         : op == QC_OP_Tanh  ? QC_TFLITE_TANH_16
                                                             : QC_TFLITE_LEAKY_RELU;
    int16_t *entry = QC_NEW_ARRAY(p->arena, int16_t, WIDE_COUNT, st);
    int32_t *level = QC_NEW_ARRAY(p->arena, int32_t, WIDE_COUNT, st);
    if (!entry || !level) return false;
    for (int32_t i = 0; i < WIDE_COUNT; i++) level[i] = i + INT16_MIN;
    if (!tflite_levels(level, WIDE_COUNT, kind, p, st)) return false;
    for (size_t i = 0; i < WIDE_COUNT; i++) entry[i] = (int16_t)level[i];
    p->state = entry;
    p->detail = "table";
    return true;
}

static void wide_each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const int16_t *entry = user, *x = data[1];
    int16_t *y = data[0];
    for (int64_t i = 0; i < n; i++) y[i * stride[0]] = entry[x[i * stride[1]] - INT16_MIN];
}

static bool run_wide(const struct qc_run *r, struct qc_status *st)
{
    return qc_kernel_map(r, wide_each, r->state);
}

QC_KERNEL(int_wide_table, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_wide, .run = run_wide);

/* ------------------------------------------------- choice */

static bool is_quantizer(const struct qc_scales *s)
{
    return !s->identity && s->rounds && !s->product && s->count == 1;
}

static bool in_bytes(const struct qc_int_node *n)
{
    return qc_dtype_in_byte(n->in[0].dtype) && qc_dtype_in_byte(n->result_type);
}

static bool is_narrow(enum qc_dtype t)
{
    return qc_is_level_type(t) && t != QC_I32;
}

/* A clamp of bytes whose bounds are known. */
static bool clamps_bytes(const struct qc_int_node *n)
{
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->in[i].rank >= 0 && (!n->in[i].data || n->in[i].dtype != QC_F32 || qc_view_count(&n->in[i]) != 1))
            return false;
    return in_bytes(n);
}

static bool two_values(const struct qc_int_node *n)
{
    return n->input_count == 2 && is_quantizer(&n->in_scales[1]) && is_narrow(n->in[0].dtype) &&
           is_narrow(n->in[1].dtype) && n->result_type != QC_I32;
}

/* The sum of a mean fits in int32. */
static bool sum_fits(const struct qc_int_node *n)
{
    const struct qc_scales *s = &n->in_scales[0];
    const struct qc_shape *to = &qc_value(n->graph, n->node->outputs)->type.shape;
    const int64_t zero = s->zero_point[0], above = s->levels.hi - zero, below = zero - s->levels.lo;
    size_t results;
    if (!is_narrow(n->in[0].dtype) || n->result_type == QC_I32 || !qc_shape_count(&results, to) || results == 0)
        return false;
    return (double)qc_view_count(&n->in[0]) / (double)results * (double)(above > below ? above : below) <=
           (double)INT32_MAX;
}

static bool in_fixed_point(const struct qc_int_node *n)
{
    return !qc_contract_is_float(n->contract) && is_narrow(n->in[0].dtype) && n->result_type != QC_I32;
}

/* TensorFlow Lite has this function on int16. */
static bool has_wide_function(const struct qc_int_node *n)
{
    const enum qc_op op = n->node->op;
    struct qc_affine fixed;
    if (n->contract != QC_CONTRACT_TFLITE || n->in[0].dtype != QC_I16 || n->result_type != QC_I16) return false;
    if (op == QC_OP_LeakyRelu) return true;
    return n->in_scales[0].zero_point[0] == 0 && qc_fixed_parameters(&fixed, n->contract, op, QC_I16) &&
           n->result->scale[0] == fixed.scale && n->result->zero_point[0] == fixed.zero_point;
}

const struct qc_kernel *qc_int_affine_kernel(const struct qc_int_node *n)
{
    static const struct {
        enum qc_op op;
        const struct qc_kernel *kernel;
        bool (*takes)(const struct qc_int_node *n);
    } rows[] = {
#define QC_X(op, kernel, condition) {QC_OP_##op, &qc_kernel_##kernel, condition},
        QC_INT_KERNELS(QC_X)
#undef QC_X
    };
    if (!is_quantizer(n->result) || !qc_is_level_type(n->result_type) || !is_quantizer(&n->in_scales[0])) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == n->node->op && rows[i].takes(n)) return rows[i].kernel;
    return qc_op_info(n->node->op)->unary && in_bytes(n) ? &qc_kernel_int_table : NULL;
}

/* DequantizeLinear of int32 values and Quantize as one step, under the fixed-point contracts: a requantize of the
   integers. (Under "onnx" they are two float32 steps, as in ONNX Runtime.) */

static bool prepare_requantize(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_convert *c = QC_NEW_STATE(p, struct qc_convert, st);
    if (!c) return false;
    const struct qc_scales from = {.rounds = true,
                                   .count = 1,
                                   .scale = p->in[1].data,
                                   .zero_point = (const int32_t[]){0},
                                   .levels = qc_levels_of(QC_I32, false)};
    const struct qc_convert_how how = {.contract = p->contract, .graph = p->graph};
    p->detail = "int32";
    return qc_convert_of(c, (struct qc_convert_end){QC_I32, &from},
                         (struct qc_convert_end){p->out[0].dtype, &p->out_scales[0]}, -INFINITY, INFINITY, &how,
                         p->arena, st);
}

static bool run_requantize(const struct qc_run *r, struct qc_status *st)
{
    qc_convert_view(r->state, &r->out[0], &r->in[0]);
    return true;
}

QC_KERNEL(int_requantize, .order = QC_ORDER_ANY, .prepare = prepare_requantize, .run = run_requantize);

/* Softmax of 8- and 16-bit integers under the contracts "tflite" and "xnnpack": Dequantize, Softmax along the last axis
   and Quantize to the parameters that the contract fixes, as one step on integers. */

struct softmax {
    struct qc_tflite_softmax row;
    struct qc_tflite_softmax16 *wide; /* NULL: 8 bits */
    struct qc_litert_softmax *table;  /* 8 bits under "xnnpack"; otherwise NULL */
    int32_t lowest;
    size_t n; /* of a row */
};

static bool prepare_int_softmax(struct qc_prepare *p, struct qc_status *st)
{
    struct softmax *s = QC_NEW_STATE(p, struct softmax, st);
    const struct qc_view *x = &p->in[0];
    if (!s) return false;
    s->row = qc_tflite_softmax_of(p->in_scales[0].scale[0], 1);
    if (x->dtype == QC_I16) {
        if (!(s->wide = QC_NEW(p->arena, struct qc_tflite_softmax16, st))) return false;
        qc_tflite_softmax16_of(s->wide, p->in_scales[0].scale[0], 1);
    } else if (p->contract == QC_CONTRACT_XNNPACK) {
        if (!(s->table = QC_NEW(p->arena, struct qc_litert_softmax, st))) return false;
        qc_litert_softmax_of(s->table, p->in_scales[0].scale[0], 1);
    }
    s->lowest = p->out_scales[0].levels.lo;
    s->n = (size_t)x->dim[x->rank - 1];
    p->scratch = s->n * sizeof(int32_t);
    return true;
}

static bool run_int_softmax(const struct qc_run *r, struct qc_status *st)
{
    const struct softmax *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const size_t count = qc_view_count(y);
    int32_t *level = r->scratch;
    for (size_t i = 0; i < count; i += s->n) {
        qc_load_levels(level, x->dtype, qc_at(x, (int64_t)i), s->n);
        if (s->wide)
            qc_tflite_softmax16_row(s->wide, level, level, s->n);
        else if (s->table)
            qc_litert_softmax_row(s->table, level, level, s->n, s->lowest);
        else
            qc_tflite_softmax_row(&s->row, level, level, s->n, s->lowest);
        qc_store_levels(y->dtype, qc_at(y, (int64_t)i), level, s->n);
    }
    return true;
}

QC_KERNEL(int_softmax, .order = QC_ORDER_ROW, .prepare = prepare_int_softmax, .run = run_int_softmax);
