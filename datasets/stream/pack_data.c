// SPDX-License-Identifier: Apache-2.0

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/scope.h"
#include "datasets/arrays/data_readers.h"
#include "datasets/arrays/memory_data.h"
#include "datasets/samples/dataset.h"
#include "datasets/stream/data_writer.h"

/* Rows from the array of one path. */
struct piece {
    const struct qc_memory_array *array;
    size_t first, count; /* first: index of its first row in the file */
};

struct output {
    const char *name;
    struct qc_h5_set shape; /* of all pieces, except dims[0] */
    size_t rows, piece_count;
    struct piece *pieces; /* room for one per path */
};

struct packing {
    const struct qc_pack *what;
    struct qc_arena *arena;
    struct qc_memory_data **sources;
    size_t source_count, output_count, capacity;
    struct output *outputs;
    struct qc_writer *writer;
    void **room; /* for each worker, one row of any output */
};

/* Finds the rows that can be read. */
static bool check_rows(struct qc_memory_data *m, struct qc_arena *a, struct qc_status *st)
{
    struct qc_data_list list;
    size_t gone, rows = 0;
    if (!qc_memory_data_is_unsure(m)) return true;
    if (!qc_memory_data_list(&list, m, a, st)) return false;
    if (list.count) rows = (size_t)list.entries[0].dims[0];
    QC_FREED uint64_t *all = calloc(rows ? rows : 1, sizeof *all);
    if (!all) return qc_fail_memory(st, rows * sizeof *all);
    for (size_t i = 0; i < rows; i++) all[i] = i;
    return qc_memory_data_check(&gone, m, all, rows, st);
}

static struct output *output_of(struct packing *p, const char *name, struct qc_status *st)
{
    for (size_t i = 0; i < p->output_count; i++)
        if (strcmp(p->outputs[i].name, name) == 0) return &p->outputs[i];
    if (p->output_count == QC_H5_SETS_MAX) {
        qc_fail(st, QC_UNSUPPORTED, "more than %d data sets in one file", QC_H5_SETS_MAX);
        return NULL;
    }
    struct output *more = qc_grown(p->outputs, p->output_count, &p->capacity, sizeof *more, st);
    if (!more) return NULL;
    p->outputs = more;
    struct output *o = &p->outputs[p->output_count];
    *o = (struct output){.name = name, .pieces = QC_NEW_ARRAY(p->arena, struct piece, p->what->count, st)};
    if (!o->pieces) return NULL;
    p->output_count++;
    return o;
}

static bool pack_array(struct packing *p, const struct qc_memory_data *m, const struct qc_data_entry *e,
                       struct qc_status *st)
{
    struct qc_h5_set shape;
    const struct qc_memory_array *x = qc_memory_array_find(m, e->name);
    struct output *o = output_of(p, e->name, st);
    if (!o || !qc_memory_array_begin(x, st)) return false;
    qc_memory_array_shape(&shape, x);
    if (!o->piece_count)
        o->shape = shape;
    else if (shape.dtype != o->shape.dtype || shape.rank != o->shape.rank ||
             (!shape.sizes && !o->shape.sizes &&
              memcmp(shape.dims + 1, o->shape.dims + 1, (shape.rank - 1) * sizeof *shape.dims) != 0))
        return qc_fail(st, QC_BAD_INPUT, "its type or shape differs from earlier files");
    const size_t rows = (size_t)shape.dims[0];
    if (!qc_check_stored(rows, shape.row_bytes, shape.stored, "", st)) return false;
    if (shape.row_bytes > o->shape.row_bytes) o->shape.row_bytes = shape.row_bytes;
    o->pieces[o->piece_count++] = (struct piece){.array = x, .first = o->rows, .count = rows};
    o->rows += rows; /* cannot overflow: each is a row of some file */
    return true;
}

