// SPDX-License-Identifier: Apache-2.0
/* Quantizes one model for two targets. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

enum { QC_TARGET_ROWS = 16 };

struct qc_target_pair {
    const char *name[2];
    const char *file[2];  /* temporary files of the quantized models, in QDQ form; NULL: not made */
    const char *rounding; /* "A,B", for qc_compare_models */
    size_t row_count;     /* conventions that may differ between the targets */
    struct qc_target_row {
        const char *what, *value[2];
    } rows[QC_TARGET_ROWS];
};

/* Quantizes a float model for both targets of o->target, "A,B", from o->stats or else o->data, with o's options for the
   data. o: of QC_COMMAND_compare; its arena holds the texts. out is closed in any case. Fails with QC_USAGE if there
   are not two targets; or like the jobs, naming the target. */
bool qc_quantize_for_targets(struct qc_target_pair *out, const char *model, const struct qc_options *o,
                             struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st);

/* Removes the files. */
void qc_target_pair_close(struct qc_target_pair *p);
