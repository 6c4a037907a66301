// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "tflite/read/tflite_reading.h"

const int64_t qc_tfl_to_first[4] = {0, 3, 1, 2}, qc_tfl_to_file[4] = {0, 2, 3, 1};

/* --- Limits --- */

static bool count_bytes(size_t *sum, size_t count, size_t each, size_t limit)
{
    size_t bytes;
    return qc_mul_size(&bytes, count, each) && qc_add_size(sum, *sum, bytes) && *sum <= limit;
}

bool qc_tfl_refer(struct qc_tfl_reader *r, size_t count, size_t each, struct qc_status *st)
{
    enum { LEAST = 1 << 20, TIMES = 4 }; /* converters share short lists at most, and rarely */
    return count_bytes(&r->all->referred, count, each, LEAST + TIMES * r->all->size) ||
           qc_fail(st, QC_BAD_INPUT,
                   "shares its name or its lists with so many others that they come to more than %d times the file",
                   (int)TIMES);
}

static bool tfl_make(struct qc_tfl_reader *r, size_t count, size_t each, struct qc_status *st)
{
    enum { LEAST = 1 << 24, TIMES = 64 }; /* sparse networks keep one element in 20, not one in hundreds */
    if (!count_bytes(&r->all->made, count, each, LEAST + TIMES * r->all->size))
        return qc_fail(st, QC_BAD_INPUT, "with it, the constants come to more than %d MB and %d times the file",
                       (int)(LEAST >> 20), (int)TIMES);
    return qc_budget_hold(&r->g->budget, count * each, st);
}

/* --- Tensors of the file --- */

static bool read_shape(struct qc_tfl_value *v, const struct qc_fb_table *t, struct qc_status *st)
{
    const struct qc_fb_vector dims = qc_fb_vector(t, QC_TFL_Tensor_shape);
    const struct qc_fb_vector signature = qc_fb_vector(t, QC_TFL_Tensor_shape_signature);
    if (dims.count > QC_RANK_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "has %zu dimensions, at most %d are handled", dims.count, QC_RANK_MAX);
    v->shape = (struct qc_shape){.rank = (int)dims.count};
    for (size_t i = 0; i < dims.count; i++) {
        v->shape.dim[i] = qc_fb_vector_int(&dims, i);
        if (v->shape.dim[i] < 0) return qc_fail(st, QC_BAD_INPUT, "has a negative dimension");
    }
    v->fixed_inside = true;
    for (size_t i = 0; i < signature.count; i++) {
        if (qc_fb_vector_int(&signature, i) >= 0) continue;
        v->stale_shape = true;
        if (i) v->fixed_inside = false;
    }
    const bool free = dims.count && signature.count == dims.count && qc_fb_vector_int(&signature, 0) < 0;
    if (free && !v->data) v->shape.dim[0] = QC_FREE;
    return true;
}

