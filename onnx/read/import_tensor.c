// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/scope.h"
#include "onnx/read/importing.h"

/* Tensors with external data. */

/* 64 KiB: smaller tensors are copied, because whole pages would be mapped for them. */
enum { MAPPED_LEAST = 1 << 16 };

/* A file with external data, with its state when its first tensor was read. */
struct qc_external_file {
    struct qc_external_file *next;
    dev_t device;
    ino_t inode;
    size_t size;
    bool tried; /* to map it */
    struct qc_file_map *map;
};

struct external {
    const char *location;
    uint64_t offset, length;
    bool has_length;
};

static bool parse_bytes(uint64_t *out, const char *key, const char *text, struct qc_status *st)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || v > INT64_MAX)
        return qc_fail(st, QC_BAD_INPUT, "external data has the %s '%.40s', which is not a number of bytes", key, text);
    *out = v;
    return true;
}

/* Returns true for a path below the model's folder: relative, without "..". */
static bool safe_location(const char *s)
{
    if (!*s || *s == '/') return false;
    for (const char *p = s; *p;) {
        size_t n = strcspn(p, "/\\");
        if (n == 2 && p[0] == '.' && p[1] == '.') return false;
        p += n;
        p += *p != '\0';
    }
    return true;
}

static bool parse_external(struct external *e, const Onnx__TensorProto *p, struct qc_status *st)
{
    *e = (struct external){.location = ""};
    for (size_t i = 0; i < p->n_external_data; i++) {
        const char *key = qc_proto_text(p->external_data[i]->key), *value = qc_proto_text(p->external_data[i]->value);
        if (strcmp(key, "location") == 0) e->location = value;
        if (strcmp(key, "offset") == 0 && !parse_bytes(&e->offset, key, value, st)) return false;
        if (strcmp(key, "length") == 0) {
            if (!parse_bytes(&e->length, key, value, st)) return false;
            e->has_length = true;
        }
    }
    if (!safe_location(e->location))
        return qc_fail(st, QC_BAD_INPUT,
                       "external data is at '%.200s'; it must be a file in the model's folder or below it",
                       e->location);
    return true;
}

static bool read_at(void *to, size_t size, int fd, uint64_t offset)
{
    for (size_t n = 0; n < size;) {
        ssize_t k = pread(fd, (char *)to + n, size - n < 1 << 30 ? size - n : 1 << 30, (off_t)(offset + n));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        n += (size_t)k;
    }
    return true;
}

/* Returns the entry of a file by its identity (device and inode), independent of its name. */
static struct qc_external_file *enter_file(struct qc_external_files *files, const struct stat *info,
                                           struct qc_status *st)
{
    for (struct qc_external_file *f = files->first; f; f = f->next)
        if (f->device == info->st_dev && f->inode == info->st_ino) return f;
    struct qc_external_file *f = calloc(1, sizeof *f);
    if (!f) {
        qc_fail_memory(st, sizeof *f);
        return NULL;
    }
    *f = (struct qc_external_file){.next = files->first,
                                   .device = info->st_dev,
                                   .inode = info->st_ino,
                                   .size = (size_t)info->st_size};
    if (!qc_add_size(&files->bytes, files->bytes, f->size)) files->bytes = SIZE_MAX;
    return files->first = f;
}

/* Returns the tensor that was read from this place in this type and shape, or NULL. */
static struct qc_tensor *find_imported(const struct qc_external_files *files, const void *at, uint64_t offset,
                                       enum qc_dtype dtype, const struct qc_shape *shape)
{
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&files->index, qc_hash_number((uintptr_t)at + offset), &slot));) {
        const struct qc_imported *t = &files->tensors[i - 1];
        if (t->at == at && t->offset == offset && t->tensor->dtype == dtype && qc_shape_equal(&t->tensor->shape, shape))
            return qc_tensor_ref(t->tensor);
    }
    return NULL;
}

static bool keep_imported(struct qc_external_files *files, const void *at, uint64_t offset, const struct qc_tensor *t,
                          struct qc_status *st)
{
    struct qc_imported *more = qc_grown(files->tensors, files->count, &files->capacity, sizeof *more, st);
    if (!more) return false;
    files->tensors = more;
    files->tensors[files->count++] = (struct qc_imported){.at = at, .offset = offset, .tensor = qc_tensor_ref(t)};
    return qc_index_add(&files->index, qc_hash_number((uintptr_t)at + offset), (uint32_t)files->count, st);
}

