// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* madvise, MAP_ANONYMOUS, mkostemp */
#include "base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"

struct qc_file_map {
    void *data;
    size_t bytes; /* of the mapping: whole pages plus one */
    atomic_uint references;
};

static size_t page_bytes(void)
{
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
}

bool qc_file_map_new(struct qc_file_map **out, int fd, size_t size, struct qc_status *st)
{
    const size_t page = page_bytes();
    size_t whole;
    *out = NULL;
    if (size == 0 || !qc_add_size(&whole, size, 2 * page)) return true;
    whole = whole / page * page;
    struct qc_file_map *m = malloc(sizeof *m);
    if (!m) return qc_fail_memory(st, sizeof *m);
    /* The file is mapped over zeros, so that bytes after its last page can be read. */
    void *data = mmap(NULL, whole, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED || mmap(data, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        if (data != MAP_FAILED) munmap(data, whole);
        free(m);
        return true;
    }
    m->data = data;
    m->bytes = whole;
    atomic_init(&m->references, 1);
    *out = m;
    return true;
}

const char *qc_temporary_folder(const char *scratch)
{
    const char *folder = getenv("TMPDIR");
    if (folder && *folder) return folder;
    return scratch && *scratch ? scratch : "/tmp";
}

bool qc_temporary_subfolder(const char **out, const char *scratch, struct qc_arena *a, struct qc_status *st)
{
    char *path = qc_arena_printf(a, st, "%s/qcalib-XXXXXX", qc_temporary_folder(scratch));
    if (!path) return false;
    if (!mkdtemp(path))
        return qc_fail(st, QC_MACHINE, "%s: cannot make a temporary folder; set TMPDIR to a folder with room", path);
    *out = path;
    return true;
}

bool qc_temporary_file(const char **out, struct qc_arena *a, struct qc_status *st)
{
    char *path = qc_arena_printf(a, st, "%s/qcalib-XXXXXX", qc_temporary_folder(NULL));
    const int fd = path ? mkostemp(path, O_CLOEXEC) : -1;
    if (path && fd < 0)
        qc_fail(st, QC_MACHINE, "%s: cannot make a temporary file; set TMPDIR to a folder with room", path);
    if (fd < 0) return false;
    close(fd);
    *out = path;
    return true;
}

/* Returns a new unnamed file in the folder, open for reading and writing; -1 with errno on failure. */
static int temporary_file(const char *folder)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/qcalib-XXXXXX", folder);
    errno = ENAMETOOLONG;
    const int fd = length > 0 && (size_t)length < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd >= 0) unlink(path);
    return fd;
}

static bool write_all(int fd, const char *p, size_t bytes)
{
    for (size_t n = 0; n < bytes;) {
        const ssize_t k = write(fd, p + n, bytes - n < 1 << 30 ? bytes - n : 1 << 30);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        n += (size_t)k;
    }
    return true;
}

static bool cannot_map(struct qc_status *st)
{
    return qc_fail(st, QC_MACHINE, "a temporary file in %s cannot be mapped; set TMPDIR to another folder",
                   qc_temporary_folder(NULL));
}

bool qc_file_map_spill(struct qc_file_map **out, const void *data, size_t bytes, struct qc_status *st)
{
    const int fd = temporary_file(qc_temporary_folder(NULL));
    bool ok = fd >= 0 && write_all(fd, data, bytes);
    *out = NULL;
    if (!ok)
        qc_fail(st, QC_MACHINE,
                "%zu bytes of weights cannot be put into a temporary file in %s: %s; set TMPDIR to a folder with room",
                bytes, qc_temporary_folder(NULL), strerror(errno));
    else if ((ok = qc_file_map_new(out, fd, bytes, st)) && !*out)
        ok = cannot_map(st);
    if (fd >= 0) close(fd);
    return ok;
}

