// SPDX-License-Identifier: Apache-2.0
#include "base/deflate.h"

#include <libdeflate.h>
#include <stdlib.h>

/* Shorter data are stored uncompressed: a search for repetitions begins by clearing 192 KiB of tables. */
enum { SHORT = 128 };

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

bool qc_deflate_pack(void **out, size_t *out_size, struct qc_deflate *d, const void *data, size_t size,
                     struct qc_status *st)
{
    struct libdeflate_compressor **c = size < SHORT ? &d->store : &d->deflate;
    if (!*c && !(*c = libdeflate_alloc_compressor(size < SHORT ? 0 : d->level))) return qc_fail_memory(st, 1 << 20);
    const size_t bound = libdeflate_zlib_compress_bound(*c, size);
    void *packed = malloc(bound ? bound : 1);
    if (!packed) return qc_fail_memory(st, bound);
    *out_size = libdeflate_zlib_compress(*c, data, size, packed, bound);
    void *fitting = realloc(packed, *out_size ? *out_size : 1);
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
