// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "cli/file_names.h"
#include "cli/screen.h"
#include "quantize/warnings.h"

Test(warnings, grouped_in_order)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_warnings *w;
    cr_assert(qc_warnings_new(&w, &st));
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 40; k++) qc_warn(w, "node %d", k);
    }
    qc_warn(w, "once");
    cr_assert_eq(qc_warnings_count(w), 41);
    cr_assert_str_eq(qc_warnings_text(w, 39), "node 39");
    cr_assert_eq(qc_warnings_times(w, 39), 3);
    cr_assert_eq(qc_warnings_times(w, 40), 1);
    qc_warnings_free(w);
    qc_warnings_free(NULL);
}

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

Test(model, stems)
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
