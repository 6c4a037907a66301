// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrays/memory_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/index.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "datasets/samples/dataset.h"
#include "graph/types/number_format.h"

struct qc_memory_data {
    struct qc_arena *arena;
    char *name;
    const char *storage;
    size_t count, capacity;
    struct qc_memory_array **arrays; /* each in the arena */
    struct qc_index by_name;         /* ids are array numbers from 1 */
};

bool qc_memory_data_new(struct qc_memory_data **out, const char *name, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, sizeof **out);
    struct qc_memory_data *m = QC_NEW(a, struct qc_memory_data, st);
    if (!m || !(m->name = qc_arena_strdup(a, name, st))) {
        qc_arena_free(a);
        return false;
    }
    m->arena = a;
    m->storage = "memory";
    *out = m;
    return true;
}

void qc_memory_data_free(struct qc_memory_data *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->count; i++)
        if (m->arrays[i]->reader.free) m->arrays[i]->reader.free(m->arrays[i]->user);
    free(m->arrays);
    qc_index_free(&m->by_name);
    qc_arena_free(m->arena); /* holds *m */
}

const char *qc_memory_data_name(const struct qc_memory_data *m)
{
    return m->name;
}

/* ---- Arrays ---- */

static bool check_array_shape(struct qc_memory_array *x, const struct qc_array *array, struct qc_arena *a,
                              struct qc_status *st)
{
    if (array->dtype == QC_NONE || array->dtype >= QC_DTYPE_COUNT || qc_dtype_info(array->dtype)->bits < 8 ||
        qc_is_small_float(array->dtype))
        return qc_fail(st, QC_USAGE, "it has an element type that samples cannot have");
    if (array->rank < 1 || array->rank > QC_DATA_RANK_MAX || !array->dims)
        return qc_fail(st, QC_USAGE, "it has %u axes; expected 1 to %d, the first of them the sample", array->rank,
                       QC_DATA_RANK_MAX);
    x->row_elements = 1;
    for (unsigned i = 0; i < (array->sizes ? 1 : array->rank); i++) {
        if (array->dims[i] < 0) return qc_fail(st, QC_USAGE, "axis %u of its shape is %" PRId64, i, array->dims[i]);
        if (i > 0 && !qc_mul_size(&x->row_elements, x->row_elements, (size_t)array->dims[i]))
            return qc_fail(st, QC_USAGE, "its shape is larger than any memory");
    }
    size_t all;
    memcpy(x->dims, array->dims, array->rank * sizeof *x->dims);
    bool same = true;
    if (array->sizes &&
        !qc_entry_sizes(x->dims + 1, &x->row_elements, &same, array->sizes, (size_t)array->dims[0], array->rank - 1))
        return qc_fail(st, QC_USAGE, "the shape of a sample is larger than any memory");
    if (!same &&
        !(x->sizes = qc_arena_dup(a, array->sizes, (size_t)array->dims[0] * (array->rank - 1), sizeof *x->sizes, st)))
        return false;
    if (!qc_mul_size(&x->row_bytes, x->row_elements, qc_dtype_size(array->dtype)) ||
        (same && !qc_mul_size(&all, x->row_bytes, (size_t)array->dims[0])))
        return qc_fail(st, QC_USAGE, "its shape is larger than any memory");
    if (!(array->peak >= 0) || isinf(array->peak))
        return qc_fail(st, QC_USAGE, "its peak is %g; expected a number above 0, or 0 for none", array->peak);
    return true;
}