static bool read_parameters(struct qc_tfl_value *v, struct qc_tfl_reader *r, const struct qc_fb_table *t,
                            struct qc_status *st)
{
    const struct qc_fb_table q = qc_fb_child(t, QC_TFL_Tensor_quantization);
    if (!q.at) return true;
    v->scales = qc_fb_vector(&q, QC_TFL_QuantizationParameters_scale);
    v->zeros = qc_fb_vector(&q, QC_TFL_QuantizationParameters_zero_point);
    v->quantized = v->scales.count && (v->dtype == QC_I8 || v->dtype == QC_U8 || v->dtype == QC_I16 ||
                                       v->dtype == QC_U16 || v->dtype == QC_I4);
    if (qc_fb_int(&q, QC_TFL_QuantizationParameters_details_type))
        return qc_fail(st, QC_UNSUPPORTED, "has scales in blocks, or a custom kind of quantization");
    if (!v->quantized) return true;
    if (!qc_tfl_refer(r, v->scales.count, sizeof(float), st) || !qc_tfl_refer(r, v->zeros.count, sizeof(int64_t), st))
        return false;
    const struct qc_dtype_info *info = qc_dtype_info(v->dtype);
    for (size_t i = 0; i < v->scales.count; i++) {
        const float s = qc_fb_vector_float(&v->scales, i);
        if (!(s > 0 && isfinite(s))) return qc_fail(st, QC_BAD_INPUT, "has the scale %g", (double)s);
    }
    if (v->zeros.count > 1 && v->zeros.count != v->scales.count)
        return qc_fail(st, QC_BAD_INPUT, "has %zu scales, but %zu zero points", v->scales.count, v->zeros.count);
    for (size_t i = 0; i < v->zeros.count; i++) {
        const int64_t z = qc_fb_vector_int(&v->zeros, i);
        if (z < info->lo || z > info->hi)
            return qc_fail(st, QC_BAD_INPUT, "has the zero point %lld outside of %s", (long long)z, info->name);
    }
    if (v->scales.count == 1) return true;
    const int64_t axis = qc_fb_int(&q, QC_TFL_QuantizationParameters_quantized_dimension);
    if (axis < 0 || axis >= v->shape.rank || v->shape.dim[axis] != (int64_t)v->scales.count)
        return qc_fail(st, QC_BAD_INPUT, "has %zu scales, which do not fit its dimension %lld", v->scales.count,
                       (long long)axis);
    v->axis = (int)axis;
    return true;
}

/* Gives the bytes of a buffer. Small files hold them in a vector, large files at an offset from the file's start. */
static bool buffer_bytes(const uint8_t **data, size_t *size, const struct qc_tfl_reader *r, int64_t index,
                         struct qc_status *st)
{
    const struct qc_fb_vector buffers = qc_fb_vector(&r->model, QC_TFL_Model_buffers);
    if ((size_t)index >= buffers.count)
        return qc_fail(st, QC_BAD_INPUT, "has the buffer %lld of %zu", (long long)index, buffers.count);
    const struct qc_fb_table b = qc_fb_vector_table(&buffers, (size_t)index);
    const struct qc_fb_vector inside = qc_fb_vector(&b, QC_TFL_Buffer_data);
    const uint64_t offset = (uint64_t)qc_fb_int(&b, QC_TFL_Buffer_offset),
                   count = (uint64_t)qc_fb_int(&b, QC_TFL_Buffer_size);
    *data = inside.count ? qc_fb_vector_bytes(&inside) : NULL;
    *size = inside.count;
    if (inside.count || offset <= 1) return true;
    if (offset > r->size || count > r->size - offset)
        return qc_fail(st, QC_BAD_INPUT, "has its data outside of the file, which is truncated");
    *data = count ? r->bytes + offset : NULL;
    *size = (size_t)count;
    return true;
}

static size_t bytes_of(enum qc_dtype t, size_t count)
{
    size_t bits = 0;
    return qc_mul_size(&bits, count, qc_dtype_info(t)->bits) ? bits / 8 + (bits % 8 != 0) : SIZE_MAX;
}

static bool read_data(struct qc_tfl_value *v, struct qc_tfl_reader *r, const struct qc_fb_table *t,
                      struct qc_status *st)
{
    size_t count, bytes;
    char text[QC_SHAPE_TEXT];
    if (!buffer_bytes(&v->data, &v->data_size, r, qc_fb_int(t, QC_TFL_Tensor_buffer), st) || !read_shape(v, t, st))
        return false;
    if (!v->data || v->dtype == QC_NONE) return true;
    v->sparsity = qc_fb_child(t, QC_TFL_Tensor_sparsity);
    if (v->sparsity.at && qc_dtype_info(v->dtype)->bits < 8)
        return qc_fail(st, QC_UNSUPPORTED, "is sparse, with elements of %u bits",
                       (unsigned)qc_dtype_info(v->dtype)->bits);
    if (!qc_shape_count(&count, &v->shape) || !qc_mul_size(&bytes, count, qc_dtype_size(v->dtype)) ||
        (v->sparsity.at ? v->data_size % qc_dtype_size(v->dtype) != 0 : bytes_of(v->dtype, count) != v->data_size))
        return qc_fail(st, QC_BAD_INPUT, "has %zu bytes of data, which are not %s of %s", v->data_size,
                       qc_dtype_info(v->dtype)->name, qc_shape_text(text, &v->shape));
    return true;
}

