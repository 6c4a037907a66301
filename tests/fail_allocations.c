// SPDX-License-Identifier: Apache-2.0
/* For LD_PRELOAD: makes allocation number K of a program fail, counted from the start of main, all threads together.

   QC_FAIL_AT=K      number K fails and no other
   QC_FAIL_FROM=K    number K and all behind it fail
   QC_FAIL_KIND=X    what is counted: memory (the default; malloc and its brothers), thread (pthread_create)
   QC_FAIL_BY=X      what happens instead: exit (the library calls exit(1)) or abort
   QC_FAIL_OURS=1    counts only what the program's own code asks for: for builds where libraries see their failures
   QC_FAIL_REPORT=F  writes file F of uint64_t: how many there were, then for each the hash of its call stack, the
   lowest bit of which tells whether the program's own code asked (through malloc of the program itself)

   QC_FAIL_WALK=IN,OUT  tries many numbers in one run of the program. IN and OUT are pipes. Lines that come from IN:
     walk FILE FILE      runs main in a child. At each allocation the child forks: the grandchild's allocation fails,
   the child waits for its end and goes on. Only this process and its single thread can be copied that way: where
   another thread runs, or folder . or rep is not as at first, `skip K` is told at|from K FILE FILE runs main in a child
   whose allocation number K fails reader K FILE FILE  the same, but only in processes that the program forks FILE FILE
   receive what is printed. Lines that go to OUT: `at K STATUS` and `from K STATUS` after the end of a process (of
   wait), which waits for a line; `read FIRST LAST` for a process that the program forked: its allocations; `end STATUS`
   of the child.

   A resize to no bytes is a release and is not counted. */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { MEMORY, THREAD };
enum { MOST = 1 << 22 /* allocations in a report */, DEPTH = 10 /* frames in a hash */ };

static bool counting, for_good, ours;
static enum kind counted;
static uint64_t first;
static const char *by;
static const void *program;
static _Atomic(uint64_t) own_count, *count = &own_count;
static uint64_t *places; /* NULL without a report */
static int (*real_main)(int, char **, char **);

/* Calls what the next library in the line has under this name; C has no cast from an object pointer to a function. */
#define NEXT(name)                                                                                                     \
    static __typeof__(&name) next;                                                                                     \
    if (!next) {                                                                                                       \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&next, &found, sizeof next);                                                                            \
    }

static bool in_program(const void *code)
{
    Dl_info where;
    return dladdr(code, &where) && where.dli_fbase == program;
}

/* FNV-1a of the call stack but for its lowest bit, the program's own code called the program's malloc; 0 for what the
   unwinder asks for itself. */
static uint64_t place(void)
{
    static _Thread_local bool busy;
    void *frames[DEPTH];
    uint64_t hash = 14695981039346656037u;
    if (busy) return 0;
    busy = true;
    const int n = backtrace(frames, DEPTH);
    busy = false;
    int at = 0;
    while (at < n && !in_program(frames[at])) at++;
    const bool own = at + 1 < n && in_program(frames[at + 1]);
    for (int i = 0; i < n; i++) hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211u;
    return (hash & ~(uint64_t)1) | own;
}

/* A place for a debugger's breakpoint. */
__attribute__((noinline)) static bool happens(void)
{
    if (by && !strcmp(by, "exit")) exit(1);
    if (by) abort();
    return true;
}

/* ---- Many numbers in one run ---- */

enum { READERS = 64, LINE = 4096 };
enum role { NONE, WALKER, SNAPSHOT, READER };

static enum role role;
static bool serving, reader_fails, recorded;
static int threads, asks = -1, tells = -1;
static char out_file[LINE / 2], err_file[LINE / 2];
static uint64_t folders;
static struct {
    _Atomic(unsigned) count;
    struct {
        uint64_t first;
        _Atomic(uint64_t) last;
    } of[READERS];
} * readers; /* shared by all processes of a run */
static unsigned my_reader;
static pid_t own[READERS];
static unsigned own_count_of;

static void tell(const char *line)
{
    const ssize_t n = write(tells, line, strlen(line));
    if (n < 0) _exit(99);
}