static bool add_memory_array(struct qc_memory_array **out, struct qc_memory_data *m, const struct qc_array *array,
                             struct qc_status *st)
{
    if (!array->name || !*array->name) return qc_fail(st, QC_USAGE, "%s: array %zu has no name", m->name, m->count);
    if (qc_memory_array_find(m, array->name))
        return qc_fail(st, QC_USAGE, "%s: there are two arrays '%s'", m->name, array->name);
    struct qc_memory_array **more = qc_grown(m->arrays, m->count, &m->capacity, sizeof(struct qc_memory_array *), st);
    if (!more) return false;
    m->arrays = more;
    if (!qc_index_reserve(&m->by_name, st)) return false;
    struct qc_memory_array *x = QC_NEW(m->arena, struct qc_memory_array, st);
    const char *preprocess = array->preprocess && *array->preprocess ? array->preprocess : NULL;
    if (!x || !check_array_shape(x, array, m->arena, st) ||
        (preprocess && !qc_preprocess_parse(&x->preprocess, preprocess, m->arena, st)) ||
        !(x->entry.name = qc_arena_strdup(m->arena, array->name, st)))
        return qc_where(st, "%s: array '%s'", m->name, array->name);
    x->peak = array->peak;
    x->named_by_file = array->named_by_file;
    x->entry.type = qc_dtype_long_name(array->dtype);
    x->entry.dtype = array->dtype;
    x->entry.rank = array->rank;
    x->entry.dims = x->dims;
    x->entry.storage = m->storage;
    m->arrays[m->count++] = x;
    qc_index_put(&m->by_name, qc_hash_text(x->entry.name), (uint32_t)m->count);
    *out = x;
    return true;
}

bool qc_memory_data_add(struct qc_memory_data *m, const struct qc_array *array, const void *values,
                        struct qc_status *st)
{
    struct qc_memory_array *x;
    if (!values) return qc_fail(st, QC_USAGE, "%s: array '%s' has no values", m->name, array->name ? array->name : "");
    if (!add_memory_array(&x, m, array, st)) return false;
    x->values = values;
    return true;
}

bool qc_memory_data_add_reader(struct qc_memory_data *m, const struct qc_array *array,
                               const struct qc_row_reader *reader, void *user, struct qc_status *st)
{
    struct qc_memory_array *x;
    if (!add_memory_array(&x, m, array, st)) {
        if (reader->free) reader->free(user);
        return false;
    }
    x->reader = *reader;
    x->user = user;
    return true;
}

bool qc_memory_data_add_unread(struct qc_memory_data *m, const struct qc_array *array, const char *type,
                               struct qc_status *st)
{
    struct qc_array bytes = *array;
    struct qc_memory_array *x;
    bytes.dtype = QC_U8; /* any valid type */
    if (!add_memory_array(&x, m, &bytes, st)) return false;
    x->entry.dtype = QC_NONE;
    x->entry.type = qc_arena_strdup(m->arena, type, st);
    return x->entry.type != NULL;
}

bool qc_memory_data_storage(struct qc_memory_data *m, const char *storage, struct qc_status *st)
{
    const char *own = qc_arena_strdup(m->arena, storage, st);
    if (own) m->storage = own;
    return own != NULL;
}

/* ---- Access ---- */

bool qc_memory_data_list(struct qc_data_list *out, const struct qc_memory_data *m, struct qc_arena *a,
                         struct qc_status *st)
{
    struct qc_data_entry *entries = QC_NEW_ARRAY(a, struct qc_data_entry, m->count, st);
    bool ok = entries != NULL;
    for (size_t i = 0; ok && i < m->count; i++) {
        struct qc_data_entry *e = &entries[i];
        *e = m->arrays[i]->entry;
        e->name = qc_arena_strdup(a, e->name, st);
        e->type = qc_arena_strdup(a, e->type, st);
        e->storage = qc_arena_strdup(a, e->storage, st);
        e->dims = qc_arena_dup(a, e->dims, e->rank, sizeof *e->dims, st);
        ok = e->name && e->type && e->storage && e->dims;
    }
    if (ok) *out = (struct qc_data_list){.entries = entries, .count = m->count};
    return ok;
}

const struct qc_memory_array *qc_memory_array_find(const struct qc_memory_data *m, const char *name)
{
    const uint64_t hash = qc_hash_text(name);
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&m->by_name, hash, &slot));)
        if (strcmp(m->arrays[i - 1]->entry.name, name) == 0) return m->arrays[i - 1];
    return NULL;
}

