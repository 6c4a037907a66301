// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "datasets/hdf5/reader_process.h"

enum { FEW_BYTES = 100, MANY_BYTES = 3 << 20 /* more than the memory that both processes have */ };

static bool give(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    size_t bytes;
    (void)state, (void)size;
    memcpy(&bytes, arguments, sizeof bytes);
    char *first = qc_reply_add(out, bytes / 8, st);
    if (!first) return false;
    memset(first, 1, bytes / 8);
    char *second = qc_reply_add(out, bytes - bytes / 8, st);
    if (!second) return false;
    memset(second, 2, bytes - bytes / 8);
    return true;
}

static bool give_slowly(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 200000000);
    return give(out, state, arguments, size, st);
}

static bool refuse(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    (void)out, (void)state, (void)arguments, (void)size;
    return qc_fail(st, QC_UNSUPPORTED, "no");
}

static bool crash(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    (void)out, (void)state, (void)arguments, (void)size, (void)st;
    abort();
}

/* As one would that a file has taken over. */
static bool lie(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    if (!give(out, state, arguments, size, st)) return false;
    out->size = (size_t)1 << 40;
    return true;
}

static void expect_given(const struct qc_reply *r, size_t bytes)
{
    const char *x = r->data;
    cr_assert_eq(r->size, bytes);
    for (size_t i = 0; i < bytes; i++) cr_assert_eq(x[i], i < bytes / 8 ? 1 : 2, "byte %zu of %zu", i, bytes);
}

static bool ask(struct qc_reply *r, struct qc_process *p, qc_work *work, size_t bytes, struct qc_status *st)
{
    return qc_process_ask(r, p, work, &bytes, sizeof bytes, bytes, st);
}

static bool begin(struct qc_later *l, struct qc_process *p, qc_work *work, size_t bytes)
{
    return qc_process_begin(l, p, work, &bytes, sizeof bytes, bytes);
}

Test(reader_process, answers_come_whole_whatever_their_size)
{
    static const size_t sizes[] = {0, FEW_BYTES, MANY_BYTES, 1000, MANY_BYTES - 1, 1};
    struct qc_process *p;
    struct qc_status st = QC_STATUS_INIT;
    struct qc_reply r = {.data = NULL};
    cr_assert(qc_process_start(&p, &st));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cr_assert(ask(&r, p, give, sizes[i], &st), "%s", st.message);
        expect_given(&r, sizes[i]);
    }
    free(r.data);
    qc_process_end(p);
}

/* What does not fit into the shared memory is still on its way when there is no room for it, so nobody is answered any
   more; the rest harms nobody. */
Test(reader_process, one_thread_without_memory_is_no_damage_to_another)
{
    char few[10];
    struct qc_process *p;
    struct qc_status st = QC_STATUS_INIT, none = QC_STATUS_INIT, later = QC_STATUS_INIT, last = QC_STATUS_INIT;
    struct qc_reply small = {.data = few, .capacity = sizeof few, .fixed = true}, whole = {.data = NULL};
    cr_assert(qc_process_start(&p, &st));
    cr_expect(!ask(&small, p, give, FEW_BYTES, &st));
    cr_expect_eq(st.code, QC_MACHINE, "%s", st.message);
    cr_assert(ask(&whole, p, give, FEW_BYTES, &none), "%s", none.message);
    expect_given(&whole, FEW_BYTES);
    cr_expect(!ask(&small, p, give, MANY_BYTES, &later));
    cr_expect_eq(later.code, QC_MACHINE, "%s", later.message);
    cr_expect(!ask(&whole, p, give, FEW_BYTES, &last));
    cr_expect_eq(last.code, QC_MACHINE, "%s", last.message);
    free(whole.data);
    qc_process_end(p);
}

Test(reader_process, work_is_done_while_nobody_waits)
{
    static const size_t sizes[] = {FEW_BYTES, MANY_BYTES};
    for (size_t i = 0; i < 2; i++) {
        struct qc_process *p;
        struct qc_status st = QC_STATUS_INIT;
        struct qc_reply between = {.data = NULL};
        struct qc_later one = {.done = false}, other = {.done = false};
        cr_assert(qc_process_start(&p, &st));
        cr_expect(begin(&one, p, give_slowly, sizes[i]));
        cr_expect_not(begin(&other, p, give, 3), "one is at work");
        cr_assert(ask(&between, p, give, 1000, &st), "%s", st.message);
        expect_given(&between, 1000);
        cr_expect(begin(&other, p, give, 3));
        cr_assert(qc_process_wait(&one, p));
        expect_given(&one.reply, sizes[i]);
        cr_assert(qc_process_wait(&other, p));
        expect_given(&other.reply, 3);
        cr_expect(begin(&one, p, refuse, 1));
        cr_expect_not(qc_process_wait(&one, p));
        cr_expect(begin(&one, p, crash, 1));
        cr_expect_not(qc_process_wait(&one, p));
        cr_expect_not(begin(&one, p, give, 1), "it is dead");
        cr_expect_not(ask(&between, p, give, 1, &st));
        cr_expect_eq(st.code, QC_BAD_INPUT, "%s", st.message);
        free(between.data);
        free(one.reply.data);
        free(other.reply.data);
        qc_process_end(p);
    }
}

Test(reader_process, more_than_there_can_be_is_not_believed)
{
    struct qc_process *p;
    struct qc_status st = QC_STATUS_INIT, later = QC_STATUS_INIT;
    struct qc_reply r = {.data = NULL};
    struct qc_later begun = {.done = false};
    for (int waits = 0; waits < 2; waits++) {
        st = later = QC_STATUS_INIT;
        cr_assert(qc_process_start(&p, &st));
        if (waits)
            cr_expect(begin(&begun, p, lie, FEW_BYTES) && !qc_process_wait(&begun, p));
        else
            cr_expect_not(ask(&r, p, lie, FEW_BYTES, &st));
        cr_expect_eq(st.code, waits ? QC_OK : QC_BAD_INPUT, "%s", st.message);
        cr_expect_not(ask(&r, p, give, FEW_BYTES, &later), "it was ended");
        cr_expect_eq(later.code, QC_BAD_INPUT, "%s", later.message);
        qc_process_end(p);
    }
    free(r.data);
    free(begun.reply.data);
}
