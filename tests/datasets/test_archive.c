// SPDX-License-Identifier: Apache-2.0
/* A file that is written piece by piece has the bytes of one that is written at once. */
#include "datasets/hdf5/archive.h"
#include "tests/check.h"

/* 24 MB that hardly compress: the image moves to a temporary file while it grows. */
enum { ROWS = 1000003, COLUMNS = 3 };

struct rows {
    const int64_t *of;
    size_t at, most; /* most: where `next` fails */
};

static bool next(void *user, void *to, size_t rows, struct qc_status *st)
{
    struct rows *r = user;
    if (r->at + rows > r->most) return qc_fail(st, QC_BAD_INPUT, "no more");
    memcpy(to, r->of + r->at * COLUMNS, rows * COLUMNS * sizeof *r->of);
    r->at += rows;
    return true;
}

static int64_t *numbers(void)
{
    int64_t *x = malloc((size_t)ROWS * COLUMNS * sizeof *x);
    uint64_t state = 1;
    cr_assert(x);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        x[i] = (int64_t)state;
    }
    return x;
}

Test(archive, written_by_parts_has_the_same_bytes)
{
    OWN(qc_archive) *whole = NULL, *parts = NULL;
    QC_FREED int64_t *x = numbers();
    struct rows rows = {.of = x, .most = ROWS};
    QC_FREED void *bytes = NULL;
    size_t size = 0;
    char path[] = "/tmp/qcalib_archive_XXXXXX";
    const int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert(qc_archive_new(&whole, ST) && qc_archive_new(&parts, ST));
    cr_assert(qc_archive_put(whole, "group/x", QC_I64, ROWS, COLUMNS, x, ST) &&
              qc_archive_put_number(whole, "n", 7, ST) && qc_archive_bytes(&bytes, &size, whole, ST));
    cr_assert(qc_archive_put_from(parts, "group/x", QC_I64, ROWS, COLUMNS, next, &rows, ST) &&
              qc_archive_put_number(parts, "n", 7, ST) && qc_archive_save(path, parts, ST));
    QC_FREED char *read = malloc(size + 1);
    FILE *f = fopen(path, "rb");
    cr_assert(read && f && size > 20 << 20);
    cr_expect_eq(fread(read, 1, size + 1, f), size);
    cr_expect(memcmp(read, bytes, size) == 0);
    fclose(f);
    close(fd);
    unlink(path);
}

Test(archive, a_part_that_fails_is_the_error)
{
    OWN(qc_archive) *a = NULL;
    QC_FREED int64_t *x = numbers();
    struct rows rows = {.of = x, .most = ROWS / 2};
    MUST(qc_archive_new(&a, ST));
    REFUSES(qc_archive_put_from(a, "x", QC_I64, ROWS, COLUMNS, next, &rows, ST), QC_BAD_INPUT, "");
    SHOULD(strstr(failure.message, "no more") && strstr(failure.message, "'x'"));
}
