// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/scope.h"
#include "datasets/arrays/byte_source.h"
#include "datasets/arrays/data_readers.h"
#include "datasets/samples/dataset.h"
#include "datasets/samples/folder_list.h"

/* Files and their rows: file i has rows first[i] to first[i + 1] - 1. */
struct folder {
    struct qc_arena *arena;
    const char *member; /* array of .npz files; NULL: they are .npy */
    const char **paths;
    size_t *first;
    size_t count, capacity;
    struct qc_folder listed;
    struct qc_npy like; /* like all files, except for dims[0] of batches and free dims */
    bool batches;
    unsigned rank;    /* of one sample */
    int64_t *shapes;  /* [count][rank]: shape of the samples in each file */
    const bool *free; /* [rank]: may differ from file to file; NULL: none may */
};

static void drop_folder(void *user)
{
    struct folder *f = user;
    qc_arena_free(f->arena); /* holds *f */
}

/* Returns the length of the name of an array; 0 for other members. */
static size_t array_name(const struct qc_zip_member *m)
{
    const size_t n = strlen(m->name);
    return n > 4 && strcmp(m->name + n - 4, ".npy") == 0 ? n - 4 : 0;
}

/* Replaces the bytes of an archive by those of one of its arrays. */
static bool open_array_member(struct qc_bytes *b, const char *name, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_zip_member *members;
    struct qc_bytes found;
    size_t count;
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_zip_list(&members, &count, b, a, st)) return false;
    for (size_t i = 0; i < count; i++) {
        if (array_name(&members[i]) != strlen(name) || strncmp(members[i].name, name, strlen(name)) != 0) continue;
        if (!qc_zip_unpack(&found, b, &members[i], members[i].size, st)) return false;
        if (found.fd >= 0)
            found.own = b->own;
        else
            qc_bytes_close(b);
        *b = found;
        return true;
    }
    return qc_fail(st, QC_BAD_INPUT, "it has no array '%s'", name);
}

static bool open_array(struct qc_npy *n, struct qc_bytes *b, const char *path, const char *member, struct qc_status *st)
{
    if (!qc_bytes_open(b, path, st)) return false;
    if ((!member || open_array_member(b, member, st)) && qc_npy_open(n, b, b->size, st) &&
        (n->dtype != QC_NONE || qc_fail(st, QC_UNSUPPORTED, "it holds %s, which is not read; store numbers", n->type)))
        return true;
    qc_bytes_close(b);
    return qc_where(st, "%s", path);
}

static const int64_t *sample_dims(const struct folder *f, const struct qc_npy *n)
{
    return n->dims + (f->batches ? 1 : 0);
}

static size_t sample_bytes(const struct folder *f, size_t file)
{
    return qc_entry_elements(f->shapes + file * f->rank, f->rank) * qc_dtype_size(f->like.dtype);
}

static bool read_part(char *out, const struct folder *f, size_t file, size_t first, size_t count, struct qc_status *st)
{
    struct qc_npy n;
    struct qc_bytes b;
    if (!open_array(&n, &b, f->paths[file], f->member, st)) return false;
    bool ok = n.rank == f->like.rank && n.dtype == f->like.dtype &&
              (!f->rank || memcmp(sample_dims(f, &n), f->shapes + file * f->rank, f->rank * sizeof *n.dims) == 0) &&
              (!f->batches || (size_t)n.dims[0] >= first + count);
    if (!ok)
        qc_fail(st, QC_BAD_INPUT, "%s: it has changed while it was read", f->paths[file]);
    else
        ok = qc_folder_is_unchanged(&f->listed, f->paths[file], st) || qc_where(st, "%s", f->paths[file]);
    if (ok && n.fortran) {
        struct qc_bytes turned;
        ok = qc_npy_turn(&turned, &n, &b, st);
        qc_bytes_close(&b);
        if (ok) b = turned;
    }
    if (ok && f->batches) {
        ok = qc_npy_rows(out, &n, &b, first, count, st);
    } else if (ok) {
        /* All entries of its first axis make up the one sample. */
        const size_t all = n.rank ? (size_t)n.dims[0] : 1;
        ok = sample_bytes(f, file) == 0 || qc_npy_rows(out, &n, &b, 0, all, st);
    }
    qc_bytes_close(&b);
    return ok;
}

