// SPDX-License-Identifier: Apache-2.0
/* The choices of options. Each list has a row c(text, value) for each choice. Enumerations are made from it, and by
   quantize/options/options.def parsing, messages, help, completion and reports. */
#pragma once

#include "calib/settings.h"
#include "export/formats/exporter.h"
#include "graph/types/number_format.h"
#include "quantize/options/option_table.h"
#include "rewrite/passes/partition.h"

#define QC_NONFINITES(c) c("count", QC_NONFINITE_COUNT) c("error", QC_NONFINITE_ERROR)
#define QC_WEIGHT_ROUNDINGS(c) c("nearest", QC_WEIGHTS_NEAREST) c("compensated", QC_WEIGHTS_COMPENSATED)
#define QC_BIAS_PLACES(c) c("accumulator", QC_BIAS_ACCUMULATOR) c("narrowed", QC_BIAS_NARROWED)
#define QC_WEIGHT_RANGES(c) c("full", QC_RANGE_FULL) c("restricted", QC_RANGE_RESTRICTED)
#define QC_EFFORTS(c) c("low", QC_EFFORT_LOW) c("normal", QC_EFFORT_NORMAL) c("high", QC_EFFORT_HIGH)
#define QC_EQUALIZATIONS(c)                                                                                            \
    c("auto", QC_EQUALIZATION_AUTO) c("on", QC_EQUALIZATION_ON) c("free", QC_EQUALIZATION_FREE)                        \
        c("off", QC_EQUALIZATION_OFF)
#define QC_CHANNEL_SCALES(c)                                                                                           \
    c("auto", QC_CHANNELS_AUTO) c("awq", QC_CHANNELS_AWQ) c("smooth", QC_CHANNELS_SMOOTH) c("free", QC_CHANNELS_FREE)  \
        c("off", QC_CHANNELS_OFF)
#define QC_ADVICES(c) c("auto", QC_ADVISE_AUTO) c("on", QC_ADVISE_ON) c("off", QC_ADVISE_OFF)

enum qc_nonfinite { QC_NONFINITES(QC_CHOICE_VALUE) };
enum qc_weight_rounding_kind { QC_WEIGHT_ROUNDINGS(QC_CHOICE_VALUE) };
enum qc_bias_place { QC_BIAS_PLACES(QC_CHOICE_VALUE) };
enum qc_weight_range { QC_WEIGHT_RANGES(QC_CHOICE_VALUE) };
enum qc_effort { QC_EFFORTS(QC_CHOICE_VALUE) };
enum qc_equalization { QC_EQUALIZATIONS(QC_CHOICE_VALUE) };
enum qc_channel_scales { QC_CHANNEL_SCALES(QC_CHOICE_VALUE) };
enum qc_advise { QC_ADVICES(QC_CHOICE_VALUE) };

/* Choices whose enumerations are those of other rooms, and numbers. */
#define QC_PREFERENCES(c) c("speed", QC_PREFER_SPEED) c("size", QC_PREFER_SIZE) c("integers", QC_PREFER_INTEGERS)
#define QC_PROCESSOR_NAMES(c)                                                                                          \
    c("any", QC_PROCESSORS) c("avx512-vnni", QC_PROCESSOR_AVX512_VNNI) c("avx2", QC_PROCESSOR_AVX2)                    \
        c("amx", QC_PROCESSOR_AMX)
#define QC_OVERFLOW_FIXES(c)                                                                                           \
    c("auto", QC_OVERFLOW_FIX_PAIRS) c("reduce-range", QC_OVERFLOW_FIX_REDUCE_RANGE) c("off", QC_OVERFLOW_FIX_OFF)
#define QC_ACCUMULATOR_BOUNDS(c) c("auto", QC_BOUND_AUTO) c("proven", QC_BOUND_PROVEN) c("seen", QC_BOUND_SEEN)
#define QC_LOWERINGS(c) c("int8", QC_LOWERING_INT8) c("int16", QC_LOWERING_INT16)
#define QC_KV_TYPES(c) c("none", QC_NONE) c("int8", QC_I8) c("int4", QC_I4) c("float8e4m3fn", QC_F8E4M3)
/* "auto": 8 bits, signed if the activations are. */
#define QC_EDGES_TYPES(c) c("auto", QC_I32) c("uint8", QC_U8) c("int8", QC_I8) c("none", QC_NONE)
#define QC_WEIGHT_BLOCKS(c) c("16", 16) c("32", 32) c("64", 64) c("128", 128) c("256", 256) c("none", 0)
#define QC_ACCURACY_LEVELS(c) c("0", 0) c("1", 1) c("2", 2) c("3", 3) c("4", 4)

/* Lists of choices keep their texts: nothing reads the values of the first two. */
#define QC_SIDES(c) c("activations", 0) c("weights", 0) c("none", 0)
#define QC_FORMAT_ROW(c, symbol, name) c(name, 0)
#define QC_FORMATS(c) QC_EXPORTERS(QC_FORMAT_ROW, c)

/* "pixels": the bytes of an image; QC_BOOL is no type of quantizers. */
#define QC_IO_TYPES(c) c("float", QC_F32) c("uint8", QC_U8) c("int8", QC_I8) c("model", QC_NONE) c("pixels", QC_BOOL)

/* Types of quantized values. A type of fewer bits than its value's has part of the levels of that type. Number formats
   have QC_NONE. */
#define QC_NUMBER_FORMAT_ROW(c, name, ...) c(name, QC_NONE)
#define QC_FLOAT8_TYPES(c)                                                                                             \
    c("float8e4m3fn", QC_F8E4M3) c("float8e4m3fnuz", QC_F8E4M3Z) c("float8e5m2", QC_F8E5M2)                            \
        c("float8e5m2fnuz", QC_F8E5M2Z)
#define QC_ACTIVATION_TYPES(c)                                                                                         \
    c("uint8", QC_U8) c("int8", QC_I8) c("uint16", QC_U16) c("int16", QC_I16) c("uint4", QC_U4) c("int4", QC_I4)       \
        QC_FLOAT8_TYPES(c) QC_NUMBER_FORMATS(QC_NUMBER_FORMAT_ROW, c) c("dynamic", QC_NONE) c("none", QC_NONE)
#define QC_WEIGHT_TYPES(c)                                                                                             \
    c("int8", QC_I8) c("uint8", QC_U8) c("int7", QC_I8) c("uint7", QC_U8) c("int6", QC_I8) c("uint6", QC_U8)           \
        c("int5", QC_I8) c("uint5", QC_U8) c("int4", QC_I4) c("uint4", QC_U4) c("int3", QC_I4) c("uint3", QC_U4)       \
            c("int2", QC_I4) c("uint2", QC_U4) c("int16", QC_I16) c("int14", QC_I16) c("int12", QC_I16)                \
                c("int10", QC_I16) QC_FLOAT8_TYPES(c) c("float4e2m1", QC_F4E2M1)                                       \
                    QC_NUMBER_FORMATS(QC_NUMBER_FORMAT_ROW, c) c("none", QC_NONE)
