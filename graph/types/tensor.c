// SPDX-License-Identifier: Apache-2.0
#include "graph/types/tensor.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/pool.h"
#include "base/simd.h"
#include "graph/types/number_format.h"

/* Tiles keep both matrices in the cache. */
enum { TILE = 32 };

bool qc_tensor_is_transposed(const struct qc_tensor *a, const struct qc_tensor *b)
{
    if (a->dtype != b->dtype || a->shape.rank != 2 || b->shape.rank != 2) return false;
    const size_t rows = (size_t)a->shape.dim[0], columns = (size_t)a->shape.dim[1], size = qc_dtype_size(a->dtype);
    if ((size_t)b->shape.dim[0] != columns || (size_t)b->shape.dim[1] != rows) return false;
    const char *x = a->data, *y = b->data;
    for (size_t r0 = 0; r0 < rows; r0 += TILE)
        for (size_t c0 = 0; c0 < columns; c0 += TILE)
            for (size_t r = r0; r < rows && r < r0 + TILE; r++)
                for (size_t c = c0; c < columns && c < c0 + TILE; c++)
                    if (memcmp(x + (r * columns + c) * size, y + (c * rows + r) * size, size) != 0) return false;
    return true;
}

struct qc_tensor *qc_tensor_transposed(const struct qc_tensor *t, struct qc_status *st)
{
    const struct qc_shape shape = QC_SHAPE(t->shape.dim[1], t->shape.dim[0]);
    struct qc_tensor *out = qc_tensor_new(t->dtype, &shape, st);
    if (!out) return NULL;
    const size_t rows = (size_t)t->shape.dim[0], columns = (size_t)t->shape.dim[1], size = qc_dtype_size(t->dtype);
    const char *from = t->data;
    char *to = out->data;
    for (size_t r0 = 0; r0 < rows; r0 += TILE)
        for (size_t c0 = 0; c0 < columns; c0 += TILE)
            for (size_t r = r0; r < rows && r < r0 + TILE; r++)
                for (size_t c = c0; c < columns && c < c0 + TILE; c++)
                    memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
    return out;
}

bool qc_tensor_keep_forms(struct qc_tensor *t, struct qc_status *st)
{
    return t->forms || qc_memo_new(&t->forms, &(struct qc_memo_options){.most = SIZE_MAX, .free = free}, st);
}

const void *qc_tensor_form(const struct qc_tensor *t, const void *key, size_t key_bytes)
{
    return qc_memo_find(t->forms, key, key_bytes);
}

bool qc_tensor_add_form(const void **out, const struct qc_tensor *t, const void *key, size_t key_bytes, void *data,
                        struct qc_status *st)
{
    *out = qc_memo_keep(t->forms, key, key_bytes, data, 0);
    return *out || qc_fail_memory(st, key_bytes);
}

struct qc_shape qc_shape_of(int rank, const int64_t *dims)
{
    struct qc_shape s = {.rank = rank};
    for (int i = 0; i < rank && i < QC_RANK_MAX; i++) s.dim[i] = dims[i];
    return s;
}

bool qc_shape_equal(const struct qc_shape *a, const struct qc_shape *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

bool qc_shape_fixed(const struct qc_shape *s)
{
    if (s->rank < 0) return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0) return false;
    return true;
}

bool qc_shape_count(size_t *count, const struct qc_shape *s)
{
    if (!qc_shape_fixed(s)) return false;
    size_t n = 1;
    bool none = false;
    for (int i = 0; i < s->rank; i++) {
        none = none || s->dim[i] == 0;
        if (s->dim[i] > 0 && !qc_mul_size(&n, n, (size_t)s->dim[i])) return false;
    }
    if (n > INT64_MAX) return false;
    *count = none ? 0 : n;
    return true;
}

size_t qc_shape_elements(const struct qc_shape *s)
{
    size_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= (size_t)s->dim[i];
    return n;
}

