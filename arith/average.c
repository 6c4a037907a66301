// SPDX-License-Identifier: Apache-2.0
#include "arith/average.h"

#include <assert.h>

int32_t qc_average_away(int64_t sum, int64_t n)
{
    assert(n > 0);
    return (int32_t)((sum >= 0 ? sum + n / 2 : sum - n / 2) / n);
}
