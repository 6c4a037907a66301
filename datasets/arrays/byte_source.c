// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrays/byte_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { MEMORY_BYTES = 16 << 20 }; /* larger sources go to a temporary file */

bool qc_bytes_open(struct qc_bytes *out, const char *path, struct qc_status *st)
{
    struct qc_bytes b = {.own = true};
    if (!qc_file_open(&b.fd, &b.size, path, st)) return false;
    if (!qc_check_holes(b.fd, st)) {
        close(b.fd);
        return qc_where(st, "%s", path);
    }
    *out = b;
    return true;
}

bool qc_bytes_room(struct qc_bytes *out, uint64_t size, struct qc_status *st)
{
    struct qc_bytes b = {.fd = -1, .size = size};
    if (size <= MEMORY_BYTES) {
        if (!(b.memory = malloc(size ? (size_t)size : 1))) return qc_fail_memory(st, size);
    } else {
        if (!qc_file_map_scratch(&b.map, (size_t)size, st)) return false;
        b.memory = qc_file_map_room(b.map);
    }
    *out = b;
    return true;
}

void qc_bytes_close(struct qc_bytes *b)
{
    if (b->own) close(b->fd);
    if (b->map)
        qc_file_map_unref(b->map);
    else
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
    memcpy(b->memory + at, data, size);
    return true;
}
