// SPDX-License-Identifier: Apache-2.0
/* Samples of different sizes that a program gives one after the other: bytes behind each other in blocks, in memory or
   in the temporary file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "datasets/arrays/memory_data.h"
#include "datasets/hdf5/spill.h"
#include "datasets/samples/dataset.h"

enum { BLOCK_BYTES = 4 << 20 };

struct block {
    char *memory; /* NULL: in the file */
    size_t size, used;
    int64_t spilled;
};

/* The rows of one array. */
struct sized {
    unsigned rank; /* of a row */
    size_t element, count, capacity, block_count;
    struct place {
        size_t block, at;
    } * places;     /* [count] */
    int64_t *sizes; /* [count][rank] */
    struct block *blocks;
    struct qc_spill *spill; /* NULL until something is in it */
};

static void free_rows(void *user)
{
    struct sized *x = user;
    for (size_t i = 0; i < x->block_count; i++) {
        free(x->blocks[i].memory);
        if (x->blocks[i].spilled) qc_spill_drop(x->spill, x->blocks[i].spilled);
    }
    qc_spill_free(x->spill);
    free(x->blocks);
    free(x->places);
    free(x->sizes);
    free(x);
}

static size_t bytes_of(const struct sized *x, size_t row)
{
    return qc_entry_elements(x->sizes + row * x->rank, x->rank) * x->element;
}

static bool read_rows(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct sized *x = user;
    char *to = out;
    for (size_t i = first; i < first + count; i++) {
        const struct block *b = &x->blocks[x->places[i].block];
        const size_t bytes = bytes_of(x, i), at = x->places[i].at;
        if (b->memory)
            memcpy(to, b->memory + at, bytes);
        else if (!qc_spill_read_part(to, x->spill, b->spilled, 0, at, bytes, st))
            return false;
        to += bytes;
    }
    return true;
}

/* ---- Taking ---- */

static bool spill(struct sized *x, struct block *b, struct qc_status *st)
{
    if ((!x->spill && !qc_spill_new(&x->spill, NULL, st)) || !qc_spill_add(&b->spilled, x->spill, 1, b->used, st) ||
        !qc_spill_write(x->spill, b->spilled, 0, b->used, b->memory, st))
        return false;
    free(b->memory);
    b->memory = NULL;
    return true;
}

/* A block with so much room; the one before is full, and stays in memory where that is allowed. */
static bool new_block(struct sized *x, size_t bytes, size_t *kept, size_t keep_bytes, struct qc_status *st)
{
    struct block *last = x->block_count ? &x->blocks[x->block_count - 1] : NULL;
    if (last && (last->used > keep_bytes || *kept > keep_bytes - last->used) && !spill(x, last, st)) return false;
    if (last && last->memory) *kept += last->used;
    struct block *more = realloc(x->blocks, (x->block_count + 1) * sizeof *more);
    if (!more) return qc_fail_memory(st, (x->block_count + 1) * sizeof *more);
    x->blocks = more;
    struct block b = {.size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES};
    if (!(b.memory = malloc(b.size))) return qc_fail_memory(st, b.size);
    more[x->block_count++] = b;
    return true;
}

static bool make_room(struct sized *x, struct qc_status *st)
{
    if (x->count < x->capacity) return true;
    const size_t wanted = x->capacity ? 2 * x->capacity : 64;
    size_t bytes;
    struct place *places = realloc(x->places, wanted * sizeof *places);
    if (!places) return qc_fail_memory(st, wanted * sizeof *places);
    x->places = places;
    if (!qc_mul_size(&bytes, wanted * sizeof *x->sizes, x->rank + 1)) return qc_fail_memory(st, wanted);
    int64_t *sizes = realloc(x->sizes, bytes);
    if (!sizes) return qc_fail_memory(st, bytes);
    x->sizes = sizes;
    x->capacity = wanted;
    return true;
}