bool qc_file_map_scratch(struct qc_file_map **out, size_t bytes, struct qc_status *st)
{
    struct qc_file_map *m = malloc(sizeof *m);
    const int fd = m ? temporary_file(qc_temporary_folder(NULL)) : -1;
    void *data = MAP_FAILED;
    bool ok = false;
    *out = NULL;
    if (!m) return qc_fail_memory(st, sizeof *m);
    /* Allocate on disk first: writing a page for which the disk has no room would end the process. */
    const int error = fd < 0 ? errno : bytes > INT64_MAX ? EFBIG : posix_fallocate(fd, 0, (off_t)bytes);
    if (error)
        qc_fail(st, QC_MACHINE,
                "a temporary file of %zu bytes cannot be made in %s: %s; set TMPDIR to a folder with room", bytes,
                qc_temporary_folder(NULL), strerror(error));
    else if ((data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        cannot_map(st);
    else
        ok = true;
    if (fd >= 0) close(fd);
    if (!ok) {
        free(m);
        return false;
    }
    m->data = data;
    m->bytes = bytes;
    atomic_init(&m->references, 1);
    *out = m;
    return true;
}

void *qc_file_map_room(struct qc_file_map *m)
{
    return m->data;
}

const void *qc_file_map_data(const struct qc_file_map *m)
{
    return m->data;
}

struct qc_file_map *qc_file_map_ref(struct qc_file_map *m)
{
    atomic_fetch_add(&m->references, 1);
    return m;
}

void qc_file_map_unref(struct qc_file_map *m)
{
    if (!m || atomic_fetch_sub(&m->references, 1) > 1) return;
    munmap(m->data, m->bytes);
    free(m);
}

void qc_file_map_forget(const void *data, size_t bytes)
{
    const uintptr_t page = page_bytes(), begin = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + bytes) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* advice */
}

struct qc_scratch_file {
    int fd;
    int64_t bytes;
    char folder[]; /* for messages */
};

bool qc_scratch_file_new(struct qc_scratch_file **out, const char *folder, struct qc_status *st)
{
    if (!folder || !*folder) folder = qc_temporary_folder(NULL);
    struct qc_scratch_file *f = calloc(1, sizeof *f + strlen(folder) + 1);
    if (!f) return qc_fail_memory(st, sizeof *f);
    strcpy(f->folder, folder);
    if ((f->fd = temporary_file(folder)) < 0) {
        qc_fail(st, QC_MACHINE, "%s: cannot make a temporary file (%s); set TMPDIR to a folder with room", folder,
                strerror(errno));
        free(f);
        return false;
    }
    *out = f;
    return true;
}

void qc_scratch_file_free(struct qc_scratch_file *f)
{
    if (!f) return;
    close(f->fd);
    free(f);
}

bool qc_scratch_file_grow(int64_t *at, struct qc_scratch_file *f, size_t bytes, struct qc_status *st)
{
    const int error =
        bytes > (size_t)(INT64_MAX - f->bytes) ? EFBIG : posix_fallocate(f->fd, (off_t)f->bytes, (off_t)bytes);
    if (error)
        return qc_fail(st, QC_MACHINE,
                       "%s: cannot make room in a temporary file (%s); set TMPDIR to a folder with room", f->folder,
                       strerror(error));
    *at = f->bytes;
    f->bytes += (int64_t)bytes;
    return true;
}

size_t qc_scratch_file_whole(size_t bytes)
{
    enum { PAGE = 1 << 16 }; /* the largest page size of any system */
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

bool qc_scratch_file_map(struct qc_file_map **out, const struct qc_scratch_file *f, struct qc_status *st)
{
    return qc_file_map_new(out, f->fd, (size_t)f->bytes, st);
}

/* Writes `from` to the file, or reads from it to `to` if `from` is NULL. */
static bool move_bytes(void *to, const void *from, const struct qc_scratch_file *f, int64_t at, size_t bytes,
                       struct qc_status *st)
{
    for (size_t n = 0; n < bytes;) {
        const off_t place = (off_t)at + (off_t)n;
        const ssize_t k = from ? pwrite(f->fd, (const char *)from + n, bytes - n, place)
                               : pread(f->fd, (char *)to + n, bytes - n, place);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return qc_fail(st, QC_MACHINE, "%s: cannot %s a temporary file: %s", f->folder, from ? "write to" : "read",
                           k ? strerror(errno) : "it ends too early");
        n += (size_t)k;
    }
    return true;
}

bool qc_scratch_file_write(struct qc_scratch_file *f, int64_t at, const void *data, size_t bytes, struct qc_status *st)
{
    return move_bytes(NULL, data, f, at, bytes, st);
}

bool qc_scratch_file_read(void *data, const struct qc_scratch_file *f, int64_t at, size_t bytes, struct qc_status *st)
{
    return move_bytes(data, NULL, f, at, bytes, st);
}
