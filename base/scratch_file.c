// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/temporary.h"

struct qc_scratch_file {
    int fd;
    int64_t bytes;
};

bool qc_scratch_file_new(struct qc_scratch_file **out, struct qc_status *st)
{
    struct qc_scratch_file *f = malloc(sizeof *f);
    const int fd = f ? qc_temporary_file() : -1;
    *out = NULL;
    if (!f) return qc_fail_memory(st, sizeof *f);
    if (fd < 0) {
        free(f);
        return true;
    }
    *f = (struct qc_scratch_file){.fd = fd};
    *out = f;
    return true;
}

void qc_scratch_file_free(struct qc_scratch_file *f)
{
    if (!f) return;
    close(f->fd);
    free(f);
}

int64_t qc_scratch_file_grow(struct qc_scratch_file *f, size_t bytes)
{
    const int64_t at = f->bytes;
    if (bytes > (size_t)(INT64_MAX - at) || posix_fallocate(f->fd, (off_t)at, (off_t)bytes) != 0) return -1;
    f->bytes += (int64_t)bytes;
    return at;
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

bool qc_scratch_file_write(struct qc_scratch_file *f, int64_t at, const void *data, size_t bytes, struct qc_status *st)
{
    for (size_t n = 0; n < bytes;) {
        const ssize_t k = pwrite(f->fd, (const char *)data + n, bytes - n, (off_t)at + (off_t)n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return qc_fail(st, QC_MACHINE, "cannot write to a temporary file in %s: %s", qc_temporary_folder(),
                           strerror(errno));
        n += (size_t)k;
    }
    return true;
}

bool qc_scratch_file_read(void *data, const struct qc_scratch_file *f, int64_t at, size_t bytes, struct qc_status *st)
{
    for (size_t n = 0; n < bytes;) {
        const ssize_t k = pread(f->fd, (char *)data + n, bytes - n, (off_t)at + (off_t)n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            return qc_fail(st, QC_MACHINE, "cannot read a temporary file in %s: %s", qc_temporary_folder(),
                           k ? strerror(errno) : "it ends too early");
        n += (size_t)k;
    }
    return true;
}
