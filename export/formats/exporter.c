// SPDX-License-Identifier: Apache-2.0
#include "export/formats/exporter.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/scope.h"
#include "graph/text/text.h"
#include "onnx/write/emit.h"

#define QC_DECLARE(c, symbol, name) extern const struct qc_exporter qc_exporter_##symbol;
QC_EXPORTERS(QC_DECLARE, )

#define QC_ADDRESS(c, symbol, name) &qc_exporter_##symbol,
static const struct qc_exporter *const exporters[] = {QC_EXPORTERS(QC_ADDRESS, )};

#define QC_NAME(c, symbol, name) name,
static const char *const names[] = {QC_EXPORTERS(QC_NAME, )};

size_t qc_exporter_count(void)
{
    return sizeof exporters / sizeof *exporters;
}

const struct qc_exporter *qc_exporter_at(size_t i)
{
    return exporters[i];
}

const struct qc_exporter *qc_exporter_find(const char *name)
{
    for (size_t i = 0; i < qc_exporter_count(); i++)
        if (strcmp(names[i], name) == 0) return exporters[i];
    return NULL;
}

const char *qc_exporter_name(const struct qc_exporter *e)
{
    size_t i = 0;
    while (exporters[i] != e) i++;
    return names[i];
}

bool qc_export_file(size_t *bytes, const char *path, const struct qc_exporter *e, const struct qc_export_source *source,
                    const struct qc_graph *lowered, struct qc_status *st)
{
    const struct qc_onnx_emit_options emit = QC_ONNX_EMIT_DEFAULTS;
    const bool ok = e->write ? e->write(bytes, path, source, st) : qc_onnx_emit_file(bytes, path, lowered, &emit, st);
    return ok || qc_where(st, "format %s", qc_exporter_name(e));
}

bool qc_export_bytes(size_t *bytes, const struct qc_exporter *e, const struct qc_graph *lowered, struct qc_status *st)
{
    return qc_onnx_emit_bytes(bytes, lowered, NULL, st) || qc_where(st, "format %s", qc_exporter_name(e));
}

bool qc_export_has_float(const struct qc_export_source *source, struct qc_status *st)
{
    return source->expanded ||
           qc_fail(st, QC_UNSUPPORTED, "the parameters describe a float model: use 'qcalib quantize --format' on it");
}

static bool export_text(size_t *bytes, const char *path, const char *text, struct qc_status *st)
{
    if (!qc_file_write(path, text, strlen(text), st)) return false;
    if (bytes) *bytes = strlen(text);
    return true;
}

bool qc_export_json(size_t *bytes, const char *path, const struct qc_json *root, struct qc_status *st)
{
    QC_FREED char *text = qc_json_print(root, 1);
    return text ? export_text(bytes, path, text, st) : qc_fail_memory(st, 1);
}

/* Text: the produced graph in the text form of graph/text/text.h, with all constants, so that it parses back. */

static bool write_text(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    QC_FREED char *text = qc_graph_print(source->produced, &all, st);
    return text && export_text(bytes, path, text, st);
}

extern const struct qc_exporter qc_exporter_text;
const struct qc_exporter qc_exporter_text = {
    .summary = "the produced graph, in integers, as text that parses back",
    .suffix = ".int8.txt",
    .write = write_text,
};