static bool read_file_rows(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct folder *f = user;
    size_t low = 0, high = f->count;
    while (low + 1 < high) { /* finds the last file whose rows begin at or before first */
        const size_t middle = (low + high) / 2;
        if (f->first[middle] <= first)
            low = middle;
        else
            high = middle;
    }
    for (char *to = out; count; low++) {
        const size_t here = f->first[low + 1] - first, n = here < count ? here : count;
        if (n && !read_part(to, f, low, first - f->first[low], n, st)) return false;
        to += n * sample_bytes(f, low);
        first += n;
        count -= n;
    }
    return true;
}

/* Roles of files in a folder. Labels and targets are one array for all samples or a folder with one file for each. */
enum role { SAMPLES, LABELS, TARGET, ROLES };
static const char *const role_names[] = {[LABELS] = "labels", [TARGET] = "target"};

static enum role role_of(bool *is_all, const char *file)
{
    *is_all = false;
    for (enum role r = LABELS; r < ROLES; r++) {
        const size_t n = strlen(role_names[r]);
        if (strncmp(file, role_names[r], n) != 0) continue;
        *is_all = strcmp(file + n, ".npy") == 0;
        if (*is_all || file[n] == '/') return r;
    }
    return SAMPLES;
}

/* Appends a file. Fails if it differs from the others in type or shape. */
static bool append(struct folder *f, const char *path, const struct qc_input_spec *input, struct qc_status *st)
{
    struct qc_npy n;
    struct qc_bytes b;
    if (!open_array(&n, &b, path, f->member, st)) return false;
    qc_bytes_close(&b);
    if (!f->count) {
        f->like = n;
        if (input) f->batches = n.rank == input->rank || n.rank == input->rank + 1;
        f->batches = f->batches && n.rank > 0;
        f->rank = n.rank - (f->batches ? 1 : 0);
        size_t bytes;
        bool *loose = QC_NEW_ARRAY(f->arena, bool, f->rank, st);
        const unsigned skip = input && f->rank + 1 == input->rank ? 1 : 0; /* a sample has no batch axis */
        const bool none = skip && input->dims[0] > 1;                      /* samples of one batch have one shape */
        for (unsigned d = 0; loose && d < f->rank; d++)
            loose[d] = !input || (!none && d + skip < input->rank && input->dims[d + skip] < 0);
        if (!(f->free = loose)) return false;
        if (!qc_mul_size(&bytes, f->capacity, f->rank) || !(f->shapes = QC_NEW_ARRAY(f->arena, int64_t, bytes, st)))
            return qc_fail_memory(st, f->capacity);
    }
    /* If a file is one sample, its first axis is not a sample axis. */
    bool fits = n.rank == f->like.rank && n.dtype == f->like.dtype;
    for (unsigned d = 0; fits && d < f->rank; d++)
        fits = (f->free && f->free[d]) || sample_dims(f, &n)[d] == sample_dims(f, &f->like)[d];
    if (!fits) return qc_fail(st, QC_BAD_INPUT, "%s: it has another type or shape than %s", path, f->paths[0]);
    f->paths[f->count] = path;
    if (n.row_bytes == 0 || qc_entry_elements(sample_dims(f, &n), f->rank) == 0)
        return qc_fail(st, QC_BAD_INPUT, "%s: its samples have no elements", path);
    if (!qc_add_size(&f->first[f->count + 1], f->first[f->count], f->batches ? (size_t)n.dims[0] : 1))
        return qc_fail(st, QC_BAD_INPUT, "%s: more samples than can be counted", path);
    if (f->rank) memcpy(f->shapes + f->count * f->rank, sample_dims(f, &n), f->rank * sizeof *n.dims);
    f->count++;
    return true;
}

