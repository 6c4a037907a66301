// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes are read as a TensorFlow Lite model, or refused with a status; what is read is a sound
   graph, which is written again or refused, and read once more. Replayed by ctest on tests/tflite/corpus_tflite; to
   look for more: cmake with clang and -DQC_FUZZ=ON, then fuzz_tflite CORPUS. */
#include <stdint.h>
#include <stdlib.h>

#include "graph/core/verify.h"
#include "tflite/read/tflite_import.h"
#include "tflite/write/tflite_export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_refusal(const struct qc_status *st)
{
    return st->code == QC_BAD_INPUT || st->code == QC_UNSUPPORTED || st->code == QC_MACHINE;
}

static void write_again(const struct qc_graph *g)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_model_info info;
    struct qc_graph *again = NULL;
    void *bytes = NULL;
    size_t size;
    if (!qc_tfl_export(&bytes, &size, g, &st) || !qc_tflite_import_memory(&again, &info, bytes, size, 0, &st)) {
        if (!is_refusal(&st)) abort();
    }
    qc_graph_free(again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_model_info info;
    struct qc_graph *g = NULL;
    if (!qc_tflite_import_memory(&g, &info, data, size, 0, &st)) {
        if (!is_refusal(&st)) abort();
        return 0;
    }
    if (!qc_graph_verify(g, &st)) abort();
    write_again(g);
    qc_graph_free(g);
    return 0;
}
