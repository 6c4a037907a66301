// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* F_SETSIG */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "datasets/hdf5/reader_process.h"
#include "tests/check.h"

OWNED(qc_process, qc_process_end)

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

static struct qc_process *started(void)
{
    struct qc_process *p;
    MUST(qc_process_start(&p, &qc_process_hdf5, ST));
    return p;
}

static bool begin(struct qc_later *l, struct qc_process *p, qc_work *work, size_t bytes)
{
    return qc_process_begin(l, p, work, &bytes, sizeof bytes, bytes);
}

Test(reader_process, answers_come_whole_whatever_their_size)
{
    static const size_t sizes[] = {0, FEW_BYTES, MANY_BYTES, 1000, MANY_BYTES - 1, 1};
    OWN(qc_process) *p = started();
    struct qc_reply r = {.data = NULL};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        MUST(ask(&r, p, give, sizes[i], ST));
        expect_given(&r, sizes[i]);
    }
    free(r.data);
}

/* What does not fit into the shared memory is still on its way when there is no room for it, so nobody is answered any
   more; the rest harms nobody. */
Test(reader_process, one_thread_without_memory_is_no_damage_to_another)
{
    char few[10];
    OWN(qc_process) *p = started();
    struct qc_status st = QC_STATUS_INIT, none = QC_STATUS_INIT, later = QC_STATUS_INIT, last = QC_STATUS_INIT;
    struct qc_reply small = {.data = few, .capacity = sizeof few, .fixed = true}, whole = {.data = NULL};
    cr_expect(!ask(&small, p, give, FEW_BYTES, &st));
    cr_expect_eq(st.code, QC_MACHINE, "%s", st.message);
    cr_assert(ask(&whole, p, give, FEW_BYTES, &none), "%s", none.message);
    expect_given(&whole, FEW_BYTES);
    cr_expect(!ask(&small, p, give, MANY_BYTES, &later));
    cr_expect_eq(later.code, QC_MACHINE, "%s", later.message);
    cr_expect(!ask(&whole, p, give, FEW_BYTES, &last));
    cr_expect_eq(last.code, QC_MACHINE, "%s", last.message);
    free(whole.data);
}

