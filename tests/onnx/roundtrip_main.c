// SPDX-License-Identifier: Apache-2.0
/* onnx_roundtrip IN.onnx OUT.onnx [OPSET]: imports a model and writes it again, with at least this opset. For
   test_forms_in_onnxruntime.py. */
#include <stdio.h>
#include <stdlib.h>

#include "onnx/read/import.h"
#include "onnx/write/emit.h"

int main(int argc, char **argv)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    struct qc_graph *g = NULL;
    if (argc < 3) return QC_USAGE;
    if (argc > 3) o.opset_min = (int)strtol(argv[3], NULL, 10);
    if (qc_onnx_import_with(&g, NULL, argv[1], &QC_IMPORT_INIT, &st)) qc_onnx_emit_file(NULL, argv[2], g, &o, &st);
    if (st.code) fprintf(stderr, "%s\n", st.message);
    qc_graph_free(g);
    return (int)st.code;
}
