// SPDX-License-Identifier: Apache-2.0
#include "graph/core/tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

bool qc_grow(void **array, size_t *capacity, size_t count, size_t size, struct qc_status *st)
{
    if (count + 2 <= *capacity) return true;
    size_t wanted = *capacity ? *capacity * 2 : 64, bytes;
    if (wanted > UINT32_MAX / 2 || !qc_mul_size(&bytes, wanted, size)) return qc_fail_memory(st, UINT64_MAX);
    void *p = realloc(*array, bytes);
    if (!p) return qc_fail_memory(st, bytes);
    memset((char *)p + *capacity * size, 0, (wanted - *capacity) * size);
    *array = p;
    *capacity = wanted;
    return true;
}