bool qc_shape_broadcast(struct qc_shape *out, const struct qc_shape *a, const struct qc_shape *b)
{
    if (a->rank < 0 || b->rank < 0) {
        *out = QC_SHAPE_UNKNOWN;
        return true;
    }
    struct qc_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 1; i <= r.rank; i++) {
        int64_t x = i <= a->rank ? a->dim[a->rank - i] : 1, y = i <= b->rank ? b->dim[b->rank - i] : 1;
        int64_t d = x == 1 ? y : x;
        if (x != 1 && y != 1) {
            if (x == QC_FREE)
                d = y;
            else if (y == QC_FREE)
                d = x;
            else if (x != y)
                return false;
        }
        r.dim[r.rank - i] = d;
    }
    *out = r;
    return true;
}

const char *qc_shape_text(char buf[QC_SHAPE_TEXT], const struct qc_shape *s)
{
    if (s->rank < 0) return qc_text(buf, QC_SHAPE_TEXT, "[?]");
    size_t n = 0;
    buf[n++] = '[';
    for (int i = 0; i < s->rank; i++) {
        char item[24];
        if (s->dim[i] == QC_FREE)
            snprintf(item, sizeof item, "N");
        else
            snprintf(item, sizeof item, "%lld", (long long)s->dim[i]);
        size_t k = strlen(item);
        if (n + k + 3 > QC_SHAPE_TEXT) break;
        if (i) buf[n++] = ',';
        memcpy(buf + n, item, k);
        n += k;
    }
    buf[n++] = ']';
    buf[n] = '\0';
    return buf;
}

static bool measure_tensor(size_t *count, size_t *bytes, enum qc_dtype dtype, const struct qc_shape *shape,
                           struct qc_status *st)
{
    return (qc_shape_count(count, shape) && qc_mul_size(bytes, *count, qc_dtype_size(dtype)) &&
            *bytes <= SIZE_MAX / 4) ||
           qc_fail(st, QC_BAD_INPUT, "tensor of shape %s is not of a fixed size that fits in memory",
                   QC_SHAPE_STR(shape));
}

struct qc_tensor *qc_tensor_new(enum qc_dtype dtype, const struct qc_shape *shape, struct qc_status *st)
{
    size_t count, bytes, padded;
    if (!measure_tensor(&count, &bytes, dtype, shape, st)) return NULL;
    struct qc_tensor *t = malloc(sizeof *t);
    padded = (bytes + 127) / 64 * 64; /* vector kernels may read up to 64 bytes beyond the end */
    void *data = aligned_alloc(64, padded);
    if (!t || !data) {
        free(t);
        free(data);
        qc_fail_memory(st, padded);
        return NULL;
    }
    qc_pool_clear(data, padded);
    *t = (struct qc_tensor){
        .dtype = dtype, .shape = *shape, .count = count, .bytes = bytes, .data = data, .references = 1};
    return t;
}

struct qc_tensor *qc_tensor_of(enum qc_dtype dtype, const struct qc_shape *shape, const void *data,
                               struct qc_status *st)
{
    struct qc_tensor *t = qc_tensor_new(dtype, shape, st);
    if (t && t->bytes) memcpy(t->data, data, t->bytes);
    return t;
}

struct qc_tensor *qc_tensor_mapped(enum qc_dtype dtype, const struct qc_shape *shape, struct qc_file_map *map,
                                   size_t offset, struct qc_status *st)
{
    size_t count, bytes;
    if (!measure_tensor(&count, &bytes, dtype, shape, st)) return NULL;
    struct qc_tensor *t = malloc(sizeof *t);
    if (!t) {
        qc_fail_memory(st, sizeof *t);
        return NULL;
    }
    *t = (struct qc_tensor){.dtype = dtype,
                            .shape = *shape,
                            .count = count,
                            .bytes = bytes,
                            .data = (char *)(uintptr_t)qc_file_map_data(map) + offset,
                            .map = qc_file_map_ref(map),
                            .references = 1};
    return t;
}

