// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"
#include "tests/check.h"

Test(file_names, stems)
{
    static const struct {
        const char *path, *base, *stem;
    } cases[] = {
        {"a/b/net.onnx", "net.onnx", "net"},      {"net", "net", "net"}, {".onnx", ".onnx", ".onnx"},
        {"net.v2.ONNX", "net.v2.ONNX", "net.v2"}, {"x/", "x/", "x/"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        cr_assert_str_eq(qc_base_name(cases[k].path), cases[k].base);
        cr_assert_str_eq(qc_stem(test_arena(), cases[k].path, ST), cases[k].stem);
    }
}

Test(file_names, a_converted_model_drops_its_form)
{
    static const struct {
        const char *path, *format, *name;
    } cases[] = {
        {"a/net.int8.onnx", "qoperator", "net.qoperator.onnx"},
        {"net.qoperator.onnx", "qdq", "net.int8.onnx"},
        {"net.int4.onnx", "qdq", "net.int4.onnx"},
        {"net.int4.onnx", "text", "net.int4.txt"},
        {"net.mxfp4.onnx", "qdq", "net.mxfp4.onnx"},
        {"net.fp8.onnx", "encodings", "net.encodings.json"},
        {"net.annotated.onnx", "qdq", "net.int8.onnx"},
        {"net.v2.onnx", "qdq", "net.v2.int8.onnx"},
        {".int8.onnx", "qdq", ".int8.int8.onnx"},
        {"net.onnx", "tflite", "net.int8.tflite"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *stem, *word;
        const struct qc_exporter *exporter = qc_exporter_find(cases[k].format);
        if (!exporter) continue; /* left out of this build */
        MUST(qc_quantized_stem(&stem, &word, test_arena(), cases[k].path, ST));
        cr_assert_str_eq(qc_exported_name(test_arena(), stem, word, exporter, ST), cases[k].name);
    }
}
