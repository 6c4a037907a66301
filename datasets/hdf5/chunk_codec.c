// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/chunk_codec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/deflate.h"

struct buffer {
    void *data;
    size_t size;
};

struct qc_chunk_codec {
    struct qc_deflate *deflate;
    struct buffer shuffled, plain;
};

struct qc_chunk_codec *qc_chunk_codec_new(void)
{
    struct qc_chunk_codec *c = calloc(1, sizeof *c);
    if (c && !(c->deflate = qc_deflate_new(QC_CHUNK_LEVEL))) {
        free(c);
        return NULL;
    }
    return c;
}

void qc_chunk_codec_free(struct qc_chunk_codec *c)
{
    if (!c) return;
    qc_deflate_free(c->deflate);
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

/* Moves byte k of element i to k * count + i; bytes after the last whole element keep their place (H5Zshuffle.c). */
static void shuffle(unsigned char *restrict out, const unsigned char *restrict in, size_t size, size_t element)
{
    size_t count = size / element;
    if (element == 4) { /* the common size, in a form that compilers vectorize */
        unsigned char *a = out, *b = out + count, *c = out + 2 * count, *d = out + 3 * count;
        for (size_t i = 0; i < count; i++) {
            a[i] = in[4 * i];
            b[i] = in[4 * i + 1];
            c[i] = in[4 * i + 2];
            d[i] = in[4 * i + 3];
        }
    } else {
        for (size_t k = 0; k < element; k++)
            for (size_t i = 0; i < count; i++) out[k * count + i] = in[i * element + k];
    }
    memcpy(out + count * element, in + count * element, size - count * element);
}

static void unshuffle(unsigned char *restrict out, const unsigned char *restrict in, size_t size, size_t element)
{
    size_t count = size / element;
    if (element == 4) { /* the common size, in a form that compilers vectorize */
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
        void *to = unpack ? reserve(&c->shuffled, size, st) : out;
        if (!to || !qc_deflate_unpack(to, size, c->deflate, raw, raw_size, st)) return false;
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

/* Returns whether bytes look like noise, which deflate cannot shorten: in a sample, equal pairs are hardly more
   frequent than among uniform bytes, where one pair of 256 is equal. */
static bool is_noise(const unsigned char *bytes, size_t count)
{
    enum { LEAST = 256, SAMPLE = 4096 };
    uint64_t times[256] = {0}, pairs = 0;
    const size_t step = count > SAMPLE ? count / SAMPLE : 1, n = count > SAMPLE ? SAMPLE : count;
    if (n < LEAST) return false;
    for (size_t i = 0; i < n; i++) times[bytes[i * step]]++;
    for (size_t b = 0; b < 256; b++) pairs += times[b] * (times[b] ? times[b] - 1 : 0);
    return 256 * 10 * pairs < 11 * (uint64_t)n * (n - 1);
}

bool qc_chunk_encode(void **out, size_t *out_size, const void *data, size_t size, size_t element,
                     struct qc_chunk_codec *c, struct qc_status *st)
{
    size_t stored = 0;
    if (element > 1) {
        unsigned char *shuffled = reserve(&c->shuffled, size, st);
        if (!shuffled) return false;
        shuffle(shuffled, data, size, element);
        /* The lowest bytes of floats come first. */
        while (stored + size / element <= size && is_noise(shuffled + stored, size / element)) stored += size / element;
        data = shuffled;
    }
    return qc_deflate_pack(out, out_size, c->deflate, data, size, stored, st);
}
