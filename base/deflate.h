// SPDX-License-Identifier: Apache-2.0
/* zlib streams (RFC 1950) in one piece, with libdeflate. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Compressor and decompressor of one thread. */
struct qc_deflate;
struct qc_deflate *qc_deflate_new(int level); /* 1 (fast) to 12 (small); NULL if memory is out */
void qc_deflate_free(struct qc_deflate *d);

/* *out is owned (free). The first `stored` bytes are stored uncompressed, and the rest if it is below 2 KiB. */
bool qc_deflate_pack(void **out, size_t *out_size, struct qc_deflate *d, const void *data, size_t size, size_t stored,
                     struct qc_status *st);

/* Writes exactly `size` bytes to out. Fails with QC_BAD_INPUT if the stream is damaged or has another length. */
bool qc_deflate_unpack(void *out, size_t size, struct qc_deflate *d, const void *packed, size_t packed_size,
                       struct qc_status *st);
