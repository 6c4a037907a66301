// SPDX-License-Identifier: Apache-2.0
/* System calls of a process in the sandbox: each forbidden one fails with EPERM there and not outside, each one that
   reading needs succeeds, and no call that is not listed here is allowed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "datasets/hdf5/sandbox.h"
#include "tests/check.h"

/* An emulator of another processor has no such filters. */
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(QC_TEST_EMULATED)

enum { PAGE = 4096, FILE_SIZE = 100 };

struct place {
    char path[100]; /* of a file of FILE_SIZE bytes */
    char other[120];
    int channel;
    pid_t parent;
    int file;    /* opened for reading */
    char *bytes; /* a page that may be written */
};

typedef long attempt_fn(const struct place *p);

#define ATTEMPT(name, call)                                                                                            \
    static long name(const struct place *p)                                                                            \
    {                                                                                                                  \
        return (long)(call);                                                                                           \
    }

/* ---- Forbidden ---- */

ATTEMPT(kill_parent, syscall(SYS_kill, p->parent, 0))
ATTEMPT(kill_itself, syscall(SYS_kill, getpid(), 0))
ATTEMPT(kill_thread_of_parent, syscall(SYS_tgkill, p->parent, p->parent, 0))
ATTEMPT(kill_thread, syscall(SYS_tkill, p->parent, 0))
ATTEMPT(trace_me, syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0))
ATTEMPT(open_to_write, syscall(SYS_openat, AT_FDCWD, p->path, O_WRONLY, 0))
ATTEMPT(open_to_read_and_write, syscall(SYS_openat, AT_FDCWD, p->path, O_RDWR, 0))
ATTEMPT(open_to_cut, syscall(SYS_openat, AT_FDCWD, p->path, O_RDONLY | O_TRUNC, 0))
ATTEMPT(open_new, syscall(SYS_openat, AT_FDCWD, p->other, O_RDONLY | O_CREAT, 0600))
ATTEMPT(open_unnamed, syscall(SYS_openat, AT_FDCWD, "/tmp", O_RDWR | O_TMPFILE, 0600))
ATTEMPT(open_path, syscall(SYS_openat, AT_FDCWD, p->path, O_PATH, 0))
ATTEMPT(open_in_folder, syscall(SYS_openat, p->file, "/", O_RDONLY, 0))
ATTEMPT(open_by_structure, syscall(SYS_openat2, AT_FDCWD, p->path, (uint64_t[]){O_RDONLY, 0, 0}, 24))
ATTEMPT(make_socket, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0))
ATTEMPT(make_local_socket, syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0))
ATTEMPT(make_socket_pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0}))
ATTEMPT(connect_channel, connect(p->channel, (struct sockaddr *)&(struct sockaddr_un){.sun_family = AF_UNIX}, 3))
ATTEMPT(listen_channel, listen(p->channel, 1))
ATTEMPT(send_elsewhere, syscall(SYS_sendto, p->file, p->bytes, 1, 0, NULL, 0))
ATTEMPT(send_files, sendmsg(p->channel, &(struct msghdr){.msg_iovlen = 0}, 0))
ATTEMPT(receive_files, syscall(SYS_recvmsg, p->channel, &(struct msghdr){.msg_iovlen = 0}, MSG_DONTWAIT))
ATTEMPT(receive_elsewhere, syscall(SYS_recvfrom, p->file, p->bytes, 1, MSG_DONTWAIT, NULL, NULL))
ATTEMPT(write_channel, syscall(SYS_write, p->channel, p->bytes, 0))
ATTEMPT(write_file, syscall(SYS_write, p->file, p->bytes, 1))
ATTEMPT(write_at, syscall(SYS_pwrite64, p->file, p->bytes, 1, 0))
ATTEMPT(write_vector, syscall(SYS_writev, p->file, &(struct iovec){p->bytes, 1}, 1))
ATTEMPT(send_file, syscall(SYS_sendfile, p->channel, p->file, NULL, 0))
ATTEMPT(set_owner, fcntl(p->channel, F_SETOWN, p->parent))
ATTEMPT(set_signal, fcntl(p->channel, F_SETSIG, SIGKILL))
ATTEMPT(set_flags, fcntl(p->channel, F_SETFL, O_ASYNC | O_RDWR))
ATTEMPT(set_lock, fcntl(p->file, F_SETLK, &(struct flock){.l_type = F_RDLCK}))
ATTEMPT(set_lease, fcntl(p->file, F_SETLEASE, F_RDLCK))
ATTEMPT(lock_for_itself, flock(p->file, LOCK_EX | LOCK_NB))
ATTEMPT(control_device, ioctl(p->channel, FIONREAD, p->bytes))
ATTEMPT(map_code, mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
ATTEMPT(map_writable_code, mmap(NULL, PAGE, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
ATTEMPT(map_writable_library, mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, p->file, 0))
ATTEMPT(map_library, mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, p->file, 0))
ATTEMPT(map_shared, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, p->file, 0))
ATTEMPT(make_code, mprotect(p->bytes, PAGE, PROT_READ | PROT_EXEC))
ATTEMPT(make_writable_code, mprotect(p->bytes, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
ATTEMPT(make_memory_file, syscall(SYS_memfd_create, "x", 0))
ATTEMPT(start_program, syscall(SYS_execve, "/no/such/program", (char *[]){NULL}, (char *[]){NULL}))
ATTEMPT(start_open_program, syscall(SYS_execveat, AT_FDCWD, "/no/such/program", NULL, NULL, 0))
ATTEMPT(control_process, syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0))
ATTEMPT(delete_file, unlink(p->other))
ATTEMPT(delete_at, syscall(SYS_unlinkat, AT_FDCWD, p->other, 0))
ATTEMPT(rename_file, syscall(SYS_renameat2, AT_FDCWD, p->path, AT_FDCWD, p->path, 0))
ATTEMPT(make_folder, syscall(SYS_mkdirat, AT_FDCWD, p->path, 0700))
ATTEMPT(make_link, syscall(SYS_linkat, AT_FDCWD, p->path, AT_FDCWD, p->path, 0))
ATTEMPT(make_symbolic_link, syscall(SYS_symlinkat, "x", AT_FDCWD, p->path))
ATTEMPT(make_pipe, syscall(SYS_mknodat, AT_FDCWD, p->path, S_IFIFO | 0600, 0))
ATTEMPT(change_mode, syscall(SYS_fchmodat, AT_FDCWD, p->path, 0600))
ATTEMPT(change_open_mode, fchmod(p->file, 0600))
ATTEMPT(change_owner, syscall(SYS_fchownat, AT_FDCWD, p->path, getuid(), getgid(), 0))
ATTEMPT(change_times, syscall(SYS_utimensat, AT_FDCWD, p->path, NULL, 0))
ATTEMPT(change_size, syscall(SYS_truncate, p->path, FILE_SIZE))
ATTEMPT(change_open_size, syscall(SYS_ftruncate, p->file, FILE_SIZE))
ATTEMPT(change_folder, chdir("/"))
ATTEMPT(change_mask, syscall(SYS_umask, 022))
ATTEMPT(raise_limit, syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, p->bytes))
ATTEMPT(limit_parent, syscall(SYS_prlimit64, p->parent, RLIMIT_NOFILE, NULL, p->bytes))
ATTEMPT(set_priority, syscall(SYS_setpriority, PRIO_PROCESS, 0, 19))
ATTEMPT(set_session, syscall(SYS_getsid, p->parent))
ATTEMPT(set_clock, setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL))
ATTEMPT(watch_folder, syscall(SYS_inotify_init1, 0))
ATTEMPT(make_event, syscall(SYS_eventfd2, 0, 0))
ATTEMPT(make_pipe_pair, syscall(SYS_pipe2, p->bytes, 0))
ATTEMPT(duplicate, dup(p->file))

