// SPDX-License-Identifier: Apache-2.0
/* Ops on stored integers that round once (recipes: simq/merge.c), and functions of one variable as tables:
     Add, Mul   as in simq/merge.c, from the stored integers
     Sub        clamp(RNE(f(f(f(va*sa) - f(vb*sb)) / sc))): float32 as ONNX Runtime has no kernel of its own
     Mean       int32 sums, then RNE(clamp(f(sum * f(sx / f(sy*n)))))
     f(x), Relu, Clip   256 entries, made by running the real op on the dequantized ramp */
#include <math.h>
#include <string.h>

#include "graph/numerics_tflite.h"
#include "simq/convert.h"
#include "simq/integer.h"
#include "simq/kernel_util.h"
#include "simq/unary.h"

enum { BLOCK = 256 };

static bool is_byte(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U4 || t == QC_I4;
}

/* ------------------------------------------------- two operands */

struct binary {
    enum qc_op op;
    float ra, rb, k, m, sa, sb, sc, za, zb, zc, lo, hi;
    bool fixed;
    struct qc_merger merger; /* fixed */
};

static bool prepare_binary(struct qc_prepare *p, struct qc_status *st)
{
    struct binary *s = QC_NEW(p->arena, struct binary, st);
    const struct qc_scales *a = &p->in_scales[0], *b = &p->in_scales[1], *c = &p->out_scales[0];
    if (!s) return false;
    s->op = p->node->op;
    s->sa = a->scale[0];
    s->sb = b->scale[0];
    s->sc = c->scale[0];
    s->za = (float)a->zero_point[0];
    s->zb = (float)b->zero_point[0];
    s->zc = (float)c->zero_point[0];
    s->lo = (float)c->levels.lo;
    s->hi = (float)c->levels.hi;
    s->ra = s->sa / s->sc;
    s->rb = s->sb / s->sc;
    s->k = s->zc - fmaf(s->ra, s->za, s->rb * s->zb);
    s->m = s->sa * s->sb / s->sc;
    p->state = s;
    s->fixed = p->contract != QC_CONTRACT_ONNX;
    if (!s->fixed) return true;
    const enum qc_merge_op op = s->op == QC_OP_Add ? QC_MERGE_ADD : s->op == QC_OP_Sub ? QC_MERGE_SUB : QC_MERGE_MUL;
    return qc_merger_of(&s->merger, p->contract, op, (struct qc_affine){s->sa, a->zero_point[0]},
                        (struct qc_affine){s->sb, b->zero_point[0]}, (struct qc_affine){s->sc, c->zero_point[0]},
                        c->levels, st);
}

/* qa and qb are stored integers as floats. */
#define QC_ADD(qa, qb) qc_clamp(qc_round_even(fmaf(qa, s.ra, fmaf(qb, s.rb, s.k)), native), s.lo, s.hi)
#define QC_MUL(qa, qb) qc_clamp(qc_round_even(((qa)-s.za) * ((qb)-s.zb) * s.m + s.zc, native), s.lo, s.hi)
#define QC_SUB(qa, qb)                                                                                                 \
    (qc_clamp(qc_round_even((((qa)-s.za) * s.sa - ((qb)-s.zb) * s.sb) / s.sc, native), s.lo - s.zc, s.hi - s.zc) + s.zc)

#define QC_BINARY(NAME, T, EXPRESSION)                                                                                 \
    static QC_INLINE void NAME##_body(const bool native, const struct binary *p, T *y, const T *a, const T *b,         \
                                      size_t n)                                                                        \
    {                                                                                                                  \
        const struct binary s = *p;                                                                                    \
        QC_IVDEP                                                                                                       \
        for (size_t i = 0; i < n; i++) y[i] = (T)(int32_t)EXPRESSION((float)a[i], (float)b[i]);                        \
    }                                                                                                                  \
    QC_SIMD_ROUND(NAME, (const struct binary *p, T *y, const T *a, const T *b, size_t n), (p, y, a, b, n))
