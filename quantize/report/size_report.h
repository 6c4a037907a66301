// SPDX-License-Identifier: Apache-2.0
/* What --size found, for the report. */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"
#include "quantize/report/size_frontier.h"

/* How wide weights are, in the order in which it is tried. */
enum { QC_SIZE_8, QC_SIZE_4, QC_SIZE_2, QC_SIZE_WIDTHS };

/* A layer, by the name that options know it by, and what it has. */
struct qc_size_layer {
    const char *node, *glob;
    double noise; /* that it alone makes in the outputs, in the width that was probed */
    unsigned width, bits;
    size_t bytes;
    double error;
};

struct qc_size_result {
    size_t limit, bytes;
    size_t beside;               /* of the file, that are no weights of these layers */
    size_t file[QC_SIZE_WIDTHS]; /* with all layers so; 0: not to be had */
    const struct qc_size_unit *units;
    struct qc_size_frontier frontier;
    struct qc_size_point chosen;
    bool of_outputs, is_signed;
    size_t layer_count;
    const struct qc_size_layer *layers;
};

/* *out is from the arena of p. */
bool qc_size_report(struct qc_report_size **out, const struct qc_pipeline *p, const struct qc_size_result *r,
                    struct qc_status *st);