void qc_memory_array_shape(struct qc_h5_set *out, const struct qc_memory_array *x)
{
    *out = (struct qc_h5_set){.dtype = x->entry.dtype,
                              .element = qc_dtype_size(x->entry.dtype),
                              .rank = x->entry.rank,
                              .sizes = x->sizes,
                              .row_elements = x->row_elements,
                              .row_bytes = x->row_bytes,
                              .stored = x->sizes ? SIZE_MAX : (size_t)x->dims[0] * x->row_bytes,
                              .shuffle = -1,
                              .deflate = -1};
    memcpy(out->dims, x->dims, x->entry.rank * sizeof *out->dims);
}

bool qc_memory_array_begin(const struct qc_memory_array *x, struct qc_status *st)
{
    if (x->entry.dtype == QC_NONE)
        return qc_fail(st, QC_UNSUPPORTED, "it holds %s, which is not read; store numbers", x->entry.type);
    return !x->reader.begin || x->reader.begin(x->user, st);
}

bool qc_memory_data_is_unsure(const struct qc_memory_data *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->arrays[i]->reader.check) return true;
    return false;
}

bool qc_memory_data_check(size_t *gone, struct qc_memory_data *m, const uint64_t *rows, size_t count,
                          struct qc_status *st)
{
    *gone = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct qc_memory_array *x = m->arrays[i];
        if (x->reader.check && !x->reader.check(gone, x->user, rows, count, st)) return false;
    }
    for (size_t i = 0; i < m->count; i++) m->arrays[i]->dims[0] -= (int64_t)*gone;
    return true;
}

bool qc_memory_array_copies(const struct qc_memory_array *x)
{
    return x->values || x->reader.copies;
}

bool qc_memory_array_read(void *out, const struct qc_memory_array *x, int64_t first, int64_t count,
                          struct qc_status *st)
{
    const size_t bytes = x->row_bytes;
    if (x->reader.read) return x->reader.read(out, x->user, (size_t)first, (size_t)count, st);
    memcpy(out, x->values + (size_t)first * bytes, (size_t)count * bytes);
    return true;
}

/* ---- Hash of the content ---- */

/* Mixes more bytes into a digest. */
static void mix(char sum[65], const void *bytes, size_t size)
{
    char text[130];
    memcpy(text, sum, 64);
    qc_sha256(text + 64, bytes, size);
    qc_sha256(sum, text, 128);
}

static void mix_numbers(char sum[65], const float *x, size_t n)
{
    const uint64_t count = n;
    mix(sum, &count, sizeof count);
    mix(sum, x, n * sizeof *x);
}

bool qc_memory_data_sha256(char hex[65], const struct qc_memory_data *m, struct qc_status *st)
{
    char sum[65];
    memset(sum, '0', 64);
    sum[64] = '\0';
    for (size_t k = 0; k < m->count; k++) {
        const struct qc_memory_array *x = m->arrays[k];
        const struct qc_preprocess *p = &x->preprocess;
        const int64_t head[2] = {x->entry.dtype, x->entry.rank};
        QC_FREED void *row = malloc(x->row_bytes ? x->row_bytes : 1);
        if (!row) return qc_fail_memory(st, x->row_bytes);
        mix(sum, x->entry.name, strlen(x->entry.name));
        mix(sum, head, sizeof head);
        mix(sum, x->dims, x->entry.rank * sizeof *x->dims);
        mix(sum, &x->peak, sizeof x->peak);
        mix_numbers(sum, p->scale, p->scale_count);
        mix_numbers(sum, p->mean, p->mean_count);
        mix_numbers(sum, p->std, p->std_count);
        for (int64_t i = 0; i < x->dims[0]; i++) {
            const unsigned rank = x->entry.rank - 1;
            const int64_t *dims = x->sizes ? x->sizes + (size_t)i * rank : NULL;
            const size_t bytes = dims ? qc_entry_elements(dims, rank) * qc_dtype_size(x->entry.dtype) : x->row_bytes;
            if (dims) mix(sum, dims, rank * sizeof *dims);
            if (!qc_memory_array_read(row, x, i, 1, st)) return false;
            mix(sum, row, bytes);
        }
    }
    memcpy(hex, sum, sizeof sum);
    return true;
}

/* ---- Rows that are drawn: in memory up to a limit, then in a temporary file ---- */

