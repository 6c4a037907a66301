// SPDX-License-Identifier: Apache-2.0
/* Preloaded into the program (tests/e2e/test_failed_reader.py): ends or stops a process that reads files at a chosen
   step. Steps are the calls of all such processes that open or read a file or use the channel, in the order in which
   they happen.
     QC_READER_REPORT   file of four 8-byte numbers: receives the steps so far, 1 while a process is stopped, the
                        answers that the program has received, and milliseconds by which its clock is put forward
     QC_READER_AT       the step, from 1; unset: only counts
     QC_READER_HOW      kill, crash, exit, stop or pause
   The program waits for a stopped process without spending the time: its clock is put forward. It does not know of a
   pause. QC_READER_SIGNAL   a signal that the program gets when it has received QC_READER_ANSWER answers */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct report {
    _Atomic int64_t steps, stopped, answers, forward;
};

static struct report *report;
static int64_t at, answer;
static int signal_number;
static char how; /* first letter */
static pid_t owner;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("QC_READER_REPORT"), *step = getenv("QC_READER_AT"), *way = getenv("QC_READER_HOW");
    const int f = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *shared = f >= 0 ? mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) : MAP_FAILED;
    if (f >= 0) close(f);
    if (shared == MAP_FAILED) return;
    report = shared;
    at = step ? atoll(step) : 0;
    how = way ? *way : 'k';
    owner = getpid();
    const char *number = getenv("QC_READER_SIGNAL"), *when = getenv("QC_READER_ANSWER");
    signal_number = number ? atoi(number) : 0;
    answer = when ? atoll(when) : 0;
}

/* Sends the signal and waits until a thread has taken it, so that the rest of the work comes after it. */
static void count_answer(void)
{
    sigset_t pending;
    if (++report->answers != answer || !signal_number) return;
    kill(owner, signal_number);
    do sched_yield();
    while (sigpending(&pending) == 0 && sigismember(&pending, signal_number));
}

static void step(void)
{
    if (!report || getpid() == owner || ++report->steps != at) return;
    if (how == 'e') _exit(0);
    if (how == 's') report->stopped = 1;
    raise(how == 's' || how == 'p' ? SIGSTOP : how == 'c' ? SIGSEGV : SIGKILL);
}

#define SHOWN __attribute__((visibility("default")))

/* The names of checked calls are those of glibc's headers with _FORTIFY_SOURCE. */
SHOWN ssize_t recv(int fd, void *to, size_t size, int flags)
{
    step();
    const ssize_t n = syscall(SYS_recvfrom, fd, to, size, flags, NULL, NULL);
    if (report && getpid() == owner && n > 0) count_answer();
    return n;
}
SHOWN ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags);
SHOWN ssize_t __recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    return size > room ? (abort(), -1) : recv(fd, to, size, flags);
}
SHOWN ssize_t send(int fd, const void *from, size_t size, int flags)
{
    step();
    return syscall(SYS_sendto, fd, from, size, flags, NULL, 0);
}
SHOWN ssize_t pread(int fd, void *to, size_t size, off_t place)
{
    step();
    return syscall(SYS_pread64, fd, to, size, place);
}
SHOWN ssize_t pread64(int fd, void *to, size_t size, off64_t place)
{
    return pread(fd, to, size, place);
}

static int open_file(const char *path, int flags, va_list more)
{
    const int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;
    step();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
SHOWN int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const int fd = open_file(path, flags, more);
    va_end(more);
    return fd;
}
SHOWN int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const int fd = open_file(path, flags, more);
    va_end(more);
    return fd;
}

SHOWN int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_MONOTONIC && report) now->tv_sec += report->forward / 1000;
    return result;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_for(struct pollfd *fds, nfds_t count, int milliseconds)
{
    const struct timespec slice = {.tv_nsec = 5000000};
    const int64_t begun = now();
    for (;;) {
        const long ready =
            syscall(SYS_ppoll, fds, count, milliseconds == 0 ? &(struct timespec){0, 0} : &slice, NULL, 8);
        if (ready != 0 || milliseconds == 0) return (int)ready;
        if (milliseconds > 0 && report && report->stopped) report->forward += milliseconds + 1000;
        if (milliseconds > 0 && now() - begun >= milliseconds) return 0;
    }
}
SHOWN int poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
    return wait_for(fds, count, milliseconds);
}
SHOWN int __poll_chk(struct pollfd *fds, nfds_t count, int milliseconds, size_t room);
SHOWN int __poll_chk(struct pollfd *fds, nfds_t count, int milliseconds, size_t room)
{
    return count * sizeof *fds > room ? (abort(), -1) : wait_for(fds, count, milliseconds);
}
