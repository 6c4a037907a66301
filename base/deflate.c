// SPDX-License-Identifier: Apache-2.0
#include "base/deflate.h"

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Shorter data are stored uncompressed: a search for repetitions begins by clearing 192 KiB of tables, which takes as
   long as a small network. */
enum { SHORT = 2048 };

/* Bytes of a zlib stream before and after its blocks (RFC 1950); of a stored block, at most, and of its header. */
enum { HEAD = 2, TAIL = 4, BLOCK = 65535, BLOCK_HEAD = 5 };

struct qc_deflate {
    int level;
    struct libdeflate_decompressor *inflate;
    struct libdeflate_compressor *deflate, *store;
};

struct qc_deflate *qc_deflate_new(int level)
{
    struct qc_deflate *d = calloc(1, sizeof *d);
    if (d) d->level = level;
    return d;
}

void qc_deflate_free(struct qc_deflate *d)
{
    if (!d) return;
    if (d->inflate) libdeflate_free_decompressor(d->inflate);
    if (d->deflate) libdeflate_free_compressor(d->deflate);
    if (d->store) libdeflate_free_compressor(d->store);
    free(d);
}

/* Appends stored blocks (RFC 1951, 3.2.4), none of them the last. Returns their end. */
static unsigned char *put_stored(unsigned char *to, const unsigned char *data, size_t size)
{
    for (size_t n; size; size -= n, data += n) {
        n = size < BLOCK ? size : BLOCK;
        const unsigned char head[] = {0, (unsigned char)n, (unsigned char)(n >> 8), (unsigned char)~n,
                                      (unsigned char)(~n >> 8)};
        memcpy(to, head, sizeof head);
        memcpy(to + sizeof head, data, n);
        to += sizeof head + n;
    }
    return to;
}

bool qc_deflate_pack(void **out, size_t *out_size, struct qc_deflate *d, const void *data, size_t size, size_t stored,
                     struct qc_status *st)
{
    const unsigned char *rest = (const unsigned char *)data + stored;
    const size_t left = size - stored;
    struct libdeflate_compressor **c = left < SHORT ? &d->store : &d->deflate;
    if (!*c && !(*c = libdeflate_alloc_compressor(left < SHORT ? 0 : d->level))) return qc_fail_memory(st, 1 << 20);
    const size_t bound = libdeflate_deflate_compress_bound(*c, left),
                 most = HEAD + stored + (stored / BLOCK + 1) * BLOCK_HEAD + bound + TAIL;
    unsigned char *packed = malloc(most);
    if (!packed) return qc_fail_memory(st, most);
    packed[0] = 0x78; /* deflate, window of 32 KiB */
    packed[1] = 0x01; /* no dictionary; makes both bytes a multiple of 31 */
    unsigned char *to = put_stored(packed + HEAD, data, stored);
    to += libdeflate_deflate_compress(*c, rest, left, to, bound);
    const uint32_t sum = libdeflate_adler32(1, data, size);
    for (int i = 0; i < TAIL; i++) *to++ = (unsigned char)(sum >> (24 - 8 * i));
    *out_size = (size_t)(to - packed);
    void *fitting = realloc(packed, *out_size);
    *out = fitting ? fitting : packed;
    return true;
}

bool qc_deflate_unpack(void *out, size_t size, struct qc_deflate *d, const void *packed, size_t packed_size,
                       struct qc_status *st)
{
    if (!d->inflate && !(d->inflate = libdeflate_alloc_decompressor())) return qc_fail_memory(st, 64 << 10);
    if (libdeflate_zlib_decompress(d->inflate, packed, packed_size, out, size, NULL) == LIBDEFLATE_SUCCESS) return true;
    return qc_fail(st, QC_BAD_INPUT, "its gzip data are damaged or do not give %zu bytes; make the file again", size);
}
