// SPDX-License-Identifier: Apache-2.0
/* .npy and .npz */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "datasets/arrays/byte_source.h"
#include "datasets/arrays/data_readers.h"

/* The file of one array or of all members of an .npz. */
struct file {
    struct qc_arena *arena; /* holds the file itself */
    struct qc_bytes bytes;
    size_t users;
};

struct array {
    struct file *file;
    struct qc_zip_member member; /* name NULL: the file is an .npy */
    struct qc_npy npy;
    bool ready;
    struct qc_bytes bytes; /* the values; valid if ready */
};

static void drop_file(struct file *f)
{
    if (--f->users) return;
    qc_bytes_close(&f->bytes);
    qc_arena_free(f->arena); /* holds *f */
}

static void drop_array(void *user)
{
    struct array *x = user;
    qc_bytes_close(&x->bytes);
    drop_file(x->file);
    free(x);
}

/* Unpacks the array and converts it to C order; no row can be read before. The data sets of one memory_data are opened
   by one thread at a time. */
static bool begin_npy(void *user, struct qc_status *st)
{
    struct array *x = user;
    if (x->ready) return true;
    struct qc_bytes all = {.fd = x->file->bytes.fd, .size = x->file->bytes.size};
    if (x->member.name && !qc_zip_unpack(&all, &x->file->bytes, &x->member, x->member.size, st)) return false;
    if (x->npy.fortran) {
        struct qc_bytes turned;
        const bool ok = qc_npy_turn(&turned, &x->npy, &all, st);
        qc_bytes_close(&all);
        if (!ok) return false;
        all = turned;
    }
    x->bytes = all;
    x->ready = true;
    return true;
}

static bool read_npy_rows(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct array *x = user;
    return qc_npy_rows(out, &x->npy, &x->bytes, first, count, st);
}

/* Adds one array; scalar members are skipped. bytes: at least the header. */
static bool add(struct qc_memory_data *m, struct file *f, const char *name, const struct qc_zip_member *member,
                const struct qc_bytes *bytes, uint64_t size, struct qc_status *st)
{
    static const struct qc_row_reader reader = {.begin = begin_npy,
                                                .read = read_npy_rows,
                                                .free = drop_array,
                                                .copies = true};
    struct qc_npy n;
    if (!qc_npy_open(&n, bytes, size, st)) return false;
    const struct qc_array array = {
        .name = name, .dtype = n.dtype, .rank = n.rank, .dims = n.dims, .named_by_file = !member};
    if (n.rank == 0 && member) return true;
    if (n.rank == 0) return qc_fail(st, QC_BAD_INPUT, "it is one number without axes; expected samples along axis 0");
    if (n.dtype == QC_NONE) return qc_memory_data_add_unread(m, &array, n.type, st);
    struct array *x = calloc(1, sizeof *x);
    if (!x) return qc_fail_memory(st, sizeof *x);
    x->file = f;
    x->npy = n;
    x->bytes.fd = -1;
    if (member) x->member = *member;
    f->users++;
    return qc_memory_data_add_reader(m, &array, &reader, x, st);
}

static bool open_file(struct file **out, const char *path, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct file *f = QC_NEW(a, struct file, st);
    if (!f || !qc_bytes_open(&f->bytes, path, st)) {
        qc_arena_free(a);
        return false;
    }
    f->arena = a;
    f->users = 1;
    *out = f;
    return true;
}

bool qc_is_npy(const struct qc_data_look *look)
{
    return !look->is_folder && qc_npy_is(look->head, look->size);
}

bool qc_read_npy(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    struct file *f;
    char name[256];
    if (!qc_data_no_table(call, st)) return false;
    /* The file name without folders and .npy. */
    const char *slash = strrchr(call->path, '/');
    qc_text(name, sizeof name, "%s", slash && slash[1] ? slash + 1 : call->path);
    const size_t n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, ".npy") == 0) name[n - 4] = '\0';
    if (!open_file(&f, call->path, st)) return false;
    const bool ok = qc_memory_data_storage(m, "npy", st) && add(m, f, name, NULL, &f->bytes, f->bytes.size, st);
    drop_file(f);
    return ok;
}

static bool is_array(const struct qc_zip_member *member)
{
    const size_t n = strlen(member->name);
    return n >= 4 && strcmp(member->name + n - 4, ".npy") == 0;
}

static bool add_member(struct qc_memory_data *m, struct file *f, const struct qc_zip_member *member,
                       struct qc_status *st)
{
    struct qc_bytes head;
    const char *name = qc_arena_strndup(f->arena, member->name, strlen(member->name) - 4, st);
    if (!name || !qc_memory_data_storage(m, member->method ? "npz, deflated" : "npz", st) ||
        !qc_zip_unpack(&head, &f->bytes, member, QC_NPY_HEADER_MAX, st))
        return false;
    const bool ok = add(m, f, name, member, &head, member->size, st);
    qc_bytes_close(&head);
    return ok || qc_where(st, "array '%s'", name);
}

/* Arrays are found by name, so names must not be empty or equal. */
static bool check_names(const struct qc_zip_member *members, size_t count, struct qc_arena *a, struct qc_status *st)
{
    const char **names = QC_NEW_ARRAY(a, const char *, count + 1, st);
    size_t n = 0;
    if (!names) return false;
    for (size_t i = 0; i < count; i++)
        if (is_array(&members[i])) names[n++] = members[i].name;
    qsort(names, n, sizeof *names, qc_order_text);
    for (size_t i = 0; i < n; i++) {
        const int length = (int)strlen(names[i]) - 4;
        if (!length) return qc_fail(st, QC_BAD_INPUT, "an array has no name; save it again with one");
        if (i && strcmp(names[i - 1], names[i]) == 0)
            return qc_fail(st, QC_BAD_INPUT, "there are two arrays '%.*s'; save it again with one", length, names[i]);
    }
    return true;
}

bool qc_is_npz(const struct qc_data_look *look)
{
    return !look->is_folder && qc_zip_is(look->head, look->size);
}

bool qc_read_npz(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    struct file *f;
    struct qc_zip_member *members;
    size_t count, arrays = 0;
    if (!qc_data_no_table(call, st) || !open_file(&f, call->path, st)) return false;
    bool ok = qc_zip_list(&members, &count, &f->bytes, f->arena, st) && check_names(members, count, f->arena, st);
    for (size_t i = 0; ok && i < count; i++) {
        arrays += is_array(&members[i]);
        ok = !is_array(&members[i]) || add_member(m, f, &members[i], st);
    }
    if (ok && !arrays) ok = qc_fail(st, QC_BAD_INPUT, "it is an archive without arrays of numpy (.npy)");
    drop_file(f);
    return ok;
}