static bool gather(struct folder *f, const char *path, const struct qc_folder *files, enum role role,
                   const struct qc_input_spec *input, const struct qc_dataset_options *options, struct qc_status *st)
{
    size_t broken = 0;
    bool is_all;
    f->capacity = files->count;
    f->paths = QC_NEW_ARRAY(f->arena, const char *, files->count, st);
    f->first = QC_NEW_ARRAY(f->arena, size_t, files->count + 1, st);
    if (!f->paths || !f->first) return false;
    for (size_t i = 0; i < files->count; i++) {
        if (role_of(&is_all, files->files[i]) != role || is_all) continue;
        struct qc_status one = QC_STATUS_INIT;
        const char *file = qc_arena_printf(f->arena, st, "%s/%s", path, files->files[i]);
        if (!file) return false;
        if (append(f, file, input, &one)) continue;
        if (options->strict || !options->warn || one.code == QC_MACHINE || role != SAMPLES) {
            *st = one;
            return false;
        }
        if (broken++ < QC_NAMED) qc_data_warn(options, "%s: left out", one.message);
    }
    if (broken) qc_data_warn(options, "%s: %zu of %zu files cannot be used", path, broken, files->count);
    return f->count || role != SAMPLES ||
           qc_fail(st, QC_BAD_INPUT, "%s: none of its %zu .npy files can be used", path, files->count);
}

/* Adds the files as one array of samples. */
static bool add_samples(struct qc_memory_data *m, struct folder *f, const char *name, struct qc_status *st)
{
    static const struct qc_row_reader reader = {.read = read_file_rows, .free = drop_folder};
    const size_t rows = f->first[f->count];
    int64_t dims[QC_DATA_RANK_MAX + 1] = {(int64_t)rows}, *sizes = NULL;
    size_t numbers;
    bool same = true;
    for (size_t i = 1; i < f->count && same; i++)
        same = !f->rank || memcmp(f->shapes, f->shapes + i * f->rank, f->rank * sizeof *sizes) == 0;
    if (!same && (!qc_mul_size(&numbers, rows, f->rank) || !(sizes = QC_NEW_ARRAY(f->arena, int64_t, numbers, st)))) {
        drop_folder(f);
        return qc_fail_memory(st, rows);
    }
    for (size_t i = 0; sizes && i < f->count; i++)
        for (size_t row = f->first[i]; row < f->first[i + 1]; row++)
            memcpy(sizes + row * f->rank, f->shapes + i * f->rank, f->rank * sizeof *sizes);
    if (f->rank) memcpy(dims + 1, f->shapes, f->rank * sizeof *dims);
    const struct qc_array array = {
        .name = name, .dtype = f->like.dtype, .rank = f->rank + 1, .dims = dims, .sizes = sizes};
    return qc_memory_data_add_reader(m, &array, &reader, f, st);
}

static bool read_role(struct qc_memory_data *m, const char *path, enum role role, const struct qc_input_spec *input,
                      const struct qc_dataset_options *options, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct qc_folder files;
    struct folder *f = QC_NEW(a, struct folder, st);
    bool ok = f && qc_folder_list(&files, path, QC_FILE_NPY, options->follow, a, st);
    if (ok) {
        f->arena = a;
        f->listed = files;
        ok = gather(f, path, &files, role, input, options, st);
    }
    for (size_t i = 0; ok && i < files.count; i++) {
        bool is_all;
        if (role_of(&is_all, files.files[i]) != role || !is_all) continue;
        const char *file = qc_arena_printf(a, st, "%s/%s", path, files.files[i]);
        const struct qc_data_call one = {.path = file, .options = options};
        ok = file && qc_read_npy(m, &one, st);
    }
    if (ok && f->count)
        return add_samples(m, f, role != SAMPLES ? role_names[role] : input ? input->name : "input", st);
    qc_arena_free(a);
    return ok;
}

bool qc_is_npy_folder(const struct qc_data_look *look)
{
    return look->is_folder && qc_folder_has(look->path, QC_FILE_NPY, look->follow);
}

