// SPDX-License-Identifier: Apache-2.0
/* The latency of model files, as the user's command measures it (--benchmark). */
#pragma once

#include "quantize/pipeline_state.h"

struct qc_latency {
    const struct qc_pipeline *p;
    const char **words;        /* of the command */
    const char *file, *so_far; /* with --checkpoint: "CHECKPOINT.benchmark", and what it holds; else NULL */
};

struct qc_milliseconds {
    double least, second; /* of the rounds */
};

/* Splits the command, and reads what a job that was stopped has measured. Errors: QC_USAGE; the file is none of ours
   (QC_BAD_INPUT). */
bool qc_latency_begin(struct qc_latency *l, const struct qc_pipeline *p, struct qc_status *st);

/* Runs the command once. */
bool qc_latency_try(const struct qc_latency *l, const char *file, struct qc_status *st);

/* Runs the command on each file in turn, for three rounds; with `race` for fewer if the last file is slower than the
   first by a tenth. What the checkpoint has is not measured again. Errors: those of the command (base/command.h); it
   printed no number, or not one above 0 (QC_MACHINE); QC_INTERRUPTED. */
bool qc_latency_measure(struct qc_milliseconds *out, struct qc_latency *l, const char *const *files, size_t count,
                        bool race, struct qc_status *st);

/* Is `a` less than b by at least 2 %, and by more than either differs between rounds? */
bool qc_latency_less(const struct qc_milliseconds *a, const struct qc_milliseconds *b);

/* Removes the file of the checkpoint. */
void qc_latency_forget(const struct qc_options *o);
