// SPDX-License-Identifier: Apache-2.0
/* TensorRT's calibration cache: a line with the calibrator, then `tensor: scale` for each activation, the scale as the
   hexadecimal bits of a float32, amax / 127 (NVIDIA, README of sampleINT8, "Calibration file"). TensorRT derives the
   scales of weights itself. docs/other-forms.md. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "export/formats/encodings.h"

/* TensorRT takes a cache only of its own version: the reader may have to replace these digits. */
#define CALIBRATOR "TRT-8601-EntropyCalibration2\n"

static bool write_lines(size_t *bytes, struct qc_output *f, const struct qc_json *activations, struct qc_status *st)
{
    bool ok = qc_output_write(f, CALIBRATOR, strlen(CALIBRATOR), st);
    *bytes = strlen(CALIBRATOR);
    for (size_t i = 0; ok && i < qc_json_size(activations); i++) {
        const struct qc_json *list = qc_json_at(activations, i), *e = qc_json_at(list, 0);
        const char *name = qc_json_key(activations, i);
        if (qc_json_size(list) != 1 || qc_json_value(qc_json_get(e, "bitwidth")) != 8 ||
            qc_json_value(qc_json_get(e, "offset")) != -128)
            return qc_fail(st, QC_UNSUPPORTED,
                           "tensor '%s' is not symmetric int8 with one scale: use --target tensorrt", name);
        if (strpbrk(name, "\r\n")) return qc_fail(st, QC_UNSUPPORTED, "the name of tensor '%s' has two lines", name);
        const float scale = (float)qc_json_value(qc_json_get(e, "scale"));
        uint32_t bits;
        memcpy(&bits, &scale, sizeof bits);
        char value[12];
        qc_text(value, sizeof value, ": %08" PRIx32 "\n", bits);
        ok = qc_output_write(f, name, strlen(name), st) && qc_output_write(f, value, strlen(value), st);
        *bytes += strlen(name) + strlen(value);
    }
    return ok;
}

static bool write(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    struct qc_json *root;
    struct qc_output *f = NULL;
    size_t written;
    const bool ok = qc_encodings_of(&root, source, st) && qc_output_open(&f, path, st) &&
                    write_lines(&written, f, qc_json_get(root, "activation_encodings"), st) && qc_output_commit(f, st);
    if (ok && bytes) *bytes = written;
    qc_output_free(f);
    qc_json_free(root);
    return ok;
}

extern const struct qc_exporter qc_exporter_trt_cache;
const struct qc_exporter qc_exporter_trt_cache = {
    .name = "trt-cache",
    .summary = "TensorRT's calibration cache: the scale of each activation; needs symmetric int8",
    .suffix = ".trt.cache",
    .write = write,
};
