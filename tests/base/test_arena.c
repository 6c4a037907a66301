// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"
#include "base/checked.h"
#include "tests/check.h"

Test(arena, items_are_zeroed_aligned_and_do_not_move)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    static unsigned char *items[2000];
    size_t bytes = 0;
    for (size_t i = 0; i < 2000; i++) {
        size_t n = i * 37 % 701 + 1;
        items[i] = qc_arena_get(a, n, 1, ST);
        cr_assert_not_null(items[i]);
        cr_assert_eq((uintptr_t)items[i] % (n >= 64 ? 64 : 16), 0);
        for (size_t k = 0; k < n; k++) cr_assert_eq(items[i][k], 0);
        memset(items[i], (int)(i & 255), n);
        bytes += n;
    }
    for (size_t i = 0; i < 2000; i++) {
        for (size_t k = 0; k < i * 37 % 701 + 1; k++) cr_assert_eq(items[i][k], i & 255);
    }
    cr_assert_eq(qc_arena_bytes(a), bytes);
}

Test(arena, a_large_item_does_not_waste_the_current_block)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    char *before = qc_arena_get(a, 16, 1, ST);
    char *large = qc_arena_get(a, 10, 1 << 20, ST);
    char *after = qc_arena_get(a, 16, 1, ST);
    cr_assert(before && large && after);
    memset(large, 1, 10 << 20);
    for (int i = 0; i < 16; i++) cr_assert(before[i] == 0 && after[i] == 0);
#ifndef QC_ARENA_DEBUG
    cr_assert_eq(after - before, 16);
#endif
}

Test(arena, overflow_and_absurd_sizes_are_a_status)
{
    static const size_t cases[][2] = {
        {SIZE_MAX, 2}, {SIZE_MAX / 2, 3}, {SIZE_MAX, 1}, {SIZE_MAX - 100, 1}, {SIZE_MAX / 4, 1}};
    QC_ARENA_SCOPE *a = qc_arena_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REFUSES(qc_arena_get(a, cases[i][0], cases[i][1], ST), QC_MACHINE, "");
    }
    struct qc_status st = QC_STATUS_INIT;
    cr_assert_not_null(qc_arena_get(a, 0, 8, &st));
    cr_assert_eq(st.code, QC_OK);
    cr_assert_eq(qc_arena_bytes(a), 1);
}

Test(arena, text)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    cr_assert_str_eq(qc_arena_strdup(a, "abc", ST), "abc");
    cr_assert_str_eq(qc_arena_strndup(a, "abcdef", 2, ST), "ab");
    cr_assert_str_eq(qc_arena_printf(a, ST, "%s-%d", "x", 5), "x-5");
    REFUSES(qc_arena_strndup(a, "abc", SIZE_MAX, ST), QC_MACHINE, "");
    qc_arena_free(NULL);
}

Test(checked, overflow_leaves_the_output_alone)
{
    size_t s = 5;
    int64_t v = 6;
    cr_assert_not(qc_add_size(&s, SIZE_MAX, 1));
    cr_assert_not(qc_mul_size(&s, SIZE_MAX / 2 + 1, 2));
    cr_assert_not(qc_add_i64(&v, INT64_MAX, 1));
    cr_assert_not(qc_mul_i64(&v, INT64_MIN, -1));
    MUST_HOLD(s == 5, v == 6);
    cr_assert(qc_mul_size(&s, SIZE_MAX / 2, 2));
    cr_assert_eq(s, SIZE_MAX - 1);
    cr_assert(qc_add_i64(&v, INT64_MIN, INT64_MAX));
    cr_assert_eq(v, -1);
}
