// SPDX-License-Identifier: Apache-2.0
/* malloc and its brothers as the shared libraries of the program see them: lookup of symbols finds the program's first.
   The memory is that of the C library (or whoever is next in line); only what happens when there is none is decided
   here. Code of the program gets NULL and goes its own way to exit 5. Libraries do not: some abort (C++), some exit
   with 1 (OpenMP), some crash or go on with wrong results (HDF5), so for them the program ends here.
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
#include "cli/give_up.h"

/* Where the code of the program lies, by the linker. */
extern const char __executable_start, etext; /* NOLINT(bugprone-reserved-identifier) */

/* The program may have made its names hidden; libraries must find these. */
#define FOR_LIBRARIES __attribute__((visibility("default")))

/* More than the machine has is what a damaged file asks for: the library sees its failure, and the file is to blame. */
static bool is_absurd(size_t bytes)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 && bytes / (size_t)page > (size_t)pages;
}

/* No memory for `caller`. Returns only where that one can be left to deal with it: to the program's own code, and where
   too much was asked for. A library that hands on NULL as the last thing it does counts as its caller, which is as
   good. */
static void failed(size_t bytes, const void *caller)
{
    const int error = errno;
    const uintptr_t at = (uintptr_t)caller;
    if ((at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext) && !is_absurd(bytes)) {
        struct qc_status st = QC_STATUS_INIT;
        qc_fail_memory(&st, bytes);
        qc_give_up(st.message);
    }
    errno = error;
}

/* What is next in line under this name. NULL inside itself: dlsym asks for memory to tell an error, and lives without.
 */
static void *look_up(const char *name)
{
    static _Thread_local bool busy;
    if (busy) return NULL;
    busy = true;
    void *found = dlsym(RTLD_NEXT, name);
    busy = false;
    return found;
}

/* Declares `real`, the allocator behind ours. C has no cast from an object pointer to a function pointer. */
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
    if (!p && size) failed(size, __builtin_return_address(0)); /* no bytes: released */
    return p;
}

FOR_LIBRARIES void *aligned_alloc(size_t alignment, size_t size)
{
    REAL(aligned_alloc);
    void *p = real ? real(alignment, size) : NULL;
    if (!p && errno == ENOMEM) failed(size, __builtin_return_address(0));
    return p;
}

void *memalign(size_t alignment, size_t size); /* of no standard: <malloc.h> has it, which another file needs */

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
