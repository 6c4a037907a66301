// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/known_outputs.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_map.h"

/* Layout of outputs, shared by all units of one size. */
struct form {
    struct form *next;
    size_t bytes; /* of all outputs */
    struct {
        struct qc_view view; /* without data */
        size_t at;           /* offset of its data in bytes */
    } outputs[];
};

struct qc_known {
    uint64_t key;
    struct qc_known *next; /* in the same hash slot */
    const struct form *form;
    const char *bytes;       /* all outputs, concatenated: after this struct, or in the file */
    struct qc_file_map *map; /* or NULL */
};

enum { SLOTS = 4096 };

struct qc_known_outputs {
    size_t holders; /* references beside the first */
    size_t count, bytes, files;
    enum qc_known_place place;
    bool settled;
    pthread_mutex_t lock;
    struct form *forms;
    struct qc_known *slots[SLOTS];
};

bool qc_known_outputs_new(struct qc_known_outputs **out, size_t count, enum qc_known_place place, struct qc_status *st)
{
    struct qc_known_outputs *k = calloc(1, sizeof *k);
    if (!k) return qc_fail_memory(st, sizeof *k);
    k->count = count;
    k->place = place;
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    return true;
}

struct qc_known_outputs *qc_known_outputs_ref(struct qc_known_outputs *k)
{
    if (k) k->holders++;
    return k;
}

static void free_known_unit(struct qc_known *u)
{
    qc_file_map_unref(u->map);
    free(u);
}

void qc_known_outputs_free(struct qc_known_outputs *k)
{
    if (!k || k->holders-- > 0) return;
    for (size_t i = 0; i < SLOTS; i++)
        for (struct qc_known *u = k->slots[i], *next; u; u = next) {
            next = u->next;
            free_known_unit(u);
        }
    for (struct form *f = k->forms, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    pthread_mutex_destroy(&k->lock);
    free(k);
}

void qc_known_outputs_settle(struct qc_known_outputs *k)
{
    k->settled = true;
}

bool qc_known_outputs_settled(const struct qc_known_outputs *k)
{
    return k && k->settled;
}

static struct qc_known *find_known_unit(const struct qc_known_outputs *k, uint64_t key)
{
    struct qc_known *u = k->slots[key % SLOTS];
    while (u && u->key != key) u = u->next;
    return u;
}

const struct qc_known *qc_known_outputs_find(struct qc_known_outputs *k, uint64_t key)
{
    if (!k) return NULL;
    pthread_mutex_lock(&k->lock);
    const struct qc_known *u = find_known_unit(k, key);
    pthread_mutex_unlock(&k->lock);
    return u;
}

struct qc_view qc_known_view(const struct qc_known *u, size_t output)
{
    struct qc_view v = u->form->outputs[output].view;
    v.data = (void *)(uintptr_t)(u->bytes + u->form->outputs[output].at);
    return v;
}

bool qc_known_outputs_wanted(const struct qc_known_outputs *k, uint64_t key, size_t units)
{
    /* Means over random keys: enough to include the 256 lowest almost surely, and the 16 lowest mostly. */
    enum { UNITS_MOST = 384, FILES_MOST = 24 };
    const size_t most = k && k->place == QC_KNOWN_IN_FILES ? FILES_MOST : UNITS_MOST;
    return units <= most || key < UINT64_MAX / units * most;
}

static size_t view_bytes(const struct qc_view *v)
{
    return qc_view_count(v) * qc_dtype_size(v->dtype);
}

static bool same(const struct qc_view *a, const struct qc_view *b)
{
    const size_t n = (size_t)a->rank;
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, n * sizeof *a->dim) &&
           !memcmp(a->stride, b->stride, n * sizeof *a->stride);
}

static bool fits(const struct form *f, size_t count, struct qc_runner *r)
{
    for (size_t o = 0; o < count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        if (!same(&v, &f->outputs[o].view)) return false;
    }
    return true;
}

