// SPDX-License-Identifier: Apache-2.0
/* Units that were read, as elements in the file's type, for those who read them again; private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct qc_unit_cache;

/* Of at most so many bytes. */
bool qc_unit_cache_new(struct qc_unit_cache **out, size_t bytes, struct qc_status *st);
void qc_unit_cache_free(struct qc_unit_cache *c); /* NULL-safe */
/* Forgets all units; not beside those who use them. */
void qc_unit_cache_clear(struct qc_unit_cache *c);

/* What is kept of a unit of the file; NULL: nothing. It stays where it is. Thread safe, as the next. */
const void *qc_unit_cache_find(struct qc_unit_cache *c, size_t binding, size_t unit);
/* Copies a unit that is not there, where there is room. */
void qc_unit_cache_keep(struct qc_unit_cache *c, size_t binding, size_t unit, const void *elements, size_t bytes);
