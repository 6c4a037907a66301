// SPDX-License-Identifier: Apache-2.0
/* How many positions of a sample second moments are taken of. */
#include <criterion/criterion.h>

#include "calib/moments/second_moments.h"

/* As many rows to a column as are enough, all runs together; few runs show what they have. */
Test(moments_positions, many_runs_show_fewer_each)
{
    static const struct {
        size_t columns, outputs, runs, want; /* of 1024 positions */
    } counts[] = {{9, 64, 0, 144},      {9, 64, 32, 144},     {9, 64, 512, 33},       {144, 256, 32, 256},
                  {144, 256, 100, 164}, {576, 1024, 512, 33}, {2048, 8192, 100, 256}, {2048, 8192, 100000, 1}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const struct qc_second_moments_layer l = {.groups = 1,
                                                  .columns = counts[i].columns,
                                                  .outputs = counts[i].outputs,
                                                  .runs = counts[i].runs};
        const size_t rows = qc_second_moments_positions(&l, 1024);
        cr_expect_eq(rows, counts[i].want, "%zu columns, %zu runs: %zu, not %zu", l.columns, l.runs, rows,
                     counts[i].want);
    }
}
