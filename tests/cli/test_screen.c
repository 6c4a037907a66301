// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "cli/outputs.h"

Test(file_names, stems)
{
    static const struct {
        const char *path, *base, *stem;
    } cases[] = {
        {"a/b/net.onnx", "net.onnx", "net"},      {"net", "net", "net"}, {".onnx", ".onnx", ".onnx"},
        {"net.v2.ONNX", "net.v2.ONNX", "net.v2"}, {"x/", "x/", "x/"},
    };
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        cr_assert_str_eq(qc_base_name(cases[k].path), cases[k].base);
        cr_assert_str_eq(qc_stem(a, cases[k].path, &st), cases[k].stem);
    }
    qc_arena_free(a);
}
