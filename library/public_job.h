// SPDX-License-Identifier: Apache-2.0
/* From struct qcalib_job to what quantize/ works with; private to library/. */
#ifndef QC_LIBRARY_PUBLIC_JOB_H
#define QC_LIBRARY_PUBLIC_JOB_H

#include "library/public_data.h"
#include "quantize/job.h"

struct qcalib_statistics {
    struct qc_collection *collection;
};

/* What a public call hands to a job. Texts of the options live in the arena, all else is borrowed. Zeroed before
   qc_public_begin. */
struct qc_public_job {
    struct qcalib_job call;
    struct qc_arena *arena;
    struct qc_options options;
    struct qc_model_at_hand model;
    struct qc_job_inputs in;
    struct qc_progress progress; /* of this struct's address: it must not move while work goes on */
};

/* Errors: QC_USAGE. qc_public_done frees it in any case. */
bool qc_public_begin(struct qc_public_job *out, enum qc_command command, const struct qcalib_model *model,
                     const struct qcalib_job *job, struct qc_status *st);
void qc_public_done(struct qc_public_job *j);

/* As of qc_public_begin, for another model of the same job. */
void qc_public_source(struct qc_model_source *out, struct qc_model_at_hand *at_hand, const struct qcalib_model *model);

/* Gives warnings (NULL: none) to who listens. */
void qc_public_warn(const struct qc_public_job *j, const struct qc_warnings *w);

/* What was set, for a command: options that it does not take are left alone. options may be NULL. */
bool qc_public_options(struct qc_options *out, enum qc_command command, const struct qcalib_options *options,
                       struct qc_arena *a, struct qc_status *st);

#endif
