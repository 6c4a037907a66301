// SPDX-License-Identifier: Apache-2.0
/* Builds a FlatBuffers file from tables in memory. The bytes depend on the tables alone. Equal vtables, vectors and
   strings are stored once: tables come first, then the vectors and strings. */
#pragma once

#include "base/arena.h"
#include "tflite/flatbuffer/flatbuffer.h"

struct qc_fb_builder;
struct qc_fb_object; /* a table under construction */

/* Tables and copies are allocated in the arena. Returns NULL if memory runs out. */
struct qc_fb_builder *qc_fb_builder_new(const struct qc_fb_schema *schema, struct qc_arena *a, struct qc_status *st);

/* Returns an empty object of the schema's table `table`. A failure is kept and reported by qc_fb_finish: the functions
   below ignore a NULL object, so callers need not check it. */
struct qc_fb_object *qc_fb_make(struct qc_fb_builder *b, unsigned table);

/* field: index in the schema of a field of that table. A number equal to its default is not stored. */
void qc_fb_set_int(struct qc_fb_object *o, unsigned field, int64_t value);
void qc_fb_set_float(struct qc_fb_object *o, unsigned field, float value);
void qc_fb_set_string(struct qc_fb_object *o, unsigned field, const char *text);
/* `data` are little-endian elements, borrowed until qc_fb_finish. In the file they begin at a multiple of `align`
   bytes, a power of two of at most 16 and at least the size of an element. */
void qc_fb_set_vector(struct qc_fb_object *o, unsigned field, const void *data, size_t count, size_t align);
/* Sets a table or a member of a union; for a union the field before it is set too. */
void qc_fb_set_child(struct qc_fb_object *o, unsigned field, struct qc_fb_object *child);
/* The array is borrowed until qc_fb_finish. */
void qc_fb_set_children(struct qc_fb_object *o, unsigned field, struct qc_fb_object *const *children, size_t count);

/* Gives the file. kind: the file identifier, four characters. *bytes is owned by the caller (free). Fails if memory
   runs out, or with QC_UNSUPPORTED if the file has 2^31 bytes or more, which offsets cannot span. */
bool qc_fb_finish(void **bytes, size_t *size, struct qc_fb_builder *b, const struct qc_fb_object *root,
                  const char *kind, struct qc_status *st);
