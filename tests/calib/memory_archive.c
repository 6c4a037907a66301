// SPDX-License-Identifier: Apache-2.0
/* datasets/hdf5/archive.h without HDF5 and its process, for fuzz_statistics: HDF5 takes a hundred times as long as the
   code that the target is about. The bytes are entries, one after another. */
#include "datasets/hdf5/archive.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    char name[64];
    enum qc_dtype dtype;               /* QC_NONE: texts, each ended by a 0 */
    size_t rows, columns, bytes, next; /* next: where the next entry begins */
};

struct qc_archive {
    char *bytes;
    size_t size;
};

bool qc_archive_new(struct qc_archive **out, struct qc_status *st)
{
    return (*out = calloc(1, sizeof **out)) || qc_fail_memory(st, sizeof **out);
}

void qc_archive_free(struct qc_archive *a)
{
    if (a) free(a->bytes);
    free(a);
}

/* Adds an entry and returns its bytes, or NULL with a status. */
static char *add(struct qc_archive *a, const struct entry *e, struct qc_status *st)
{
    const size_t at = a->size, next = at + sizeof *e + (e->bytes + 7) / 8 * 8;
    char *more = realloc(a->bytes, next);
    if (!more) {
        qc_fail_memory(st, next);
        return NULL;
    }
    a->bytes = more;
    a->size = next;
    struct entry *added = memset(more + at, 0, next - at);
    *added = *e;
    added->next = next;
    return more + at + sizeof *e;
}

static char *add_named(struct qc_archive *a, const char *name, enum qc_dtype dtype, size_t rows, size_t columns,
                       size_t bytes, struct qc_status *st)
{
    struct entry e = {.dtype = dtype, .rows = rows, .columns = columns, .bytes = bytes};
    qc_text(e.name, sizeof e.name, "%s", name);
    return add(a, &e, st);
}

bool qc_archive_put_texts(struct qc_archive *a, const char *path, size_t count, const char *const *texts,
                          struct qc_status *st)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += strlen(texts[i]) + 1;
    char *to = add_named(a, path, QC_NONE, count, 0, bytes, st);
    for (size_t i = 0; to && i < count; i++) to = stpcpy(to, texts[i]) + 1;
    return to != NULL;
}

bool qc_archive_put_text(struct qc_archive *a, const char *name, const char *text, struct qc_status *st)
{
    return qc_archive_put_texts(a, name, 1, &text, st);
}

bool qc_archive_put_number(struct qc_archive *a, const char *name, uint64_t number, struct qc_status *st)
{
    return qc_archive_put(a, name, QC_U64, 1, 0, &number, st);
}

static size_t bytes_of(enum qc_dtype dtype, size_t rows, size_t columns)
{
    return rows * (columns ? columns : 1) * qc_dtype_size(dtype);
}

bool qc_archive_put(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                    const void *data, struct qc_status *st)
{
    const size_t bytes = bytes_of(dtype, rows, columns);
    char *to = add_named(a, path, dtype, rows, columns, bytes, st);
    if (to && bytes) memcpy(to, data, bytes);
    return to != NULL;
}

bool qc_archive_put_from(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                         qc_archive_next *next, void *user, struct qc_status *st)
{
    char *to = add_named(a, path, dtype, rows, columns, bytes_of(dtype, rows, columns), st);
    return to && (!rows || next(user, to, rows, st));
}

bool qc_archive_bytes(void **out, size_t *size, struct qc_archive *a, struct qc_status *st)
{
    if (!(*out = malloc(a->size))) return qc_fail_memory(st, a->size);
    memcpy(*out, a->bytes, a->size);
    *size = a->size;
    return true;
}

bool qc_archive_open(struct qc_archive **out, const void *bytes, size_t size, struct qc_status *st)
{
    if (!qc_archive_new(out, st)) return false;
    if (!((*out)->bytes = malloc(size))) abort();
    memcpy((*out)->bytes, bytes, size);
    (*out)->size = size;
    return true;
}

/* Returns the bytes of an entry, or NULL with a status. */
static const char *find(const struct entry **out, const struct qc_archive *f, const char *name, enum qc_dtype dtype,
                        size_t columns, size_t most, struct qc_status *st)
{
    for (size_t at = 0; at < f->size; at = (*out)->next) {
        *out = (const struct entry *)(const void *)(f->bytes + at);
        if (strcmp((*out)->name, name) == 0 && (*out)->dtype == dtype && (*out)->columns == columns &&
            (*out)->rows <= most)
            return f->bytes + at + sizeof **out;
    }
    qc_fail(st, QC_BAD_INPUT, "'%s' is missing", name);
    return NULL;
}

bool qc_archive_get_texts(const char ***out, size_t *count, const struct qc_archive *f, const char *path, size_t most,
                          struct qc_arena *a, struct qc_status *st)
{
    const struct entry *e;
    const char *text = find(&e, f, path, QC_NONE, 0, most, st);
    if (!text || !(*out = QC_NEW_ARRAY(a, const char *, e->rows, st))) return false;
    for (size_t i = 0; i < e->rows; i++, text += strlen(text) + 1)
        if (!((*out)[i] = qc_arena_strdup(a, text, st))) return false;
    *count = e->rows;
    return true;
}

bool qc_archive_text(const char **out, const struct qc_archive *f, const char *name, struct qc_arena *a,
                     struct qc_status *st)
{
    const struct entry *e;
    const char *text = find(&e, f, name, QC_NONE, 0, 1, st);
    return text && (*out = qc_arena_strdup(a, text, st));
}

bool qc_archive_number(uint64_t *out, const struct qc_archive *f, const char *name, struct qc_status *st)
{
    const struct entry *e;
    const char *number = find(&e, f, name, QC_U64, 0, 1, st);
    if (number) memcpy(out, number, sizeof *out);
    return number != NULL;
}

bool qc_archive_get(void **out, size_t *rows, const struct qc_archive *f, const struct qc_archive_set *set,
                    struct qc_arena *a, struct qc_status *st)
{
    const struct entry *e;
    const char *data = find(&e, f, set->path, set->dtype, set->columns, set->most, st);
    if (!data || !(*out = qc_arena_get(a, e->bytes, 1, st))) return false;
    if (e->bytes) memcpy(*out, data, e->bytes);
    *rows = e->rows;
    return true;
}

/* Files are not used by the target. */
bool qc_archive_save(const char *path, struct qc_archive *a, struct qc_status *st)
{
    (void)a;
    return qc_fail(st, QC_UNSUPPORTED, "%s: archives are in memory", path);
}

bool qc_archive_marked(bool *marked, const char *path, const char *name, struct qc_status *st)
{
    (void)marked, (void)name;
    return qc_fail(st, QC_UNSUPPORTED, "%s: archives are in memory", path);
}