void qc_import_release_external(struct qc_external_files *files)
{
    for (size_t i = 0; i < files->count; i++) qc_tensor_unref(files->tensors[i].tensor);
    free(files->tensors);
    qc_index_free(&files->index);
    while (files->first) {
        struct qc_external_file *f = files->first;
        files->first = f->next;
        qc_file_map_unref(f->map);
        free(f);
    }
}

/* A file opened for a tensor; the caller closes fd. */
struct opened {
    int fd;
    uint64_t left; /* bytes from the tensor's offset on */
    struct qc_external_file *file;
};

static bool open_external(struct opened *out, struct external *e, const Onnx__TensorProto *p,
                          const struct qc_beside *beside, struct qc_status *st)
{
    char path[4096];
    struct stat info;
    if (!parse_external(e, p, st)) return false;
    if (!beside || !beside->folder)
        return qc_fail(st, QC_BAD_INPUT, "its data is in the file '%.200s', but the model does not come from a folder",
                       e->location);
    int length = snprintf(path, sizeof path, "%s/%s", beside->folder, e->location);
    if (length < 0 || (size_t)length >= sizeof path)
        return qc_fail(st, QC_BAD_INPUT, "the path of its external data is too long");
    if (beside->follow == QC_FOLLOW_NOTHING && !qc_path_is_below(path, beside->folder))
        return qc_fail(st, QC_BAD_INPUT,
                       "external data %s is a link out of the model's folder; copy the file there, or allow it with "
                       "--follow-links",
                       path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        qc_fail(st, fd < 0 && errno == EACCES ? QC_MACHINE : QC_BAD_INPUT, "cannot read its external data %s: %s", path,
                fd < 0 ? strerror(errno) : "not a regular file");
        if (fd >= 0) close(fd);
        return false;
    }
    struct qc_external_file *file = NULL;
    if (qc_check_holes(fd, st))
        file = enter_file(beside->files, &info, st);
    else
        qc_where(st, "external data %s", path);
    if (!file) {
        close(fd);
        return false;
    }
    /* The smaller of the size when it was mapped and the present size. */
    const uint64_t size = (uint64_t)info.st_size < file->size ? (uint64_t)info.st_size : file->size;
    *out = (struct opened){.fd = fd, .left = size < e->offset ? 0 : size - e->offset, .file = file};
    return true;
}

static bool holds(const struct external *e, uint64_t left, uint64_t need, struct qc_status *st)
{
    return left >= need ||
           qc_fail(st, QC_BAD_INPUT,
                   "external data %s is too short: %llu bytes at offset %llu, but the file has %llu from there",
                   e->location, (unsigned long long)need, (unsigned long long)e->offset, (unsigned long long)left);
}

bool qc_import_is_mapped(enum qc_dtype dtype, size_t bytes)
{
    return bytes >= MAPPED_LEAST && dtype != QC_BOOL && qc_dtype_info(dtype)->bits >= 8;
}

/* *out: the tensor mapped from its file; NULL if its bytes must be read. */
static bool map_tensor(struct qc_tensor **out, enum qc_dtype dtype, const struct qc_shape *shape, size_t bytes,
                       const struct external *e, const struct opened *o, struct qc_status *st)
{
    if (!qc_import_is_mapped(dtype, bytes) || e->offset % qc_dtype_size(dtype)) return true;
    if (!o->file->tried && !qc_file_map_new(&o->file->map, o->fd, o->file->size, st)) return false;
    o->file->tried = true;
    if (!o->file->map) return true;
    *out = qc_tensor_mapped(dtype, shape, o->file->map, (size_t)e->offset, st);
    return *out != NULL;
}

static void import_take_raw(struct qc_tensor *t, const uint8_t *raw);

