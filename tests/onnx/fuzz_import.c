// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes are imported, or refused with a status. What is imported must emit and import again.
   Built on request: cmake with clang and -DQC_FUZZ=ON, then fuzz_import CORPUS. */
#include <stdint.h>
#include <stdlib.h>

#include "graph/core/verify.h"
#include "onnx/read/import.h"
#include "onnx/write/emit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL, *again = NULL;
    void *bytes = NULL;
    size_t n;
    if (!qc_onnx_import_memory_with(&g, NULL, data, size, NULL, &QC_IMPORT_INIT, &st)) {
        if (st.code == QC_OK) abort();
        return 0;
    }
    if (!qc_graph_verify(g, &st)) abort();
    if (!qc_onnx_emit(&bytes, &n, g, NULL, &st)) abort();
    if (!qc_onnx_import_memory_with(&again, NULL, bytes, n, NULL, &QC_IMPORT_INIT, &st)) abort();
    free(bytes);
    qc_graph_free(again);
    qc_graph_free(g);
    return 0;
}