bool qc_tensor_spill(struct qc_tensor *t, struct qc_status *st)
{
    struct qc_file_map *map;
    if (t->map || t->bytes < QC_SPILLED_LEAST) return true;
    if (!qc_file_map_spill(&map, t->data, t->bytes, st)) return false;
    free(t->data);
    t->data = (void *)(uintptr_t)qc_file_map_data(map);
    t->map = map;
    return true;
}

void qc_tensor_rest(const struct qc_tensor *t)
{
    if (t->map) qc_file_map_forget(t->data, t->bytes);
}

struct qc_tensor *qc_tensor_ref(const struct qc_tensor *t)
{
    struct qc_tensor *u = (struct qc_tensor *)(uintptr_t)t;
    u->references++;
    return u;
}

void qc_tensor_unref(struct qc_tensor *t)
{
    if (!t || --t->references) return;
    qc_memo_free(t->forms);
    if (t->map)
        qc_file_map_unref(t->map);
    else
        free(t->data);
    free(t);
}

/* Hashes eight bytes at a time, in independent lanes. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t size)
{
    enum { LANES = 8 };
    const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
    const unsigned char *p = data;
    uint64_t lane[LANES], word;
    size_t i = 0;
    for (size_t k = 0; k < LANES; k++) lane[k] = h + k;
    for (; i + sizeof lane <= size; i += sizeof lane)
        for (size_t k = 0; k < LANES; k++) {
            memcpy(&word, p + i + 8 * k, sizeof word);
            lane[k] = (lane[k] ^ word) * prime;
            lane[k] ^= lane[k] >> 32;
        }
    for (size_t k = 0; k < LANES; k++) {
        h = (h ^ lane[k]) * prime;
        h ^= h >> 32;
    }
    for (; i < size; i++) h = (h ^ p[i]) * prime;
    return h;
}

uint64_t qc_tensor_hash(const struct qc_tensor *t)
{
    uint64_t h = t->hash;
    if (h) return h;
    h = hash_bytes(UINT64_C(0xcbf29ce484222325), t->data, t->bytes);
    qc_tensor_rest(t);
    h += h == 0;
    ((struct qc_tensor *)(uintptr_t)t)->hash = h;
    return h;
}

/* Finds the minimum and maximum in independent lanes, which the compiler vectorizes; the last block may overlap the one
   before it. Both results are NaN if any number is. */
static void find_extremes(float *low, float *high, const float *x, size_t count)
{
    enum { LANES = 16 };
    float lo[LANES], hi[LANES];
    int nan[LANES] = {0};
    for (size_t k = 0; k < LANES; k++) lo[k] = hi[k] = x[0];
    for (size_t i = 0; i < count; i += LANES) {
        const size_t from = count < LANES        ? 0
                            : i + LANES <= count ? i
                                                 : count - LANES,
                     n = count < LANES ? count : LANES;
        for (size_t k = 0; k < n; k++) {
            const float v = x[from + k];
            lo[k] = v < lo[k] ? v : lo[k];
            hi[k] = v > hi[k] ? v : hi[k];
            nan[k] |= v != v;
        }
    }
    *low = lo[0];
    *high = hi[0];
    for (size_t k = 0; k < LANES; k++) {
        *low = lo[k] < *low ? lo[k] : *low;
        *high = hi[k] > *high ? hi[k] : *high;
    }
    for (size_t k = 0; k < LANES; k++)
        if (nan[k]) *low = *high = NAN;
}

bool qc_tensor_extremes(float *lo, float *hi, const struct qc_tensor *t)
{
    uint64_t both = t->extremes;
    float found[2];
    if (t->dtype != QC_F32 || !t->count) return false;
    memcpy(found, &both, sizeof found);
    if (!both) {
        find_extremes(&found[0], &found[1], t->data, t->count);
        memcpy(&both, found, sizeof found);
        ((struct qc_tensor *)(uintptr_t)t)->extremes = both;
    }
    *lo = found[0];
    *hi = found[1];
    return found[0] == found[0];
}

bool qc_tensor_equal(const struct qc_tensor *a, const struct qc_tensor *b)
{
    return a->dtype == b->dtype && qc_shape_equal(&a->shape, &b->shape) &&
           (a->bytes == 0 || a->data == b->data || memcmp(a->data, b->data, a->bytes) == 0);
}

