// SPDX-License-Identifier: Apache-2.0
/* Second moments in temporary files equal those in memory, bit for bit. */
#include "calib/moments/moments_parts.h"
#include "tests/check.h"

enum { COLUMNS = 600, ROWS = 90, CHUNKS = 5 };

static struct qc_second_moments_layer empty(size_t keep, bool spills)
{
    struct qc_second_moments_layer l = {.name = "x", .groups = 1, .outputs = 8, .channels = COLUMNS, .taps = 1};
    qc_second_moments_lay_out(&l, QC_MOMENTS_BLOCK);
    l.keep = keep;
    l.spills = spills;
    return l;
}

static void drop(struct qc_second_moments_layer *l)
{
    for (int p = 0; p < QC_MOMENTS_PARTS; p++)
        for (int c = 0; c < QC_MOMENTS_CLASSES; c++) {
            struct qc_second_moments_sums *s = &l->parts[p].of[c];
            qc_second_moments_drop_products(s);
            qc_second_moments_drop_rows(s);
            free(s->sums);
        }
}

/* Adds rows of neighbouring steps. keep: of a class, before products take their place. */
static struct qc_second_moments_layer shown(size_t chunks, size_t keep, bool spills)
{
    struct qc_second_moments_layer l = empty(keep, spills);
    struct qc_second_moments_sums *s;
    QC_FREED int16_t *rows = malloc((size_t)ROWS * COLUMNS * sizeof *rows);
    for (size_t k = 0; k < chunks; k++) {
        struct qc_second_moments_layer one = empty(ROWS, spills);
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
            rows[i] = (int16_t)((int)((i * 7919 + k * 31) % 4001) - 2000);
        const enum qc_second_moments_part part = k % 2 ? QC_MOMENTS_HELD : QC_MOMENTS_FIT;
        MUST(qc_second_moments_class(&s, &one, part, 0, ST));
        MUST(qc_second_moments_keep(s, &one, rows, ROWS - k % 2, (int)k % 4, ST));
        cr_expect_eq(spills, s->row_file != NULL);
        qc_second_moments_add_counts(&one.parts[part], ROWS, 1, 0);
        MUST(qc_second_moments_add(&l, &one, ST));
        drop(&one);
    }
    return l;
}

static void expect_equal(const struct qc_second_moments_layer *a, const struct qc_second_moments_layer *b,
                         const char *what)
{
    const size_t w = COLUMNS, room = CHUNKS * ROWS * 2 + 1;
    QC_FREED double *h = malloc(2 * w * w * sizeof *h), *x = malloc(4 * w * sizeof *x);
    QC_FREED float *rows = malloc(2 * room * w * sizeof *rows);
    size_t count[2] = {0};
    const struct qc_second_moments_layer *both[] = {a, b};
    for (size_t k = 0; k < 2; k++) {
        qc_second_moments_read(h + k * w * w, x + k * w, both[k], 3, 0, 0);
        qc_second_moments_read_column(x + (2 + k) * w, both[k], 3, 0, 0, 77);
        if (qc_second_moments_are_rows(both[k], 3))
            MUST(qc_second_moments_read_rows(rows + k * room * w, &count[k], both[k], 3, 0, 0, x + k * w, ST));
    }
    cr_expect(memcmp(h, h + w * w, w * w * sizeof *h) == 0 && h[0] > 0, "%s: matrix", what);
    cr_expect(memcmp(x, x + w, w * sizeof *x) == 0 && memcmp(x + 2 * w, x + 3 * w, w * sizeof *x) == 0, "%s", what);
    cr_expect(count[0] == count[1], "%s: rows", what);
    cr_expect(memcmp(rows, rows + room * w, count[0] * w * sizeof *rows) == 0, "%s: rows", what);
}

Test(spilled_moments, are_those_in_memory)
{
    /* Products from the first row on, rows alone, and rows that become products. */
    const size_t keeps[] = {0, CHUNKS * ROWS, 2 * ROWS};
    for (size_t k = 0; k < 3; k++) {
        struct qc_second_moments_layer in_memory = shown(CHUNKS, keeps[k], false),
                                       in_files = shown(CHUNKS, keeps[k], true), more[2];
        expect_equal(&in_memory, &in_files, "one part");
        for (size_t i = 0; i < 2; i++) { /* and added up, of files to memory and back */
            more[i] = shown(3, keeps[k], i != 0);
            MUST(qc_second_moments_add(&more[i], i ? &in_memory : &in_files, ST));
        }
        expect_equal(&more[0], &more[1], "two parts");
        drop(&in_memory);
        drop(&in_files);
        for (size_t i = 0; i < 2; i++) drop(&more[i]);
    }
}