/* The rows of one array. */
struct drawn {
    unsigned rank; /* of a row */
    size_t element, count, capacity;
    struct place {
        const char *memory; /* NULL: in the file */
        int64_t at;
    } * places;                   /* [count] */
    int64_t *sizes;               /* [count][rank] */
    struct qc_arena *arena;       /* of the rows in memory */
    struct qc_scratch_file *file; /* NULL until something is in it */
};

static void free_rows(void *user)
{
    struct drawn *x = user;
    qc_scratch_file_free(x->file);
    qc_arena_free(x->arena);
    free(x->places);
    free(x->sizes);
    free(x);
}

static bool read_drawn_rows(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct drawn *x = user;
    char *to = out;
    for (size_t i = first; i < first + count; i++) {
        const size_t bytes = qc_entry_elements(x->sizes + i * x->rank, x->rank) * x->element;
        if (x->places[i].memory)
            memcpy(to, x->places[i].memory, bytes);
        else if (!qc_scratch_file_read(to, x->file, x->places[i].at, bytes, st))
            return false;
        to += bytes;
    }
    return true;
}

/* Checks a row against the array's description and adds it. left: bytes that may still be kept in memory. */
static bool add_drawn_row(struct drawn *x, const struct qc_array *array, const struct qc_sized_row *row, size_t *left,
                          struct qc_status *st)
{
    size_t bytes;
    bytes = qc_dtype_size(array->dtype);
    for (unsigned d = 1; d < array->rank; d++) {
        const int64_t n = row->dims[d - 1], said = array->dims[d];
        if (n < 0 || (said >= 0 && said != n))
            return qc_fail(st, QC_BAD_INPUT, "axis %u of its shape is %" PRId64 ", expected %" PRId64, d, n,
                           said < 0 ? 1 : said);
        if (!qc_mul_size(&bytes, bytes, (size_t)n))
            return qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
    }
    if (!bytes) return qc_fail(st, QC_BAD_INPUT, "it has no elements");
    if (x->count == x->capacity) {
        const size_t wanted = x->capacity ? 2 * x->capacity : 64;
        size_t room;
        struct place *places = realloc(x->places, wanted * sizeof *places);
        if (!places) return qc_fail_memory(st, wanted * sizeof *places);
        x->places = places;
        if (!qc_mul_size(&room, wanted * sizeof *x->sizes, x->rank + 1)) return qc_fail_memory(st, wanted);
        int64_t *sizes = realloc(x->sizes, room);
        if (!sizes) return qc_fail_memory(st, room);
        x->sizes = sizes;
        x->capacity = wanted;
    }
    struct place place = {.memory = NULL};
    if (bytes <= *left) {
        if (!(place.memory = qc_arena_dup(x->arena, row->values, bytes, 1, st))) return false;
        *left -= bytes;
    } else if ((!x->file && !qc_scratch_file_new(&x->file, NULL, st)) ||
               !qc_scratch_file_grow(&place.at, x->file, bytes, st) ||
               !qc_scratch_file_write(x->file, place.at, row->values, bytes, st)) {
        return false;
    }
    if (x->rank) memcpy(x->sizes + x->count * x->rank, row->dims, x->rank * sizeof *x->sizes);
    x->places[x->count++] = place;
    return true;
}

static bool draw_rows(struct qc_memory_data *m, struct drawn *const *all, const struct qc_array *arrays, size_t count,
                      qc_next_sized_fn *next, void *user, size_t keep_bytes, struct qc_status *st)
{
    QC_FREED struct qc_sized_row *rows = calloc(count, sizeof *rows);
    if (!rows) return qc_fail_memory(st, count * sizeof *rows);
    for (bool more = true;;) {
        if (!next(&more, user, rows, st))
            return qc_fail(st, QC_BAD_INPUT, "the sample function failed without a reason") ||
                   qc_where(st, "%s: sample %zu", m->name, all[0]->count);
        if (!more) return true;
        for (size_t k = 0; k < count; k++)
            if (!add_drawn_row(all[k], &arrays[k], &rows[k], &keep_bytes, st))
                return qc_where(st, "%s: array '%s', sample %zu", m->name, arrays[k].name, all[k]->count);
    }
}

