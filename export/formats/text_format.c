// SPDX-License-Identifier: Apache-2.0
/* Text: the produced graph in the text form of graph/text/text.h, with all constants, so that it parses back. */
#include "base/scope.h"
#include "export/formats/exporter.h"
#include "graph/text/text.h"

static bool write(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    QC_FREED char *text = qc_graph_print(source->produced, &all, st);
    return text && qc_export_text(bytes, path, text, st);
}

extern const struct qc_exporter qc_exporter_text;
const struct qc_exporter qc_exporter_text = {
    .name = "text",
    .summary = "the produced graph, in integers, as text that parses back",
    .suffix = ".int8.txt",
    .write = write,
};
