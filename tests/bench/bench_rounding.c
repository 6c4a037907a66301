// SPDX-License-Identifier: Apache-2.0
/* Requantize loops: checks millions of random sums against the scalar function, then prints elements per second of
   each. bench_rounding [MILLIONS]   (default 4) */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "arith/requantize.h"

enum { CHANNELS = 64, ROWS = 256, LENGTH = CHANNELS * ROWS };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 16;
}

static bool bench(enum qc_contract contract, uint64_t rounds, struct qc_arena *a, struct qc_status *st)
{
    float weights[CHANNELS];
    uint64_t state = 5, wrong = 0;
    for (int i = 0; i < CHANNELS; i++) weights[i] = 0.001f + 1e-9f * (float)(next(&state) % 10000000);
    const struct qc_requantize_def d = {.contract = contract,
                                        .source = QC_FROM_PRODUCT,
                                        .input_scale = 0.02f,
                                        .count = CHANNELS,
                                        .weight_scale = weights,
                                        .output = {.scale = 0.05f, .zero_point = -7},
                                        .levels = {.lo = -128, .hi = 127}};
    struct qc_requantizer r;
    struct qc_requantize_loop loop;
    int32_t *x = QC_NEW_ARRAY(a, int32_t, LENGTH, st), *y = QC_NEW_ARRAY(a, int32_t, LENGTH, st);
    if (!x || !y || !qc_requantizer_of(&r, &d, a, st) || !qc_requantize_loop_of(&loop, &r, a, st)) return false;
    double vector = 0, scalar = 0;
    for (uint64_t k = 0; k < rounds; k++) {
        for (int i = 0; i < LENGTH; i++) x[i] = (int32_t)(next(&state) % 800000) - 400000;
        const double t0 = seconds();
        for (int i = 0; i < LENGTH; i += CHANNELS) qc_requantize_run(&loop, 0, y + i, x + i, CHANNELS);
        const double t1 = seconds();
        for (size_t i = 0; i < LENGTH; i++) wrong += y[i] != qc_requantize_one(&r, i % CHANNELS, x[i]);
        scalar += seconds() - t1;
        vector += t1 - t0;
    }
    const double n = (double)rounds * LENGTH;
    printf("%-14s %10.0f sums, %llu wrong, %7.0f M/s, scalar %5.0f M/s\n", qc_contract_info(contract)->name, n,
           (unsigned long long)wrong, n / vector / 1e6, n / scalar / 1e6);
    return wrong == 0;
}

int main(int argc, char **argv)
{
    const unsigned long millions = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    bool ok = a != NULL;
    for (int c = 0; ok && c < QC_CONTRACT_COUNT; c++)
        ok = bench((enum qc_contract)c, 1 + millions * 1000000 / LENGTH, a, &st);
    qc_arena_free(a);
    return ok ? 0 : 1;
}
