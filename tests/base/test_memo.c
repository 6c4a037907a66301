// SPDX-License-Identifier: Apache-2.0
/* The memo: keys, the budget, clearing, threads. */
#include "base/memo.h"
#include "base/pool.h"
#include "tests/check.h"

enum { BYTES = 64, ROOM = 100 * BYTES, COUNT = 1000 };

static _Atomic int freed;

static void count_freed(void *value)
{
    freed++;
    free(value);
}

static struct qc_memo *new_memo(size_t most, struct qc_memo_budget *budget)
{
    struct qc_memo *m = NULL;
    const struct qc_memo_options o = {.most = most, .budget = budget, .free = count_freed};
    MUST(qc_memo_new(&m, &o, ST));
    return m;
}

static void *number(size_t x)
{
    size_t *p = malloc(BYTES);
    cr_assert(p);
    *p = x;
    return p;
}

static size_t known(struct qc_memo *m, size_t key)
{
    const size_t *x = qc_memo_find(m, &key, sizeof key);
    return x ? *x : SIZE_MAX;
}

Test(memo, results_are_found_by_key)
{
    struct qc_memo *m = new_memo(SIZE_MAX, NULL);
    const size_t key = 7;
    cr_expect_null(qc_memo_find(NULL, "a", 1));
    cr_expect_null(qc_memo_find(m, "a", 1));
    const void *first = number(1);
    cr_expect_eq(qc_memo_keep(m, &key, sizeof key, (void *)first, BYTES), first);
    cr_expect_eq(qc_memo_keep(m, &key, sizeof key, number(2), BYTES), first, "the first stays");
    cr_expect_eq(freed, 1);
    cr_expect_not_null(qc_memo_keep(m, &key, 1, number(4), BYTES));
    cr_expect(known(m, 7) == 1 && known(m, 8) == SIZE_MAX);
    qc_memo_free(m);
    cr_expect_eq(freed, 3);
}

Test(memo, memos_share_a_budget)
{
    struct qc_memo_budget budget = {ROOM};
    struct qc_memo *m = new_memo(SIZE_MAX, &budget), *small = new_memo(10 * BYTES, &budget);
    for (size_t round = 0; round < 2; round++) {
        size_t of_small = 0;
        freed = 0;
        for (size_t i = 0; i < COUNT; i++) of_small += qc_memo_keep(small, &i, sizeof i, number(i), BYTES) != NULL;
        cr_expect(of_small == 10 && freed == COUNT - 10, "%zu of the small one, %d freed", of_small, freed);
        cr_expect(!qc_memo_has_room(small, 1) && qc_memo_has_room(m, BYTES));
        for (size_t i = 0; i < COUNT; i++) {
            qc_memo_keep(m, &i, sizeof i, number(i + 1), BYTES);
            cr_expect(known(m, i) == (i < 90 ? i + 1 : SIZE_MAX), "%zu", i);
        }
        cr_expect(!qc_memo_has_room(m, 1) && budget.left == 0);
        qc_memo_clear(m);
        cr_expect(known(m, 0) == SIZE_MAX && known(small, 9) == 9 && budget.left == 90 * BYTES);
        qc_memo_clear(small);
        cr_expect_eq(freed, 2 * COUNT);
    }
    qc_memo_free(m);
    qc_memo_free(small);
    cr_expect_eq(budget.left, ROOM);
}

struct shared {
    struct qc_memo *of[2];
};

static bool keep_some(void *user, size_t item, unsigned worker, struct qc_status *s)
{
    struct qc_memo *m = ((struct shared *)user)->of[item % 2];
    const size_t key = item / 8;
    const size_t *x = qc_memo_keep(m, &key, sizeof key, number(key), 1);
    return (x && *x == key && known(m, key) == key) || qc_fail(s, QC_MACHINE, "item %zu", item);
}

Test(memo, threads_agree)
{
    struct qc_memo_budget budget = {ROOM};
    struct shared s = {{new_memo(SIZE_MAX, &budget), new_memo(SIZE_MAX, &budget)}};
    const struct qc_pool_options pool = {.workers = 4};
    MUST(qc_pool_run(COUNT, keep_some, &s, &pool, ST));
    cr_expect_eq(budget.left, ROOM - 2 * COUNT / 8);
    for (size_t i = 0; i < 2; i++) qc_memo_free(s.of[i]);
}