double qc_tensor_float(const struct qc_tensor *t, size_t i)
{
    if (t->dtype == QC_F32) return (double)((const float *)t->data)[i];
    if (t->dtype == QC_F64) return ((const double *)t->data)[i];
    if (t->dtype == QC_F16) return (double)qc_half_to_float(((const uint16_t *)t->data)[i]);
    if (t->dtype == QC_BF16) return (double)qc_bfloat_to_float(((const uint16_t *)t->data)[i]);
    if (t->dtype == QC_U64) return (double)((const uint64_t *)t->data)[i];
    if (qc_dtype_info(t->dtype)->is_float) return (double)qc_small_to_float(t->dtype, ((const uint8_t *)t->data)[i]);
    return (double)qc_tensor_int(t, i);
}

int64_t qc_tensor_int(const struct qc_tensor *t, size_t i)
{
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
    const void *x = t->data;
    if (info->is_float) {
        double v = qc_tensor_float(t, i);
        if (!(v > -9.2e18)) return v != v ? 0 : INT64_MIN;
        return v < 9.2e18 ? (int64_t)v : INT64_MAX;
    }
    if (info->size == 1) return info->is_signed ? ((const int8_t *)x)[i] : ((const uint8_t *)x)[i];
    if (info->size == 2) return info->is_signed ? ((const int16_t *)x)[i] : ((const uint16_t *)x)[i];
    if (info->size == 4) return info->is_signed ? ((const int32_t *)x)[i] : (int64_t)((const uint32_t *)x)[i];
    return info->size == 8 ? ((const int64_t *)x)[i] : 0;
}

void qc_tensor_ints(int32_t *out, const struct qc_tensor *t, size_t first, size_t n)
{
    const void *x = (const char *)t->data + first * qc_dtype_size(t->dtype);
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
#define AS(type)                                                                                                       \
    for (size_t i = 0; i < n; i++) out[i] = (int32_t)((const type *)x)[i]
    if (t->dtype == QC_F32)
        AS(float);
    else if (t->dtype == QC_I32)
        AS(int32_t);
    else if (info->size == 1 && info->is_signed)
        AS(int8_t);
    else if (info->size == 1)
        AS(uint8_t);
    else if (info->is_signed)
        AS(int16_t);
    else
        AS(uint16_t);
#undef AS
    assert(t->dtype == QC_F32 || t->dtype == QC_I32 || (!info->is_float && info->bits <= 16));
}

/* Adds one element of each of n channels. */
QC_VECTOR(add_parts,
          (int64_t *restrict above, int64_t *restrict below, const int32_t *restrict v, const int32_t *restrict zero,
           bool zeros, size_t n),
          (above, below, v, zero, zeros, n))
{
    if (zeros)
        for (size_t k = 0; k < n; k++) {
            const int64_t d = (int64_t)v[k] - zero[k];
            above[k] += d > 0 ? d : 0;
            below[k] += d < 0 ? d : 0;
        }
    else
        for (size_t k = 0; k < n; k++) {
            const int64_t d = (int64_t)v[k] - *zero;
            above[k] += d > 0 ? d : 0;
            below[k] += d < 0 ? d : 0;
        }
}

