// SPDX-License-Identifier: Apache-2.0
/* "Did you mean": the name that was most likely meant. */
#pragma once

#include <stddef.h>

/* The most similar of n names (optimal string alignment distance at most 2 and below half the length), or NULL; of
   equals the first. NULL among the names is skipped. */
const char *qc_closest(const char *name, const char *const *names, size_t n);
