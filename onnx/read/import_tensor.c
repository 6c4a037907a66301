// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "onnx/read/importing.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is little endian and copied as it is");

/* TensorProto.DataType; the newest types are from ONNX 1.20. */
static const char *const type_names[] = {
    [0] = "undefined",       [1] = "float",         [2] = "uint8",           [3] = "int8",
    [4] = "uint16",          [5] = "int16",         [6] = "int32",           [7] = "int64",
    [8] = "string",          [9] = "bool",          [10] = "float16",        [11] = "double",
    [12] = "uint32",         [13] = "uint64",       [14] = "complex64",      [15] = "complex128",
    [16] = "bfloat16",       [17] = "float8e4m3fn", [18] = "float8e4m3fnuz", [19] = "float8e5m2",
    [20] = "float8e5m2fnuz", [21] = "uint4",        [22] = "int4",           [23] = "float4e2m1",
    [24] = "float8e8m0",     [25] = "uint2",        [26] = "int2",
};

const char *qc_import_type_text(char buf[QC_TYPE_TEXT], int data_type)
{
    if (data_type < 0 || (size_t)data_type >= sizeof type_names / sizeof *type_names)
        return qc_text(buf, QC_TYPE_TEXT, "data type %d", data_type);
    return qc_text(buf, QC_TYPE_TEXT, "%s (%d)", type_names[data_type], data_type);
}

/* Returns true for elements of less than 8 bits: two or four in a byte, the first in the lowest bits. */
static bool is_packed(enum qc_dtype t)
{
    return t != QC_BOOL && qc_dtype_info(t)->bits < 8;
}

static size_t packed_bytes(enum qc_dtype t, size_t count)
{
    const size_t each = 8 / qc_dtype_info(t)->bits;
    return count / each + (count % each != 0);
}

static void unpack(struct qc_tensor *t, const uint8_t *p)
{
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
    const unsigned bits = info->bits, each = 8 / bits, most = (1U << bits) - 1, sign = 1U << (bits - 1);
    uint8_t *q = t->data;
    for (size_t i = 0; i < t->count; i++) {
        const unsigned v = (unsigned)p[i / each] >> (i % each * bits) & most;
        q[i] = (uint8_t)(info->is_signed && !info->is_float && v & sign ? v - most - 1 : v);
    }
}

bool qc_import_raw_bytes(size_t *out, enum qc_dtype dtype, size_t count)
{
    if (!qc_mul_size(out, count, qc_dtype_info(dtype)->size)) return false;
    if (is_packed(dtype)) *out = packed_bytes(dtype, count);
    return true;
}

void qc_import_take_raw(struct qc_tensor *t, const uint8_t *p)
{
    if (is_packed(t->dtype)) {
        unpack(t, p);
    } else if (t->dtype == QC_BOOL) {
        for (size_t i = 0; i < t->count; i++) ((uint8_t *)t->data)[i] = p[i] != 0;
    } else if (t->bytes) {
        memcpy(t->data, p, t->bytes);
    }
}

/* Reads integers of up to 16 bits and halves, which files widen to int32. */
static bool take_int32(struct qc_tensor *t, const int32_t *v, struct qc_status *st)
{
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
    const int32_t lo = info->is_float ? 0 : info->lo, hi = !info->is_float  ? info->hi
                                                           : info->bits > 8 ? UINT16_MAX
                                                                            : UINT8_MAX;
    for (size_t i = 0; i < t->count; i++) {
        if (t->dtype != QC_BOOL && (v[i] < lo || v[i] > hi))
            return qc_fail(st, QC_BAD_INPUT, "element %zu is %d, outside %s", i, v[i], info->name);
        if (t->dtype == QC_I32)
            ((int32_t *)t->data)[i] = v[i];
        else if (t->dtype == QC_BOOL)
            ((uint8_t *)t->data)[i] = v[i] != 0;
        else if (info->size == 1)
            ((uint8_t *)t->data)[i] = (uint8_t)v[i];
        else
            ((uint16_t *)t->data)[i] = (uint16_t)v[i];
    }
    return true;
}

static bool take_packed_int32(struct qc_tensor *t, const int32_t *v, size_t n, struct qc_status *st)
{
    const size_t each = 8 / qc_dtype_info(t->dtype)->bits;
    for (size_t i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] > UINT8_MAX)
            return qc_fail(st, QC_BAD_INPUT, "group %zu of packed elements is %d, outside a byte", i, v[i]);
        const uint8_t byte = (uint8_t)v[i];
        const size_t left = t->count - each * i;
        struct qc_tensor part = {.dtype = t->dtype,
                                 .count = left < each ? left : each,
                                 .data = (uint8_t *)t->data + each * i};
        unpack(&part, &byte);
    }
    return true;
}

static bool expect_count(const char *field, size_t got, size_t want, struct qc_status *st)
{
    if (got == want) return true;
    return qc_fail(st, QC_BAD_INPUT, "%s has %zu elements, but its shape needs %zu", field, got, want);
}

