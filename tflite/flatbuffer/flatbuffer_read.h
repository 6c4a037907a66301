// SPDX-License-Identifier: Apache-2.0
/* Reads a FlatBuffers file. qc_fb_open verifies the whole file; the other functions cannot fail. */
#pragma once

#include "base/status.h"
#include "tflite/flatbuffer/flatbuffer.h"

/* A table of a verified file; `at` 0: no table. Borrows the bytes. */
struct qc_fb_table {
    const struct qc_fb_schema *schema;
    const uint8_t *bytes;
    size_t at;
};

/* A vector of numbers or of tables, or the bytes of a string; not aligned. */
struct qc_fb_vector {
    const struct qc_fb_schema *schema;
    const uint8_t *bytes; /* of the file */
    size_t at, count;     /* position of the first element; count 0 if the field is absent */
    enum qc_fb_type type;
};

/* Verifies everything that is reachable from the root: all offsets, vtables, vectors and strings are inside the file,
   strings are terminated, tables are nested at most 16 deep, and there are no more tables than the file has room for.
   For unknown members of a union and for tables that the schema leaves out, only the offset is checked. Fails with
   QC_BAD_INPUT and a path such as "Model.subgraphs[0].tensors[3].name". */
bool qc_fb_open(struct qc_fb_table *root, const struct qc_fb_schema *schema, unsigned root_table, const void *bytes,
                size_t size, struct qc_status *st);

/* field: index in the schema of a field of this table. Absent numbers have the default, absent strings are "". */
int64_t qc_fb_int(const struct qc_fb_table *t, unsigned field); /* a uint64 above INT64_MAX gives INT64_MAX */
float qc_fb_float(const struct qc_fb_table *t, unsigned field);
const char *qc_fb_string(const struct qc_fb_table *t, unsigned field);
struct qc_fb_vector qc_fb_vector(const struct qc_fb_table *t, unsigned field);
struct qc_fb_table qc_fb_child(const struct qc_fb_table *t, unsigned field); /* a TABLE or UNION field */

int64_t qc_fb_vector_int(const struct qc_fb_vector *v, size_t i); /* i < count */
float qc_fb_vector_float(const struct qc_fb_vector *v, size_t i);
struct qc_fb_table qc_fb_vector_table(const struct qc_fb_vector *v, size_t i);
static inline const uint8_t *qc_fb_vector_bytes(const struct qc_fb_vector *v)
{
    return v->bytes + v->at;
}
