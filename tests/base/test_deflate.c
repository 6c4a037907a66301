// SPDX-License-Identifier: Apache-2.0
#include "base/deflate.h"
#include "tests/check.h"

/* RFC 1950 and 1951: a stored block of "abc", with its Adler-32. */
static const unsigned char abc[] = {0x78, 0x01, 0x01, 3, 0, 0xfc, 0xff, 'a', 'b', 'c', 0x02, 0x4d, 0x01, 0x27};

Test(deflate, unpacks_what_the_standard_says)
{
    OWN(qc_deflate) *d = qc_deflate_new(6);
    char out[4] = {0};
    MUST(qc_deflate_unpack(out, 3, d, abc, sizeof abc, ST));
    cr_expect_str_eq(out, "abc");
    REFUSES(qc_deflate_unpack(out, 2, d, abc, sizeof abc, ST), QC_BAD_INPUT, "");
}

/* RFC 1951, 3.2.3: the last block of a stream, stored, is the three bits 1, 0, 0. */
Test(deflate, short_ones_are_stored)
{
    OWN(qc_deflate) *d = qc_deflate_new(6);
    char in[3000] = {0}, out[3000];
    static const size_t sizes[] = {2000, sizeof in, 3};
    for (size_t k = 0; k < 3; k++) {
        QC_FREED void *packed = NULL;
        size_t size;
        MUST(qc_deflate_pack(&packed, &size, d, in, sizes[k], 0, ST));
        cr_expect((((unsigned char *)packed)[2] & 7) == 1 || sizes[k] > 2000, "%zu bytes", sizes[k]);
        cr_expect(size < 100 || sizes[k] == 2000, "%zu bytes of %zu", size, sizes[k]);
        MUST(qc_deflate_unpack(out, sizes[k], d, packed, size, ST));
        cr_expect_eq(memcmp(in, out, sizes[k]), 0);
    }
}

/* The first `stored` bytes stand in the stream as they are, after the header of two bytes and of a block of five. */
Test(deflate, first_bytes_are_stored)
{
    OWN(qc_deflate) *d = qc_deflate_new(6);
    enum { SIZE = 200000, BLOCK = 65535 };
    static const size_t stored[] = {0, 1, BLOCK, BLOCK + 1, SIZE};
    QC_FREED char *in = calloc(1, SIZE), *out = malloc(SIZE);
    for (size_t k = 0; k < sizeof stored / sizeof *stored; k++) {
        QC_FREED void *packed = NULL;
        size_t size;
        MUST(qc_deflate_pack(&packed, &size, d, in, SIZE, stored[k], ST));
        cr_expect(size >= stored[k] && size < stored[k] + 300, "%zu bytes, %zu stored", size, stored[k]);
        MUST(qc_deflate_unpack(out, SIZE, d, packed, size, ST));
        cr_expect_eq(memcmp(in, out, SIZE), 0);
    }
}

Test(deflate, packs_what_it_unpacks)
{
    enum { SIZE = 100000 };
    OWN(qc_deflate) *d = qc_deflate_new(6);
    QC_FREED char *in = malloc(SIZE), *out = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) in[i] = (char)("report"[i % 6] + (i % 1000 == 0));
    for (size_t size = 0; size <= SIZE; size = 10 * size + 1) {
        QC_FREED void *packed = NULL;
        size_t many;
        MUST(qc_deflate_pack(&packed, &many, d, in, size, size / 3, ST));
        cr_expect(size < 2000 || many < size / 3 + 20 + size / 20, "%zu of %zu", many, size);
        MUST(qc_deflate_unpack(out, size, d, packed, many, ST));
        cr_expect_eq(memcmp(in, out, size), 0);
    }
}
