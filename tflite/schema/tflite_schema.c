// SPDX-License-Identifier: Apache-2.0
#include "tflite/schema/tflite_schema.h"

static const struct qc_fb_field fields[QC_TFL_FIELD_COUNT] = {
#define ROW(table_, number_, field_) .name = #field_, .table = QC_TFL_TABLE_##table_, .number = number_
#define QC_TFL_SCALAR(table, number, field, type_, value_)                                                             \
    [QC_TFL_##table##_##field] = {ROW(table, number, field), .type = QC_FB_##type_, .value = (double)(value_)},
#define QC_TFL_VECTOR(table, number, field, type_)                                                                     \
    [QC_TFL_##table##_##                                                                                               \
        field] = {ROW(table, number, field), .type = QC_FB_##type_, .vector = QC_FB_##type_ != QC_FB_STRING},
#define QC_TFL_CHILD(table, number, field, kind, of)                                                                   \
    [QC_TFL_##table##_##field] = {ROW(table, number, field), .type = QC_FB_##kind, .child = QC_TFL_TABLE_##of},
#define QC_TFL_UNION(table, number, field, after)                                                                      \
    [QC_TFL_##table##_##field] = {ROW(table, number, field), .type = QC_FB_UNION, .child = after},
#include "tflite/schema/tflite_tables.def"
#undef ROW
};

/* Number of rows before each table, with the rows of tables counted. */
enum {
#define QC_TFL_TABLE(name, number) ROW_##name,
#define QC_TFL_SCALAR(table, number, field, type, value) ROW_##table##_##field,
#define QC_TFL_VECTOR(table, number, field, type) ROW_##table##_##field,
#define QC_TFL_CHILD(table, number, field, kind, of) ROW_##table##_##field,
#define QC_TFL_UNION(table, number, field, after) ROW_##table##_##field,
#include "tflite/schema/tflite_tables.def"
};

static const struct qc_fb_table_info tables[QC_TFL_TABLE_COUNT] = {
    [QC_TFL_TABLE_NONE] = {.name = "none"},
#define QC_TFL_TABLE(name_, number)                                                                                    \
    [QC_TFL_TABLE_##                                                                                                   \
        name_] = {.name = #name_, .in_union = number, .first = (size_t)ROW_##name_ - (QC_TFL_TABLE_##name_ - 1)},
#include "tflite/schema/tflite_tables.def"
};

const struct qc_fb_schema qc_tfl_schema = {.table_count = QC_TFL_TABLE_COUNT,
                                           .field_count = QC_TFL_FIELD_COUNT,
                                           .tables = tables,
                                           .fields = fields};

static const struct qc_tfl_operator_info operators[] = {
#define QC_TFL_OPERATOR(code_, name_, options_)                                                                        \
    [code_] = {.code = code_, .name = #name_, .options = QC_TFL_TABLE_##options_},
#include "tflite/schema/tflite_operators.def"
#undef QC_TFL_OPERATOR
};

const struct qc_tfl_operator_info *qc_tfl_operator_info(int64_t code)
{
    const int64_t count = (int64_t)(sizeof operators / sizeof *operators);
    return code >= 0 && code < count && operators[code].name ? &operators[code] : NULL;
}

static const enum qc_dtype types[] = {
#define QC_X(name, code, dtype) [code] = QC_##dtype,
    QC_TFL_TYPES(QC_X)
#undef QC_X
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

enum qc_dtype qc_dtype_from_tfl(int64_t type)
{
    return type >= 0 && type < TYPE_COUNT ? types[type] : QC_NONE;
}

int qc_tfl_type_of(enum qc_dtype dtype)
{
    for (int i = 0; dtype != QC_NONE && i < TYPE_COUNT; i++)
        if (types[i] == dtype) return i;
    return -1;
}
