// SPDX-License-Identifier: Apache-2.0
#include "simq/core/kernel_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/types/number_format.h"
#include "simq/core/kernel.h"

bool qc_kernel_map(const struct qc_run *r, qc_view_run_fn *fn, const void *state)
{
    qc_view_each(2, (const struct qc_view *const[]){&r->out[0], &r->in[0]}, fn, (void *)(uintptr_t)state);
    return true;
}

bool qc_kernel_no_type(enum qc_dtype t, struct qc_status *st)
{
    return qc_fail(st, QC_UNSUPPORTED, "element type %s is not handled by this operator", qc_dtype_info(t)->name);
}

bool qc_kernel_takes_real(const struct qc_prepare *p, struct qc_status *st)
{
    return p->in[0].dtype == QC_F32 || p->in[0].dtype == QC_F64 || qc_kernel_no_type(p->in[0].dtype, st);
}

bool qc_kernel_window(struct qc_window *w, const struct qc_prepare *p, struct qc_status *st)
{
    if (!qc_window_of(w, p->graph, p->node, st)) return false;
    const int missing = 3 - w->spatial;
    int64_t *const sizes[] = {w->kernel, w->stride, w->dilation, w->in, w->out, w->pad_begin, w->pad_end};
    for (int k = 0; k < 7; k++)
        for (int i = 3; i-- > 0;) sizes[k][i] = i >= missing ? sizes[k][i - missing] : k < 5;
    return true;
}

int64_t qc_kernel_offset(const struct qc_view *v, size_t i)
{
    int64_t offset = 0;
    for (int d = v->rank; d-- > 0;) {
        size_t n = (size_t)v->dim[d];
        offset += (int64_t)(i % n) * v->stride[d];
        i /= n;
    }
    return offset;
}

int64_t qc_kernel_int_at(const struct qc_view *v, size_t i)
{
    return qc_kernel_integer(v, qc_kernel_offset(v, i));
}

bool qc_kernel_index_at(int64_t *out, const struct qc_view *indices, int64_t offset, int64_t n, int axis,
                        struct qc_status *st)
{
    const int64_t given =
        indices->dtype == QC_I32 ? ((const int32_t *)indices->data)[offset] : ((const int64_t *)indices->data)[offset];
    *out = given < 0 ? given + n : given;
    if (*out >= 0 && *out < n) return true;
    return qc_fail(st, QC_BAD_INPUT, "index %lld is outside axis %d, which has %lld elements", (long long)given, axis,
                   (long long)n);
}

bool qc_kernel_ints(int64_t *out, size_t *count, size_t max, const struct qc_prepare *p, unsigned i, const char *what,
                    struct qc_status *st)
{
    const struct qc_view *v = &p->in[i];
    size_t n = qc_view_count(v);
    if (n > max)
        return qc_fail(st, QC_BAD_INPUT, "input \"%s\" has %zu elements, at most %zu make sense", what, n, max);
    if (!v->data && n) {
        char label[QC_LABEL];
        return qc_fail(st, QC_UNSUPPORTED, "input \"%s\" (%s) must be constant", what,
                       qc_value_label(label, p->graph, p->node->inputs[i]));
    }
    for (size_t k = 0; k < n; k++) out[k] = qc_kernel_int_at(v, k);
    *count = n;
    return true;
}

bool qc_kernel_axis(int *axis, const struct qc_prepare *p, int64_t otherwise, struct qc_status *st)
{
    return qc_axis_of(axis, qc_attr_int(p->node, "axis", otherwise), p->in[0].rank, st);
}

struct qc_walk qc_walk_of(unsigned count, const struct qc_view *const views[], unsigned without)
{
    struct qc_walk w = {.more = true, .rank = views[0]->rank, .count = count};
    for (int d = 0; d < w.rank; d++) {
        w.dim[d] = without >> d & 1 ? 1 : views[0]->dim[d];
        w.more = w.more && views[0]->dim[d] != 0;
        for (unsigned k = 0; k < count; k++) w.stride[k][d] = views[k]->stride[d];
    }
    return w;
}

void qc_walk_next(struct qc_walk *w)
{
    for (int d = w->rank; d-- > 0;) {
        if (++w->index[d] < w->dim[d]) {
            for (unsigned k = 0; k < w->count; k++) w->at[k] += w->stride[k][d];
            return;
        }
        for (unsigned k = 0; k < w->count; k++) w->at[k] -= (w->dim[d] - 1) * w->stride[k][d];
        w->index[d] = 0;
    }
    w->more = false;
}

static void swap_dims(unsigned count, struct qc_view views[], unsigned *marked, int a, int b)
{
    for (unsigned k = 0; k < count; k++) {
        struct qc_view *v = &views[k];
        const int64_t dim = v->dim[a], stride = v->stride[a];
        v->dim[a] = v->dim[b];
        v->stride[a] = v->stride[b];
        v->dim[b] = dim;
        v->stride[b] = stride;
    }
    const unsigned bit_a = *marked >> a & 1, bit_b = *marked >> b & 1;
    *marked = (*marked & ~(1U << a) & ~(1U << b)) | bit_a << b | bit_b << a;
}