/* Reads a line without its end; returns false at the end of the pipe. */
static bool hear(char line[LINE])
{
    size_t n = 0;
    while (n < LINE - 1 && read(asks, line + n, 1) == 1 && line[n] != '\n') n++;
    line[n] = '\0';
    return n > 0;
}

static void print_to(const char *out, const char *err)
{
    const int a = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666),
              b = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (a < 0 || b < 0 || dup2(a, 1) < 0 || dup2(b, 2) < 0) _exit(98);
    close(a);
    close(b);
}

/* A hash of names and inodes of a folder, without an allocation. */
static uint64_t hash_of_folder(const char *path, uint64_t hash)
{
    static char entries[1 << 16];
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
        for (long at = 0; at < n;) {
            uint64_t inode;
            uint16_t size;
            memcpy(&inode, entries + at, sizeof inode);
            memcpy(&size, entries + at + 16, sizeof size);
            hash = (hash ^ inode) * 1099511628211u;
            for (const char *c = entries + at + 19; *c; c++) hash = (hash ^ (uint64_t)*c) * 1099511628211u;
            at += size;
        }
    if (fd >= 0) close(fd);
    return hash;
}

static uint64_t hash_of_folders(void)
{
    return hash_of_folder("rep", hash_of_folder(".", 14695981039346656037u));
}

static pid_t real_fork(void)
{
    NEXT(fork)
    return next();
}

/* Returns true in the copy, whose allocation fails. */
static bool try_here(const char *mode, uint64_t number)
{
    char line[LINE];
    int status;
    const pid_t copy = real_fork();
    if (copy == 0) {
        role = SNAPSHOT;
        own_count_of = 0;
        first = number;
        for_good = *mode == 'f';
        print_to(out_file, err_file);
        return true;
    }
    if (copy < 0) _exit(97);
    while (waitpid(copy, &status, 0) < 0 && errno == EINTR) continue;
    snprintf(line, sizeof line, "%s %" PRIu64 " %d\n", mode, number, status);
    tell(line);
    if (!hear(line)) _exit(96);
    folders = hash_of_folders();
    return false;
}

static bool fails_here(uint64_t number)
{
    char line[64];
    if (!threads && hash_of_folders() == folders) return try_here("at", number) || try_here("from", number);
    snprintf(line, sizeof line, "skip %" PRIu64 "\n", number);
    tell(line);
    return false;
}

static bool mine(pid_t pid)
{
    for (unsigned i = 0; i < own_count_of; i++)
        if (own[i] == pid) return true;
    return false;
}

/* A reading process of the walker serves its copies too. They may not end it. */
int kill(pid_t pid, int signal_number)
{
    NEXT(kill)
    return role == SNAPSHOT && pid != getpid() && !mine(pid) ? 0 : next(pid, signal_number);
}

pid_t waitpid(pid_t pid, int *status, int flags)
{
    NEXT(waitpid)
    if (role != SNAPSHOT || mine(pid)) return next(pid, status, flags);
    if (status) *status = SIGKILL;
    return pid;
}

int madvise(void *p, size_t size, int advice)
{
    NEXT(madvise)
    return role == WALKER && advice == MADV_DONTFORK ? 0 : next(p, size, advice);
}

pid_t fork(void)
{
    const enum role parent = role;
    const pid_t pid = real_fork();
    if (pid > 0 && own_count_of < READERS) own[own_count_of++] = pid;
    if (pid != 0 || !serving) return pid;
    role = READER;
    if (parent == WALKER) my_reader = atomic_fetch_add(&readers->count, 1);
    recorded = parent == WALKER && my_reader < READERS;
    if (recorded) readers->of[my_reader].first = readers->of[my_reader].last = atomic_load(count);
    return pid;
}

int pthread_join(pthread_t t, void **result)
{
    NEXT(pthread_join)
    const int error = next(t, result);
    if (!error) threads--;
    return error;
}

/* Runs main, and answers for the process. */
static int run_child(const char *mode, uint64_t number, int argc, char **argv, char **environment)
{
    role = *mode == 'w' ? WALKER : NONE;
    reader_fails = *mode == 'r';
    for_good = *mode == 'f';
    first = number;
    folders = hash_of_folders();
    counting = true;
    return real_main(argc, argv, environment);
}

