// SPDX-License-Identifier: Apache-2.0
/* vpmaddubsw by hand. */
#include "arith/contract.h"
#include "tests/check.h"

Test(pair_product, saturates_at_16_bits)
{
    static const struct {
        int32_t a0, b0, a1, b1, sum;
    } cases[] = {
        {255, 127, 255, 127, 32767},
        {255, -128, 255, -128, -32768},
        {255, 127, 255, -128, -255},
        {255, 64, 255, 64, 32640},
        {255, 65, 255, 64, 32767},
        {255, -64, 255, -64, -32640},
        {255, -64, 255, -65, -32768},
        {129, 127, 129, 127, 32766},
        {129, 127, 130, 127, 32767},
        {128, -128, 128, -128, -32768},
        {128, -128, 129, -128, -32768},
        {0, 127, 0, -128, 0},
        {1, 1, 1, 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(qc_pair_product(cases[i].a0, cases[i].b0, cases[i].a1, cases[i].b1), cases[i].sum, "case %zu", i);
}
