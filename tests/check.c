// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"

_Thread_local struct qc_status failure = {.code = QC_OK};

struct qc_arena *test_arena(void)
{
    static _Thread_local struct qc_arena *arena;
    if (!arena) arena = qc_arena_new();
    return arena;
}
