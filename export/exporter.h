// SPDX-License-Identifier: Apache-2.0
/* Exporters: a produced graph (rewrite/simulate.h: qc_realise, folded) as a graph of ONNX operators that a runtime loads. */
#ifndef QC_EXPORT_EXPORTER_H
#define QC_EXPORT_EXPORTER_H

#include "graph/graph.h"

struct qc_exporter {
    const char *name, *summary;
    const char *suffix; /* of the output file, behind the model's stem: ".int8.onnx" */
    /* Lowers affine values to ONNX operators; every site must be bound. *out is owned. */
    bool (*lower)(struct qc_graph **out, const struct qc_graph *produced, struct qc_status *st);
};

size_t qc_exporter_count(void);
const struct qc_exporter *qc_exporter_at(size_t i);
const struct qc_exporter *qc_exporter_find(const char *name); /* NULL when unknown */

#endif
