// SPDX-License-Identifier: Apache-2.0
/* Builds a FlatBuffers file from tables that are put together in memory. The bytes are a function of the tables alone.
   Equal vtables, and equal vectors and strings, are stored once: tables come first, what they share behind them. */
#pragma once

#include "base/arena.h"
#include "tflite/flatbuffer/flatbuffer.h"

struct qc_fb_builder;
struct qc_fb_object; /* a table under construction */

/* Tables and copies live in the arena. NULL when memory is out. */
struct qc_fb_builder *qc_fb_builder_new(const struct qc_fb_schema *schema, struct qc_arena *a, struct qc_status *st);

/* An empty table of the schema's table `table`. A failure is kept, and reported by qc_fb_finish: the functions below
   ignore a NULL object, so that callers need no check of their own. */
struct qc_fb_object *qc_fb_make(struct qc_fb_builder *b, unsigned table);

/* field: index in the schema, of that table. A number equal to its default is not stored. */
void qc_fb_set_int(struct qc_fb_object *o, unsigned field, int64_t value);
void qc_fb_set_float(struct qc_fb_object *o, unsigned field, float value);
void qc_fb_set_string(struct qc_fb_object *o, unsigned field, const char *text);
/* Elements as a file has them, borrowed until qc_fb_finish; they begin at a multiple of `align` bytes, a power of two
   of at most 16 and at least the size of an element. */
void qc_fb_set_vector(struct qc_fb_object *o, unsigned field, const void *data, size_t count, size_t align);
/* A table, also of a union: then the field before it says which. */
void qc_fb_set_child(struct qc_fb_object *o, unsigned field, struct qc_fb_object *child);
/* The array is borrowed until qc_fb_finish. */
void qc_fb_set_children(struct qc_fb_object *o, unsigned field, struct qc_fb_object *const *children, size_t count);

/* The file. kind: four characters. *bytes is owned by the caller (free). Errors: memory; a file of 2^31 bytes and more
   (QC_UNSUPPORTED), which offsets cannot span. */
bool qc_fb_finish(void **bytes, size_t *size, struct qc_fb_builder *b, const struct qc_fb_object *root,
                  const char *kind, struct qc_status *st);
