// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE /* syscall, MAP_ANONYMOUS */
#include "datasets/hdf5/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

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

static void set_signals(void)
{
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
}

static void set_limits(void)
{
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
}

#ifdef MACHINE_HERE

/* System calls that are allowed with any arguments. */
static const unsigned plain_calls[] = {
    SYS_read,         SYS_pread64,        SYS_readv,        SYS_preadv,      SYS_lseek,
    SYS_close,        SYS_fstat,          SYS_flock,        SYS_getcwd,      SYS_getdents64,
    SYS_faccessat,    SYS_readlinkat,     SYS_statfs,       SYS_fstatfs,     SYS_mmap,
    SYS_munmap,       SYS_mprotect,       SYS_mremap,       SYS_madvise,     SYS_brk,
    SYS_futex,        SYS_sched_yield,    SYS_getpid,       SYS_gettid,      SYS_getuid,
    SYS_geteuid,      SYS_getgid,         SYS_getegid,      SYS_exit,        SYS_exit_group,
    SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sigaltstack, SYS_clock_gettime,
    SYS_gettimeofday, SYS_setitimer,      SYS_getrandom,    SYS_uname,       SYS_sysinfo,
    SYS_recvfrom,     SYS_ppoll,
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_statx
    SYS_statx,
#endif
#ifdef SYS_stat
    SYS_stat,         SYS_lstat,          SYS_access,       SYS_readlink,    SYS_poll,
    SYS_time,         SYS_arch_prctl,
#endif
};

/* Commands of fcntl that glibc and HDF5 need. Others are dangerous: F_SETOWN and F_SETSIG let the kernel send any
   signal to any process of the user. */
static const unsigned fcntl_commands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC};

enum {
    PLAIN = sizeof plain_calls / sizeof *plain_calls,
    COMMANDS = sizeof fcntl_commands / sizeof *fcntl_commands,
    FILTER = 2 * PLAIN + 2 * COMMANDS + 32
};

#define LOAD(what)                                                                                                     \
    ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, what)))
#define SKIP_UNLESS(value, n) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), 0, (n)))
#define GIVE(what) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (what)))
#define REFUSE GIVE(SECCOMP_RET_ERRNO | 1) /* EPERM: the library reports what failed */

static void set_filter(int channel)
{
    static const unsigned writing = O_ACCMODE | O_CREAT | O_TRUNC;
    const struct {
        unsigned call, flags; /* the low half of an argument (little endian) */
    } opens[] = {
        {SYS_openat, (unsigned)offsetof(struct seccomp_data, args[2])},
#ifdef SYS_open
        {SYS_open, (unsigned)offsetof(struct seccomp_data, args[1])},
#endif
    };
    const unsigned sends[] = {SYS_sendto, SYS_write};
    struct sock_filter f[FILTER];
    unsigned n = 0;
    f[n++] = LOAD(arch);
    f[n++] = SKIP_UNLESS(MACHINE_HERE, 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1);
    f[n++] = REFUSE;
    f[n++] = LOAD(nr);
    for (unsigned i = 0; i < PLAIN; i++) {
        f[n++] = SKIP_UNLESS(plain_calls[i], 1);
        f[n++] = GIVE(SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        f[n++] = SKIP_UNLESS(opens[i].call, 4);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, opens[i].flags);
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writing, 1, 0);
        f[n++] = GIVE(SECCOMP_RET_ALLOW);
        f[n++] = REFUSE;
    }
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        f[n++] = SKIP_UNLESS(sends[i], 4);
        f[n++] = LOAD(args[0]);
        f[n++] = SKIP_UNLESS(channel, 1);
        f[n++] = GIVE(SECCOMP_RET_ALLOW);
        f[n++] = REFUSE;
    }
    f[n++] = SKIP_UNLESS(SYS_fcntl, 2 * COMMANDS + 2);
    f[n++] = LOAD(args[1]);
    for (unsigned i = 0; i < COMMANDS; i++) {
        f[n++] = SKIP_UNLESS(fcntl_commands[i], 1);
        f[n++] = GIVE(SECCOMP_RET_ALLOW);
    }
    f[n++] = REFUSE;
    f[n++] = REFUSE;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){.len = (unsigned short)n, .filter = f}, 0,
                    0);
}

#endif

void qc_sandbox_enter(int channel)
{
    close_files(channel);
    set_limits();
    set_signals();
#ifdef MACHINE_HERE
    set_filter(channel);
#endif
}

void qc_sandbox_seconds(unsigned seconds)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = (time_t)seconds}, NULL);
}
