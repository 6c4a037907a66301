// SPDX-License-Identifier: Apache-2.0
/* Replaces malloc and related functions for the shared libraries of the program: symbol lookup finds the program's
   first. Memory comes from the next definition, normally the C library's; only failures are handled here. The program's
   own code gets NULL and exits with 5. Libraries do not: some abort (C++), some exit with 1 (OpenMP), some crash or
   continue with wrong results (HDF5), so a failure in them ends the program here.
   docs/decisions/0027-failed-allocations-of-libraries.md */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/status.h"
#include "cli/program.h"

/* Bounds of the program's code, set by the linker. */
extern const char __executable_start, etext; /* NOLINT(bugprone-reserved-identifier) */

/* Libraries must find these symbols, even if the program hides its others. */
#define FOR_LIBRARIES __attribute__((visibility("default")))

/* Handles lack of memory for `caller`. Returns only if the caller can handle NULL: the program's own code, or a request
   of more bytes than the machine has, which only a damaged file makes. After a tail call in a library, `caller` is the
   library's own caller. */
static void failed(size_t bytes, const void *caller)
{
    const int error = errno;
    const uintptr_t at = (uintptr_t)caller;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const bool absurd = pages > 0 && page > 0 && bytes / (size_t)page > (size_t)pages;
    if ((at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext) && !absurd) {
        struct qc_status st = QC_STATUS_INIT;
        qc_fail_memory(&st, bytes);
        qc_give_up(st.message);
    }
    errno = error;
}

/* Returns the next definition of a name. Recursive calls return NULL: dlsym allocates memory to describe an error, and
   works without. */
static void *look_up(const char *name)
{
    static _Thread_local bool busy;
    if (busy) return NULL;
    busy = true;
    void *found = dlsym(RTLD_NEXT, name);
    busy = false;
    return found;
}

/* Declares `real`, the allocator that ours replaces. C has no cast from an object pointer to a function pointer. */
#define REAL(name)                                                                                                     \
    static _Atomic(void *) known;                                                                                      \
    __typeof__(&name) real;                                                                                            \
    void *found = atomic_load_explicit(&known, memory_order_relaxed);                                                  \
    if (!found) atomic_store_explicit(&known, found = look_up(#name), memory_order_relaxed);                           \
    memcpy(&real, &found, sizeof real)

FOR_LIBRARIES void *malloc(size_t size)
{
    REAL(malloc);
    void *p = real ? real(size) : NULL;
    if (!p) failed(size, __builtin_return_address(0));
    return p;
}

FOR_LIBRARIES void *calloc(size_t n, size_t size)
{
    size_t bytes;
    REAL(calloc);
    void *p = real ? real(n, size) : NULL;
    if (!p && real) failed(qc_mul_size(&bytes, n, size) ? bytes : SIZE_MAX, __builtin_return_address(0));
    return p;
}

FOR_LIBRARIES void *realloc(void *old, size_t size)
{
    REAL(realloc);
    void *p = real ? real(old, size) : NULL;
    if (!p && size) failed(size, __builtin_return_address(0)); /* size 0 frees the memory */
    return p;
}

FOR_LIBRARIES void *aligned_alloc(size_t alignment, size_t size)
{
    REAL(aligned_alloc);
    void *p = real ? real(alignment, size) : NULL;
    if (!p && errno == ENOMEM) failed(size, __builtin_return_address(0));
    return p;
}

void *memalign(size_t alignment, size_t size); /* non-standard; declared in <malloc.h>, which only this file would
                                                  need */

FOR_LIBRARIES void *memalign(size_t alignment, size_t size)
{
    REAL(memalign);
    void *p = real ? real(alignment, size) : NULL;
    if (!p && errno == ENOMEM) failed(size, __builtin_return_address(0));
    return p;
}

FOR_LIBRARIES int posix_memalign(void **out, size_t alignment, size_t size)
{
    REAL(posix_memalign);
    const int error = real ? real(out, alignment, size) : ENOMEM;
    if (error == ENOMEM) failed(size, __builtin_return_address(0));
    return error;
}
