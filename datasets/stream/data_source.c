// SPDX-License-Identifier: Apache-2.0

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "datasets/arrays/data_readers.h"
#include "datasets/arrays/memory_data.h"
#include "datasets/hdf5/data_reader.h"
#include "datasets/samples/folder_list.h"

static const struct reader {
    qc_is_data_fn *is;
    qc_read_data_fn *read;
} readers[] = {
#define QC_READER(name) {qc_is_##name, qc_read_##name},
#include "datasets/stream/readers.def"
#undef QC_READER
};

enum { SIGNATURE = 8 };

/* HDF5 file format 3.0, II.A: at byte 0, 512, 1024, 2048, ... */
static bool has_signature(int fd, off_t size)
{
    static const unsigned char wanted[SIGNATURE] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    for (off_t at = 0; at <= size - SIGNATURE; at = at ? at * 2 : 512) {
        unsigned char got[SIGNATURE];
        if (pread(fd, got, sizeof got, at) == SIGNATURE && memcmp(got, wanted, sizeof got) == 0) return true;
        if (at > size / 2) break;
    }
    return false;
}

static const struct reader *reader_of(const struct qc_data_look *look)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].is(look)) return &readers[i];
    return NULL;
}

#define QC_KINDS "an HDF5 file, .npz, .npy, or a folder of images, .npy or .npz files"

/* Finds the reader of a path; *out is NULL for HDF5. is_folder may be NULL. */
static bool find_reader(const struct reader **out, bool *is_folder, const char *path, enum qc_follow follow,
                        struct qc_status *st)
{
    struct qc_data_look look = {.path = path, .follow = follow};
    struct stat info;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info)) {
        qc_fail(st, qc_code_of_errno(errno), "cannot read %s: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        look.is_folder = true;
        if (!(*out = reader_of(&look)))
            qc_fail(st, QC_BAD_INPUT,
                    "%s is a folder without images (JPEG, PNG, WebP), .npy or .npz files; give " QC_KINDS, path);
    } else if (!S_ISREG(info.st_mode)) {
        qc_fail(st, QC_BAD_INPUT, "cannot read %s: it is a pipe or device; give " QC_KINDS, path);
    } else if (info.st_size == 0) {
        qc_fail(st, QC_BAD_INPUT, "%s is empty; give " QC_KINDS, path);
    } else if (!has_signature(fd, info.st_size)) {
        const ssize_t n = pread(fd, look.head, sizeof look.head, 0);
        look.size = n > 0 ? (size_t)n : 0;
        if (!(*out = reader_of(&look))) qc_fail(st, QC_BAD_INPUT, "%s is not a file of samples; give " QC_KINDS, path);
    }
    if (fd >= 0) close(fd);
    if (is_folder) *is_folder = look.is_folder;
    return st->code == QC_OK;
}

bool qc_data_is_hdf5(const char *path)
{
    struct qc_status st = QC_STATUS_INIT;
    const struct reader *r;
    return find_reader(&r, NULL, path, QC_FOLLOW_NOTHING, &st) && !r;
}

bool qc_data_is_images(const char *path, enum qc_follow follow)
{
    struct qc_status st = QC_STATUS_INIT;
    const struct reader *r;
    return find_reader(&r, NULL, path, follow, &st) && r && r->read == qc_read_images;
}

bool qc_data_is_known(const char *path)
{
    struct qc_status st = QC_STATUS_INIT;
    const struct reader *r;
    return find_reader(&r, NULL, path, QC_FOLLOW_NOTHING, &st);
}

bool qc_data_source_open(struct qc_memory_data **out, const struct qc_data_call *call, struct qc_status *st)
{
    const struct reader *r;
    struct qc_memory_data *m = NULL;
    struct qc_data_call own = *call;
    if (!find_reader(&r, &own.is_folder, call->path, call->options->follow, st)) return false;
    if (r && !qc_memory_data_new(&m, call->path, st)) return false;
    if (r && !r->read(m, &own, st)) {
        qc_memory_data_free(m);
        return qc_where(st, "%s", call->path);
    }
    *out = m;
    return true;
}

bool qc_data_list(struct qc_data_list *out, const char *path, enum qc_follow follow, struct qc_arena *a,
                  struct qc_status *st)
{
    const struct qc_dataset_options options = {.follow = follow};
    struct qc_memory_data *m;
    struct qc_reader *r;
    if (!qc_data_source_open(&m, &(struct qc_data_call){.path = path, .options = &options}, st)) return false;
    if (m) {
        const bool ok = qc_memory_data_list(out, m, a, st);
        qc_memory_data_free(m);
        return ok;
    }
    bool ok = qc_reader_open(&r, path, follow, st);
    if (ok) {
        ok = qc_reader_list(out, r, a, st);
        qc_reader_close(r);
    }
    return ok || qc_where(st, "%s", path);
}

bool qc_data_folder_input(const struct qc_input_spec **out, const struct qc_data_call *call, struct qc_status *st)
{
    size_t count = 0;
    *out = NULL;
    for (size_t i = 0; i < call->input_count; i++) {
        if (call->inputs[i].made != QC_MADE_NOT) continue;
        *out = &call->inputs[i];
        count++;
    }
    return count < 2 ||
           qc_fail(st, QC_USAGE,
                   "a folder of such files holds the data of one input, but the model has %zu; put the arrays "
                   "of all inputs into one .npz, or into one for each sample",
                   count);
}

bool qc_data_no_table(const struct qc_data_call *call, struct qc_status *st)
{
    return !call->options->labels ||
           qc_fail(st, QC_USAGE, "--labels is for images; put an array 'labels' beside these");
}

void qc_data_warn(const struct qc_dataset_options *options, const char *fmt, ...)
{
    char text[1000];
    va_list args;
    if (!options->warn) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    options->warn(options->warn_user, text);
}

/* ---- Identity ---- */

/* Mixes name and bytes of each file of this kind in a folder. */
static bool sum_folder(char hex[65], const char *path, enum qc_file_kind kind, struct qc_arena *a, struct qc_status *st)
{
    struct qc_folder files;
    if (!qc_folder_list(&files, path, kind, QC_FOLLOW_LINKS, a, st)) return false;
    for (size_t i = 0; i < files.count; i++) {
        char text[4096 + 130], file[65];
        if (!qc_sha256_file(file, qc_text(text, sizeof text, "%s/%s", path, files.files[i]), st)) return false;
        qc_sha256(hex, qc_text(text, sizeof text, "%s %s %s", hex, file, files.files[i]), strlen(text));
    }
    return true;
}

bool qc_data_file_sha256(char hex[65], const char *path, struct qc_status *st)
{
    struct stat info;
    char sum[65];
    if (stat(path, &info) || !S_ISDIR(info.st_mode)) return qc_sha256_file(hex, path, st);
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    qc_sha256(sum, "", 0);
    if (!sum_folder(sum, path, QC_FILE_NPY, a, st) || !sum_folder(sum, path, QC_FILE_IMAGE, a, st) ||
        !sum_folder(sum, path, QC_FILE_NPZ, a, st))
        return false;
    memcpy(hex, sum, sizeof sum);
    return true;
}
