// SPDX-License-Identifier: Apache-2.0
/* Layers that were rounded, in a file beside a checkpoint: a job that was stopped while it rounded goes on behind the
   last of them. A record is a layer's integers, what its bias takes up, and what the report says of it, under a key of
   all that they depend on; behind it stands a check sum. A record that was not finished, or is damaged, is as none. */
#pragma once

#include "calib/weights/round_weights_parts.h"

struct qc_rounded_file;

/* Opens the file or makes it. job: of the model, the samples and the options, as 64 hex digits; a file of another job
   begins anew. Errors: it is no such file (QC_BAD_INPUT); it cannot be written (QC_MACHINE). */
bool qc_rounded_file_open(struct qc_rounded_file **out, const char *path, const char *job, struct qc_status *st);
void qc_rounded_file_close(struct qc_rounded_file *f); /* NULL-safe; the file stays */

/* Fills what qc_round_weights_solve fills where the layer is there; *known says whether. Thread safe, as is the next.
 */
bool qc_rounded_file_recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_file *f,
                            struct qc_status *st);
/* Adds what was solved. Of weights of more than 8 bits, and of recurrent operators, nothing is kept. */
bool qc_rounded_file_keep(struct qc_rounded_file *f, const struct qc_round_weights_layer *l, struct qc_status *st);