Test(reader_process, work_is_done_while_nobody_waits)
{
    static const size_t sizes[] = {FEW_BYTES, MANY_BYTES};
    for (size_t i = 0; i < 2; i++) {
        OWN(qc_process) *p = started();
        struct qc_reply between = {.data = NULL};
        struct qc_later one = {.done = false}, other = {.done = false};
        cr_expect(begin(&one, p, give_slowly, sizes[i]));
        cr_expect_not(begin(&other, p, give, 3), "one is at work");
        MUST(ask(&between, p, give, 1000, ST));
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
        REFUSES(ask(&between, p, give, 1, ST), QC_BAD_INPUT, "");
        free(between.data);
        free(one.reply.data);
        free(other.reply.data);
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
        cr_assert(qc_process_start(&p, &qc_process_hdf5, &st));
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

/* ---- A process that a file has taken over ---- */

/* Its only open file above the standard streams. */
static int find_channel(void)
{
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) return fd;
    return -1;
}

static void live_on(void)
{
    for (;;) poll(NULL, 0, -1);
}

static bool close_and_live_on(struct qc_reply *out, void **state, const void *arguments, size_t size,
                              struct qc_status *st)
{
    (void)out, (void)state, (void)arguments, (void)size, (void)st;
    close(find_channel());
    live_on();
    return true;
}

/* The head of an answer, as reader_process.c defines it. */
struct head {
    enum qc_code code;
    unsigned shared;
    size_t message, size;
};

static bool announce(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct head a = {.size = (size_t)1 << 40};
    (void)out, (void)state, (void)arguments, (void)size, (void)st;
    if (send(find_channel(), &a, sizeof a, 0) == sizeof a) live_on();
    return true;
}

/* Long enough to be waited for, not so long that the wait ends it. */
static bool announce_message_and_exit(struct qc_reply *out, void **state, const void *arguments, size_t size,
                                      struct qc_status *st)
{
    const struct head a = {.code = QC_BAD_INPUT, .message = (size_t)1 << 40};
    (void)out, (void)state, (void)arguments, (void)size, (void)st;
    if (send(find_channel(), &a, sizeof a, 0) == sizeof a) poll(NULL, 0, 2500);
    _exit(QC_MACHINE);
}

static bool work_for_ever(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    (void)out, (void)state, (void)arguments, (void)size, (void)st;
    for (volatile bool more = true; more;) continue;
    return true;
}

static const char hostile_text[] = "\033]0;owned\007\nqcalib: written\033[31m";

static bool answer_and_live_on(struct qc_reply *out, void **state, const void *arguments, size_t size,
                               struct qc_status *st)
{
    const struct head a = {.code = QC_BAD_INPUT, .message = sizeof hostile_text - 1};
    const int channel = find_channel();
    (void)out, (void)state, (void)arguments, (void)size, (void)st;
    if (send(channel, &a, sizeof a, 0) == sizeof a && send(channel, hostile_text, a.message, 0) > 0) live_on();
    return true;
}

/* Gives back the errors of calls that reach other processes. */
static bool reach_out(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    pid_t victim;
    const int channel = find_channel();
    int *errors = qc_reply_add(out, 4 * sizeof *errors, st);
    (void)state, (void)size;
    memcpy(&victim, arguments, sizeof victim);
    if (!errors) return false;
    errors[0] = fcntl(channel, F_SETOWN, victim) < 0 ? errno : 0;
    errors[1] = fcntl(channel, F_SETSIG, SIGKILL) < 0 ? errno : 0;
    errors[2] = fcntl(channel, F_SETFL, O_ASYNC | O_RDWR) < 0 ? errno : 0;
    errors[3] = kill(victim, SIGKILL) < 0 ? errno : 0;
    return true;
}

Test(reader_process, one_that_closes_its_channel_and_lives_on_is_ended, .timeout = 60)
{
    struct qc_process *p = started();
    struct qc_status st = QC_STATUS_INIT, later = QC_STATUS_INIT;
    struct qc_reply r = {.data = NULL};
    cr_expect_not(ask(&r, p, close_and_live_on, FEW_BYTES, &st));
    cr_expect_eq(st.code, QC_BAD_INPUT, "%s", st.message);
    cr_expect_not(ask(&r, p, give, FEW_BYTES, &later), "it was ended");
    qc_process_end(p);
    free(r.data);
    cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no process is left");
}

Test(reader_process, an_answer_larger_than_it_can_be_ends_it_at_once, .timeout = 60)
{
    for (int waits = 0; waits < 2; waits++) {
        OWN(qc_process) *p = started();
        struct qc_reply r = {.data = NULL};
        struct qc_later begun = {.done = false};
        if (waits) cr_expect(begin(&begun, p, announce, FEW_BYTES) && !qc_process_wait(&begun, p));
        REFUSES(ask(&r, p, waits ? give : announce, FEW_BYTES, ST), QC_BAD_INPUT, "makes no sense");
        cr_expect_lt(r.capacity, (size_t)1 << 30);
        free(r.data);
        free(begun.reply.data);
    }
}

Test(reader_process, a_message_larger_than_it_can_be_ends_it_at_once, .timeout = 60)
{
    OWN(qc_process) *p = started();
    struct qc_reply r = {.data = NULL};
    REFUSES(ask(&r, p, announce_message_and_exit, FEW_BYTES, ST), QC_BAD_INPUT, "makes no sense");
    free(r.data);
}

/* The limit of the shell is no fault of the file. */
Test(reader_process, the_limit_on_processor_time_is_named, .timeout = 60)
{
    struct qc_process *p;
    struct qc_reply r = {.data = NULL};
    struct rlimit before, cpu;
    void (*heard)(int) = signal(SIGXCPU, SIG_IGN); /* this process may have run for longer; the reader hears it */
    cr_assert_eq(getrlimit(RLIMIT_CPU, &before), 0);
    cpu = before;
    cpu.rlim_cur = 1;
    cr_assert_eq(setrlimit(RLIMIT_CPU, &cpu), 0);
    MUST(qc_process_start(&p, &qc_process_hdf5, ST));
    cr_assert_eq(setrlimit(RLIMIT_CPU, &before), 0);
    signal(SIGXCPU, heard);
    REFUSES(ask(&r, p, work_for_ever, FEW_BYTES, ST), QC_MACHINE, "ulimit -t");
    qc_process_end(p);
    free(r.data);
}

Test(reader_process, text_that_it_answers_is_escaped_and_it_is_ended, .timeout = 60)
{
    struct qc_process *p = started();
    struct qc_reply r = {.data = NULL};
    cr_expect_not(ask(&r, p, answer_and_live_on, FEW_BYTES, ST));
    cr_expect_str_eq(failure.message, "\\x1b]0;owned\\x07\\x0aqcalib: written\\x1b[31m");
    qc_process_end(p);
    cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no process is left");
}

/* An emulator of another processor has no such filters. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(QC_TEST_EMULATED)
Test(reader_process, it_sends_no_signal_to_another)
{
    OWN(qc_process) *p = NULL;
    const pid_t victim = getpid();
    int errors[4] = {0};
    struct qc_reply r = {.data = errors, .capacity = sizeof errors, .fixed = true};
    MUST(qc_process_start(&p, &qc_process_hdf5, ST));
    MUST(qc_process_ask(&r, p, reach_out, &victim, sizeof victim, sizeof errors, ST));
    for (int i = 0; i < 4; i++) cr_expect_eq(errors[i], EPERM, "call %d: %s", i, strerror(errors[i]));
}
#endif
