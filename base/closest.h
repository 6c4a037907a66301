// SPDX-License-Identifier: Apache-2.0
/* "Did you mean": finds the name that was probably meant. */
#pragma once

#include <stddef.h>

/* Returns the most similar of n names (optimal string alignment distance at most 2 and at most half the length of that
   name), or NULL. The first of equals wins; NULL names are skipped. */
const char *qc_closest(const char *name, const char *const *names, size_t n);