static bool add_source(struct packing *p, const char *path, struct qc_status *st)
{
    const struct qc_data_call call = {.path = path,
                                      .inputs = p->what->inputs,
                                      .input_count = p->what->input_count,
                                      .options = p->what->options};
    struct qc_data_list list;
    struct qc_memory_data *m;
    if (!qc_data_source_open(&m, &call, st)) return false;
    if (!m) return qc_fail(st, QC_USAGE, "%s is an HDF5 file already: give it as it is to --data", path);
    p->sources[p->source_count++] = m;
    bool ok = check_rows(m, p->arena, st) && qc_memory_data_list(&list, m, p->arena, st);
    for (size_t i = 0; ok && i < list.count; i++) {
        const struct qc_data_entry *e = &list.entries[i];
        if (e->dtype == QC_NONE)
            qc_data_warn(p->what->options, "%s: array '%s' holds %s and is left out", path, e->name, e->type);
        else
            ok = pack_array(p, m, e, st) || qc_where(st, "array '%s'", e->name);
    }
    return ok || qc_where(st, "%s", path);
}

static bool write_row(void *user, size_t row, unsigned worker, struct qc_status *st)
{
    const struct packing *p = user;
    for (size_t k = 0; k < p->output_count; k++) {
        const struct output *o = &p->outputs[k];
        const struct piece *x = o->pieces;
        while (row - x->first >= x->count) x++;
        if (!qc_memory_array_read(p->room[worker], x->array, (int64_t)(row - x->first), 1, st))
            return qc_where(st, "array '%s', sample %zu", o->name, row);
        struct qc_h5_set shape;
        qc_memory_array_shape(&shape, x->array);
        const int64_t *dims = qc_h5_entry_dims(&shape, (int64_t)(row - x->first));
        if (!qc_writer_put(p->writer, k, row, p->room[worker], dims, shape.rank - 1, st)) return false;
    }
    return true;
}

static bool write_all(struct packing *p, const char *file, struct qc_status *st)
{
    const struct output *first = p->outputs;
    if (!p->output_count || !first->rows) return qc_fail(st, QC_BAD_INPUT, "there are no samples to write");
    for (size_t i = 1; i < p->output_count; i++)
        if (p->outputs[i].rows != first->rows)
            return qc_fail(st, QC_BAD_INPUT,
                           "arrays '%s' and '%s' have different numbers of samples along axis 0: %zu and %zu",
                           first->name, p->outputs[i].name, first->rows, p->outputs[i].rows);
    const unsigned workers = p->what->options->workers ? p->what->options->workers : 1;
    const struct qc_pool_options pool = {.workers = workers,
                                         .progress = p->what->progress,
                                         .progress_user = p->what->progress_user};
    struct qc_writer_output *outputs = QC_NEW_ARRAY(p->arena, struct qc_writer_output, p->output_count, st);
    const struct qc_preprocess *preprocess = p->what->options->preprocess;
    size_t bytes = 1;
    if (!outputs || !(p->room = QC_NEW_ARRAY(p->arena, void *, workers, st))) return false;
    for (size_t k = 0; k < p->output_count; k++) {
        const struct output *o = &p->outputs[k];
        outputs[k] = (struct qc_writer_output){.name = o->name, .dtype = o->shape.dtype};
        if (o->shape.row_bytes > bytes) bytes = o->shape.row_bytes;
    }
    for (unsigned i = 0; i < workers; i++)
        if (!(p->room[i] = qc_arena_get(p->arena, bytes, 1, st))) return false;
    if (!qc_writer_open(&p->writer, file, outputs, p->output_count, 0, true, st)) return false;
    for (size_t k = 0; preprocess && k < p->output_count; k++) {
        const bool truth = strcmp(outputs[k].name, "labels") == 0 || strcmp(outputs[k].name, "target") == 0;
        if (!truth && !qc_writer_preprocess(p->writer, k, preprocess, st)) return false;
    }
    return qc_pool_run(p->outputs[0].rows, write_row, p, &pool, st) && qc_writer_commit(p->writer, st);
}

bool qc_pack_write(size_t *rows, const char *file, const struct qc_pack *what, struct qc_status *st)
{
    struct packing p = {.what = what, .arena = qc_arena_new()};
    if (!p.arena) return qc_fail_memory(st, 1);
    bool ok = (p.sources = QC_NEW_ARRAY(p.arena, struct qc_memory_data *, what->count, st)) != NULL;
    for (size_t i = 0; ok && i < what->count; i++) ok = add_source(&p, what->paths[i], st);
    ok = ok && write_all(&p, file, st);
    if (ok) *rows = p.outputs[0].rows;
    qc_writer_free(p.writer);
    for (size_t i = 0; i < p.source_count; i++) qc_memory_data_free(p.sources[i]);
    free(p.outputs);
    qc_arena_free(p.arena);
    return ok;
}
