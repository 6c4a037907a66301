// SPDX-License-Identifier: Apache-2.0
/* Innermost integer loops of every instruction set against sums in plain C, on random sizes: whole tiles and such that
   do not fill registers, data and weights at the ends of their ranges, pairs of products at the ends of 16 bits. */
#include "random_graph.h"
#include "simq/kernels/integer/tile.h"
#include "tests/check.h"

enum { RUNS = 7, QUADS = 19, STEP = 4 * QUADS + 60, BYTES = RUNS * 200 + QC_TILE_MOST * STEP, CASES = 400 };

struct operands {
    uint8_t a[BYTES], w[4 * RUNS * QUADS * QC_TILE_WIDTH];
    ptrdiff_t run[RUNS];
    int32_t bias[QC_TILE_WIDTH], acc[QC_TILE_MOST * QC_TILE_WIDTH + 1];
};

/* Often one of the ends. */
static int32_t number(struct random_source *r, int32_t lo, int32_t hi)
{
    const int64_t kind = random_int(r, 0, 3);
    return kind == 0 ? lo : kind == 1 ? hi : (int32_t)random_int(r, lo, hi);
}

/* Two weights whose products with data of 8 bits fit in 16 bits together. */
static void pair(uint8_t *to, struct random_source *r, bool is_signed)
{
    const int32_t a = number(r, -128, 127);
    int32_t lo = -128, hi = 127;
    if (is_signed) lo = a == -128 ? -127 : -128;
    if (!is_signed && a > 0) hi = 128 - a;
    if (!is_signed && a < 0) lo = -128 - a;
    to[0] = (uint8_t)a;
    to[1] = (uint8_t)number(r, lo, hi < 127 ? hi : 127);
}

static void draw(struct operands *o, struct random_source *r, const struct qc_tile_set *s, bool wide)
{
    for (size_t i = 0; i < sizeof o->a; i++) o->a[i] = (uint8_t)number(r, 0, 255);
    for (size_t i = 0; i < sizeof o->w; i++) o->w[i] = (uint8_t)number(r, -128, 127);
    for (size_t i = 0; !wide && s->pairs && i < sizeof o->w; i += 2) pair(o->w + i, r, s->is_signed);
    for (size_t i = 0; i < RUNS; i++) o->run[i] = (ptrdiff_t)random_int(r, 0, RUNS * 100);
    for (size_t i = 0; i < QC_TILE_WIDTH; i++) o->bias[i] = number(r, INT32_MIN, INT32_MAX);
}

static int32_t product(const uint8_t *a, const uint8_t *w, bool wide, int32_t less)
{
    uint32_t sum = 0;
    int16_t x[2], y[2];
    memcpy(x, a, 4);
    memcpy(y, w, 4);
    for (int i = 0; wide && i < 2; i++) sum += (uint32_t)(x[i] * y[i]);
    for (int i = 0; !wide && i < 4; i++) sum += (uint32_t)((a[i] - less) * (int8_t)w[i]);
    return (int32_t)sum;
}

static size_t wrong_sums(const struct qc_tile *t, int rows, int blocks, bool wide, int32_t less)
{
    const size_t n = (size_t)blocks * QC_TILE_CHANNELS;
    size_t wrong = 0;
    for (int m = 0; m < rows; m++)
        for (size_t c = 0; c < n; c++) {
            uint32_t sum = (uint32_t)t->bias[c];
            for (size_t r = 0; r < t->runs; r++)
                for (size_t q = 0; q < t->quads; q++)
                    sum += (uint32_t)product(t->a + m * t->step + t->run[r] + 4 * q,
                                             t->w + 4 * ((r * t->quads + q) * n + c), wide, less);
            wrong += t->acc[(size_t)m * n + c] != (int32_t)sum;
        }
    return wrong;
}

Test(tile, all_instructions_give_the_same_sums)
{
    static struct operands o;
    struct random_source random = {28};
    for (enum qc_isa isa = QC_ISA_PLAIN; isa < QC_ISA_COUNT; isa++) {
        const struct qc_tile_set s = qc_tile_set_of(qc_isa_detect(isa));
        for (int k = 0; k < CASES; k++) {
            const int blocks = (int)random_int(&random, 1, QC_TILE_BLOCKS), power = (int)random_int(&random, 0, 4),
                      rows = power < 4 ? 1 << power : s.rows[blocks];
            const bool wide = k % 2;
            draw(&o, &random, &s, wide);
            const struct qc_tile t =
                FIELDS(.a = o.a, .step = (ptrdiff_t)random_int(&random, 0, STEP), .run = o.run,
                       .runs = (size_t)random_int(&random, 1, RUNS), .quads = (size_t)random_int(&random, 1, QUADS),
                       .w = o.w, .bias = o.bias, .acc = o.acc);
            const size_t end = (size_t)(rows * blocks) * QC_TILE_CHANNELS;
            o.acc[end] = 77;
            (wide ? s.wide : s.narrow)(&t, rows, blocks);
            const size_t wrong = wrong_sums(&t, rows, blocks, wide, !wide && s.is_signed ? 128 : 0);
            cr_assert_eq(wrong, 0, "%s, %s, %d rows, %d blocks, %zu runs of %zu: %zu wrong", qc_isa_name(isa),
                         wide ? "wide" : "narrow", rows, blocks, t.runs, t.quads, wrong);
            cr_assert_eq(o.acc[end], 77);
        }
    }
}

enum { TAPS = 26, CHANNELS = 150, PADDED = 192 };

static void check_depthwise(const struct qc_tile_set *s, const char *name, struct random_source *r)
{
    static uint8_t a[4096];
    static int32_t w[TAPS * CHANNELS], bias[PADDED], acc[PADDED];
    const size_t taps = (size_t)random_int(r, 1, TAPS), channels = (size_t)random_int(r, 1, CHANNELS);
    ptrdiff_t tap[TAPS];
    for (size_t i = 0; i < sizeof a; i++) a[i] = (uint8_t)number(r, 0, 255);
    for (size_t i = 0; i < taps * channels; i++) w[i] = number(r, -128, 127);
    for (size_t i = 0; i < TAPS; i++) tap[i] = (ptrdiff_t)random_int(r, 0, (int64_t)sizeof a - PADDED);
    for (size_t i = 0; i < PADDED; i++) bias[i] = number(r, INT32_MIN, INT32_MAX);
    QC_FREED void *packed = aligned_alloc(64, (qc_depthwise_bytes(taps, channels, s->taps) + 63) / 64 * 64);
    qc_depthwise_pack(packed, w, taps, channels, s->taps);
    s->narrow_depthwise(&(struct qc_depthwise){
        .a = a, .tap = tap, .taps = taps, .channels = channels, .w = packed, .bias = bias, .acc = acc});
    size_t wrong = 0;
    for (size_t c = 0; c < channels; c++) {
        uint32_t sum = (uint32_t)bias[c];
        for (size_t t = 0; t < taps; t++) sum += (uint32_t)(a[(size_t)tap[t] + c] * w[t * channels + c]);
        wrong += acc[c] != (int32_t)sum;
    }
    cr_assert_eq(wrong, 0, "%s, %zu taps, %zu channels: %zu wrong", name, taps, channels, wrong);
}

Test(tile, all_instructions_give_the_same_sums_of_channels)
{
    struct random_source random = {29};
    for (enum qc_isa isa = QC_ISA_PLAIN; isa < QC_ISA_COUNT; isa++) {
        const struct qc_tile_set s = qc_tile_set_of(qc_isa_detect(isa));
        for (int k = 0; k < CASES; k++) check_depthwise(&s, qc_isa_name(isa), &random);
    }
}
