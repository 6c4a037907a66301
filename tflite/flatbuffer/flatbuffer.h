// SPDX-License-Identifier: Apache-2.0
/* FlatBuffers as a file has them, described by a schema that is a table.

   All numbers are little-endian. A file begins with the offset of its root table and four bytes that name its kind. A
   table begins with the distance back to its vtable: uint16 bytes of the vtable, uint16 bytes of the table, then for
   each field the uint16 offset in the table, 0 where the field is absent. Vectors, strings and tables are reached by
   uint32 offsets from where the offset stands. A vector begins with its uint32 count, a string ends with a 0 that is
   not counted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qc_fb_type {
    QC_FB_BOOL,
    QC_FB_I8,
    QC_FB_U8,
    QC_FB_U16,
    QC_FB_I32,
    QC_FB_U32,
    QC_FB_I64,
    QC_FB_U64,
    QC_FB_F32,
    QC_FB_STRING,
    QC_FB_TABLE,
    QC_FB_TABLES, /* a vector of tables */
    QC_FB_UNION   /* a table; the field before it, U8, says which */
};

/* Fields are named by their index in the schema. */
struct qc_fb_field {
    const char *name;
    unsigned table;  /* that it belongs to */
    unsigned number; /* in that table */
    enum qc_fb_type type;
    bool vector;    /* of numbers of that type */
    double value;   /* default of a number */
    unsigned child; /* TABLE, TABLES: which; 0: it is not looked at. UNION: what its numbers begin after */
};

struct qc_fb_table_info {
    const char *name;
    unsigned in_union; /* its number there, plus `child` of the union; 0: none */
    size_t first;      /* of its fields, which stand together */
};

/* Table 0 is no table. */
struct qc_fb_schema {
    size_t table_count, field_count;
    const struct qc_fb_table_info *tables;
    const struct qc_fb_field *fields;
};

size_t qc_fb_size(enum qc_fb_type t); /* bytes of a number; of what an offset stands for 4 */
/* The table with this number in the union; 0: it is not known. */
unsigned qc_fb_union_table(const struct qc_fb_schema *s, unsigned number);
