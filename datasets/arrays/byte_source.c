// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrays/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"

enum { MEMORY_BYTES = 16 << 20 }; /* larger sources go to a temporary file */

bool qc_bytes_open(struct qc_bytes *out, const char *path, struct qc_status *st)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info)) {
        const bool given = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG;
        qc_fail(st, given ? QC_BAD_INPUT : QC_MACHINE, "cannot read %s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        qc_fail(st, QC_BAD_INPUT, "cannot read %s: it is not a regular file", path);
    } else if (!qc_check_holes(fd, st)) {
        qc_where(st, "%s", path);
    } else {
        *out = (struct qc_bytes){.fd = fd, .own = true, .size = (uint64_t)info.st_size};
        return true;
    }
    if (fd >= 0) close(fd);
    return false;
}

bool qc_bytes_room(struct qc_bytes *out, uint64_t size, struct qc_status *st)
{
    struct qc_bytes b = {.fd = -1, .own = true, .size = size};
    if (size <= MEMORY_BYTES) {
        if (!(b.memory = malloc(size ? (size_t)size : 1))) return qc_fail_memory(st, size);
        *out = b;
        return true;
    }
    const char *folder = getenv("TMPDIR");
    char path[4096];
    struct statvfs disk;
    if (!folder || !*folder) folder = "/tmp";
    qc_text(path, sizeof path, "%s/qcalib-XXXXXX", folder);
    if (statvfs(folder, &disk) == 0 && size / disk.f_frsize >= disk.f_bavail)
        return qc_fail(st, QC_MACHINE,
                       "unpacking needs %" PRIu64 " bytes, which %s does not have; set TMPDIR to a folder that has",
                       size, folder);
    if ((b.fd = mkstemp(path)) < 0)
        return qc_fail(st, QC_MACHINE, "cannot make a temporary file in %s: %s; set TMPDIR", folder, strerror(errno));
    unlink(path);
    *out = b;
    return true;
}

void qc_bytes_close(struct qc_bytes *b)
{
    if (b->own && b->fd >= 0) close(b->fd);
    free(b->memory);
    *b = (struct qc_bytes){.fd = -1};
}

bool qc_bytes_read(void *out, const struct qc_bytes *b, uint64_t at, size_t size, struct qc_status *st)
{
    if (at > b->size || size > b->size - at)
        return qc_fail(st, QC_BAD_INPUT, "it is truncated: %zu bytes are needed at byte %" PRIu64 " of %" PRIu64, size,
                       at, b->size);
    if (b->memory) {
        memcpy(out, b->memory + at, size);
        return true;
    }
    for (char *to = out; size;) {
        const ssize_t n = pread(b->fd, to, size, (off_t)(b->first + at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return qc_fail(st, QC_MACHINE, "cannot be read: %s", strerror(errno));
        if (n == 0) return qc_fail(st, QC_BAD_INPUT, "it was truncated while it was read");
        to += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

bool qc_bytes_write(struct qc_bytes *b, uint64_t at, const void *data, size_t size, struct qc_status *st)
{
    if (at > b->size || size > b->size - at)
        return qc_fail(st, QC_BAD_INPUT, "it unpacks to more than its recorded size");
    if (b->memory) {
        memcpy(b->memory + at, data, size);
        return true;
    }
    for (const char *from = data; size;) {
        const ssize_t n = pwrite(b->fd, from, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return qc_fail(st, QC_MACHINE, "a temporary file cannot be written: %s; set TMPDIR", strerror(errno));
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}