static long start_process(const struct place *p)
{
    const long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) _exit(0);
    return child;
}

static long start_process_by_structure(const struct place *p)
{
    const uint64_t arguments[8] = {[4] = SIGCHLD};
    const long child = syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0) _exit(0);
    return child;
}

/* read_memory: Yama may refuse this outside, too. poison_page: would act on the machine. */
static long read_memory(const struct place *p)
{
    struct iovec to = {p->bytes, 1}, from = {p->bytes, 1};
    return syscall(SYS_process_vm_readv, p->parent, &to, 1, &from, 1, 0);
}
static long write_memory(const struct place *p)
{
    struct iovec from = {p->bytes, 1}, to = {p->bytes, 1};
    return syscall(SYS_process_vm_writev, p->parent, &from, 1, &to, 1, 0);
}
ATTEMPT(poison_page, madvise(p->bytes, PAGE, 100 /* MADV_HWPOISON */))
ATTEMPT(open_process, syscall(SYS_pidfd_open, p->parent, 0))
ATTEMPT(make_ring, syscall(SYS_io_uring_setup, 1, p->bytes))
ATTEMPT(trace_parent, syscall(SYS_ptrace, PTRACE_SEIZE, p->parent, 0, 0))
ATTEMPT(watch_machine, syscall(SYS_perf_event_open, p->bytes, 0, -1, -1, 0))
ATTEMPT(load_filter, syscall(SYS_bpf, 0, p->bytes, 16))
ATTEMPT(leave_namespace, syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */))

