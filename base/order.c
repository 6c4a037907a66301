// SPDX-License-Identifier: Apache-2.0
#include "base/order.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ORDER(name, type)                                                                                              \
    int name(const void *a, const void *b)                                                                             \
    {                                                                                                                  \
        const type x = *(const type *)a, y = *(const type *)b;                                                         \
        return (x > y) - (x < y);                                                                                      \
    }
ORDER(qc_order_double, double)
ORDER(qc_order_float, float)
ORDER(qc_order_size, size_t)
ORDER(qc_order_u32, uint32_t)
ORDER(qc_order_u64, uint64_t)

int qc_order_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
