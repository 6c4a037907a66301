// SPDX-License-Identifier: Apache-2.0
/* How many positions of a sample second moments are made of. */
#include <criterion/criterion.h>

#include "calib/moments/second_moments.h"

Test(moments_positions, large_samples_show_more_positions)
{
    const struct qc_second_moments_layer l = {.columns = 64, .outputs = 64, .groups = 1};
    const size_t sizes[][2] = {{49, 49}, {196, 128}, {784, 196}, {3136, 256}, {12544, 256}, {25600, 400}, {50176, 512}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_expect_eq(qc_second_moments_positions(&l, sizes[i][0]), sizes[i][1], "%zu", sizes[i][0]);
}