/* outside: what the call does without the filter is not EPERM. */
static const struct {
    const char *name;
    attempt_fn *call;
    bool outside;
} forbidden[] = {
#define FREE(name)                                                                                                     \
    {                                                                                                                  \
#name, name, true                                                                                              \
    }
#define HARD(name)                                                                                                     \
    {                                                                                                                  \
#name, name, false                                                                                             \
    }
    FREE(kill_parent),
    FREE(kill_itself),
    FREE(kill_thread_of_parent),
    FREE(kill_thread),
    HARD(trace_me),
    FREE(open_to_write),
    FREE(open_to_read_and_write),
    FREE(open_to_cut),
    FREE(open_new),
    FREE(open_unnamed),
    FREE(open_path),
    FREE(open_in_folder),
    FREE(open_by_structure),
    FREE(make_socket),
    FREE(make_local_socket),
    FREE(make_socket_pair),
    FREE(connect_channel),
    FREE(listen_channel),
    FREE(send_elsewhere),
    FREE(send_files),
    FREE(receive_files),
    FREE(receive_elsewhere),
    FREE(write_channel),
    FREE(write_file),
    FREE(write_at),
    FREE(write_vector),
    FREE(send_file),
    FREE(set_owner),
    FREE(set_signal),
    FREE(set_flags),
    FREE(set_lock),
    FREE(set_lease),
    FREE(lock_for_itself),
    FREE(control_device),
    FREE(map_code),
    FREE(map_writable_code),
    FREE(map_writable_library),
    FREE(map_library),
    FREE(map_shared),
    FREE(make_code),
    FREE(make_writable_code),
    FREE(make_memory_file),
    FREE(start_program),
    FREE(start_open_program),
    FREE(control_process),
    FREE(delete_file),
    FREE(delete_at),
    FREE(rename_file),
    FREE(make_folder),
    FREE(make_link),
    FREE(make_symbolic_link),
    FREE(make_pipe),
    FREE(change_mode),
    FREE(change_open_mode),
    FREE(change_owner),
    FREE(change_times),
    FREE(change_size),
    FREE(change_open_size),
    FREE(change_folder),
    FREE(change_mask),
    FREE(raise_limit),
    FREE(limit_parent),
    FREE(set_priority),
    FREE(set_session),
    FREE(set_clock),
    FREE(watch_folder),
    FREE(make_event),
    FREE(make_pipe_pair),
    FREE(duplicate),
    FREE(start_process),
    HARD(start_process_by_structure),
    HARD(read_memory),
    HARD(write_memory),
    HARD(poison_page),
    HARD(open_process),
    HARD(make_ring),
    HARD(trace_parent),
    HARD(watch_machine),
    HARD(load_filter),
    HARD(leave_namespace)};

