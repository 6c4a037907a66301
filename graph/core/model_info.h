// SPDX-License-Identifier: Apache-2.0
/* What a model file says beside its graph. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum qc_model_format { QC_MODEL_ONNX, QC_MODEL_TFLITE };

struct qc_model_property {
    const char *key, *value;
};

/* Strings are never NULL, live in the graph's arena and die with the graph. */
struct qc_model_info {
    enum qc_model_format format;
    const char *producer, *producer_version, *domain, *doc;
    int64_t ir_version, model_version; /* of TensorFlow Lite: 0, and that of the schema */
    int opset;                         /* of ONNX's default domain, as in the file; of another format 0 */
    size_t property_count;
    const struct qc_model_property *properties; /* metadata_props, in the order of the file */
    size_t file_count;
    const char **files; /* with external data, each as it was opened; may name one more than once */
    size_t note_count;
    const char *const *notes; /* what was left out or read in a particular way, one line each */
    size_t warning_count;
    const char *const *warnings; /* what looks wrong but does not hinder, one line each */
};