static bool read_value(struct qc_tfl_value *v, struct qc_tfl_reader *r, const struct qc_fb_table *t,
                       struct qc_status *st)
{
    v->name = qc_fb_string(t, QC_TFL_Tensor_name);
    if (!qc_tfl_refer(r, strlen(v->name), 1, st)) return false;
    if (!*v->name && !(v->name = qc_arena_printf(r->arena, st, "t%zu", v->index))) return false;
    v->dtype = qc_dtype_from_tfl(qc_fb_int(t, QC_TFL_Tensor_type));
    v->is_state = qc_fb_int(t, QC_TFL_Tensor_is_variable) != 0;
    if (!read_data(v, r, t, st) || !read_parameters(v, r, t, st)) return false;
    if (qc_fb_int(t, QC_TFL_Tensor_type) != QC_TFL_COMPLEX64 || v->data || v->shape.rank == QC_RANK_MAX) return true;
    v->complex = true;
    v->dtype = QC_F32;
    v->shape.dim[v->shape.rank++] = 2;
    return true;
}

bool qc_tfl_read_values(struct qc_tfl_reader *r, struct qc_status *st)
{
    const struct qc_fb_vector tensors = qc_fb_vector(&r->subgraph, QC_TFL_SubGraph_tensors);
    r->value_count = tensors.count;
    if (!(r->values = QC_NEW_ARRAY(r->arena, struct qc_tfl_value, tensors.count, st))) return false;
    for (size_t i = 0; i < tensors.count; i++) {
        const struct qc_fb_table t = qc_fb_vector_table(&tensors, i);
        r->values[i].index = i;
        if (!read_value(&r->values[i], r, &t, st))
            return qc_where(st, "tensor %zu '%.200s'", i, qc_fb_string(&t, QC_TFL_Tensor_name));
    }
    return true;
}

bool qc_tfl_alike(const struct qc_tfl_value *a, const struct qc_tfl_value *b)
{
    const bool qa = a->quantized && !a->dequantized, qb = b->quantized && !b->dequantized;
    if (!qa && !qb) return true;
    if (qa != qb || a->dtype != b->dtype) return false;
    const int64_t za = a->zeros.count ? qc_fb_vector_int(&a->zeros, 0) : 0,
                  zb = b->zeros.count ? qc_fb_vector_int(&b->zeros, 0) : 0;
    return a->scales.count == 1 && b->scales.count == 1 && za == zb &&
           qc_fb_vector_float(&a->scales, 0) == qc_fb_vector_float(&b->scales, 0);
}

/* --- Constants --- */

static qc_id refused(struct qc_status *st, enum qc_code code, const struct qc_tfl_value *v, const char *why)
{
    qc_fail(st, code, "tensor %zu '%.200s' %s", v->index, v->name, why);
    return 0;
}

/* Returns the dense data of v in shape `shape`, which has the same number of elements. perm: axis i of the result is
   axis perm[i] of `shape`. */