/* Finds how the elements are stored and checks their number before memory is allocated for them. */
static bool check_stored(const Onnx__TensorProto *p, enum qc_dtype dtype, size_t count, struct qc_status *st)
{
    size_t raw;
    if (!qc_import_raw_bytes(&raw, dtype, count))
        return qc_fail(st, QC_BAD_INPUT, "its shape needs more bytes than there can be");
    if (p->has_raw_data && (p->raw_data.len || !(p->n_float_data || p->n_int32_data || p->n_int64_data ||
                                                 p->n_double_data || p->n_uint64_data))) {
        if (p->raw_data.len == raw) return true;
        return qc_fail(st, QC_BAD_INPUT, "raw_data has %zu bytes, but its shape needs %zu", p->raw_data.len, raw);
    }
    if (dtype == QC_F32) return expect_count("float_data", p->n_float_data, count, st);
    if (dtype == QC_F64) return expect_count("double_data", p->n_double_data, count, st);
    if (dtype == QC_I64) return expect_count("int64_data", p->n_int64_data, count, st);
    if (dtype == QC_U32 || dtype == QC_U64) return expect_count("uint64_data", p->n_uint64_data, count, st);
    if (dtype == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "has no elements of a type that is handled");
    return expect_count("int32_data", p->n_int32_data, is_packed(dtype) ? packed_bytes(dtype, count) : count, st);
}

static bool take_stored(struct qc_tensor *t, const Onnx__TensorProto *p, struct qc_status *st)
{
    if (p->has_raw_data && p->raw_data.len) {
        qc_import_take_raw(t, p->raw_data.data);
        return true;
    }
    if (t->count == 0) return true;
    const void *from = t->dtype == QC_F32   ? (const void *)p->float_data
                       : t->dtype == QC_F64 ? (const void *)p->double_data
                       : t->dtype == QC_I64 ? (const void *)p->int64_data
                       : t->dtype == QC_U64 ? (const void *)p->uint64_data
                                            : NULL;
    if (from) {
        memcpy(t->data, from, t->bytes);
        return true;
    }
    for (size_t i = 0; t->dtype == QC_U32 && i < t->count; i++) {
        if (p->uint64_data[i] > UINT32_MAX) return qc_fail(st, QC_BAD_INPUT, "element %zu is outside u32", i);
        ((uint32_t *)t->data)[i] = (uint32_t)p->uint64_data[i];
    }
    if (t->dtype == QC_U32) return true;
    return is_packed(t->dtype) ? take_packed_int32(t, p->int32_data, p->n_int32_data, st)
                               : take_int32(t, p->int32_data, st);
}

/* *out: the tensor in the model's file; if it is not aligned there, in a temporary file; NULL if it belongs in
   memory. */
static bool keep_in_file(struct qc_tensor **out, enum qc_dtype dtype, const struct qc_shape *shape,
                         const Onnx__TensorProto *p, const struct qc_beside *beside, struct qc_status *st)
{
    if (!beside || !beside->own || !p->has_raw_data || !qc_import_is_mapped(dtype, p->raw_data.len)) return true;
    const size_t at = (uintptr_t)p->raw_data.data - (uintptr_t)qc_file_map_data(beside->own);
    if (at >= beside->own_bytes) return true;
    if (at % qc_dtype_size(dtype) == 0) return (*out = qc_tensor_mapped(dtype, shape, beside->own, at, st)) != NULL;
    struct qc_file_map *map;
    if (p->raw_data.len < QC_SPILLED_LEAST) return true;
    if (!qc_file_map_spill(&map, p->raw_data.data, p->raw_data.len, st)) return false;
    qc_file_map_forget(p->raw_data.data, p->raw_data.len);
    *out = qc_tensor_mapped(dtype, shape, map, 0, st);
    qc_file_map_unref(map);
    return *out != NULL;
}

static bool read_tensor(struct qc_tensor **out, const Onnx__TensorProto *p, const struct qc_beside *beside,
                        struct qc_status *st)
{
    char text[QC_TYPE_TEXT];
    struct qc_shape shape;
    size_t count;
    enum qc_dtype dtype = qc_dtype_from_onnx(p->data_type);
    if (dtype == QC_NONE)
        return qc_fail(st, QC_UNSUPPORTED, "elements of type %s are not handled",
                       qc_import_type_text(text, p->data_type));
    if (p->n_dims > QC_RANK_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "has %zu dimensions, at most %d are handled", p->n_dims, QC_RANK_MAX);
    if (p->segment) return qc_fail(st, QC_UNSUPPORTED, "is stored in segments, which is not handled");
    for (size_t i = 0; i < p->n_dims; i++)
        if (p->dims[i] < 0) return qc_fail(st, QC_BAD_INPUT, "dimension %zu is %lld", i, (long long)p->dims[i]);
    shape = qc_shape_of((int)p->n_dims, p->dims);
    if (!qc_shape_count(&count, &shape))
        return qc_fail(st, QC_BAD_INPUT, "its shape has more elements than there can be");
    if (p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return qc_import_external(out, dtype, &shape, p, beside, st);
    struct qc_tensor *t = NULL;
    if (!check_stored(p, dtype, count, st) || !keep_in_file(&t, dtype, &shape, p, beside, st)) return false;
    if (!t && !(t = qc_tensor_new(dtype, &shape, st))) return false;
    if (!t->map && !take_stored(t, p, st)) {
        qc_tensor_unref(t);
        return false;
    }
    *out = t;
    return true;
}

bool qc_import_tensor(struct qc_tensor **out, const Onnx__TensorProto *p, const struct qc_beside *beside,
                      struct qc_status *st)
{
    if (read_tensor(out, p, beside, st)) return true;
    return qc_where(st, "tensor '%.200s'", qc_proto_text(p->name));
}
