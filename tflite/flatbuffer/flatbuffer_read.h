// SPDX-License-Identifier: Apache-2.0
/* Reads a FlatBuffers file: it is verified as a whole first, then nothing fails. */
#pragma once

#include "base/status.h"
#include "tflite/flatbuffer/flatbuffer.h"

/* A table of a verified file; at 0: there is none. Borrows the bytes. */
struct qc_fb_table {
    const struct qc_fb_schema *schema;
    const uint8_t *bytes;
    size_t at;
};

/* Numbers or offsets of tables, or the bytes of a string; not aligned. */
struct qc_fb_vector {
    const struct qc_fb_schema *schema;
    const uint8_t *bytes; /* of the file */
    size_t at, count;     /* the first element; 0 elements where the field is absent */
    enum qc_fb_type type;
};

/* Verifies all that can be reached from the root: every offset, vtable, vector and string lies in the file, strings
   end, tables are nested at most 16 deep, and there are no more of them than the file has room for. Offsets of unknown
   members of a union and of tables that the schema leaves out are checked, but not what they lead to. Errors:
   QC_BAD_INPUT names the place as "Model.subgraphs[0].tensors[3].name". */
bool qc_fb_open(struct qc_fb_table *root, const struct qc_fb_schema *schema, unsigned root_table, const void *bytes,
                size_t size, struct qc_status *st);

/* field: index in the schema, of this table. Absent numbers have the default, absent strings are "". */
bool qc_fb_has(const struct qc_fb_table *t, unsigned field);
int64_t qc_fb_int(const struct qc_fb_table *t, unsigned field); /* uint64 beyond INT64_MAX: that */
float qc_fb_float(const struct qc_fb_table *t, unsigned field);
const char *qc_fb_string(const struct qc_fb_table *t, unsigned field);
struct qc_fb_vector qc_fb_vector(const struct qc_fb_table *t, unsigned field);
struct qc_fb_table qc_fb_child(const struct qc_fb_table *t, unsigned field); /* of TABLE and UNION */

int64_t qc_fb_vector_int(const struct qc_fb_vector *v, size_t i); /* i < count */
float qc_fb_vector_float(const struct qc_fb_vector *v, size_t i);
struct qc_fb_table qc_fb_vector_table(const struct qc_fb_vector *v, size_t i);
static inline const uint8_t *qc_fb_vector_bytes(const struct qc_fb_vector *v)
{
    return v->bytes + v->at;
}
