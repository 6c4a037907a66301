// SPDX-License-Identifier: Apache-2.0
/* zlib streams (RFC 1950) in one piece, by libdeflate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* State of one thread. */
struct qc_deflate;
struct qc_deflate *qc_deflate_new(int level); /* 1 quick to 12 small; NULL when memory is out */
void qc_deflate_free(struct qc_deflate *d);

/* *out is owned (free). What is shorter than 128 bytes is stored, not packed. */
bool qc_deflate_pack(void **out, size_t *out_size, struct qc_deflate *d, const void *data, size_t size,
                     struct qc_status *st);

/* Exactly `size` bytes at out. QC_BAD_INPUT when the stream is damaged or has another length. */
bool qc_deflate_unpack(void *out, size_t size, struct qc_deflate *d, const void *packed, size_t packed_size,
                       struct qc_status *st);
