// SPDX-License-Identifier: Apache-2.0
/* TensorFlow Lite: the produced graph as a FlatBuffers file of TensorFlow Lite's schema (tflite/write). */
#include "base/file.h"
#include "base/scope.h"
#include "export/formats/exporter.h"
#include "tflite/write/tflite_export.h"

static bool write(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    QC_FREED void *file = NULL;
    size_t size = 0;
    if (!qc_tfl_export(&file, &size, source->produced, st) || !qc_file_write(path, file, size, st)) return false;
    if (bytes) *bytes = size;
    return true;
}

extern const struct qc_exporter qc_exporter_tflite;
const struct qc_exporter qc_exporter_tflite = {
    .name = "tflite",
    .summary = "TensorFlow Lite: int8 activations and weights, channels last",
    .suffix = ".int8.tflite",
    .write = write,
};
