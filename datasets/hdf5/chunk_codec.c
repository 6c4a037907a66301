// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/chunk_codec.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 4 };

struct buffer {
    void *data;
    size_t size;
};

struct qc_chunk_codec {
    struct libdeflate_decompressor *inflate;
    struct libdeflate_compressor *deflate;
    struct buffer shuffled, plain;
};

struct qc_chunk_codec *qc_chunk_codec_new(void)
{
    return calloc(1, sizeof(struct qc_chunk_codec));
}

void qc_chunk_codec_free(struct qc_chunk_codec *c)
{
    if (!c) return;
    if (c->inflate) libdeflate_free_decompressor(c->inflate);
    if (c->deflate) libdeflate_free_compressor(c->deflate);
    free(c->shuffled.data);
    free(c->plain.data);
    free(c);
}

static void *reserve(struct buffer *b, size_t size, struct qc_status *st)
{
    if (b->data && b->size >= size) return b->data;
    free(b->data);
    b->size = size ? size : 1;
    b->data = malloc(b->size);
    if (!b->data) {
        qc_fail_memory(st, b->size);
        b->size = 0;
    }
    return b->data;
}

void *qc_chunk_buffer(struct qc_chunk_codec *c, size_t size, struct qc_status *st)
{
    return reserve(&c->plain, size, st);
}

/* Byte k of element i goes to k * count + i; bytes behind the last whole element stay where they are (H5Zshuffle.c). */
static void shuffle(unsigned char *restrict out, const unsigned char *restrict in, size_t size, size_t element)
{
    size_t count = size / element;
    for (size_t k = 0; k < element; k++)
        for (size_t i = 0; i < count; i++) out[k * count + i] = in[i * element + k];
    memcpy(out + count * element, in + count * element, size - count * element);
}

static void unshuffle(unsigned char *restrict out, const unsigned char *restrict in, size_t size, size_t element)
{
    size_t count = size / element;
    if (element == 4) { /* the common one, in a form that compilers vectorize */
        const unsigned char *a = in, *b = in + count, *c = in + 2 * count, *d = in + 3 * count;
        for (size_t i = 0; i < count; i++) {
            out[4 * i] = a[i];
            out[4 * i + 1] = b[i];
            out[4 * i + 2] = c[i];
            out[4 * i + 3] = d[i];
        }
    } else {
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < element; k++) out[i * element + k] = in[k * count + i];
    }
    memcpy(out + count * element, in + count * element, size - count * element);
}

bool qc_chunk_decode(void *out, size_t size, size_t element, const void *raw, size_t raw_size,
                     struct qc_chunk_filters filters, struct qc_chunk_codec *c, struct qc_status *st)
{
    bool unpack = filters.shuffle && element > 1;
    if (filters.deflate) {
        if (!c->inflate && !(c->inflate = libdeflate_alloc_decompressor())) return qc_fail_memory(st, 64 << 10);
        void *to = unpack ? reserve(&c->shuffled, size, st) : out;
        if (!to) return false;
        if (libdeflate_zlib_decompress(c->inflate, raw, raw_size, to, size, NULL) != LIBDEFLATE_SUCCESS)
            return qc_fail(st, QC_BAD_INPUT, "its gzip data are damaged or do not give %zu bytes; make the file again",
                           size);
        raw = to;
    } else if (raw_size != size) {
        return qc_fail(st, QC_BAD_INPUT, "its chunk has %zu bytes, expected %zu; make the file again", raw_size, size);
    }
    if (unpack)
        unshuffle(out, raw, size, element);
    else if (raw != out)
        memcpy(out, raw, size);
    return true;
}

bool qc_chunk_encode(void **out, size_t *out_size, const void *data, size_t size, size_t element,
                     struct qc_chunk_codec *c, struct qc_status *st)
{
    if (!c->deflate && !(c->deflate = libdeflate_alloc_compressor(LEVEL))) return qc_fail_memory(st, 1 << 20);
    if (element > 1) {
        void *shuffled = reserve(&c->shuffled, size, st);
        if (!shuffled) return false;
        shuffle(shuffled, data, size, element);
        data = shuffled;
    }
    size_t bound = libdeflate_zlib_compress_bound(c->deflate, size);
    void *packed = malloc(bound ? bound : 1);
    if (!packed) return qc_fail_memory(st, bound);
    *out_size = libdeflate_zlib_compress(c->deflate, data, size, packed, bound);
    void *fitting = realloc(packed, *out_size ? *out_size : 1);
    if (fitting) packed = fitting;
    *out = packed;
    return true;
}