static struct qc_tensor *tensor_of(const struct qc_tfl_value *v, const uint8_t *data, const struct qc_shape *shape,
                                   const int64_t *perm, struct qc_status *st)
{
    struct qc_shape to = *shape;
    size_t stride[QC_RANK_MAX] = {0}, step[QC_RANK_MAX] = {0}, at[QC_RANK_MAX] = {0}, from = 0, inner = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        stride[i] = inner;
        inner *= (size_t)shape->dim[i];
    }
    for (int i = 0; i < shape->rank; i++) {
        to.dim[i] = shape->dim[perm ? perm[i] : i];
        step[i] = stride[perm ? perm[i] : i];
    }
    struct qc_tensor *t = qc_tensor_new(v->dtype, &to, st);
    if (!t) return NULL;
    const size_t size = qc_dtype_size(v->dtype);
    const bool packed = qc_dtype_info(v->dtype)->bits < 8;
    if (!perm && !packed) {
        memcpy(t->data, data, t->bytes);
        return t;
    }
    for (size_t k = 0; k < t->count; k++) {
        if (packed) {
            /* 4-bit integers are packed; the low half of a byte is first. */
            const int level = data[from / 2] >> (from % 2 * 4) & 15;
            ((int8_t *)t->data)[k] = (int8_t)(level < 8 ? level : level - 16);
        } else
            memcpy((uint8_t *)t->data + k * size, data + from * size, size);
        for (int i = shape->rank - 1; i >= 0; i--) {
            from += step[i];
            if (++at[i] < (size_t)to.dim[i]) break;
            from -= step[i] * at[i];
            at[i] = 0;
        }
    }
    return t;
}

/* Converts 64-bit integers that fit 32 bits, such as the biases of int16 networks. */
static struct qc_tensor *narrowed(struct qc_tensor *t, struct qc_status *st)
{
    struct qc_tensor *narrow = qc_tensor_new(QC_I32, &t->shape, st);
    for (size_t i = 0; narrow && i < t->count; i++) {
        const int64_t q = qc_tensor_int(t, i);
        if (q < INT32_MIN || q > INT32_MAX) {
            qc_fail(st, QC_UNSUPPORTED, "a bias of %lld does not fit 32 bits", (long long)q);
            qc_tensor_unref(narrow);
            narrow = NULL;
            break;
        }
        ((int32_t *)narrow->data)[i] = (int32_t)q;
    }
    qc_tensor_unref(t);
    return narrow;
}

/* Returns the dense integers or numbers of a constant, float16 as float32, and 64-bit integers as int32 if `narrow`. */
static struct qc_tensor *new_tensor(struct qc_tfl_node *n, const struct qc_tfl_value *v, const struct qc_shape *shape,
                                    const int64_t *perm, bool narrow, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = v->sparsity.at ? qc_arena_new() : NULL;
    const uint8_t *data = v->data;
    if (v->sparsity.at && !a) qc_fail_memory(st, 1);
    if (!tfl_make(n->r, qc_shape_elements(shape), qc_dtype_size(v->dtype), st) ||
        (v->sparsity.at && (!a || !qc_tfl_dense_data(&data, a, v, st)))) {
        qc_where(st, "tensor %zu '%.200s'", v->index, v->name);
        return NULL;
    }
    struct qc_tensor *t = tensor_of(v, data, shape, perm, st);
    if (t && narrow && t->dtype == QC_I64) return narrowed(t, st);
    if (!t || t->dtype != QC_F16) return t;
    struct qc_tensor *wide = qc_tensor_to_f32(t, st);
    qc_tensor_unref(t);
    return wide;
}

/* Returns the constant of new_tensor, which is made once for all tensors that share its data. */
static qc_id stored_constant(struct qc_tfl_node *n, const struct qc_tfl_value *v, const struct qc_shape *shape,
                             const int64_t *perm, bool narrow, struct qc_status *st)
{
    struct qc_tfl_import *all = n->r->all;
    if (v->dtype == QC_NONE) return refused(st, QC_UNSUPPORTED, v, "has a type that is not handled");
    struct qc_tfl_stored key = {
        .data = v->data, .sparsity = v->sparsity.at, .dtype = v->dtype, .narrow = narrow, .shape = *shape};
    for (int i = 0; i < shape->rank; i++) key.perm[i] = perm ? perm[i] : i;
    const uint64_t hash = qc_hash_number((uint64_t)(uintptr_t)v->data);
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&all->stored_index, hash, &slot));) {
        const struct qc_tfl_stored *s = &all->stored[i - 1];
        if (s->data == key.data && s->sparsity == key.sparsity && s->dtype == key.dtype && s->narrow == narrow &&
            qc_shape_equal(&s->shape, &key.shape) && memcmp(s->perm, key.perm, sizeof key.perm) == 0)
            return s->id;
    }
    const char *name = v->quantized || narrow ? qc_arena_printf(n->r->arena, st, "%s_quantized", v->name) : v->name;
    struct qc_tensor *t = name ? new_tensor(n, v, shape, perm, narrow, st) : NULL;
    struct qc_tfl_stored *more =
        t ? qc_arena_grown(n->r->arena, all->stored, all->stored_count, &all->stored_capacity, sizeof *more, st) : NULL;
    if (more) all->stored = more;
    key.id = more ? qc_graph_add_constant(n->r->g, name, t, st) : 0;
    qc_tensor_unref(t);
    if (!key.id) return 0;
    all->stored[all->stored_count++] = key;
    return qc_index_add(&all->stored_index, hash, (uint32_t)all->stored_count, st) ? key.id : 0;
}

