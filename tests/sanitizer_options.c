// SPDX-License-Identifier: Apache-2.0
/* Options of the sanitizers, asked for by name at start. */
#pragma GCC visibility push(default) /* the sanitizer looks for these names in the program */

const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__lsan_default_suppressions(void);

/* An absurd size must come back as NULL: that is what the tests of overflow look at. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_stack_use_after_return=1";
}

/* What libraries do among themselves is not seen (libomp synchronises in ways of its own, which its tool Archer tells
   the sanitizer); what they are given by our code is. Children of tests may start threads; they are not looked at. */
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1:ignore_noninstrumented_modules=1:die_after_fork=0";
}

/* Leaks that are not ours, one "leak:function" per line, with the reason here.
   libhdf5: HDF5 1.10 forgets a few hundred bytes when it meets certain damaged headers (seen with nothing but H5Fopen,
   H5Lvisit and H5Fclose around a flipped bit). Identifiers that we forget to close stay reachable and are no leaks
   anyway. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5\n";
}