bool qc_memory_data_draw_sized(struct qc_memory_data *m, const struct qc_array *arrays, size_t count,
                               qc_next_sized_fn *next, void *user, size_t keep_bytes, struct qc_status *st)
{
    const size_t first = m->count;
    if (!count) return qc_fail(st, QC_USAGE, "%s: samples without arrays", m->name);
    QC_FREED struct drawn **all = calloc(count, sizeof *all);
    if (!all) return qc_fail_memory(st, count * sizeof *all);
    for (size_t k = 0; k < count; k++) { /* arrays without rows, which are then drawn */
        static const struct qc_row_reader reader = {.read = read_drawn_rows, .free = free_rows};
        int64_t zeros[QC_DATA_RANK_MAX] = {0};
        struct qc_array none = arrays[k];
        for (unsigned d = 1; none.dims && d < none.rank && d < QC_DATA_RANK_MAX; d++)
            zeros[d] = none.dims[d] < 0 ? 1 : none.dims[d];
        if (none.dims) none.dims = zeros;
        struct drawn *x;
        if (!QC_NEW_OWNER(x, st)) return false;
        x->rank = none.rank - 1;
        x->element = qc_dtype_size(none.dtype < QC_DTYPE_COUNT ? none.dtype : QC_NONE);
        all[k] = x;
        if (!qc_memory_data_add_reader(m, &none, &reader, x, st)) return false;
    }
    if (!draw_rows(m, all, arrays, count, next, user, keep_bytes, st)) return false;
    for (size_t k = 0; k < count; k++) {
        struct qc_memory_array *x = m->arrays[first + k];
        struct qc_array drawn = {.dtype = x->entry.dtype, .rank = x->entry.rank, .dims = x->dims, .peak = x->peak};
        x->dims[0] = (int64_t)all[k]->count; /* the shape becomes that of the rows */
        if (all[k]->count) drawn.sizes = all[k]->sizes;
        if (!check_array_shape(x, &drawn, m->arena, st)) return qc_where(st, "%s: array '%s'", m->name, x->entry.name);
    }
    return true;
}

/* Rows of fixed shapes, filled into memory here. */
struct filling {
    qc_next_sample_fn *next;
    void *user;
    const struct qc_array *arrays;
    size_t count;
    void **rows;
};

static bool next_filled(bool *more, void *user, struct qc_sized_row *rows, struct qc_status *st)
{
    const struct filling *f = user;
    for (size_t k = 0; k < f->count; k++)
        rows[k] = (struct qc_sized_row){.dims = f->arrays[k].dims + 1, .values = f->rows[k]};
    return f->next(more, f->user, f->rows, st);
}

bool qc_memory_data_draw(struct qc_memory_data *m, const struct qc_array *arrays, size_t count, qc_next_sample_fn *next,
                         void *user, size_t keep_bytes, struct qc_status *st)
{
    struct filling f = {.next = next, .user = user, .arrays = arrays, .count = count};
    if (!(f.rows = calloc(count + 1, sizeof *f.rows))) return qc_fail_memory(st, count * sizeof *f.rows);
    bool ok = true;
    for (size_t k = 0; ok && k < count; k++) {
        struct qc_memory_array x;
        int64_t dims[QC_DATA_RANK_MAX] = {0};
        struct qc_array row = arrays[k];
        if (row.rank && row.rank <= QC_DATA_RANK_MAX && row.dims)
            row.dims = memcpy(dims, row.dims, row.rank * sizeof *dims);
        dims[0] = 0;
        ok = check_array_shape(&x, &row, m->arena, st) ||
             qc_where(st, "%s: array '%s'", m->name, row.name ? row.name : "");
        if (ok && !x.row_bytes)
            ok = qc_fail(st, QC_USAGE, "%s: array '%s': its samples have no elements", m->name, row.name);
        ok = ok && ((f.rows[k] = calloc(1, x.row_bytes)) || qc_fail_memory(st, x.row_bytes));
    }
    ok = ok && qc_memory_data_draw_sized(m, arrays, count, next_filled, &f, keep_bytes, st);
    for (size_t k = 0; k < count; k++) free(f.rows[k]);
    free(f.rows);
    return ok;
}
