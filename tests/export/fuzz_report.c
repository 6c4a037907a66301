// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: two texts of report.json, separated by a NUL, as `qcalib compare-reports` reads them; without a NUL
   one text twice. They are compared and shown as JSON and HTML, or refused with a status. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "export/report/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool ok, const struct qc_status *st)
{
    if (ok != (st->code == QC_OK) || (!ok && !*st->message)) abort();
}

static struct qc_json *parsed(const uint8_t *data, size_t size)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_json *json = NULL;
    expect(qc_json_parse(&json, (const char *)data, size, &st), &st);
    return json;
}

static void compare(const struct qc_json *one, const struct qc_json *other)
{
    const struct qc_report_source from[2] = {{"one.json", one}, {"other.json", other}};
    struct qc_status st = QC_STATUS_INIT;
    struct qc_json *d = NULL;
    struct qc_arena *a = qc_arena_new();
    if (!a) abort();
    const bool ok = qc_report_difference(&d, from, a, &st);
    expect(ok, &st);
    if (ok) {
        size_t size;
        for (size_t i = 0; i < qc_json_size(qc_json_find(d, "layers")); i++)
            if (!qc_layer_change(a, qc_json_at(qc_json_find(d, "layers"), i), &st)) abort();
        qc_report_difference_record(d, from, "command", "1");
        char *page = qc_page(&size, d, &st);
        expect(page, &st);
        free(page);
    }
    qc_json_free(d);
    qc_arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    struct qc_json *one = parsed(data, end ? (size_t)(end - data) : size),
                   *other = end ? parsed(end + 1, size - (size_t)(end - data) - 1) : parsed(data, size);
    if (one && other) compare(one, other);
    qc_json_free(one);
    qc_json_free(other);
    return 0;
}
