// SPDX-License-Identifier: Apache-2.0
#include "export/exporter.h"

#include <string.h>

#define QC_EXPORTER(symbol) extern const struct qc_exporter qc_exporter_##symbol;
#include "export/exporters.def"
#undef QC_EXPORTER

static const struct qc_exporter *const exporters[] = {
#define QC_EXPORTER(symbol) &qc_exporter_##symbol,
#include "export/exporters.def"
#undef QC_EXPORTER
};

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
        if (strcmp(exporters[i]->name, name) == 0) return exporters[i];
    return NULL;
}