/* Gives scales and zero points as inputs of QuantizeLinear and DequantizeLinear: scalars if there is one of each. */
static bool parameters(qc_id out[2], struct qc_tfl_node *n, const struct qc_tfl_value *v, struct qc_status *st)
{
    const size_t count = v->scales.count;
    const struct qc_shape shape = count == 1 ? QC_SCALAR : QC_SHAPE((int64_t)count);
    if (!tfl_make(n->r, count, sizeof(float), st)) return false;
    struct qc_tensor *s = qc_tensor_new(QC_F32, &shape, st), *z = s ? qc_tensor_new(v->dtype, &shape, st) : NULL;
    for (size_t i = 0; z && i < count; i++) {
        const int64_t zero = v->zeros.count ? qc_fb_vector_int(&v->zeros, v->zeros.count == 1 ? 0 : i) : 0;
        ((float *)s->data)[i] = qc_fb_vector_float(&v->scales, i);
        if (qc_dtype_size(v->dtype) == 1)
            ((uint8_t *)z->data)[i] = (uint8_t)zero;
        else
            ((uint16_t *)z->data)[i] = (uint16_t)zero;
    }
    out[0] = qc_graph_add_made_constant(n->r->g, NULL, s, st);
    out[1] = qc_graph_add_made_constant(n->r->g, NULL, z, st);
    return st->code == QC_OK;
}

static qc_id dequantized(struct qc_tfl_node *n, const struct qc_tfl_value *v, qc_id stored, int axis, const char *name,
                         struct qc_status *st)
{
    qc_id in[3] = {stored};
    if (!parameters(in + 1, n, v, st)) return 0;
    if (v->scales.count > 1 && axis != 1) qc_tfl_attr(n, QC_INT("axis", axis));
    return qc_tfl_add(n, QC_OP_DequantizeLinear, 3, in, name, st);
}

qc_id qc_tfl_constant(struct qc_tfl_node *n, const struct qc_tfl_value *v, const struct qc_shape *shape,
                      const int64_t *perm, const struct qc_tfl_scales *other, struct qc_status *st)
{
    const qc_id id = stored_constant(n, v, shape, perm, other != NULL, st);
    if (!id || !(v->quantized || other)) return id;
    if (other) {
        const struct qc_shape vector = other->count == 1 ? QC_SCALAR : QC_SHAPE((int64_t)other->count);
        if (!tfl_make(n->r, other->count, sizeof(float), st)) return 0;
        const qc_id in[3] = {id,
                             qc_graph_add_made_constant(n->r->g, NULL, qc_tensor_of(QC_F32, &vector, other->scale, st),
                                                        st),
                             qc_graph_add_made_constant(n->r->g, NULL, qc_tensor_new(QC_I32, &vector, st), st)};
        if (other->count > 1) qc_tfl_attr(n, QC_INT("axis", 0));
        return qc_tfl_add(n, QC_OP_DequantizeLinear, 3, in, v->name, st);
    }
    int axis = v->axis;
    for (int i = 0; perm && i < shape->rank; i++)
        if (perm[i] == v->axis) axis = i;
    return dequantized(n, v, id, axis, v->name, st);
}

