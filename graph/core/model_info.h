// SPDX-License-Identifier: Apache-2.0
/* Contents of a model file besides its graph. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum qc_model_format { QC_MODEL_ONNX, QC_MODEL_TFLITE };

struct qc_model_property {
    const char *key, *value;
};

/* Strings are never NULL and belong to the graph's arena. */
struct qc_model_info {
    enum qc_model_format format;
    const char *producer, *producer_version, *domain, *doc;
    int64_t ir_version, model_version; /* for TensorFlow Lite: 0, and the version of the schema */
    int opset;                         /* of ONNX's default domain, as in the file; 0 for other formats */
    size_t property_count;
    const struct qc_model_property *properties; /* metadata_props, in file order */
    size_t file_count;
    const char **files; /* files with external data, by the path used to open them; may contain duplicates */
    size_t note_count;
    const char *const *notes; /* what was omitted or interpreted, one line each */
    size_t unused_count;      /* nodes that no output needs */
    const char *const *unused;
    size_t repeated_count; /* nodes that compute the same as an earlier one */
    const char *const *repeated;
    size_t warning_count;
    const char *const *warnings; /* what looks wrong but is not an error, one line each */
};