static int serve(int argc, char **argv, char **environment)
{
    char line[LINE], mode[16], a[LINE / 2], b[LINE / 2];
    void *shared = mmap(NULL, sizeof *readers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 95;
    readers = shared;
    serving = true;
    while (hear(line)) {
        uint64_t number = 0;
        int status;
        if (sscanf(line, "walk %2047s %2047s", out_file, err_file) == 2) {
            snprintf(a, sizeof a, "%.2000s.walk", out_file);
            snprintf(b, sizeof b, "%.2000s.walk", err_file);
            strcpy(mode, "walk");
        } else if (sscanf(line, "%15s %" SCNu64 " %2047s %2047s", mode, &number, a, b) != 4) {
            return 94;
        }
        readers->count = 0;
        const pid_t child = real_fork();
        if (child == 0) {
            print_to(a, b);
            return run_child(mode, number, argc, argv, environment); /* libc ends it, as any main */
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        for (unsigned i = 0; i < readers->count && i < READERS; i++) {
            snprintf(line, sizeof line, "read %" PRIu64 " %" PRIu64 "\n", readers->of[i].first + 1,
                     readers->of[i].last);
            tell(line);
        }
        snprintf(line, sizeof line, "end %d\n", status);
        tell(line);
    }
    return 0;
}

static bool refused(enum kind kind, const void *caller)
{
    if (!counting || kind != counted) return false;
    if (ours && !in_program(caller)) return false;
    const uint64_t number = atomic_fetch_add(count, 1) + 1;
    if (places && number < MOST) places[number] = place();
    if (recorded) readers->of[my_reader].last = number;
    if (role == WALKER) {
        counting = false;
        const bool fails = fails_here(number);
        counting = true;
        if (!fails) return false;
    }
    if (reader_fails && role != READER) return false;
    if (!first || (for_good ? number < first : number != first)) return false;
    return happens();
}

#define REFUSED(kind) refused(kind, __builtin_return_address(0))

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    NEXT(malloc)
    return REFUSED(MEMORY) ? no_memory() : next(size);
}

void *calloc(size_t n, size_t size)
{
    NEXT(calloc)
    return REFUSED(MEMORY) ? no_memory() : next(n, size);
}

void *realloc(void *p, size_t size)
{
    NEXT(realloc)
    return size && REFUSED(MEMORY) ? no_memory() : next(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    NEXT(aligned_alloc)
    return REFUSED(MEMORY) ? no_memory() : next(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
    NEXT(memalign)
    return REFUSED(MEMORY) ? no_memory() : next(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
    NEXT(posix_memalign)
    return REFUSED(MEMORY) ? ENOMEM : next(p, alignment, size);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    NEXT(pthread_create)
    if (REFUSED(THREAD)) return EAGAIN;
    const int error = next(t, attributes, start, user);
    if (!error) threads++;
    return error;
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static int counted_main(int argc, char **argv, char **environment)
{
    const char *kind = getenv("QC_FAIL_KIND"), *report = getenv("QC_FAIL_REPORT"), *walk = getenv("QC_FAIL_WALK");
    Dl_info where;
    void *address;
    memcpy(&address, &real_main, sizeof address);
    program = dladdr(address, &where) ? where.dli_fbase : NULL;
    ours = getenv("QC_FAIL_OURS") != NULL;
    counted = kind && !strcmp(kind, "thread") ? THREAD : MEMORY;
    by = getenv("QC_FAIL_BY");
    for_good = getenv("QC_FAIL_FROM") != NULL;
    first = number_of(for_good ? "QC_FAIL_FROM" : "QC_FAIL_AT");
    const int file = report ? open(report, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    if (file >= 0 && !ftruncate(file, MOST * sizeof *places)) {
        void *shared = mmap(NULL, MOST * sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) count = shared, places = shared;
    }
    if (file >= 0) close(file);
    if (walk && sscanf(walk, "%d,%d", &asks, &tells) == 2) return serve(argc, argv, environment);
    counting = true;
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    NEXT(__libc_start_main)
    real_main = main;
    return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
