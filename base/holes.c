// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* SEEK_DATA */
#include "base/holes.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

/* FREE: bytes that are quick to read wherever they come from. TIMES: as many more are holes in no file that has a
   purpose; it is what deflate makes of one byte. */
enum { BLOCK = 512, PIECES = 4096, FREE_BYTES = 1 << 30, TIMES = 1100 };

/* Piece by piece; blocks: what the file takes on the disk, which may be less because it is compressed there. */
static uint64_t count_pieces(int fd, uint64_t size, uint64_t blocks)
{
    uint64_t sum = 0;
    off_t at = 0;
    for (unsigned i = 0; i < PIECES; i++) {
        const off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0) return errno == ENXIO ? sum : size;
        if ((at = lseek(fd, data, SEEK_HOLE)) < 0) return size;
        sum += (uint64_t)(at - data);
        if ((uint64_t)at >= size) return sum;
    }
    return sum > blocks ? sum : blocks;
}

uint64_t qc_stored_bytes(int fd)
{
    struct stat info;
    if (fstat(fd, &info) || info.st_size < 0) return UINT64_MAX;
    const uint64_t size = (uint64_t)info.st_size, blocks = (uint64_t)info.st_blocks * BLOCK;
    if (blocks >= size) return size;
    const uint64_t stored = count_pieces(fd, size, blocks);
    lseek(fd, 0, SEEK_SET);
    return stored < size ? stored : size;
}

bool qc_check_holes(int fd, struct qc_status *st)
{
    struct stat info;
    if (fstat(fd, &info) || info.st_size <= FREE_BYTES) return true;
    const uint64_t size = (uint64_t)info.st_size, stored = qc_stored_bytes(fd);
    return (size - FREE_BYTES) / TIMES <= stored ||
           qc_fail(st, QC_BAD_INPUT,
                   "it says that it has %" PRIu64 " bytes, and the disk stores %" PRIu64 " of them; copy it again",
                   size, stored);
}