#define QC_BINARIES(NAME, T)                                                                                           \
    QC_BINARY(add_##NAME, T, QC_ADD)                                                                                   \
    QC_BINARY(mul_##NAME, T, QC_MUL)                                                                                   \
    QC_BINARY(sub_##NAME, T, QC_SUB)                                                                                   \
    static void binary_##NAME(const struct binary *s, T *y, const T *a, const T *b, size_t n)                          \
    {                                                                                                                  \
        if (s->op == QC_OP_Add)                                                                                        \
            add_##NAME(s, y, a, b, n);                                                                                 \
        else if (s->op == QC_OP_Mul)                                                                                   \
            mul_##NAME(s, y, a, b, n);                                                                                 \
        else                                                                                                           \
            sub_##NAME(s, y, a, b, n);                                                                                 \
    }
QC_BINARIES(u8, uint8_t)
QC_BINARIES(i8, int8_t)
QC_BINARIES(f32, float)

struct call {
    const struct binary *s;
    enum qc_dtype type[3]; /* result, a, b */
};

/* n elements side by side: as they lie, or brought there. */
static const void *gathered(void *block, enum qc_dtype t, void *data, int64_t at, int64_t n, int64_t stride)
{
    const int64_t size = (int64_t)qc_dtype_size(t);
    char *from = (char *)data + at * stride * size;
    if (stride == 1) return from;
    const struct qc_view x = {.dtype = t, .rank = 1, .dim = {n}, .stride = {stride}, .data = from},
                         y = {.dtype = t, .rank = 1, .dim = {n}, .stride = {1}, .data = block};
    qc_view_copy(&y, &x);
    return block;
}

static void binary_each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    static const int32_t none = 0;
    const struct call *c = user;
    const bool u8 = c->type[0] == QC_U8 && c->type[1] == QC_U8 && c->type[2] == QC_U8,
               i8 = c->type[0] == QC_I8 && c->type[1] == QC_I8 && c->type[2] == QC_I8;
    const int64_t size = (int64_t)qc_dtype_size(c->type[0]);
    float real[3][BLOCK];
    int32_t block[3][BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const void *a = gathered(block[1], c->type[1], data[1], i, count, stride[1]),
                   *b = gathered(block[2], c->type[2], data[2], i, count, stride[2]);
        char *to = (char *)data[0] + i * stride[0] * size;
        void *y = stride[0] == 1 ? (void *)to : block[0];
        if (c->s->fixed) {
            int32_t level[3][BLOCK];
            qc_load_levels(level[1], c->type[1], a, (size_t)count);
            qc_load_levels(level[2], c->type[2], b, (size_t)count);
            qc_merge_run(&c->s->merger, level[0], level[1], level[2], (size_t)count);
            qc_store_levels(c->type[0], y, level[0], (size_t)count);
        } else if (u8) {
            binary_u8(c->s, y, a, b, (size_t)count);
        } else if (i8) {
            binary_i8(c->s, y, a, b, (size_t)count);
        } else {
            qc_load_centred(real[1], c->type[1], a, (size_t)count, &none, false);
            qc_load_centred(real[2], c->type[2], b, (size_t)count, &none, false);
            binary_f32(c->s, real[0], real[1], real[2], (size_t)count);
            qc_store_centred(c->type[0], y, real[0], (size_t)count, &none, false);
        }
        if (stride[0] == 1) continue;
        const struct qc_view from = {.dtype = c->type[0], .rank = 1, .dim = {count}, .stride = {1}, .data = y},
                             out = {.dtype = c->type[0], .rank = 1, .dim = {count}, .stride = {stride[0]}, .data = to};
        qc_view_copy(&out, &from);
    }
}

static bool run_binary(const struct qc_run *r, struct qc_status *st)
{
    struct call c = {.s = r->state, .type = {r->out[0].dtype, r->in[0].dtype, r->in[1].dtype}};
    const struct qc_view a = qc_view_broadcast(&r->in[0], &r->out[0]), b = qc_view_broadcast(&r->in[1], &r->out[0]);
    const struct qc_view *const views[] = {&r->out[0], &a, &b};
    (void)st;
    qc_view_each(3, views, binary_each, &c);
    return true;
}

static const struct qc_kernel int_binary = {
    .name = "int_binary", .order = QC_ORDER_ANY, .in_place = 3, .prepare = prepare_binary, .run = run_binary};

/* ------------------------------------------------- mean */

struct mean {
    struct qc_convert convert;
    bool reduced[QC_RANK_MAX];
    bool keep;
    enum qc_dtype type;
    int32_t zero;
};

static bool prepare_mean(struct qc_prepare *p, struct qc_status *st)
{
    struct mean *s = QC_NEW(p->arena, struct mean, st);
    const bool pool = p->node->op == QC_OP_GlobalAveragePool;
    const int64_t *axes;
    const size_t count = pool ? 0 : qc_attr_ints(p->node, "axes", &axes);
    float n = 1;
    if (!s) return false;
    s->keep = pool || qc_attr_int(p->node, "keepdims", 1) != 0;
    for (size_t i = 0; i < count; i++) {
        int axis;
        if (!qc_axis_of(&axis, axes[i], p->in[0].rank, st)) return false;
        s->reduced[axis] = true;
    }
    for (int i = 0; i < p->in[0].rank; i++) {
        if (pool)
            s->reduced[i] = i >= 2;
        else if (count == 0)
            s->reduced[i] = qc_attr_int(p->node, "noop_with_empty_axes", 0) == 0;
        if (s->reduced[i]) n *= (float)p->in[0].dim[i];
    }
    /* As a requantize of the sum with scale sx / n: f(sx / f(sy*n)). */
    struct qc_scales to = p->out_scales[0], from = p->in_scales[0];
    float scale = to.scale[0] * n;
    int32_t none = 0;
    s->type = p->in[0].dtype;
    s->zero = from.zero_point[0];
    from.space = 0;
    from.zero_point = &none;
    to.scale = &scale;
    p->state = s;
    p->scratch = qc_view_count(&p->out[0]) * sizeof(int32_t) + 64;
    const struct qc_convert_how how = {.contract = p->contract, .graph = p->graph, .divisor = (int64_t)n};
    if (p->contract == QC_CONTRACT_ONNX)
        from.product = true;
    else
        to.scale = p->out_scales[0].scale;
    return qc_convert_of(&s->convert, QC_I32, &from, p->out[0].dtype, &to, -INFINITY, INFINITY, &how, p->arena, st);
}

#define QC_SUM(NAME, T)                                                                                                \
    static QC_INLINE void sum_##NAME##_body(int32_t *y, const T *x, int64_t n, int64_t ys, int64_t xs, int32_t zero)   \
    {                                                                                                                  \
        if (ys == 1 && xs == 1) {                                                                                      \
            QC_IVDEP                                                                                                   \
            for (int64_t i = 0; i < n; i++) y[i] += x[i] - zero;                                                       \
        } else if (ys == 0) {                                                                                          \
            int32_t sum = 0;                                                                                           \
            for (int64_t i = 0; i < n; i++) sum += x[i * xs] - zero;                                                   \
            *y += sum;                                                                                                 \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) y[i * ys] += x[i * xs] - zero;                                             \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD(sum_##NAME, (int32_t * y, const T *x, int64_t n, int64_t ys, int64_t xs, int32_t zero),                    \
            (y, x, n, ys, xs, zero))
QC_SUM(u8, uint8_t)
QC_SUM(i8, int8_t)
QC_SUM(u16, uint16_t)
QC_SUM(i16, int16_t)

static void sum_each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct mean *s = user;
    if (s->type == QC_I16)
        sum_i16(data[1], data[0], n, stride[1], stride[0], s->zero);
    else if (s->type == QC_U16)
        sum_u16(data[1], data[0], n, stride[1], stride[0], s->zero);
    else if (s->type == QC_I8 || s->type == QC_I4)
        sum_i8(data[1], data[0], n, stride[1], stride[0], s->zero);
    else
        sum_u8(data[1], data[0], n, stride[1], stride[0], s->zero);
}

static bool run_mean(const struct qc_run *r, struct qc_status *st)
{
    struct mean s = *(const struct mean *)r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    struct qc_view wide = *x, sums = *y;
    (void)st;
    memset(r->scratch, 0, qc_view_count(y) * sizeof(int32_t));
    wide.dtype = sums.dtype = QC_I32;
    wide.data = sums.data = r->scratch;
    for (int i = 0, k = 0; i < x->rank; i++) {
        wide.stride[i] = s.reduced[i] ? 0 : y->stride[k];
        if (!s.reduced[i] || s.keep) k++;
    }
    const struct qc_view *const views[] = {x, &wide};
    qc_view_each(2, views, sum_each, &s);
    qc_convert_view(&s.convert, y, &sums);
    return true;
}

static const struct qc_kernel int_mean = {.name = "int_mean",
                                          .order = QC_ORDER_ANY,
                                          .prepare = prepare_mean,
                                          .run = run_mean};

/* ------------------------------------------------- tables */

struct table {
    uint8_t entry[256];
};

static bool is_clamp(const struct qc_node *n)
{
    return n->op == QC_OP_Relu || n->op == QC_OP_Clip;
}

/* The bounds of Relu and Clip in centred units. */
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

/* The C library's, as TensorFlow Lite has them; our own are ONNX Runtime's. */
static float tflite_sigmoid(float x, const void *context)
{
    (void)context;
    return 1 / (1 + expf(-x));
}

static float tflite_tanh(float x, const void *context)
{
    (void)context;
    return tanhf(x);
}

static float (*tflite_function(enum qc_op op))(float, const void *)
{
    return op == QC_OP_Sigmoid ? tflite_sigmoid : op == QC_OP_Tanh ? tflite_tanh : one_function;
}

/* TensorFlow Lite has arithmetic of its own for some functions. */
static bool tflite_table(struct table *t, const struct qc_prepare *p, const uint8_t *ramp, struct qc_status *st)
{
    const struct qc_scales *x = &p->in_scales[0], *y = &p->out_scales[0];
    int32_t level[256];
    struct qc_unary f;
    if (!qc_unary_of(&f, p->node, st)) return false;
    struct qc_tflite_unary u = {.op = p->node->op,
                                .input = {.scale = x->scale[0], .zero_point = x->zero_point[0]},
                                .output = {.scale = y->scale[0], .zero_point = y->zero_point[0]},
                                .levels = y->levels,
                                .alpha = f.a,
                                .function = tflite_function(p->node->op),
                                .context = &f};
    if (!qc_tflite_unary_of(&u, st)) return false;
    qc_load_levels(level, p->in[0].dtype, ramp, 256);
    for (int i = 0; i < 256; i++) level[i] = qc_tflite_unary_one(&u, level[i]);
    qc_store_levels(p->out[0].dtype, t->entry, level, 256);
    return true;
}

/* y = f(x) of the node's function on the 256 numbers of a ramp. */
static bool apply(float *ramp, const struct qc_prepare *p, struct qc_status *st)
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

static bool prepare_table(struct qc_prepare *p, struct qc_status *st)
{
    struct table *t = QC_NEW(p->arena, struct table, st);
    const enum qc_dtype from = p->in[0].dtype, to = p->out[0].dtype;
    uint8_t ramp[256];
    float real[256];
    struct qc_convert in, out;
    if (!t) return false;
    p->state = t;
    p->detail = "table";
    for (int i = 0; i < 256; i++) ramp[i] = (uint8_t)i;
    if (is_clamp(p->node)) {
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
    if (p->contract == QC_CONTRACT_TFLITE && p->node->op != QC_OP_Table) return tflite_table(t, p, ramp, st);
    if (!qc_convert_of(&in, from, &p->in_scales[0], QC_F32, &none, -INFINITY, INFINITY, &how, p->arena, st) ||
        !qc_convert_of(&out, QC_F32, &none, to, &p->out_scales[0], -INFINITY, INFINITY, &how, p->arena, st))
        return false;
    qc_convert_run(&in, 0, real, ramp, 256);
    if (!apply(real, p, st)) return false;
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

static bool run_table(const struct qc_run *r, struct qc_status *st)
{
    struct table t = *(const struct table *)r->state;
    const struct qc_view *const views[] = {&r->out[0], &r->in[0]};
    (void)st;
    qc_view_each(2, views, table_each, &t);
    return true;
}

static const struct qc_kernel int_table = {
    .name = "int_table", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_table, .run = run_table};

/* ------------------------------------------------- choice */

static bool is_site(const struct qc_scales *s)
{
    return !s->identity && s->rounds && !s->product && s->count == 1;
}

static bool known_bounds(const struct qc_int_node *n)
{
    for (unsigned i = 1; i < n->input_count; i++)
        if (n->in[i].rank >= 0 && (!n->in[i].data || n->in[i].dtype != QC_F32 || qc_view_count(&n->in[i]) != 1))
            return false;
    return true;
}

/* The sum of what a mean takes in fits into int32. */
static bool sum_fits(const struct qc_int_node *n)
{
    const struct qc_scales *s = &n->in_scales[0];
    const struct qc_shape *to = &qc_value(n->graph, n->node->outputs)->type.shape;
    const int64_t zero = s->zero_point[0], above = s->levels.hi - zero, below = zero - s->levels.lo;
    size_t results;
    if (!qc_shape_count(&results, to) || results == 0) return false;
    return (double)qc_view_count(&n->in[0]) / (double)results * (double)(above > below ? above : below) <= (double)INT32_MAX;
}

const struct qc_kernel *qc_int_merge_kernel(const struct qc_int_node *n)
{
    const enum qc_op op = n->node->op;
    if (!is_site(n->result) || !qc_is_level_type(n->result_type) || !is_site(&n->in_scales[0])) return NULL;
    const enum qc_dtype first = n->in[0].dtype;
    const bool bytes = is_byte(first) && is_byte(n->result_type);
    if (is_clamp(n->node)) return bytes && known_bounds(n) ? &int_table : NULL;
    if (op == QC_OP_Add || op == QC_OP_Sub || op == QC_OP_Mul) {
        if (!is_site(&n->in_scales[1])) return NULL;
        for (unsigned i = 0; i < 2; i++)
            if (!qc_is_level_type(n->in[i].dtype) || n->in[i].dtype == QC_I32) return NULL;
        return n->result_type == QC_I32 ? NULL : &int_binary;
    }
    const bool levels = qc_is_level_type(first) && first != QC_I32 && n->result_type != QC_I32;
    if (op == QC_OP_ReduceMean || op == QC_OP_GlobalAveragePool) return levels && sum_fits(n) ? &int_mean : NULL;
    if (op == QC_OP_AveragePool && n->contract != QC_CONTRACT_ONNX && levels) return &qc_kernel_int_average;
    if ((qc_op_info(op)->unary || op == QC_OP_Gelu || op == QC_OP_Table) && bytes) return &int_table;
    return NULL;
}
