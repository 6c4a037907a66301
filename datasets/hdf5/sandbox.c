// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* syscall, MAP_ANONYMOUS, mremap */
#include "datasets/hdf5/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__x86_64__)
#define MACHINE_HERE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE_HERE AUDIT_ARCH_AARCH64
#endif

enum { DESCRIPTORS_MAX = 1 << 16 };

static void close_files(int channel)
{
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd < 3; fd++) dup2(null, fd);
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3U, (unsigned)channel - 1, 0U) == 0 &&
        syscall(SYS_close_range, (unsigned)channel + 1, ~0U, 0U) == 0)
        return;
#endif
    struct rlimit most;
    const int end =
        getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur < DESCRIPTORS_MAX ? (int)most.rlim_cur : DESCRIPTORS_MAX;
    for (int fd = 3; fd < end; fd++)
        if (fd != channel) close(fd);
}

/* Enters a Landlock domain. From there, the memory of processes outside of it cannot be read through /proc; the filter
   of system calls cannot tell names of files apart. Kernels without Landlock skip this. */
static void leave_other_processes(void)
{
#ifdef LANDLOCK_ACCESS_FS_EXECUTE
    const struct landlock_ruleset_attr rules = {.handled_access_fs =
                                                    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                                    LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE};
    const int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0U);
    if (fd < 0) return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) (void)syscall(SYS_landlock_restrict_self, fd, 0U);
    close(fd);
#endif
}

#ifdef MACHINE_HERE

/* A condition on the low half of an argument: any value, one value, or no bit outside of a mask. */
struct condition {
    enum { ANY, IS, WITHIN } how;
    unsigned argument, value;
};

/* A call is allowed if both conditions of one of its rows hold. */
struct row {
    unsigned call;
    struct condition conditions[2];
};

enum { ROW_MOST = 7 }; /* instructions */

#define NO_CONDITION                                                                                                   \
    {                                                                                                                  \
        ANY, 0, 0                                                                                                      \
    }
#define CALL(name)                                                                                                     \
    {                                                                                                                  \
        SYS_##name,                                                                                                    \
        {                                                                                                              \
            NO_CONDITION, NO_CONDITION                                                                                 \
        }                                                                                                              \
    }
#define CALL_IF(name, how, argument, value)                                                                            \
    {                                                                                                                  \
        SYS_##name,                                                                                                    \
        {                                                                                                              \
            {how, argument, (unsigned)(value)}, NO_CONDITION                                                           \
        }                                                                                                              \
    }
