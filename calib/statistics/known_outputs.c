// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/collection.h"

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
    const struct form *form;
    const char *bytes;       /* all outputs, concatenated: after this struct, or in the file */
    struct qc_file_map *map; /* or NULL */
};

struct qc_known_outputs {
    size_t holders; /* references beside the first */
    size_t count;
    enum qc_known_place place;
    bool settled;
    pthread_mutex_t lock; /* of forms */
    struct form *forms;
    struct qc_memo *units; /* struct qc_known, by the unit's key */
};

static void free_known_unit(void *value)
{
    struct qc_known *u = value;
    qc_file_map_unref(u->map);
    free(u);
}

bool qc_known_outputs_new(struct qc_known_outputs **out, size_t count, enum qc_known_place place,
                          struct qc_memo_budget *budget, struct qc_status *st)
{
    struct qc_known_outputs *k = calloc(1, sizeof *k);
    const bool filed = place == QC_KNOWN_IN_FILES; /* a file counts as one byte */
    const struct qc_memo_options o = {.most = filed ? QC_KNOWN_OUTPUTS_FILES : QC_KNOWN_OUTPUTS_BYTES,
                                      .budget = filed ? NULL : budget,
                                      .free = free_known_unit};
    if (!k) return qc_fail_memory(st, sizeof *k);
    k->count = count;
    k->place = place;
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    if (qc_memo_new(&k->units, &o, st)) return true;
    qc_known_outputs_free(k);
    return false;
}

struct qc_known_outputs *qc_known_outputs_ref(struct qc_known_outputs *k)
{
    if (k) k->holders++;
    return k;
}

void qc_known_outputs_free(struct qc_known_outputs *k)
{
    if (!k || k->holders-- > 0) return;
    qc_memo_free(k->units);
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

const struct qc_known *qc_known_outputs_find(struct qc_known_outputs *k, uint64_t key)
{
    return k ? qc_memo_find(k->units, &key, sizeof key) : NULL;
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

static bool fits(const struct form *f, size_t count, struct qc_runner *r)
{
    for (size_t o = 0; o < count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        const struct qc_view *b = &f->outputs[o].view;
        const size_t n = (size_t)v.rank;
        if (v.dtype != b->dtype || v.rank != b->rank || memcmp(v.dim, b->dim, n * sizeof *v.dim) ||
            memcmp(v.stride, b->stride, n * sizeof *v.stride))
            return false;
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
        f->bytes += (qc_view_bytes(&f->outputs[o].view) + align - 1) / align * align;
        f->outputs[o].view.data = NULL;
    }
    f->next = k->forms;
    k->forms = f;
    return f;
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
        ok = qc_scratch_file_write(file, begin + (int64_t)f->outputs[o].at, v.data, qc_view_bytes(&v), &ignored);
    }
    if (!ok || !qc_scratch_file_map(&map, file, &ignored)) map = NULL;
    qc_scratch_file_free(file);
    return map;
}

/* *out is NULL if a file cannot be written. */
static bool new_known_unit(struct qc_known **out, const struct qc_known_outputs *k, const struct form *f,
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
    *u = (struct qc_known){.form = f, .map = map, .bytes = filed ? qc_file_map_data(map) : room};
    for (size_t o = 0; !filed && o < k->count; o++) {
        const struct qc_view v = qc_runner_output(r, o);
        if (qc_view_bytes(&v)) memcpy(room + f->outputs[o].at, v.data, qc_view_bytes(&v));
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
    pthread_mutex_unlock(&k->lock);
    if (!f) return false;
    const size_t bytes = k->place == QC_KNOWN_IN_FILES ? 1 : f->bytes + sizeof *u;
    if (!qc_memo_has_room(k->units, bytes)) return true;
    if (!new_known_unit(&u, k, f, r, st)) return false;
    if (u) qc_memo_keep(k->units, &key, sizeof key, u, bytes);
    return true;
}