/* ---- Allowed ---- */

static long open_and_read(const struct place *p)
{
    char bytes[FILE_SIZE];
    struct stat info;
    const int f = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    return f >= 0 && read(f, bytes, 10) == 10 && pread(f, bytes, FILE_SIZE, 0) == FILE_SIZE &&
                   lseek(f, 5, SEEK_SET) == 5 && fstat(f, &info) == 0 && info.st_size == FILE_SIZE && close(f) == 0
               ? 0
               : -1;
}

static long list_folder(const struct place *p)
{
    DIR *d = opendir("/");
    return d && readdir(d) && closedir(d) == 0 ? 0 : -1;
}

static long use_memory(const struct place *p)
{
    for (size_t size = 100; size < (size_t)1 << 26; size *= 4) {
        char *bytes = malloc(size), *more = bytes ? realloc(bytes, size * 2) : NULL;
        if (!more) return -1;
        memset(more, 1, size * 2);
        free(more);
    }
    return 0;
}

static long map_file(const struct place *p)
{
    char *bytes = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, p->file, 0);
    return bytes != MAP_FAILED && bytes[0] == 'x' ? munmap(bytes, PAGE) : -1;
}

static long move_memory(const struct place *p)
{
    char *bytes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED || mprotect(bytes, PAGE, PROT_READ) || madvise(bytes, PAGE, MADV_DONTNEED)) return -1;
    bytes = mremap(bytes, PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    return bytes != MAP_FAILED ? munmap(bytes, 64 * PAGE) : -1;
}

static long ask_about_file(const struct place *p)
{
    struct stat info;
    char text[4096];
    return stat(p->path, &info) == 0 && lstat(p->path, &info) == 0 && access(p->path, R_OK) == 0 &&
                   getcwd(text, sizeof text) && readlink("/proc/self/exe", text, sizeof text) > 0
               ? 0
               : -1;
}

static long lock_and_flags(const struct place *p)
{
    return flock(p->file, LOCK_SH | LOCK_NB) == 0 && flock(p->file, LOCK_UN) == 0 && fcntl(p->file, F_GETFL) >= 0 &&
                   fcntl(p->file, F_GETFD) >= 0 && fcntl(p->file, F_SETFD, FD_CLOEXEC) == 0 &&
                   close(fcntl(p->file, F_DUPFD_CLOEXEC, 0)) == 0
               ? 0
               : -1;
}

static long use_channel(const struct place *p)
{
    char byte = 0;
    return send(p->channel, &byte, 0, MSG_NOSIGNAL) == 0 && recv(p->channel, &byte, 1, MSG_DONTWAIT) < 0 &&
                   errno == EAGAIN && poll(&(struct pollfd){.fd = p->channel, .events = POLLOUT}, 1, 0) == 1
               ? 0
               : -1;
}

static long use_time(const struct place *p)
{
    struct timespec now;
    qc_sandbox_seconds(100);
    struct itimerval left;
    const bool set = clock_gettime(CLOCK_MONOTONIC, &now) == 0 && time(NULL) > 0;
    left.it_value.tv_sec = 0;
    return set && setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, &left) == 0 && left.it_value.tv_sec > 0
               ? 0
               : -1;
}

ATTEMPT(signal_itself, raise(0))

static const struct {
    const char *name;
    attempt_fn *call;
} allowed[] = {{"open and read", open_and_read},
               {"list a folder", list_folder},
               {"use memory", use_memory},
               {"map a file", map_file},
               {"move memory", move_memory},
               {"ask about a file", ask_about_file},
               {"locks and flags", lock_and_flags},
               {"use the channel", use_channel},
               {"use time", use_time},
               {"signal itself", signal_itself}};