/* --- Values in either layout --- */

static qc_id stored_of(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st)
{
    qc_id *own = &v->stored[layout], other = v->stored[!layout];
    if (*own) return *own;
    if (v->dtype == QC_NONE) return refused(st, QC_UNSUPPORTED, v, "has a type that is not handled");
    if (v->data)
        return *own = stored_constant(n, v, &v->shape, layout == QC_TFL_CHANNELS_FIRST ? qc_tfl_to_first : NULL, false,
                                      st);
    if (!other) return refused(st, QC_BAD_INPUT, v, "is used before it is computed");
    const bool first = layout == QC_TFL_CHANNELS_FIRST;
    const char *name = qc_arena_printf(n->r->arena, st, "%s%s", v->name,
                                       v->quantized ? "_quantized"
                                       : first      ? "_channels_first"
                                                    : "_channels_last");
    return *own = name ? qc_tfl_transpose(n, other, 4, first ? qc_tfl_to_first : qc_tfl_to_file, name, st) : 0;
}

qc_id qc_tfl_real(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st)
{
    if (!v) return 0;
    const qc_id stored = v->real[layout] ? 0 : stored_of(n, v, layout, st);
    if (!stored || !v->quantized) return v->real[layout] ? v->real[layout] : stored;
    const int axis = layout == QC_TFL_CHANNELS_FIRST ? (int)qc_tfl_to_file[v->axis] : v->axis;
    const char *name = qc_arena_printf(n->r->arena, st, "%s_dequantized", v->name);
    return v->real[layout] = name ? dequantized(n, v, stored, axis, name, st) : 0;
}

qc_id qc_tfl_stored(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st)
{
    return !v || v->dequantized ? qc_tfl_real(n, v, layout, st) : stored_of(n, v, layout, st);
}

/* --- Results --- */

static struct qc_tfl_value *result(struct qc_tfl_node *n, size_t k, struct qc_status *st)
{
    struct qc_tfl_value *v = k < n->output_count ? n->outputs[k] : NULL;
    if (!v) {
        qc_fail(st, QC_BAD_INPUT, "has no output %zu", k);
        return NULL;
    }
    if (v->stored[0] || v->stored[1] || v->data) {
        qc_fail(st, QC_BAD_INPUT, "computes tensor %zu '%.200s' a second time", v->index, v->name);
        return NULL;
    }
    return v;
}

bool qc_tfl_define_stored(struct qc_tfl_node *n, size_t k, qc_id id, enum qc_tfl_layout layout, struct qc_status *st)
{
    struct qc_tfl_value *v = id ? result(n, k, st) : NULL;
    if (!v) return false;
    const enum qc_dtype t = n->r->g->values[id].type.dtype;
    if (t != v->dtype)
        return qc_fail(st, QC_BAD_INPUT, "tensor '%.200s' is %s in the file, but comes out as %s", v->name,
                       qc_dtype_info(v->dtype)->name, qc_dtype_info(t)->name);
    if (layout == QC_TFL_CHANNELS_FIRST && qc_tfl_shape(n, id)->rank != 4)
        return qc_fail(st, QC_BAD_INPUT, "tensor '%.200s' does not have four axes", v->name);
    v->stored[layout] = id;
    /* Warn if the file gives the tensor another shape. */
    const struct qc_shape *s = qc_tfl_shape(n, id);
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    struct qc_shape own = *s;
    bool same = s->rank < 0 || s->rank == v->shape.rank;
    for (int i = 0; same && i < s->rank; i++) {
        own.dim[i] = s->dim[layout == QC_TFL_CHANNELS_FIRST ? qc_tfl_to_file[i] : i];
        same = own.dim[i] < 0 || v->shape.dim[i] < 0 || own.dim[i] == v->shape.dim[i];
    }
    return same || v->stale_shape || !v->shape.rank ||
           qc_lines_add(&n->r->all->warnings, n->r->g->arena, st,
                        "tensor '%.200s' is %s in the file, but comes out as %s", v->name, qc_shape_text(a, &v->shape),
                        qc_shape_text(b, &own));
}