bool qc_read_npy_folder(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    const char *path = call->path;
    const struct qc_input_spec *input;
    if (!qc_data_no_table(call, st) || !qc_data_folder_input(&input, call, st)) return false;
    bool ok = qc_memory_data_storage(m, "npy files", st);
    for (enum role r = LABELS; ok && r < ROLES; r++) ok = read_role(m, path, r, NULL, call->options, st);
    return ok && read_role(m, path, SAMPLES, input, call->options, st);
}

bool qc_is_npz_folder(const struct qc_data_look *look)
{
    return look->is_folder && qc_folder_has(look->path, QC_FILE_NPZ, look->follow);
}

/* Returns the input that array `name` feeds: by --input, by its name, or the only input. */
static const struct qc_input_spec *input_of(const struct qc_data_call *call, const char *name)
{
    const struct qc_input_spec *only = NULL;
    size_t count = 0;
    for (size_t i = 0; i < call->input_count; i++) {
        const char *set = call->inputs[i].name;
        for (size_t k = 0; k < call->options->map_count; k++)
            if (strcmp(call->options->maps[k].input, set) == 0) set = call->options->maps[k].dataset;
        if (strcmp(set, name) == 0) return &call->inputs[i];
        if (call->inputs[i].made == QC_MADE_NOT) only = &call->inputs[i], count++;
    }
    for (enum role r = LABELS; r < ROLES; r++)
        if (strcmp(name, role_names[r]) == 0) return NULL;
    return count == 1 ? only : NULL;
}

/* Adds one array of all files. *batches: whether its files are batches; given for an array that feeds no input. */
static bool read_member(struct qc_memory_data *m, bool *batches, const struct qc_data_call *call, const char *name,
                        const struct qc_input_spec *input, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct qc_folder files;
    struct folder *f = QC_NEW(a, struct folder, st);
    bool ok = f && qc_folder_list(&files, call->path, QC_FILE_NPZ, call->options->follow, a, st);
    if (ok) {
        *f = (struct folder){.arena = a,
                             .member = qc_arena_strdup(a, name, st),
                             .listed = files,
                             .capacity = files.count,
                             .batches = *batches,
                             .paths = QC_NEW_ARRAY(a, const char *, files.count, st),
                             .first = QC_NEW_ARRAY(a, size_t, files.count + 1, st)};
        ok = f->member && f->paths && f->first;
    }
    for (size_t i = 0; ok && i < files.count; i++) {
        const char *file = qc_arena_printf(a, st, "%s/%s", call->path, files.files[i]);
        ok = file && (append(f, file, input, st) || qc_where(st, "array '%s'", name));
    }
    if (ok) *batches = f->batches;
    if (ok) return add_samples(m, f, f->member, st);
    qc_arena_free(a);
    return false;
}

bool qc_read_npz_folder(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_folder files;
    struct qc_bytes first;
    struct qc_zip_member *members;
    size_t count;
    bool batches = false;
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_data_no_table(call, st) || !qc_folder_list(&files, call->path, QC_FILE_NPZ, call->options->follow, a, st))
        return false;
    const char *path = qc_arena_printf(a, st, "%s/%s", call->path, files.files[0]);
    if (!path || !qc_memory_data_storage(m, "npz files", st) || !qc_bytes_open(&first, path, st)) return false;
    const bool listed = qc_zip_list(&members, &count, &first, a, st) || qc_where(st, "%s", path);
    qc_bytes_close(&first);
    /* Inputs first: labels and targets follow them. */
    for (int fed = 1; listed && fed >= 0; fed--)
        for (size_t i = 0; i < count; i++) {
            const char *name = qc_arena_strndup(a, members[i].name, array_name(&members[i]), st);
            const struct qc_input_spec *input = name ? input_of(call, name) : NULL;
            if (!name || (*name && (input != NULL) == fed && !read_member(m, &batches, call, name, input, st)))
                return false;
        }
    return listed;
}
