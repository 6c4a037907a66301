// SPDX-License-Identifier: Apache-2.0
/* Cache of units that are read again, as elements in the file's type; private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct qc_unit_cache;

/* Makes a cache of at most `bytes` bytes. */
bool qc_unit_cache_new(struct qc_unit_cache **out, size_t bytes, struct qc_status *st);
void qc_unit_cache_free(struct qc_unit_cache *c); /* NULL-safe */
/* Drops all units; not concurrently with users of them. */
void qc_unit_cache_clear(struct qc_unit_cache *c);

/* Returns the cached elements of a unit of the file, or NULL. They do not move. Thread safe, like
   qc_unit_cache_keep. */
const void *qc_unit_cache_find(struct qc_unit_cache *c, size_t binding, size_t unit);
/* Copies a unit that is not cached, if there is room. */
void qc_unit_cache_keep(struct qc_unit_cache *c, size_t binding, size_t unit, const void *elements, size_t bytes);
