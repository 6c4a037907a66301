// SPDX-License-Identifier: Apache-2.0
/* The models of ONNX's own node tests (Debian: libonnx-testdata): each is imported and survives a round trip, or is
   refused as unsupported, never as bad input. */
#include <dirent.h>

#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "onnx/read/import.h"
#include "onnx/write/emit.h"
#include "tests/check.h"

static const char folder[] = "/usr/share/libonnx-testdata/data/node";

static char *print(const struct qc_graph *g)
{
    const struct qc_text_options options = QC_TEXT_ALL;
    char *text = qc_graph_print(g, &options, ST);
    MUST(text);
    return text;
}

static void round_trip(const struct qc_graph *g, const char *name, int opset)
{
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    OWN(qc_graph) *h = NULL;
    QC_FREED void *bytes = NULL;
    size_t size;
    o.opset_min = opset;
    cr_assert(qc_onnx_emit(&bytes, &size, g, &o, ST), "%s: %s", name, failure.message);
    cr_assert(qc_onnx_import_memory_with(&h, NULL, bytes, size, NULL, &QC_IMPORT_INIT, ST), "%s: %s", name,
              failure.message);
    QC_FREED char *a = print(g), *b = print(h);
    const char *p = strchr(a, '\n'), *q = strchr(b, '\n'); /* the first line holds the opset */
    cr_expect(p && q && strcmp(p, q) == 0, "%s at opset %d:\n%s\n%s", name, opset, a, b);
}

Test(onnx_nodes, are_imported_or_unsupported)
{
    char path[1024];
    size_t imported = 0, unsupported = 0;
    DIR *d = opendir(folder);
    if (!d) cr_skip_test("libonnx-testdata is not installed");
    for (const struct dirent *e; (e = readdir(d));) {
        OWN(qc_graph) *g = NULL;
        snprintf(path, sizeof path, "%s/%s/model.onnx", folder, e->d_name);
        if (access(path, R_OK)) continue;
        if (!qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST)) {
            cr_expect_eq(failure.code, QC_UNSUPPORTED, "%s", failure.message);
            unsupported++;
            continue;
        }
        imported++;
        cr_expect(qc_graph_verify(g, ST), "%s: %s", e->d_name, failure.message);
        round_trip(g, e->d_name, 0);
        round_trip(g, e->d_name, 18);
        round_trip(g, e->d_name, 21);
    }
    closedir(d);
    /* Of 932 models in ONNX 1.12, 574 were imported when this was written. */
    cr_expect_gt(imported, 550, "%zu imported", imported);
    cr_expect_lt(unsupported, 400, "%zu unsupported", unsupported);
}