/* *out: the tensor read into memory. */
static bool read_external_tensor(struct qc_tensor **out, enum qc_dtype dtype, const struct qc_shape *shape,
                                 size_t bytes, const struct external *e, const struct opened *o, struct qc_status *st)
{
    const bool converted = dtype == QC_BOOL || qc_dtype_info(dtype)->bits < 8;
    struct qc_tensor *t = qc_tensor_new(dtype, shape, st);
    uint8_t *raw = converted && t ? calloc(bytes + 1, 1) : NULL;
    bool ok = t && (!converted || raw || qc_fail_memory(st, bytes));
    if (ok && !read_at(raw ? raw : t->data, bytes, o->fd, e->offset))
        ok = qc_fail(st, QC_MACHINE, "cannot read its external data %s: %s", e->location, strerror(errno));
    if (ok && raw) import_take_raw(t, raw);
    free(raw);
    return QC_HAND_OVER(ok, out, t, qc_tensor_unref);
}

static bool import_raw_bytes(size_t *out, enum qc_dtype dtype, size_t count);

/* Tensors may share external data as a whole, even in a few types and shapes, but not parts of it any number of times:
   each becomes weights of its own. */
static bool count_external(struct qc_external_files *files, size_t bytes, struct qc_status *st)
{
    enum { LEAST = 1 << 20, TIMES = 4 };
    if (!qc_add_size(&files->read, files->read, bytes)) files->read = SIZE_MAX;
    return files->read <= LEAST || (files->read - LEAST) / TIMES <= files->bytes ||
           qc_fail(st, QC_BAD_INPUT, "tensors share parts of external data: they come to more than %d times its size",
                   (int)TIMES);
}

static bool import_external(struct qc_tensor **out, enum qc_dtype dtype, const struct qc_shape *shape,
                            const Onnx__TensorProto *p, const struct qc_beside *beside, struct qc_status *st)
{
    struct external e;
    struct opened o;
    struct qc_tensor *t = NULL;
    size_t count, need;
    bool ok = false;
    if (!open_external(&o, &e, p, beside, st)) return false;
    if (!qc_shape_count(&count, shape) || !import_raw_bytes(&need, dtype, count))
        qc_fail(st, QC_BAD_INPUT, "its shape needs more bytes than there can be");
    else if (e.has_length && e.length != need)
        qc_fail(st, QC_BAD_INPUT, "external data has %llu bytes, but its shape needs %zu", (unsigned long long)e.length,
                need);
    else
        ok = holds(&e, o.left, need, st) &&
             ((t = find_imported(beside->files, o.file, e.offset, dtype, shape)) ||
              (count_external(beside->files, need, st) && map_tensor(&t, dtype, shape, need, &e, &o, st) &&
               (t || read_external_tensor(&t, dtype, shape, need, &e, &o, st)) &&
               keep_imported(beside->files, o.file, e.offset, t, st)));
    close(o.fd);
    if (!ok) qc_tensor_unref(t);
    if (ok) *out = t;
    return ok;
}

bool qc_import_external_bytes(uint8_t **out, size_t *size, const Onnx__TensorProto *p, const struct qc_beside *beside,
                              struct qc_status *st)
{
    struct external e;
    struct opened o;
    uint8_t *raw = NULL;
    if (!open_external(&o, &e, p, beside, st)) return qc_where(st, "tensor '%.200s'", qc_proto_text(p->name));
    const uint64_t need = e.has_length ? e.length : o.left;
    bool ok = holds(&e, o.left, need, st) && ((raw = malloc((size_t)need + 1)) || qc_fail_memory(st, need));
    if (ok && !read_at(raw, (size_t)need, o.fd, e.offset))
        ok = qc_fail(st, QC_MACHINE, "cannot read its external data %s: %s", e.location, strerror(errno));
    close(o.fd);
    if (!ok) {
        free(raw);
        return qc_where(st, "tensor '%.200s'", qc_proto_text(p->name));
    }
    *out = raw;
    *size = (size_t)need;
    return true;
}

/* Lists the other files of a model. */

static bool add_file(struct qc_importer *im, struct qc_model_info *info, const Onnx__TensorProto *t,
                     struct qc_status *st)
{
    if (!t || !qc_proto_outside(t)) return true;
    const char *location = "";
    for (size_t i = 0; i < t->n_external_data; i++)
        if (strcmp(qc_proto_text(t->external_data[i]->key), "location") == 0)
            location = qc_proto_text(t->external_data[i]->value);
    const char *path = qc_arena_printf(im->g->arena, st, "%s/%s", im->beside.folder, location);
    if (!path) return false;
    /* Tensors of one file follow each other, so comparing with the last entry keeps the list short. */
    if (info->file_count && strcmp(info->files[info->file_count - 1], path) == 0) return true;
    info->files[info->file_count++] = path;
    return true;
}

