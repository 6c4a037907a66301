// SPDX-License-Identifier: Apache-2.0
/* HDF5's shuffle and deflate filters, computed outside HDF5's lock; private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* State and buffers of one thread. */
struct qc_chunk_codec;
struct qc_chunk_codec *qc_chunk_codec_new(void); /* NULL if memory is out */
void qc_chunk_codec_free(struct qc_chunk_codec *c);

struct qc_chunk_filters {
    bool shuffle, deflate; /* deflate is applied after shuffle */
};

/* Decodes a chunk to exactly `size` bytes at out, with elements of `element` bytes. Fails with QC_BAD_INPUT if the zlib
   stream (RFC 1950) is damaged or has another length. */
bool qc_chunk_decode(void *out, size_t size, size_t element, const void *raw, size_t raw_size,
                     struct qc_chunk_filters filters, struct qc_chunk_codec *c, struct qc_status *st);

/* gzip level of what qc_chunk_encode makes: higher ones take twice the time for results 4 % smaller. */
enum { QC_CHUNK_LEVEL = 1 };

/* Encodes with both filters (shuffle only for element > 1); *out is owned (free). Low bytes of the elements that look
   like noise are stored uncompressed in the zlib stream. */
bool qc_chunk_encode(void **out, size_t *out_size, const void *data, size_t size, size_t element,
                     struct qc_chunk_codec *c, struct qc_status *st);

/* Returns a buffer of at least size bytes, valid until the next call for a larger one, or NULL with a status if memory
   is out. */
void *qc_chunk_buffer(struct qc_chunk_codec *c, size_t size, struct qc_status *st);
