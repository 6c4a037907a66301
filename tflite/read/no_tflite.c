// SPDX-License-Identifier: Apache-2.0
/* Takes the place of the room in a build without it (-DQCALIB_TFLITE=OFF). */
#include "tflite/read/tflite_import.h"

static bool absent(struct qc_status *st)
{
    return qc_fail(st, QC_UNSUPPORTED,
                   "this qcalib was built without TensorFlow Lite: build it with -DQCALIB_TFLITE=ON");
}

bool qc_tflite_import(struct qc_graph **out, struct qc_model_info *info, const char *path, size_t memory_limit,
                      struct qc_status *st)
{
    (void)out, (void)info, (void)memory_limit;
    return absent(st) || qc_where(st, "%s", path);
}

bool qc_tflite_import_memory(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                             size_t memory_limit, struct qc_status *st)
{
    (void)out, (void)info, (void)bytes, (void)size, (void)memory_limit;
    return absent(st);
}