static void parts_of(int64_t *above, int64_t *below, const struct qc_tensor *t, size_t channels, size_t inner,
                     const int32_t *zero, size_t zero_count)
{
    enum { CHUNK = 512 };
    const bool few_bits = t->dtype != QC_F32 && t->dtype != QC_I32 && qc_dtype_info(t->dtype)->bits <= 16;
    int32_t v[CHUNK];
    memset(above, 0, channels * sizeof *above);
    memset(below, 0, channels * sizeof *below);
    for (size_t first = 0, c = 0, in = 0; first < t->count;) {
        const size_t n = t->count - first < CHUNK ? t->count - first : CHUNK;
        qc_tensor_ints(v, t, first, n);
        for (size_t i = 0; i < n;) { /* element first + i is element `in` of channel c */
            size_t run = n - i < inner - in ? n - i : inner - in;
            if (inner == 1) { /* channels side by side */
                run = n - i < channels - c ? n - i : channels - c;
                add_parts(above + c, below + c, v + i, zero + (zero_count > 1 ? c : 0), zero_count > 1, run);
                i += run;
                c = (c + run) % channels;
                continue;
            }
            const int32_t z = zero[zero_count > 1 ? c : 0];
            int64_t up = 0, down = 0;
            if (few_bits && z > -(1 << 16) && z < 1 << 16) { /* sums of a chunk fit 32 bits, which vectorizes */
                int32_t sum = 0, more = 0;
                for (size_t k = i; k < i + run; k++) {
                    const int32_t d = v[k] - z;
                    sum += d;
                    more += d > 0 ? d : 0;
                }
                up = more;
                down = (int64_t)sum - more;
            } else {
                for (size_t k = i; k < i + run; k++) {
                    const int64_t d = (int64_t)v[k] - z;
                    up += d > 0 ? d : 0;
                    down += d < 0 ? d : 0;
                }
            }
            above[c] += up;
            below[c] += down;
            i += run;
            in += run;
            if (in < inner) continue;
            in = 0;
            c = c + 1 < channels ? c + 1 : 0;
        }
        first += n;
    }
}

struct qc_tensor *qc_tensor_to_f32(const struct qc_tensor *t, struct qc_status *st)
{
    if (t->dtype == QC_F32) return qc_tensor_ref(t);
    struct qc_tensor *f = qc_tensor_new(QC_F32, &t->shape, st);
    for (size_t i = 0; f && i < t->count; i++) ((float *)f->data)[i] = (float)qc_tensor_float(t, i);
    return f;
}

/* Work of qc_tensor_parts that threads share: each item is `each` contiguous channels. */
struct parts {
    int64_t *above, *below;
    const struct qc_tensor *t;
    size_t channels, inner, each;
    const int32_t *zero;
    size_t zero_count;
};

static void parts_of_some(void *user, size_t item)
{
    const struct parts *p = user;
    const size_t first = item * p->each, count = p->channels - first < p->each ? p->channels - first : p->each;
    struct qc_tensor t = {.dtype = p->t->dtype,
                          .count = count * p->inner,
                          .data = (char *)p->t->data + first * p->inner * qc_dtype_size(p->t->dtype)};
    parts_of(p->above + first, p->below + first, &t, count, p->inner, p->zero + (p->zero_count > 1 ? first : 0),
             p->zero_count);
}

void qc_tensor_parts(int64_t *above, int64_t *below, const struct qc_tensor *t, size_t channels, size_t inner,
                     const int32_t *zero, size_t zero_count)
{
    enum { EACH = 1 << 16, SHARED_LEAST = 1 << 18 }; /* elements: for fewer, threads cost more than they save */
    struct parts p = {.above = above,
                      .below = below,
                      .t = t,
                      .channels = channels,
                      .inner = inner,
                      .zero = zero,
                      .zero_count = zero_count};
    p.each = inner < EACH ? EACH / (inner + 1) + 1 : 1;
    if (t->count < SHARED_LEAST || channels * inner != t->count)
        parts_of(above, below, t, channels, inner, zero, zero_count);
    else
        qc_pool_loop((channels + p.each - 1) / p.each, parts_of_some, &p);
}

struct qc_tensor *qc_tensor_levels(enum qc_dtype dtype, const struct qc_tensor *t, struct qc_status *st)
{
    if (!qc_is_small_float(dtype)) return qc_tensor_ref(t);
    struct qc_tensor *stored = qc_tensor_new(dtype, &t->shape, st);
    for (size_t i = 0; stored && i < t->count; i++)
        ((uint8_t *)stored->data)[i] =
            qc_float_to_small(dtype, (double)((const float *)t->data)[i], QC_SMALL_SATURATES, QC_SMALL_NEAREST);
    return stored;
}