static void drop_dim(unsigned count, struct qc_view views[], unsigned *marked, int d)
{
    for (int i = d; i + 1 < views[0].rank; i++) swap_dims(count, views, marked, i, i + 1);
    *marked &= ~(1U << (views[0].rank - 1));
    for (unsigned k = 0; k < count; k++) views[k].rank--;
}

void qc_views_simplify(unsigned count, struct qc_view views[], unsigned *marked)
{
    struct qc_view *first = &views[0];
    for (int d = first->rank; d-- > 0;)
        if (first->dim[d] == 1 && first->rank > 1 && (*marked & ~(1U << d) || !(*marked >> d & 1)))
            drop_dim(count, views, marked, d);
    for (int i = 1; i < first->rank; i++)
        for (int k = i; k > 0 && llabs(first->stride[k - 1]) < llabs(first->stride[k]); k--)
            swap_dims(count, views, marked, k - 1, k);
    for (int d = first->rank - 2; d >= 0; d--) {
        bool even = (*marked >> d & 1) == (*marked >> (d + 1) & 1); /* dimensions d and d + 1 are one */
        for (unsigned k = 0; even && k < count; k++)
            even = views[k].stride[d] == views[k].stride[d + 1] * views[k].dim[d + 1];
        if (!even) continue;
        for (unsigned k = 0; k < count; k++) {
            views[k].dim[d + 1] *= views[k].dim[d];
            views[k].stride[d] = 0;
        }
        drop_dim(count, views, marked, d);
    }
    if (first->rank > 0) return;
    for (unsigned k = 0; k < count; k++) {
        views[k].rank = 1;
        views[k].dim[0] = 1;
        views[k].stride[0] = 1;
    }
}

struct qc_view qc_view_part(const struct qc_view *v, int d, int64_t begin, int64_t count)
{
    struct qc_view part = *v;
    part.dim[d] = count;
    if (part.data) part.data = qc_at(v, begin * v->stride[d]);
    return part;
}

static void copy_row(char *to, const char *from, size_t size, int64_t n, int64_t to_stride, int64_t from_stride,
                     const int64_t *map)
{
    if (!map && to_stride == 1 && from_stride == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
#define QC_ROW(T)                                                                                                      \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i * to_stride] = ((const T *)from)[(map ? map[i] : i) * from_stride];    \
    return
    switch (size) {
    case 1: QC_ROW(uint8_t);
    case 2: QC_ROW(uint16_t);
    case 4: QC_ROW(uint32_t);
    case 8: QC_ROW(uint64_t);
    }
#undef QC_ROW
}

void qc_view_copy_mapped(const struct qc_view *to, const struct qc_view *from, const int64_t *const map[QC_RANK_MAX])
{
    const size_t size = qc_dtype_size(to->dtype);
    int inner = -1;
    for (int d = to->rank; d-- > 0;)
        if (to->dim[d] > 1 && (inner < 0 || to->stride[d] < to->stride[inner])) inner = d;
    QC_WALK(w, inner < 0 ? 0 : 1U << inner, to) {
        int64_t at = 0;
        for (int d = 0; d < to->rank; d++)
            if (d != inner) at += (map[d] ? map[d][w.index[d]] : w.index[d]) * from->stride[d];
        if (inner < 0)
            memcpy(qc_at(to, w.at[0]), qc_at(from, at), size);
        else
            copy_row(qc_at(to, w.at[0]), qc_at(from, at), size, to->dim[inner], to->stride[inner], from->stride[inner],
                     map[inner]);
    }
}

struct fill {
    uint64_t bits;
    size_t size;
};

static void fill_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct fill *f = user;
#define QC_FILL(T)                                                                                                     \
    for (int64_t i = 0; i < n; i++) ((T *)data[0])[i * stride[0]] = (T)f->bits;                                        \
    return
    switch (f->size) {
    case 1: QC_FILL(uint8_t);
    case 2: QC_FILL(uint16_t);
    case 4: QC_FILL(uint32_t);
    case 8: QC_FILL(uint64_t);
    }
#undef QC_FILL
}

void qc_view_fill(const struct qc_view *to, const void *element)
{
    struct fill f = {.size = qc_dtype_size(to->dtype)};
    switch (f.size) {
    case 1: f.bits = *(const uint8_t *)element; break;
    case 2: f.bits = *(const uint16_t *)element; break;
    case 4: f.bits = *(const uint32_t *)element; break;
    case 8: f.bits = *(const uint64_t *)element; break;
    }
    qc_view_each(1, QC_VIEWS(to), fill_run, &f);
}

static int64_t saturated(double value, double lo, double hi, int64_t least, int64_t most)
{
    double r = nearbyint(value);
    if (r != r) return 0;
    if (r <= lo) return least;
    return r >= hi ? most : (int64_t)r;
}

