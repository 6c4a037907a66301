// SPDX-License-Identifier: Apache-2.0
/* Constants as kernels pack them, each once in a plan however many steps multiply with it. */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_packed;

bool qc_packed_new(struct qc_packed **out, struct qc_status *st);
void qc_packed_free(struct qc_packed *p); /* NULL-safe */

/* `data` (allocated, of so many bytes) was made of the constant at `from`: p frees it from now on. *out: the same
   bytes, data itself or what another step has made of that constant; they last as long as p. *added: bytes that p has
   more than before. Also on failure data is p's. */
bool qc_packed_take(void **out, size_t *added, struct qc_packed *p, const void *from, void *data, size_t bytes,
                    struct qc_status *st);
