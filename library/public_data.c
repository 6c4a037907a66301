// SPDX-License-Identifier: Apache-2.0
#include "base/scope.h"
#include "library/public.h"

#include <stdlib.h>
#include <string.h>

enum { KEEP_BYTES = 64 << 20 };

static bool make_data(struct qcalib_data **out, struct qc_status *st)
{
    *out = calloc(1, sizeof **out);
    return *out || qc_fail_memory(st, sizeof **out);
}

int qcalib_data_open(qcalib_data **out, const char *file, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_data *d = NULL;
    bool ok =
        qc_public_there(out, "out", &call.st) && qc_public_there(file, "file", &call.st) && make_data(&d, &call.st);
    if (ok && !(d->file = strdup(file))) ok = qc_fail_memory(&call.st, strlen(file));
    return qc_public_end(QC_HAND_OVER(ok, out, d, qcalib_data_free), &call, error);
}

int qcalib_data_new(qcalib_data **out, const char *name, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_data *d = NULL;
    const bool ok = qc_public_there(out, "out", &call.st) && make_data(&d, &call.st) &&
                    qc_memory_data_new(&d->memory, name && *name ? name : "memory", &call.st);
    return qc_public_end(QC_HAND_OVER(ok, out, d, qcalib_data_free), &call, error);
}

static void forget_array(struct qc_array *a)
{
    free((void *)(uintptr_t)a->name);
    free((void *)(uintptr_t)a->dims);
    free((void *)(uintptr_t)a->preprocess);
}

static void forget_waiting(struct qcalib_data *d)
{
    for (size_t i = 0; i < d->waiting; i++) forget_array(&d->arrays[i]);
    free(d->arrays);
    d->arrays = NULL;
    d->waiting = 0;
}

void qcalib_data_free(qcalib_data *data)
{
    if (!data) return;
    forget_waiting(data);
    qc_memory_data_free(data->memory);
    free(data->file);
    free(data);
}

/* Keeps a copy of an array whose rows will be drawn. */
static bool wait_for_rows(struct qcalib_data *d, const struct qc_array *a, struct qc_status *st)
{
    struct qc_array *more = realloc(d->arrays, (d->waiting + 1) * sizeof *more);
    if (!more) return qc_fail_memory(st, sizeof *more);
    d->arrays = more;
    struct qc_array *own = &more[d->waiting];
    *own = *a;
    int64_t *dims = malloc(a->rank * sizeof *dims);
    own->dims = dims;
    own->name = a->name ? strdup(a->name) : NULL;
    own->preprocess = a->preprocess ? strdup(a->preprocess) : NULL;
    if (!dims || (a->name && !own->name) || (a->preprocess && !own->preprocess)) {
        forget_array(own);
        return qc_fail_memory(st, a->rank * sizeof *dims);
    }
    memcpy(dims, a->dims, a->rank * sizeof *dims);
    d->waiting++;
    return true;
}

static bool in_memory(const struct qcalib_data *d, struct qc_status *st)
{
    return qc_public_there(d, "data", st) &&
           (d->memory || qc_fail(st, QC_USAGE, "%s is data of a file, to which no arrays can be added", d->file));
}

static bool add_array(struct qcalib_data *d, const struct qcalib_array *given, struct qc_status *st)
{
    struct qcalib_array a;
    if (!in_memory(d, st) || !qc_public_take(&a, sizeof a, given, "qcalib_array", st)) return false;
    if (a.rank < 1 || a.rank > QC_DATA_RANK_MAX || !a.shape)
        return qc_fail(st, QC_USAGE, "array '%s': rank %d%s; expected 1 to %d axes, the first of them the sample",
                       a.name ? a.name : "", a.rank, a.shape ? "" : " and no shape", QC_DATA_RANK_MAX);
    const struct qc_array own = {.name = a.name,
                                 .dtype = qc_dtype_from_onnx(a.type),
                                 .rank = (unsigned)a.rank,
                                 .dims = a.shape,
                                 .preprocess = a.preprocess,
                                 .peak = a.peak};
    return a.values ? qc_memory_data_add(d->memory, &own, a.values, st) : wait_for_rows(d, &own, st);
}

int qcalib_data_add(qcalib_data *data, const struct qcalib_array *array, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = add_array(data, array, &call.st);
    return qc_public_end(ok, &call, error);
}

struct drawing {
    qcalib_next_fn *next;
    void *user;
};

static bool next_rows(bool *more, void *user, void *const *rows, struct qc_status *st)
{
    const struct drawing *d = user;
    const int said = d->next(d->user, rows);
    *more = said > 0;
    return said >= 0 || qc_fail(st, QC_BAD_INPUT, "the sample function gave up with code %d", said);
}

/* Returns true if arrays wait for rows; else fails with the reason. */
static bool are_waiting(const struct qcalib_data *d, bool there, struct qc_status *st)
{
    return in_memory(d, st) && (there || qc_fail(st, QC_USAGE, "next is NULL")) &&
           (d->waiting || qc_fail(st, QC_USAGE, "no array waits for samples: add those whose values are NULL before"));
}

int qcalib_data_draw(qcalib_data *data, qcalib_next_fn *next, void *user, size_t keep_bytes, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct drawing d = {.next = next, .user = user};
    bool ok = are_waiting(data, next != NULL, &call.st);
    if (ok) {
        ok = qc_memory_data_draw(data->memory, data->arrays, data->waiting, next_rows, &d,
                                 keep_bytes ? keep_bytes : KEEP_BYTES, &call.st);
        forget_waiting(data); /* after a failure no rows can be drawn */
    }
    return qc_public_end(ok, &call, error);
}

struct drawing_sized {
    qcalib_next_sized_fn *next;
    void *user;
    size_t count;
    const void **values;
    const int64_t **shapes;
};

static bool next_sized(bool *more, void *user, struct qc_sized_row *rows, struct qc_status *st)
{
    const struct drawing_sized *d = user;
    const int said = d->next(d->user, d->values, d->shapes);
    *more = said > 0;
    for (size_t k = 0; said > 0 && k < d->count; k++) {
        if (!d->values[k] || !d->shapes[k])
            return qc_fail(st, QC_BAD_INPUT, "the sample function returned no %s for array %zu",
                           d->values[k] ? "shape" : "values", k);
        rows[k] = (struct qc_sized_row){.dims = d->shapes[k], .values = d->values[k]};
    }
    return said >= 0 || qc_fail(st, QC_BAD_INPUT, "the sample function gave up with code %d", said);
}

int qcalib_data_draw_sized(qcalib_data *data, qcalib_next_sized_fn *next, void *user, size_t keep_bytes,
                           struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct drawing_sized d = {.next = next, .user = user};
    bool ok = are_waiting(data, next != NULL, &call.st);
    if (ok) {
        d.count = data->waiting;
        d.values = calloc(d.count, sizeof *d.values);
        d.shapes = calloc(d.count, sizeof *d.shapes);
        ok = (d.values && d.shapes) || qc_fail_memory(&call.st, d.count * sizeof *d.shapes);
        ok = ok && qc_memory_data_draw_sized(data->memory, data->arrays, data->waiting, next_sized, &d,
                                             keep_bytes ? keep_bytes : KEEP_BYTES, &call.st);
        free(d.values);
        free(d.shapes);
        forget_waiting(data); /* after a failure no rows can be drawn */
    }
    return qc_public_end(ok, &call, error);
}
