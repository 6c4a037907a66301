// SPDX-License-Identifier: Apache-2.0
/* Ends of scopes and functions that own something.

   Variables that free what they hold at the end of their scope, by the cleanup attribute of GCC and Clang. No goto
   may pass their declarations. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A pointer to memory of malloc; may be NULL. */
#define QC_FREED __attribute__((cleanup(qc_scope_free), unused))
static inline void qc_scope_free(void *variable)
{
    void *held;
    memcpy(&held, variable, sizeof held);
    free(held);
}

/* The value of a function that makes something: hands `made` over to the caller if ok, else frees it. */
#define QC_HAND_OVER(ok, out, made, free_made) ((ok) ? (*(out) = (made), true) : (free_made(made), false))
#define QC_HAND_OVER_VALUE(ok, out, made, close_made) ((ok) ? (*(out) = (made), true) : (close_made(&(made)), false))

/* Makes zeroed *x, to be freed by its owner, with a new arena x->arena (base/arena.h). False: memory is out. */
#define QC_NEW_OWNER(x, st)                                                                                            \
    (((x) = calloc(1, sizeof *(x))) && ((x)->arena = qc_arena_new()) ? true                                            \
                                                                     : (free(x), qc_fail_memory(st, sizeof *(x))))
