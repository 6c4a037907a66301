// SPDX-License-Identifier: Apache-2.0
/* Variables that give back what they hold at the end of their scope, by the cleanup attribute of GCC and Clang. No goto
   may pass their declarations. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A pointer to memory of malloc; may be NULL. */
#define QC_FREED __attribute__((cleanup(qc_scope_free)))
static inline void qc_scope_free(void *variable)
{
    void *held;
    memcpy(&held, variable, sizeof held);
    free(held);
}

/* A file descriptor; -1: none. */
#define QC_CLOSED __attribute__((cleanup(qc_scope_close))) int
static inline void qc_scope_close(const int *fd)
{
    if (*fd >= 0) close(*fd);
}
