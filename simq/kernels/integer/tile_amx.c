// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile.h"

#include "base/simd.h"

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#include <immintrin.h>

#define QC_TARGET_AMX __attribute__((target("amx-tile,amx-int8")))

/* Registers: 0 to 3 hold sums, 4 data and 5 weights of whole groups of 64 bytes, 6 and 7 those of the rest of a run.
   If runs have no rest, 6 holds weights of a second block. */
enum { GROUP = 16 /* quads */, LINE = 64 };

/* Operand of ldtilecfg (Intel SDM). */
struct config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct config) == 64, "");

/* A compiler barrier: the compiler does not know which memory the instructions below read. */
static inline void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

QC_TARGET_AMX void qc_amx_begin(int rows, size_t quads)
{
    const int left = (int)(quads % GROUP);
    struct config c = {.palette = 1};
    for (int i = 0; i < 6; i++) {
        c.bytes[i] = LINE;
        c.rows[i] = (uint8_t)(i == 5 ? GROUP : rows);
    }
    if (left) {
        c.bytes[6] = (uint16_t)(4 * left);
        c.rows[6] = (uint8_t)rows;
        c.bytes[7] = LINE;
        c.rows[7] = (uint8_t)left;
    } else {
        c.bytes[6] = LINE;
        c.rows[6] = GROUP;
    }
    settle();
    _tile_loadconfig(&c);
    settle();
}

QC_TARGET_AMX void qc_amx_end(void)
{
    _tile_release();
}

/* A step of a 2 x 2 tile whose runs have no rest. */
#define QC_SQUARE                                                                                                      \
    _tile_loadd(4, a, step);                                                                                           \
    _tile_loadd(5, w, width);                                                                                          \
    _tile_dpbusd(0, 4, 5);                                                                                             \
    _tile_loadd(6, w + LINE, width);                                                                                   \
    _tile_dpbusd(1, 4, 6);                                                                                             \
    _tile_loadd(4, a + below, step);                                                                                   \
    _tile_dpbusd(3, 4, 6);                                                                                             \
    _tile_dpbusd(2, 4, 5);

/* One step along a run; A and B are the registers of data and weights. The processor renames registers, so one of
   each is enough. */
#define QC_STEP(A, B)                                                                                                  \
    if (tiles == 1) {                                                                                                  \
        _tile_loadd(A, a, step);                                                                                       \
        _tile_loadd(B, w, width);                                                                                      \
        _tile_dpbusd(0, A, B);                                                                                         \
        if (blocks > 1) {                                                                                              \
            _tile_loadd(B, w + LINE, width);                                                                           \
            _tile_dpbusd(1, A, B);                                                                                     \
        }                                                                                                              \
        if (blocks > 2) {                                                                                              \
            _tile_loadd(B, w + 2 * LINE, width);                                                                       \
            _tile_dpbusd(2, A, B);                                                                                     \
        }                                                                                                              \
    } else if (blocks == 1) {                                                                                          \
        _tile_loadd(B, w, width);                                                                                      \
        _tile_loadd(A, a, step);                                                                                       \
        _tile_dpbusd(0, A, B);                                                                                         \
        _tile_loadd(A, a + below, step);                                                                               \
        _tile_dpbusd(1, A, B);                                                                                         \
        if (tiles > 2) {                                                                                               \
            _tile_loadd(A, a + 2 * below, step);                                                                       \
            _tile_dpbusd(2, A, B);                                                                                     \
        }                                                                                                              \
        if (tiles > 3) {                                                                                               \
            _tile_loadd(A, a + 3 * below, step);                                                                       \
            _tile_dpbusd(3, A, B);                                                                                     \
        }                                                                                                              \
    } else {                                                                                                           \
        _tile_loadd(A, a, step);                                                                                       \
        _tile_loadd(B, w, width);                                                                                      \
        _tile_dpbusd(0, A, B);                                                                                         \
        _tile_loadd(B, w + LINE, width);                                                                               \
        _tile_dpbusd(1, A, B);                                                                                         \
        _tile_loadd(A, a + below, step);                                                                               \
        _tile_dpbusd(3, A, B);                                                                                         \
        _tile_loadd(B, w, width);                                                                                      \
        _tile_dpbusd(2, A, B);                                                                                         \
    }

/* The sums start at the bias: each row loads the same line. Register i is block i % blocks of tile i / blocks. */
QC_TARGET_AMX static QC_INLINE void tile(const struct qc_tile *t, const int rows, const int tiles, const int blocks,
                                         const bool square)
{
    const ptrdiff_t step = t->step, below = rows * step, width = (ptrdiff_t)blocks * LINE;
    const int all = tiles * blocks;
    const int32_t *bias = t->bias;
    const uint8_t *w = t->w;
    settle();
    _tile_loadd(0, bias, 0);
    if (all > 1) _tile_loadd(1, bias + 1 % blocks * 16, 0);
    if (all > 2) _tile_loadd(2, bias + 2 % blocks * 16, 0);
    if (all > 3) _tile_loadd(3, bias + 3 % blocks * 16, 0);
    for (size_t r = 0; r < t->runs; r++) {
        const uint8_t *a = t->a + t->run[r];
        size_t q = t->quads;
        for (; square && q; q -= GROUP, a += 4 * GROUP, w += GROUP * width) {
            QC_SQUARE
        }
        for (; q >= GROUP; q -= GROUP, a += 4 * GROUP, w += GROUP * width) {
            QC_STEP(4, 5)
        }
        if (q) {
            QC_STEP(6, 7)
            w += (ptrdiff_t)q * width;
        }
    }
    int32_t *acc = t->acc;
    const ptrdiff_t row = (ptrdiff_t)blocks * 16;
    _tile_stored(0, acc, width);
    if (all > 1) _tile_stored(1, acc + 1 / blocks * rows * row + 1 % blocks * 16, width);
    if (all > 2) _tile_stored(2, acc + 2 / blocks * rows * row + 2 % blocks * 16, width);
    if (all > 3) _tile_stored(3, acc + 3 / blocks * rows * row + 3 % blocks * 16, width);
    settle();
}

QC_TARGET_AMX void qc_amx_tile(const struct qc_tile *t, int rows, int tiles, int blocks)
{
    if (blocks == 3)
        tile(t, rows, 1, 3, false);
    else if (blocks == 2 && tiles == 2 && t->quads % GROUP == 0)
        tile(t, rows, 2, 2, true);
    else if (blocks == 2 && tiles == 2)
        tile(t, rows, 2, 2, false);
    else if (blocks == 2)
        tile(t, rows, 1, 2, false);
    else if (tiles == 4)
        tile(t, rows, 4, 1, false);
    else
        tile(t, rows, tiles, 1, false);
}
#else
void qc_amx_begin(int rows, size_t quads)
{
    (void)rows, (void)quads;
}

void qc_amx_end(void)
{
}

void qc_amx_tile(const struct qc_tile *t, int rows, int tiles, int blocks)
{
    (void)t, (void)rows, (void)tiles, (void)blocks;
}
#endif
