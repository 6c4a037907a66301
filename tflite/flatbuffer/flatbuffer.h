// SPDX-License-Identifier: Apache-2.0
/* The FlatBuffers file format, described by a schema that is a table.

   All numbers are little-endian. A file begins with the offset of its root table and a four-byte file identifier. A
   table begins with the distance back to its vtable. A vtable holds the uint16 size of the vtable, the uint16 size of
   the table, and a uint16 offset for each field, 0 if the field is absent. Vectors, strings and tables are referenced
   by uint32 offsets relative to the offset's own position. A vector begins with its uint32 count; a string ends with
   a 0 that is not counted. */
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
    QC_FB_UNION   /* a table; the field before it, a U8, gives its type */
};

/* Fields are identified by their index in the schema. */
struct qc_fb_field {
    const char *name;
    unsigned table;  /* table that has the field */
    unsigned number; /* number of the field in that table */
    enum qc_fb_type type;
    bool vector;    /* the field is a vector of numbers of that type */
    double value;   /* default of a number */
    unsigned child; /* TABLE, TABLES: type of the table; 0: it is not read. UNION: offset of its numbers in in_union */
};

struct qc_fb_table_info {
    const char *name;
    unsigned in_union; /* its number in the union plus that offset; 0: not a member */
    size_t first;      /* index of its first field; its fields are contiguous */
};

/* Table 0 stands for no table. */
struct qc_fb_schema {
    size_t table_count, field_count;
    const struct qc_fb_table_info *tables;
    const struct qc_fb_field *fields;
};

size_t qc_fb_size(enum qc_fb_type t); /* bytes of a number; 4 for types that are stored as an offset */
