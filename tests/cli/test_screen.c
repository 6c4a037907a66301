// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "cli/options/file_names.h"
#include "cli/terminal/screen.h"

Test(screen, numbers)
{
    char buf[QC_NUMBER_TEXT];
    cr_assert_str_eq(qc_count_text(buf, 0), "0");
    cr_assert_str_eq(qc_count_text(buf, 999), "999");
    cr_assert_str_eq(qc_count_text(buf, 269722), "269,722");
    cr_assert_str_eq(qc_count_text(buf, UINT64_MAX), "18,446,744,073,709,551,615");
    cr_assert_str_eq(qc_bytes_text(buf, 1023), "1023 bytes");
    cr_assert_str_eq(qc_bytes_text(buf, 1536), "1.5 KB");
    cr_assert_str_eq(qc_bytes_text(buf, UINT64_MAX), "16777216 TB");
}

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