bool qc_tfl_define_real(struct qc_tfl_node *n, size_t k, qc_id id, enum qc_tfl_layout layout, struct qc_status *st)
{
    struct qc_tfl_value *v = id ? result(n, k, st) : NULL;
    if (!v) return false;
    if (v->quantized) {
        qc_id in[3] = {id};
        const char *name = qc_arena_printf(n->r->arena, st, "%s_quantized", v->name);
        if (v->scales.count > 1)
            return qc_fail(st, QC_UNSUPPORTED, "its result '%.200s' has a scale per channel", v->name);
        if (!name || !parameters(in + 1, n, v, st)) return false;
        id = qc_tfl_add(n, QC_OP_QuantizeLinear, 3, in, name, st);
    }
    return qc_tfl_define_stored(n, k, id, layout, st);
}

bool qc_tfl_alias(struct qc_tfl_node *n, const struct qc_tfl_value *x, struct qc_status *st)
{
    struct qc_tfl_value *v = result(n, 0, st);
    if (!v) return false;
    const struct qc_tfl_value before = *v;
    *v = *x;
    v->index = before.index;
    v->name = before.name;
    v->dequantized = true;
    memset(v->stored, 0, sizeof v->stored);
    memset(v->real, 0, sizeof v->real);
    return true;
}

/* Returns the level of x in the qparams of v, rounded as TFLite rounds the bounds of activations. */
static int64_t level_of(const struct qc_tfl_value *v, float x)
{
    const int64_t zero = v->zeros.count ? qc_fb_vector_int(&v->zeros, 0) : 0;
    const float steps = roundf(x / qc_fb_vector_float(&v->scales, 0));
    return zero + (steps > 1e6F ? 1000000 : steps < -1e6F ? -1000000 : (int64_t)steps);
}

/* True if quantization to v already clips to [lo, hi]. */
static bool storing_clips(const struct qc_tfl_value *v, float lo, float hi)
{
    const struct qc_dtype_info *t = qc_dtype_info(v->dtype);
    return v->quantized && v->scales.count == 1 && level_of(v, lo) <= t->lo && (isinf(hi) || level_of(v, hi) >= t->hi);
}

bool qc_tfl_finish(struct qc_tfl_node *n, qc_id id, enum qc_tfl_layout layout, struct qc_status *st)
{
    static const float bounds[][2] = {
        [QC_TFL_ACTIVATION_NONE] = {-INFINITY, INFINITY},
        [QC_TFL_ACTIVATION_RELU] = {0, INFINITY},
        [QC_TFL_ACTIVATION_RELU_N1_TO_1] = {-1, 1},
        [QC_TFL_ACTIVATION_RELU6] = {0, 6},
    };
    const int64_t kind = qc_tfl_option(n, "fused_activation_function");
    if (!id || !n->output_count) return id ? result(n, 0, st) != NULL : false;
    const struct qc_tfl_value *v = n->outputs[0];
    if (kind == QC_TFL_ACTIVATION_TANH) {
        id = qc_tfl_add(n, QC_OP_Tanh, 1, &id, v->name, st);
    } else if (kind < 0 || kind > QC_TFL_ACTIVATION_RELU6) {
        return qc_fail(st, QC_UNSUPPORTED, "its activation %lld is not handled", (long long)kind);
    } else if (kind != QC_TFL_ACTIVATION_NONE && !storing_clips(v, bounds[kind][0], bounds[kind][1])) {
        qc_id in[3] = {id};
        const bool relu = kind == QC_TFL_ACTIVATION_RELU;
        for (int i = 0; i < 2 && !relu; i++) in[1 + i] = qc_tfl_number(n, bounds[kind][i], st);
        id = qc_tfl_add(n, relu ? QC_OP_Relu : QC_OP_Clip, relu ? 1 : 3, in, v->name, st);
    }
    return qc_tfl_define_real(n, 0, id, layout, st);
}