void qc_element_of(void *element, enum qc_dtype t, double value)
{
#define QC_SATURATED(T, lo, hi) *(T *)element = (T)saturated(value, (double)(lo), (double)(hi), (lo), (hi))
    switch (t) {
    case QC_F32: *(float *)element = (float)value; break;
    case QC_F64: *(double *)element = value; break;
    case QC_F16: *(uint16_t *)element = qc_float_to_half((float)value); break;
    case QC_BF16: *(uint16_t *)element = qc_float_to_bfloat((float)value); break;
    case QC_I8: QC_SATURATED(int8_t, INT8_MIN, INT8_MAX); break;
    case QC_I16: QC_SATURATED(int16_t, INT16_MIN, INT16_MAX); break;
    case QC_I32: QC_SATURATED(int32_t, INT32_MIN, INT32_MAX); break;
    case QC_I64: QC_SATURATED(int64_t, INT64_MIN, INT64_MAX); break;
    case QC_U8: QC_SATURATED(uint8_t, 0, UINT8_MAX); break;
    case QC_U16: QC_SATURATED(uint16_t, 0, UINT16_MAX); break;
    case QC_U32: QC_SATURATED(uint32_t, 0, UINT32_MAX); break;
    case QC_U64:
        *(uint64_t *)element = value >= 0x1p64 ? UINT64_MAX : value > 0 ? (uint64_t)nearbyint(value) : 0;
        break;
    case QC_I4: QC_SATURATED(int8_t, -8, 7); break;
    case QC_U4: QC_SATURATED(uint8_t, 0, 15); break;
    case QC_I2: QC_SATURATED(int8_t, -2, 1); break;
    case QC_U2:
        QC_SATURATED(uint8_t, 0, 3);
        break;
    QC_CASE_SMALL_FLOATS:
        *(uint8_t *)element = qc_float_to_small(t, value, QC_SMALL_SATURATES, QC_SMALL_NEAREST);
        break;
    case QC_BOOL: *(uint8_t *)element = value != 0; break;
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
#undef QC_SATURATED
}

bool qc_kernel_choose(struct qc_prepare *p, const struct qc_kernel_row *rows, size_t count, struct qc_status *st)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].op != p->node->op || rows[i].type != p->in[0].dtype) continue;
        struct qc_kernel_row *row = QC_NEW(p->arena, struct qc_kernel_row, st);
        p->state = row;
        if (row) *row = rows[i];
        return row != NULL;
    }
    return qc_kernel_no_type(p->in[0].dtype, st);
}

void qc_lines_each(const struct qc_view *y, const struct qc_view *x, int axis, qc_line_fn *fn, const void *user)
{
    QC_WALK(w, 1U << axis, y, x)
        fn(user, qc_at(y, w.at[0]), qc_at(x, w.at[1]), x->dim[axis], y->stride[axis], x->stride[axis]);
}

static const struct qc_kernel *const kernels[QC_OP_COUNT] = {
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) [QC_OP_##op] = &qc_kernel_##kernel,
#include "graph/types/ops.def"
};

const struct qc_kernel *qc_kernel_of(enum qc_op op)
{
    return op > QC_OP_INVALID && op < QC_OP_COUNT ? kernels[op] : NULL;
}

bool qc_mean_of(struct qc_mean *out, struct qc_prepare *p, size_t size, struct qc_status *st)
{
    struct qc_mean m = {.keep = true};
    const bool pool = p->node->op == QC_OP_GlobalAveragePool;
    const int64_t *axes;
    const size_t count = pool ? 0 : qc_attr_ints(p->node, "axes", &axes);
    float n = 1;
    if (!pool) m.keep = qc_attr_int(p->node, "keepdims", 1) != 0;
    for (size_t i = 0; i < count; i++) {
        int axis;
        if (!qc_axis_of(&axis, axes[i], p->in[0].rank, st)) return false;
        m.reduced[axis] = true;
    }
    for (int i = 0; i < p->in[0].rank; i++) {
        if (pool)
            m.reduced[i] = i >= 2;
        else if (count == 0)
            m.reduced[i] = qc_attr_int(p->node, "noop_with_empty_axes", 0) == 0;
        if (m.reduced[i]) n *= (float)p->in[0].dim[i];
    }
    m.count = (int64_t)n;
    p->scratch = qc_view_count(&p->out[0]) * size + 64;
    *out = m;
    return true;
}

void qc_mean_sums(struct qc_view *sums, struct qc_view *wide, const struct qc_mean *m, const struct qc_run *r,
                  enum qc_dtype t)
{
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    *wide = *x;
    *sums = *y;
    memset(r->scratch, 0, qc_view_count(y) * qc_dtype_size(t));
    wide->dtype = sums->dtype = t;
    wide->data = sums->data = r->scratch;
    for (int i = 0, k = 0; i < x->rank; i++) {
        wide->stride[i] = m->reduced[i] ? 0 : y->stride[k];
        if (!m->reduced[i] || m->keep) k++;
    }
}
