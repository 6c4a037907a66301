// SPDX-License-Identifier: Apache-2.0
/* Packed constants, each stored once per plan however many steps use it. */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_packed;

bool qc_packed_new(struct qc_packed **out, struct qc_status *st);
void qc_packed_free(struct qc_packed *p); /* NULL-safe */

/* Takes ownership of `data` (allocated, `bytes` long), packed from the constant at `from`. *out: the same bytes,
   either `data` or an equal earlier block of that constant; valid as long as p. *added: bytes by which p grew. Frees
   `data` on failure. */
bool qc_packed_take(void **out, size_t *added, struct qc_packed *p, const void *from, void *data, size_t bytes,
                    struct qc_status *st);

/* Makes room for `bytes` in an unnamed temporary file, valid as long as p. *out is NULL if the disk has none. */
bool qc_packed_room(void **out, struct qc_packed *p, size_t bytes, struct qc_status *st);
