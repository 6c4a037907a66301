// SPDX-License-Identifier: Apache-2.0
/* For LD_PRELOAD: makes allocation number K of a program fail, counted from the start of main, all threads together.

   QC_FAIL_AT=K      number K fails and no other
   QC_FAIL_FROM=K    number K and all behind it fail
   QC_FAIL_KIND=X    what is counted: memory (the default; malloc and its brothers), thread (pthread_create)
   QC_FAIL_BY=X      what happens instead: exit (the library calls exit(1)) or abort
   QC_FAIL_OURS=1    counts only what the program's own code asks for: for builds where libraries see their failures
   QC_FAIL_REPORT=F  writes file F of uint64_t: how many there were, then for each the hash of its call stack, the
   lowest bit of which tells whether the program's own code asked (through malloc of the program itself)

   A resize to no bytes is a release and is not counted. */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static bool refused(enum kind kind, const void *caller)
{
    if (!counting || kind != counted) return false;
    if (ours && !in_program(caller)) return false;
    const uint64_t number = atomic_fetch_add(count, 1) + 1;
    if (places && number < MOST) places[number] = place();
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
    return REFUSED(THREAD) ? EAGAIN : next(t, attributes, start, user);
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static int counted_main(int argc, char **argv, char **environment)
{
    const char *kind = getenv("QC_FAIL_KIND"), *report = getenv("QC_FAIL_REPORT");
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