/* Returns the layout of a runner's outputs. The caller holds the lock. */
static struct form *form_of(struct qc_known_outputs *k, struct qc_runner *r, struct qc_status *st)
{
    struct form *f = k->forms;
    while (f && !fits(f, k->count, r)) f = f->next;
    if (f) return f;
    const size_t bytes = sizeof *f + k->count * sizeof *f->outputs;
    if (!(f = calloc(1, bytes))) {
        qc_fail_memory(st, bytes);
        return NULL;
    }
    for (size_t o = 0; o < k->count; o++) {
        const size_t align = sizeof(max_align_t);
        f->outputs[o].view = qc_runner_output(r, o);
        f->outputs[o].at = f->bytes;
        f->bytes += (view_bytes(&f->outputs[o].view) + align - 1) / align * align;
        f->outputs[o].view.data = NULL;
    }
    f->next = k->forms;
    k->forms = f;
    k->bytes += bytes < QC_KNOWN_OUTPUTS_BYTES - k->bytes ? bytes : QC_KNOWN_OUTPUTS_BYTES - k->bytes;
    return f;
}

/* Counts another unit of this form if there is room. The caller holds the lock. */
static bool reserve(struct qc_known_outputs *k, const struct form *f)
{
    if (k->place == QC_KNOWN_IN_FILES) return k->files < QC_KNOWN_OUTPUTS_FILES && ++k->files;
    const bool room = f->bytes + sizeof(struct qc_known) <= QC_KNOWN_OUTPUTS_BYTES - k->bytes;
    if (room) k->bytes += f->bytes + sizeof(struct qc_known);
    return room;
}

/* Writes the outputs of a runner to a temporary file. Returns NULL if that fails, which is no error: the network runs
   again. Pages that are written into a map would be read first. */
static struct qc_file_map *file_outputs(const struct form *f, size_t count, struct qc_runner *r)
{
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_scratch_file *file = NULL;
    struct qc_file_map *map = NULL;
    int64_t begin;
    bool ok = qc_scratch_file_new(&file, NULL, &ignored) && qc_scratch_file_grow(&begin, file, f->bytes + 1, &ignored);
    for (size_t o = 0; ok && o < count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        ok = qc_scratch_file_write(file, begin + (int64_t)f->outputs[o].at, v.data, view_bytes(&v), &ignored);
    }
    if (!ok || !qc_scratch_file_map(&map, file, &ignored)) map = NULL;
    qc_scratch_file_free(file);
    return map;
}

/* *out is NULL if a file cannot be written. */
static bool new_known_unit(struct qc_known **out, const struct qc_known_outputs *k, uint64_t key, const struct form *f,
                           struct qc_runner *r, struct qc_status *st)
{
    const bool filed = k->place == QC_KNOWN_IN_FILES;
    const size_t head = (sizeof **out + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct qc_file_map *map = filed ? file_outputs(f, k->count, r) : NULL;
    *out = NULL;
    if (filed && !map) return true;
    struct qc_known *u = malloc(head + (filed ? 0 : f->bytes));
    if (!u) {
        qc_file_map_unref(map);
        return qc_fail_memory(st, f->bytes);
    }
    char *room = (char *)u + head;
    *u = (struct qc_known){.key = key, .form = f, .map = map, .bytes = filed ? qc_file_map_data(map) : room};
    for (size_t o = 0; !filed && o < k->count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        if (view_bytes(&v)) memcpy(room + f->outputs[o].at, v.data, view_bytes(&v));
    }
    *out = u;
    return true;
}

bool qc_known_outputs_keep(struct qc_known_outputs *k, uint64_t key, struct qc_runner *r, struct qc_status *st)
{
    struct qc_known *u;
    if (!k || qc_known_outputs_find(k, key)) return true;
    pthread_mutex_lock(&k->lock);
    const struct form *f = form_of(k, r, st);
    const bool room = f && reserve(k, f);
    pthread_mutex_unlock(&k->lock);
    if (!room) return f != NULL;
    if (!new_known_unit(&u, k, key, f, r, st)) return false;
    if (!u) return true;
    pthread_mutex_lock(&k->lock);
    const bool new = !find_known_unit(k, key);
    if (new) {
        u->next = k->slots[key % SLOTS];
        k->slots[key % SLOTS] = u;
    }
    pthread_mutex_unlock(&k->lock);
    if (!new) free_known_unit(u);
    return true;
}
