// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/chunk_codec.h"
#include "tests/check.h"

static void set_up(void)
{
}

TestSuite(chunk_codec, .init = set_up);

/* zlib.compress(bytes([1,2,3,4,5,6,7,8]), 6) of Python 3.11: [1,2,3,4] [5,6,7,8] */
static const unsigned char packed[] = {0x78, 0x9c, 0x63, 0x64, 0x62, 0x66, 0x61, 0x65,
                                       0x63, 0xe7, 0x00, 0x00, 0x00, 0x80, 0x00, 0x25};

Test(chunk_codec, inflates_what_zlib_made)
{
    unsigned char out[8];
    struct qc_chunk_codec *c = qc_chunk_codec_new();
    struct qc_chunk_filters f = {.deflate = true};
    MUST(qc_chunk_decode(out, 8, 1, packed, sizeof packed, f, c, ST));
    cr_assert_arr_eq(out, ((unsigned char[]){1, 2, 3, 4, 5, 6, 7, 8}), 8);
    /* HDF5's shuffle: all first bytes of the elements, then all second bytes, ... */
    f.shuffle = true;
    MUST(qc_chunk_decode(out, 8, 4, packed, sizeof packed, f, c, ST));
    cr_assert_arr_eq(out, ((unsigned char[]){1, 3, 5, 7, 2, 4, 6, 8}), 8);
    MUST(qc_chunk_decode(out, 8, 2, packed, sizeof packed, f, c, ST));
    cr_assert_arr_eq(out, ((unsigned char[]){1, 5, 2, 6, 3, 7, 4, 8}), 8);
    qc_chunk_codec_free(c);
}

Test(chunk_codec, refuses_damage_and_other_lengths)
{
    unsigned char out[16], bad[sizeof packed];
    struct qc_chunk_codec *c = qc_chunk_codec_new();
    struct qc_chunk_filters gzip = {.deflate = true}, none = {.deflate = false};
    for (size_t n = 0; n < sizeof packed; n++) { /* cut */
        cr_expect_not(qc_chunk_decode(out, 8, 1, packed, n, gzip, c, ST), "%zu bytes", n);
        cr_expect_eq(failure.code, QC_BAD_INPUT);
    }
    for (size_t i = 0; i < sizeof packed; i++) { /* the checksum finds what the stream allows */
        memcpy(bad, packed, sizeof bad);
        bad[i] ^= 0x10;
        bool ok = qc_chunk_decode(out, 8, 1, bad, sizeof bad, gzip, c, ST);
        cr_expect(!ok || memcmp(out, ((unsigned char[]){1, 2, 3, 4, 5, 6, 7, 8}), 8) == 0, "byte %zu", i);
    }
    static const size_t sizes[] = {7, 9};
    for (size_t i = 0; i < 2; i++) {
        cr_expect_not(qc_chunk_decode(out, sizes[i], 1, packed, sizeof packed, gzip, c, ST));
        cr_expect_not(qc_chunk_decode(out, 8, 1, packed, sizes[i], none, c, ST));
    }
    qc_chunk_codec_free(c);
}

Test(chunk_codec, gives_back_what_it_packed)
{
    static const size_t elements[] = {1, 2, 4, 8}, sizes[] = {0, 8, 4096, 100000};
    struct qc_chunk_codec *c = qc_chunk_codec_new();
    for (size_t e = 0; e < 4; e++)
        for (size_t s = 0; s < 4; s++) {
            unsigned char *in = malloc(sizes[s] + 1), *out = malloc(sizes[s] + 1);
            for (size_t i = 0; i < sizes[s]; i++) in[i] = (unsigned char)(i * i >> 5);
            QC_FREED void *p = NULL;
            size_t n;
            MUST(qc_chunk_encode(&p, &n, in, sizes[s], elements[e], c, ST));
            struct qc_chunk_filters f = {.shuffle = elements[e] > 1, .deflate = true};
            MUST(qc_chunk_decode(out, sizes[s], elements[e], p, n, f, c, ST));
            cr_assert(memcmp(in, out, sizes[s]) == 0);
            free(in);
            free(out);
        }
    qc_chunk_codec_free(c);
}

/* Floats: two low bytes of noise, then a byte of few values, then zeros. Noise is stored, the rest becomes small. */
Test(chunk_codec, noise_is_stored)
{
    enum { COUNT = 100000 };
    struct qc_chunk_codec *c = qc_chunk_codec_new();
    const struct qc_chunk_filters f = {.shuffle = true, .deflate = true};
    uint32_t *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out), seed = 1;
    for (size_t low = 0; low < 3; low++) { /* bytes of noise */
        for (size_t i = 0; i < COUNT; i++) {
            seed = seed * 1664525 + 1013904223;
            in[i] = (seed >> 16 & ((1U << 8 * low) - 1)) | (uint32_t)(i % 8) << 16;
        }
        QC_FREED void *p = NULL;
        size_t n;
        MUST(qc_chunk_encode(&p, &n, in, COUNT * sizeof *in, sizeof *in, c, ST));
        cr_expect(n >= low * COUNT && n < low * COUNT + 5000, "%zu bytes of noise: %zu", low, n);
        cr_expect_eq(memcmp((unsigned char *)p + 2, ((unsigned char[]){0, 255, 255, 0, 0}), 5) == 0, low > 0);
        MUST(qc_chunk_decode(out, COUNT * sizeof *in, sizeof *in, p, n, f, c, ST));
        cr_expect_eq(memcmp(in, out, COUNT * sizeof *in), 0);
    }
    qc_chunk_codec_free(c);
    free(in);
    free(out);
}
