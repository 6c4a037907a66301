// SPDX-License-Identifier: Apache-2.0
/* The result of --size, for the report. */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"
#include "quantize/report/size_frontier.h"

/* The widths of weights. */
enum { QC_SIZE_8, QC_SIZE_4, QC_SIZE_2, QC_SIZE_WIDTHS };

/* A layer and its chosen width; node: the name that options use. */
struct qc_size_layer {
    const char *node, *glob;
    double noise; /* output noise of this layer alone, in the width that was probed */
    unsigned width, bits;
    size_t bytes;
    double error;
};

struct qc_size_result {
    size_t limit, bytes;
    size_t beside;               /* bytes of the file beside the weights of these layers */
    size_t file[QC_SIZE_WIDTHS]; /* bytes with all layers in this width; 0: not possible */
    const struct qc_size_unit *units;
    struct qc_size_frontier frontier;
    struct qc_size_point chosen;
    bool of_outputs, is_signed;
    size_t layer_count;
    const struct qc_size_layer *layers;
};

/* Fills the report; *out is from the arena of p. */
bool qc_size_report(struct qc_report_size **out, const struct qc_pipeline *p, const struct qc_size_result *r,
                    struct qc_status *st);
