// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "datasets/arrays/array_readers.h"
#include "datasets/arrays/npy_array.h"
#include "datasets/samples/folder_list.h"

/* Files and the rows in front of each: file i has rows first[i] to first[i + 1] - 1. */
struct folder {
    struct qc_arena *arena;
    const char **paths;
    size_t *first;
    size_t count;
    struct qc_npy like; /* as all of them are, but for dims[0] of batches */
    bool batches;
};

static void drop_folder(void *user)
{
    struct folder *f = user;
    qc_arena_free(f->arena); /* holds *f */
}

static bool open_array(struct qc_npy *n, struct qc_bytes *b, const char *path, struct qc_status *st)
{
    if (!qc_bytes_open(b, path, st)) return false;
    if (qc_npy_open(n, b, b->size, st) &&
        (n->dtype != QC_NONE || qc_fail(st, QC_UNSUPPORTED, "it holds %s, which is not read; store numbers", n->type)))
        return true;
    qc_bytes_close(b);
    return qc_where(st, "%s", path);
}

/* Where one file is a sample, its first axis is no axis of samples. */
static bool same_shape(const struct folder *f, const struct qc_npy *n)
{
    const struct qc_npy *like = &f->like;
    const unsigned skip = f->batches ? 1 : 0;
    return n->rank == like->rank && n->dtype == like->dtype &&
           (n->rank <= skip || memcmp(n->dims + skip, like->dims + skip, (n->rank - skip) * sizeof *n->dims) == 0);
}

static bool read_part(char *out, const struct folder *f, size_t file, size_t first, size_t count, size_t row_bytes,
                      struct qc_status *st)
{
    struct qc_npy n;
    struct qc_bytes b;
    if (!open_array(&n, &b, f->paths[file], st)) return false;
    bool ok = same_shape(f, &n) && (!f->batches || (size_t)n.dims[0] >= first + count);
    if (!ok) qc_fail(st, QC_BAD_INPUT, "%s: it has changed while it was read", f->paths[file]);
    if (ok && n.fortran) {
        struct qc_bytes turned;
        ok = qc_npy_turn(&turned, &n, &b, st);
        qc_bytes_close(&b);
        if (ok) b = turned;
    }
    if (ok && f->batches) {
        ok = qc_npy_rows(out, &n, &b, first, count, st);
    } else if (ok) {
        /* All entries of its first axis are the one sample. */
        const size_t all = n.rank ? (size_t)n.dims[0] : 1;
        ok = row_bytes == 0 || qc_npy_rows(out, &n, &b, 0, all, st);
    }
    qc_bytes_close(&b);
    return ok;
}

static bool read_rows(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct folder *f = user;
    const size_t row =
        f->batches ? f->like.row_bytes : f->like.row_bytes * (f->like.rank ? (size_t)f->like.dims[0] : 1);
    size_t low = 0, high = f->count;
    while (low + 1 < high) { /* the last file whose rows begin at first or before */
        const size_t middle = (low + high) / 2;
        if (f->first[middle] <= first)
            low = middle;
        else
            high = middle;
    }
    for (char *to = out; count; low++) {
        const size_t here = f->first[low + 1] - first, n = here < count ? here : count;
        if (n && !read_part(to, f, low, first - f->first[low], n, row, st)) return false;
        to += n * row;
        first += n;
        count -= n;
    }
    return true;
}

static bool is_truth(const char *name)
{
    return strcmp(name, "labels.npy") == 0 || strcmp(name, "target.npy") == 0;
}

/* Takes the file as the next one; false with a status where it is not like the others. */
static bool append(struct folder *f, const char *path, const struct qc_input_spec *input, struct qc_status *st)
{
    struct qc_npy n;
    struct qc_bytes b;
    if (!open_array(&n, &b, path, st)) return false;
    qc_bytes_close(&b);
    if (!f->count) {
        f->like = n;
        f->batches = input && (n.rank == input->rank || n.rank == input->rank + 1) && n.rank > 0;
    }
    if (!same_shape(f, &n))
        return qc_fail(st, QC_BAD_INPUT, "%s: it has another type or shape than %s", path, f->paths[0]);
    f->paths[f->count] = path;
    if (n.row_bytes == 0) return qc_fail(st, QC_BAD_INPUT, "%s: its samples have no elements", path);
    if (!qc_add_size(&f->first[f->count + 1], f->first[f->count], f->batches ? (size_t)n.dims[0] : 1))
        return qc_fail(st, QC_BAD_INPUT, "%s: more samples than can be counted", path);
    f->count++;
    return true;
}

static bool gather(struct folder *f, const char *path, const struct qc_folder *files, const struct qc_input_spec *input,
                   const struct qc_dataset_options *options, struct qc_status *st)
{
    size_t broken = 0;
    f->paths = QC_NEW_ARRAY(f->arena, const char *, files->count, st);
    f->first = QC_NEW_ARRAY(f->arena, size_t, files->count + 1, st);
    if (!f->paths || !f->first) return false;
    for (size_t i = 0; i < files->count; i++) {
        if (is_truth(files->files[i])) continue;
        struct qc_status one = QC_STATUS_INIT;
        const char *file = qc_arena_printf(f->arena, st, "%s/%s", path, files->files[i]);
        if (!file) return false;
        if (append(f, file, input, &one)) continue;
        if (options->strict || !options->warn || one.code == QC_MACHINE) {
            *st = one;
            return false;
        }
        if (broken++ < QC_NAMED) qc_data_warn(options, "%s: left out", one.message);
    }
    if (broken) qc_data_warn(options, "%s: %zu of %zu files cannot be used", path, broken, files->count);
    return f->count || qc_fail(st, QC_BAD_INPUT, "%s: none of its %zu .npy files can be used", path, files->count);
}

bool qc_is_npy_folder(const struct qc_data_look *look)
{
    return look->is_folder && qc_folder_has(look->path, QC_FILE_NPY);
}

bool qc_read_npy_folder(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    const char *path = call->path;
    const struct qc_input_spec *input;
    if (!qc_data_no_table(call, st) || !qc_data_folder_input(&input, call, st)) return false;
    static const struct qc_row_reader reader = {.read = read_rows, .free = drop_folder};
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct qc_folder files;
    struct folder *f = QC_NEW(a, struct folder, st);
    bool ok = f && qc_folder_list(&files, path, QC_FILE_NPY, a, st) && qc_memory_data_storage(m, "npy files", st);
    if (ok) {
        f->arena = a;
        ok = gather(f, path, &files, input, call->options, st);
    }
    for (size_t i = 0; ok && i < files.count; i++) {
        if (!is_truth(files.files[i])) continue;
        const char *file = qc_arena_printf(a, st, "%s/%s", path, files.files[i]);
        const struct qc_data_call one = {.path = file, .options = call->options};
        ok = file && qc_read_npy(m, &one, st);
    }
    if (!ok) {
        qc_arena_free(a);
        return false;
    }
    int64_t dims[QC_DATA_RANK_MAX + 1] = {(int64_t)f->first[f->count]};
    const unsigned skip = f->batches ? 1 : 0, rank = f->like.rank - skip;
    if (rank) memcpy(dims + 1, f->like.dims + skip, rank * sizeof *dims);
    const struct qc_array array = {.name = input ? input->name : "input",
                                   .dtype = f->like.dtype,
                                   .rank = rank + 1,
                                   .dims = dims};
    return qc_memory_data_add_reader(m, &array, &reader, f, st);
}
