// SPDX-License-Identifier: Apache-2.0
/* TensorFlow Lite's published schema (file identifier "TFL3") as tables. Fields are named
   QC_TFL_Conv2DOptions_stride_w, tables QC_TFL_TABLE_Conv2DOptions, operators QC_TFL_OP_CONV_2D. */
#pragma once

#include "graph/types/dtype.h"
#include "tflite/flatbuffer/flatbuffer.h"

#define QC_TFL_KIND "TFL3" /* bytes 4 to 7 of a file */
enum { QC_TFL_VERSION = 3 };

enum qc_tfl_table {
    QC_TFL_TABLE_NONE,
#define QC_TFL_TABLE(name, number) QC_TFL_TABLE_##name,
#include "tflite/schema/tflite_tables.def"
    QC_TFL_TABLE_COUNT
};

enum qc_tfl_field {
#define QC_TFL_SCALAR(table, number, field, type, value) QC_TFL_##table##_##field,
#define QC_TFL_VECTOR(table, number, field, type) QC_TFL_##table##_##field,
#define QC_TFL_CHILD(table, number, field, kind, of) QC_TFL_##table##_##field,
#define QC_TFL_UNION(table, number, field, after) QC_TFL_##table##_##field,
#include "tflite/schema/tflite_tables.def"
    QC_TFL_FIELD_COUNT
};

extern const struct qc_fb_schema qc_tfl_schema;

enum qc_tfl_operator {
#define QC_TFL_OPERATOR(code, name, options) QC_TFL_OP_##name = code,
#include "tflite/schema/tflite_operators.def"
#undef QC_TFL_OPERATOR
};

/* OperatorCode.deprecated_builtin_code holds codes up to this one; for larger codes it holds this one. */
enum { QC_TFL_CODE_OLD_MAX = QC_TFL_OP_PLACEHOLDER_FOR_GREATER_OP_CODES };

struct qc_tfl_operator_info {
    int code;
    const char *name;
    enum qc_tfl_table options; /* QC_TFL_TABLE_NONE: no options are read */
};
const struct qc_tfl_operator_info *qc_tfl_operator_info(int64_t code); /* NULL: unknown */

/* name, code, qcalib's type */
#define QC_TFL_TYPES(X)                                                                                                \
    X(FLOAT32, 0, F32)                                                                                                 \
    X(FLOAT16, 1, F16)                                                                                                 \
    X(INT32, 2, I32)                                                                                                   \
    X(UINT8, 3, U8)                                                                                                    \
    X(INT64, 4, I64)                                                                                                   \
    X(STRING, 5, NONE)                                                                                                 \
    X(BOOL, 6, BOOL)                                                                                                   \
    X(INT16, 7, I16)                                                                                                   \
    X(COMPLEX64, 8, NONE)                                                                                              \
    X(INT8, 9, I8)                                                                                                     \
    X(FLOAT64, 10, F64)                                                                                                \
    X(COMPLEX128, 11, NONE)                                                                                            \
    X(UINT64, 12, U64)                                                                                                 \
    X(RESOURCE, 13, NONE)                                                                                              \
    X(VARIANT, 14, NONE)                                                                                               \
    X(UINT32, 15, U32)                                                                                                 \
    X(UINT16, 16, U16)                                                                                                 \
    X(INT4, 17, I4)                                                                                                    \
    X(BFLOAT16, 18, BF16)

enum qc_tfl_type {
#define QC_X(name, code, dtype) QC_TFL_##name = code,
    QC_TFL_TYPES(QC_X)
#undef QC_X
};
enum qc_dtype qc_dtype_from_tfl(int64_t type); /* QC_NONE: not supported */
int qc_tfl_type_of(enum qc_dtype dtype);       /* -1: there is none */

enum qc_tfl_padding { QC_TFL_PADDING_SAME, QC_TFL_PADDING_VALID };
enum qc_tfl_activation {
    QC_TFL_ACTIVATION_NONE,
    QC_TFL_ACTIVATION_RELU,
    QC_TFL_ACTIVATION_RELU_N1_TO_1,
    QC_TFL_ACTIVATION_RELU6,
    QC_TFL_ACTIVATION_TANH,
    QC_TFL_ACTIVATION_SIGN_BIT
};
enum qc_tfl_mirror { QC_TFL_MIRROR_REFLECT, QC_TFL_MIRROR_SYMMETRIC };