/* Calls that are allowed with any arguments, and those that end the process. */
static const int plain[] = {SYS_pread64,      SYS_lseek,          SYS_read,         SYS_close,       SYS_fstat,
                            SYS_getcwd,       SYS_getdents64,     SYS_faccessat,    SYS_readlinkat,  SYS_statfs,
                            SYS_fstatfs,      SYS_ppoll,          SYS_munmap,       SYS_brk,         SYS_sched_yield,
                            SYS_getpid,       SYS_gettid,         SYS_getuid,       SYS_geteuid,     SYS_getgid,
                            SYS_getegid,      SYS_clock_gettime,  SYS_gettimeofday, SYS_getrandom,   SYS_uname,
                            SYS_sysinfo,      SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sigaltstack, SYS_newfstatat,
                            SYS_statx,
#ifdef SYS_open
                            SYS_stat,         SYS_lstat,          SYS_access,       SYS_readlink,    SYS_poll,
                            SYS_time,
#endif
                            SYS_rt_sigreturn, SYS_exit,           SYS_exit_group};
enum { ENDING = 3, PLAIN = sizeof plain / sizeof *plain, NUMBERS = 1024, X32 = 0x40000000 };

/* ---- In another process ---- */

typedef void in_process_fn(int *out, const struct place *p);

/* Runs fn in a child, in the sandbox or outside, which fills `count` numbers. */
static void run(int *out, size_t count, in_process_fn *fn, bool sandboxed, enum qc_sandbox_code code)
{
    int ends[2], status;
    struct place p = {.path = "sandbox_XXXXXX", .parent = getpid()};
    const int f = mkstemp(p.path);
    char bytes[FILE_SIZE];
    memset(bytes, 'x', sizeof bytes);
    cr_assert(f >= 0 && write(f, bytes, sizeof bytes) == FILE_SIZE && close(f) == 0);
    snprintf(p.other, sizeof p.other, "%s_other", p.path);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    p.channel = ends[1];
    p.bytes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(p.bytes, MAP_FAILED);
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        int *results = calloc(count, sizeof *results);
        if (sandboxed) qc_sandbox_enter(p.channel, code);
        p.file = open(p.path, O_RDONLY);
        fn(results, &p);
        for (size_t at = 0; at < count * sizeof *results;) {
            const ssize_t n = send(p.channel, (char *)results + at, count * sizeof *results - at, MSG_NOSIGNAL);
            if (n <= 0) _exit(1);
            at += (size_t)n;
        }
        _exit(0);
    }
    close(ends[1]);
    cr_assert_eq(recv(ends[0], out, count * sizeof *out, MSG_WAITALL), (ssize_t)(count * sizeof *out),
                 "it died: it has sent no results");
    cr_assert_eq(waitpid(child, &status, 0), child);
    close(ends[0]);
    munmap(p.bytes, PAGE);
    unlink(p.path);
    unlink(p.other);
}

static int error_of(attempt_fn *call, const struct place *p)
{
    errno = 0;
    return call(p) < 0 ? errno ? errno : ENOTSUP : 0;
}

static void try_forbidden(int *out, const struct place *p)
{
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) out[i] = error_of(forbidden[i].call, p);
}

static void try_those_that_do_no_harm(int *out, const struct place *p)
{
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (forbidden[i].outside) out[i] = error_of(forbidden[i].call, p);
}

/* The memory of the parent, as a file that may be read. */
static void try_memory_of_parent(int *out, const struct place *p)
{
    char path[100], byte;
    snprintf(path, sizeof path, "/proc/%ld/mem", (long)p->parent);
    const int fd = open(path, O_RDONLY);
    *out = fd < 0 || pread(fd, &byte, 1, (off_t)(uintptr_t)p->bytes) != 1 ? errno : 0;
}

static void try_allowed(int *out, const struct place *p)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) out[i] = error_of(allowed[i].call, p);
}