#define CALL_IF2(name, how, argument, value, how2, argument2, value2)                                                  \
    {                                                                                                                  \
        SYS_##name,                                                                                                    \
        {                                                                                                              \
            {how, argument, (unsigned)(value)},                                                                        \
            {                                                                                                          \
                how2, argument2, (unsigned)(value2)                                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }

#define STATEMENT(what, value) ((struct sock_filter)BPF_STMT((what), (unsigned)(value)))
#define JUMP(how, value, yes, no)                                                                                      \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | (how) | BPF_K, (unsigned)(value), (yes), (no)))
#define LOAD(what) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define ALLOW STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1) /* EPERM: the library reports what failed */

/* Appends a row: ALLOW if the number of the call, which is loaded, and the conditions are those of the row. */
static unsigned add_filter_row(struct sock_filter *f, const struct row *r)
{
    unsigned n = 0, count = 0;
    while (count < 2 && r->conditions[count].how != ANY) count++;
    const unsigned end = count ? 2 * count + 3 : 2; /* with the reload of the number after conditions */
    f[n++] = JUMP(BPF_JEQ, r->call, 0, (unsigned char)(end - 1));
    for (unsigned i = 0; i < count; i++) {
        const struct condition *c = &r->conditions[i];
        /* little endian: the low half comes first */
        f[n++] = STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + c->argument * 8);
        const unsigned char away = (unsigned char)(end - n - 2); /* to the reload */
        f[n] = c->how == IS ? JUMP(BPF_JEQ, c->value, 0, away) : JUMP(BPF_JSET, ~c->value, away, 0);
        n++;
    }
    f[n++] = ALLOW;
    if (count) f[n++] = LOAD(nr);
    return n;
}

static void set_filter(int channel, enum qc_sandbox_code code)
{
    enum { DATA = PROT_READ | PROT_WRITE };
    enum { ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_FIXED | MAP_FIXED_NOREPLACE };
    enum { MAPPED = MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE };
    /* O_LARGEFILE and O_NOFOLLOW have each other's bits on x86-64 and arm64, and glibc calls the first one 0. */
    enum { READING = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_DIRECTORY | 0100000 | 0400000 };
    const struct row rows[] = {
        CALL(pread64),
        CALL(lseek),
        CALL(read),
        CALL_IF2(recvfrom, IS, 0, channel, WITHIN, 3, MSG_DONTWAIT),
        CALL_IF2(sendto, IS, 0, channel, WITHIN, 3, MSG_NOSIGNAL),
        CALL_IF(setitimer, IS, 0, ITIMER_PROF),
        CALL_IF2(openat, IS, 0, AT_FDCWD, WITHIN, 2, READING),
        CALL(close),
        CALL(fstat),
        CALL(getcwd),
        CALL(getdents64),
        CALL(faccessat),
        CALL(readlinkat),
        CALL(statfs),
        CALL(fstatfs),
        CALL(ppoll),
        CALL_IF(flock, IS, 1, LOCK_SH | LOCK_NB),
        CALL_IF(flock, IS, 1, LOCK_UN),
        /* Others are dangerous: F_SETOWN and F_SETSIG let the kernel send any signal to any process of the user. */
        CALL_IF(fcntl, IS, 1, F_GETFD),
        CALL_IF(fcntl, IS, 1, F_SETFD),
        CALL_IF(fcntl, IS, 1, F_GETFL),
        CALL_IF(fcntl, IS, 1, F_DUPFD_CLOEXEC),
        CALL_IF2(mmap, WITHIN, 2, DATA, WITHIN, 3, ANONYMOUS | MAPPED),
        CALL_IF(mprotect, WITHIN, 2, DATA),
        CALL_IF(mremap, WITHIN, 3, MREMAP_MAYMOVE | MREMAP_FIXED),
        CALL(munmap),
        CALL(brk),
        /* MADV_HWPOISON and others act on the machine. */
        CALL_IF(madvise, IS, 2, MADV_DONTNEED),
        CALL_IF(madvise, IS, 2, MADV_FREE),
        CALL_IF(madvise, IS, 2, MADV_HUGEPAGE),
        CALL_IF(madvise, IS, 2, MADV_NOHUGEPAGE),
        CALL_IF(madvise, IS, 2, MADV_DONTDUMP),
        CALL_IF(futex, IS, 1, FUTEX_WAIT),
        CALL_IF(futex, IS, 1, FUTEX_WAIT_PRIVATE),
        CALL_IF(futex, IS, 1, FUTEX_WAKE),
        CALL_IF(futex, IS, 1, FUTEX_WAKE_PRIVATE),
        CALL(sched_yield),
        CALL(getpid),
        CALL(gettid),
        CALL(getuid),
        CALL(geteuid),
        CALL(getgid),
        CALL(getegid),
        CALL(clock_gettime),
        CALL(gettimeofday),
        CALL(getrandom),
        CALL(uname),
        CALL(sysinfo),
        CALL(rt_sigreturn),
        CALL(rt_sigprocmask),
        CALL(rt_sigaction),
        CALL(sigaltstack),
        CALL_IF(tgkill, IS, 0, getpid()), /* abort() */
        CALL(exit),
        CALL(exit_group),
#ifdef SYS_newfstatat
        CALL(newfstatat),
#endif
#ifdef SYS_statx
        CALL(statx),
#endif
#ifdef SYS_open
        CALL_IF(open, WITHIN, 1, READING),
        CALL(stat),
        CALL(lstat),
        CALL(access),
        CALL(readlink),
        CALL(poll),
        CALL(time),
#endif
        /* The last row: code of shared libraries. */
        CALL_IF2(mmap, WITHIN, 2, PROT_READ | PROT_EXEC, WITHIN, 3, MAPPED),
    };
    const size_t count = sizeof rows / sizeof *rows - (code == QC_SANDBOX_NO_CODE);
    struct sock_filter f[ROW_MOST * (sizeof rows / sizeof *rows) + 8];
    unsigned short n = 0;
    f[n++] = LOAD(arch);
    f[n++] = JUMP(BPF_JEQ, MACHINE_HERE, 1, 0);
    f[n++] = REFUSE;
    f[n++] = LOAD(nr);
    for (size_t i = 0; i < count; i++) n = (unsigned short)(n + add_filter_row(f + n, &rows[i]));
    f[n++] = REFUSE;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){.len = n, .filter = f}, 0, 0);
}

#endif

void qc_sandbox_enter(int channel, enum qc_sandbox_code code)
{
    close_files(channel);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
#ifndef SANITIZED
    static const rlim_t growth = QC_SANDBOX_BYTES; /* cached chunks, the requested rows, HDF5's metadata */
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    const long page = sysconf(_SC_PAGESIZE);
    if (f && page > 0 && fscanf(f, "%lu", &pages) == 1) {
        struct rlimit memory;
        const rlim_t most = (rlim_t)pages * (rlim_t)page + growth;
        if (getrlimit(RLIMIT_AS, &memory) == 0 && (memory.rlim_cur == RLIM_INFINITY || most < memory.rlim_cur))
            setrlimit(RLIMIT_AS, &(struct rlimit){most, memory.rlim_max});
    }
    if (f) fclose(f);
#endif
    /* The file size limit is 0: a write beyond it must be an ordinary error (SIGXFSZ ignored), because an emulator
       writes files of its own. */
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP,
                                  SIGTTOU, SIGTTIN, SIGUSR1, SIGUSR2, SIGXFSZ};
    static const int of_faults[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT,  SIGTRAP,
                                    SIGSYS,  SIGXCPU, SIGPROF, SIGALRM, SIGVTALRM};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    for (size_t i = 0; i < sizeof of_faults / sizeof *of_faults; i++) signal(of_faults[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    leave_other_processes();
#ifdef MACHINE_HERE
    const char *preloaded = getenv("LD_PRELOAD"); /* valgrind runs the program with calls of its own */
    if (!preloaded || !strstr(preloaded, "/vgpreload_core")) set_filter(channel, code);
#endif
}

void qc_sandbox_seconds(unsigned seconds)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = (time_t)seconds}, NULL);
}