/* Its bytes; what was said of the array holds for it too. */
static bool check_row(size_t *bytes, const struct qc_array *array, const struct qc_sized_row *row, struct qc_status *st)
{
    *bytes = qc_dtype_size(array->dtype);
    for (unsigned d = 1; d < array->rank; d++) {
        const int64_t n = row->dims[d - 1], said = array->dims[d];
        if (n < 0 || (said >= 0 && said != n))
            return qc_fail(st, QC_BAD_INPUT, "axis %u of its shape is %" PRId64 ", expected %" PRId64, d, n,
                           said < 0 ? 1 : said);
        if (!qc_mul_size(bytes, *bytes, (size_t)n))
            return qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
    }
    return *bytes > 0 || qc_fail(st, QC_BAD_INPUT, "it has no elements");
}

static bool add_row(struct sized *x, const struct qc_array *array, const struct qc_sized_row *row, size_t *kept,
                    size_t keep_bytes, struct qc_status *st)
{
    size_t bytes;
    if (!check_row(&bytes, array, row, st) || !make_room(x, st)) return false;
    const struct block *last = x->block_count ? &x->blocks[x->block_count - 1] : NULL;
    if ((!last || bytes > last->size - last->used) && !new_block(x, bytes, kept, keep_bytes, st)) return false;
    struct block *b = &x->blocks[x->block_count - 1];
    memcpy(b->memory + b->used, row->values, bytes);
    x->places[x->count] = (struct place){.block = x->block_count - 1, .at = b->used};
    if (x->rank) memcpy(x->sizes + x->count * x->rank, row->dims, x->rank * sizeof *x->sizes);
    b->used += bytes;
    x->count++;
    return true;
}

static bool draw(struct sized *const *all, const struct qc_array *arrays, size_t count, qc_next_sized_fn *next,
                 void *user, size_t keep_bytes, struct qc_status *st)
{
    struct qc_sized_row *rows = calloc(count, sizeof *rows);
    size_t kept = 0;
    bool ok = rows ? true : qc_fail_memory(st, count * sizeof *rows);
    for (bool more = true; ok;) {
        if (!next(&more, user, rows, st)) {
            qc_fail(st, QC_BAD_INPUT, "no sample came, and no reason");
            ok = qc_where(st, "sample %zu", all[0]->count);
        }
        if (!ok || !more) break;
        for (size_t k = 0; ok && k < count; k++)
            ok = add_row(all[k], &arrays[k], &rows[k], &kept, keep_bytes, st) ||
                 qc_where(st, "array '%s', sample %zu", arrays[k].name ? arrays[k].name : "", all[k]->count);
    }
    free(rows);
    return ok;
}

bool qc_memory_data_draw_sized(struct qc_memory_data *m, const struct qc_array *arrays, size_t count,
                               qc_next_sized_fn *next, void *user, size_t keep_bytes, struct qc_status *st)
{
    static const struct qc_row_reader reader = {.read = read_rows, .free = free_rows};
    if (!count) return qc_fail(st, QC_USAGE, "%s: samples without arrays", qc_memory_data_name(m));
    struct sized **all = calloc(count, sizeof *all);
    bool ok = all ? true : qc_fail_memory(st, count * sizeof *all);
    for (size_t k = 0; ok && k < count; k++) {
        const struct qc_array *a = &arrays[k];
        if (a->rank < 1 || a->rank > QC_DATA_RANK_MAX || !a->dims || a->dtype == QC_NONE || a->dtype >= QC_U4)
            ok = qc_fail(st, QC_USAGE, "array '%s' has a type or shape that samples cannot have",
                         a->name ? a->name : "");
        else if (!(all[k] = calloc(1, sizeof **all)))
            ok = qc_fail_memory(st, sizeof **all);
        else
            *all[k] = (struct sized){.rank = a->rank - 1, .element = qc_dtype_size(a->dtype)};
    }
    ok = ok && draw(all, arrays, count, next, user, keep_bytes, st);
    if (!ok) qc_where(st, "%s", qc_memory_data_name(m));
    for (size_t k = 0; ok && k < count; k++) {
        int64_t dims[QC_DATA_RANK_MAX] = {(int64_t)all[k]->count};
        struct qc_array a = arrays[k];
        a.dims = dims;
        a.sizes = all[k]->sizes;
        ok = qc_memory_data_add_reader(m, &a, &reader, all[k], st);
        all[k] = NULL;
    }
    for (size_t k = 0; all && k < count; k++)
        if (all[k]) free_rows(all[k]);
    free(all);
    return ok;
}