/* Calls of probes of the kernel on x86-64: newer kernels do not ask filters about them, and kill the process. */
enum { URETPROBE = 335, UPROBE = 336 };

/* Tries all numbers with arguments that are valid for none of them. */
static void try_every_number(int *out, const struct place *p)
{
    if (error_of(delete_file, p) != EPERM) return; /* no filter: some of them would end the machine */
    for (int i = 0; i < 2 * NUMBERS; i++) {
        const int number = i < NUMBERS ? i : X32 + i - NUMBERS;
        bool ends = false;
        for (size_t k = PLAIN - ENDING; k < PLAIN; k++) ends |= number == plain[k];
#ifdef __x86_64__
        if (number == URETPROBE || number == UPROBE) {
            out[i] = EPERM;
            continue;
        }
#endif
        out[i] = ends ? 0 : syscall(number, -1L, -1L, -1L, -1L, -1L, -1L) < 0 ? errno : 0;
    }
}

Test(sandbox, forbidden_calls_fail)
{
    enum { COUNT = sizeof forbidden / sizeof *forbidden };
    int inside[COUNT], outside[COUNT] = {0};
    run(inside, COUNT, try_forbidden, true, QC_SANDBOX_NO_CODE);
    for (size_t i = 0; i < COUNT; i++)
        cr_expect_eq(inside[i], EPERM, "%s: %s", forbidden[i].name, inside[i] ? strerror(inside[i]) : "it succeeds");
    run(outside, COUNT, try_those_that_do_no_harm, false, QC_SANDBOX_NO_CODE);
    for (size_t i = 0; i < COUNT; i++) cr_expect_neq(outside[i], EPERM, "%s: EPERM outside, too", forbidden[i].name);
}

Test(sandbox, memory_of_another_process_is_not_read)
{
    int inside, outside;
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1U /* the version */) < 1) cr_skip_test("there is no Landlock");
    run(&outside, 1, try_memory_of_parent, false, QC_SANDBOX_NO_CODE);
    if (outside) cr_skip_test("the system refuses it to all processes");
    for (int code = QC_SANDBOX_NO_CODE; code <= QC_SANDBOX_LIBRARIES; code++) {
        run(&inside, 1, try_memory_of_parent, true, (enum qc_sandbox_code)code);
        cr_expect_eq(inside, EACCES, "%s", inside ? strerror(inside) : "it is read");
    }
}

Test(sandbox, reading_is_allowed)
{
    enum { COUNT = sizeof allowed / sizeof *allowed };
    int inside[COUNT];
    run(inside, COUNT, try_allowed, true, QC_SANDBOX_NO_CODE);
    for (size_t i = 0; i < COUNT; i++) cr_expect_eq(inside[i], 0, "%s: %s", allowed[i].name, strerror(inside[i]));
}

Test(sandbox, all_other_numbers_are_refused)
{
    int results[2 * NUMBERS];
    run(results, 2 * NUMBERS, try_every_number, true, QC_SANDBOX_NO_CODE);
    cr_assert_eq(results[SYS_unlinkat], EPERM, "there is no filter");
    for (int i = 0; i < 2 * NUMBERS; i++) {
        bool listed = false;
        for (size_t k = 0; k < PLAIN; k++) listed |= i == plain[k];
        cr_expect_eq(results[i] == EPERM, !listed, "call %d%s: %s", i % NUMBERS, i < NUMBERS ? "" : " of x32",
                     strerror(results[i]));
    }
}

/* For filter plugins, files can be mapped as code, but no memory that the process wrote. */
Test(sandbox, libraries_are_the_only_code)
{
    enum { COUNT = sizeof forbidden / sizeof *forbidden };
    int inside[COUNT];
    run(inside, COUNT, try_forbidden, true, QC_SANDBOX_LIBRARIES);
    for (size_t i = 0; i < COUNT; i++)
        cr_expect_eq(inside[i], forbidden[i].call == map_library ? 0 : EPERM, "%s: %s", forbidden[i].name,
                     strerror(inside[i]));
}

#endif
