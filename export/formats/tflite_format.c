// SPDX-License-Identifier: Apache-2.0
/* TensorFlow Lite: the produced graph as a FlatBuffers file of TensorFlow Lite's schema (tflite/write). */
#include <stdlib.h>

#include "base/file.h"
#include "export/formats/exporter.h"
#include "tflite/write/tflite_export.h"

static bool write(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    void *file = NULL;
    size_t size = 0;
    struct qc_output *f = NULL;
    const bool ok = qc_tfl_export(&file, &size, source->produced, st) && qc_output_open(&f, path, st) &&
                    qc_output_write(f, file, size, st) && qc_output_commit(f, st);
    if (ok && bytes) *bytes = size;
    qc_output_free(f);
    free(file);
    return ok;
}

extern const struct qc_exporter qc_exporter_tflite;
const struct qc_exporter qc_exporter_tflite = {
    .name = "tflite",
    .summary = "TensorFlow Lite: int8 activations and weights, channels last",
    .suffix = ".int8.tflite",
    .write = write,
};