/* Adds the files of a graph and of its bodies; for the bound of the recursion see import_body.c. */
static bool add_all(struct qc_importer *im, struct qc_model_info *info, const Onnx__GraphProto *g, struct qc_status *st)
{
    bool ok = true;
    for (size_t i = 0; ok && i < g->n_initializer; i++) ok = add_file(im, info, g->initializer[i], st);
    for (size_t i = 0; ok && i < g->n_node; i++)
        for (size_t k = 0; ok && k < g->node[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = g->node[i]->attribute[k];
            ok = add_file(im, info, a->t, st) && (!a->g || add_all(im, info, a->g, st));
        }
    return ok;
}

static size_t tensor_count(const Onnx__GraphProto *g)
{
    size_t count = g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++) {
        count += g->node[i]->n_attribute;
        for (size_t k = 0; k < g->node[i]->n_attribute; k++)
            if (g->node[i]->attribute[k]->g) count += tensor_count(g->node[i]->attribute[k]->g);
    }
    return count;
}

bool qc_import_files(struct qc_importer *im, struct qc_model_info *info, struct qc_status *st)
{
    if (!im->beside.folder) return true;
    info->files = QC_NEW_ARRAY(im->g->arena, const char *, tensor_count(im->proto), st);
    return info->files && add_all(im, info, im->proto, st);
}

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

static void unpack_elements(struct qc_tensor *t, const uint8_t *p)
{
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
    const unsigned bits = info->bits, each = 8 / bits, most = (1U << bits) - 1, sign = 1U << (bits - 1);
    uint8_t *q = t->data;
    for (size_t i = 0; i < t->count; i++) {
        const unsigned v = (unsigned)p[i / each] >> (i % each * bits) & most;
        q[i] = (uint8_t)(info->is_signed && !info->is_float && v & sign ? v - most - 1 : v);
    }
}

static bool import_raw_bytes(size_t *out, enum qc_dtype dtype, size_t count)
{
    if (!qc_mul_size(out, count, qc_dtype_info(dtype)->size)) return false;
    if (is_packed(dtype)) *out = packed_bytes(dtype, count);
    return true;
}

/* *out: size of elements as raw_data. Returns false on overflow. */
static void import_take_raw(struct qc_tensor *t, const uint8_t *p)
{
    if (is_packed(t->dtype)) {
        unpack_elements(t, p);
    } else if (t->dtype == QC_BOOL) {
        for (size_t i = 0; i < t->count; i++) ((uint8_t *)t->data)[i] = p[i] != 0;
    } else if (t->bytes) {
        memcpy(t->data, p, t->bytes);
    }
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
        unpack_elements(&part, &byte);
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
    if (!import_raw_bytes(&raw, dtype, count))
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
        import_take_raw(t, p->raw_data.data);
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
    if (is_packed(t->dtype)) return take_packed_int32(t, p->int32_data, p->n_int32_data, st);
    /* Files widen integers of up to 16 bits and halves to int32. */
    const int32_t *v = p->int32_data;
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
    if (qc_proto_outside(p)) return import_external(out, dtype, &shape, p, beside, st);
    struct qc_external_files *read = beside ? beside->files : NULL;
    /* Copies of the message in calls of functions are known by the place of their elements. */
    const void *at = p->raw_data.len    ? (const void *)p->raw_data.data
                     : p->n_float_data  ? (const void *)p->float_data
                     : p->n_int32_data  ? (const void *)p->int32_data
                     : p->n_int64_data  ? (const void *)p->int64_data
                     : p->n_double_data ? (const void *)p->double_data
                     : p->n_uint64_data ? (const void *)p->uint64_data
                                        : NULL;
    if (!read) at = NULL;
    if (at && (*out = find_imported(read, at, 0, dtype, &shape))) return true;
    struct qc_tensor *t = NULL;
    if (!check_stored(p, dtype, count, st) || !keep_in_file(&t, dtype, &shape, p, beside, st)) return false;
    if (!t && !(t = qc_tensor_new(dtype, &shape, st))) return false;
    if ((!t->map && !take_stored(t, p, st)) || (at && !keep_imported(read, at, 0, t, st))) {
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
