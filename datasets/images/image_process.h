// SPDX-License-Identifier: Apache-2.0
/* Reads image files in processes of their own, so that a decoder that crashes costs one image; private to datasets/.
   docs/decisions/0034-images-are-decoded-in-processes-of-their-own.md */
#pragma once

#include "datasets/images/image_plan.h"

struct qc_image_processes;

/* Copies the plan and the budget; root ("": paths are complete) and files are borrowed. Processes are started on
   demand, one for each thread that reads at the same time. */
bool qc_image_processes_new(struct qc_image_processes **out, const struct qc_image_plan *plan, const char *root,
                            const char *const *files, const struct qc_budget *budget, struct qc_status *st);
void qc_image_processes_free(struct qc_image_processes *p); /* NULL-safe */

/* qc_image_plan_apply of files[file] in a process. Fails also with QC_BAD_INPUT if the process dies of the image or
   takes too long, and with QC_MACHINE if it is killed from outside or no process can be started. Thread safe. */
bool qc_image_processes_read(unsigned char *out, struct qc_image_processes *p, size_t file, struct qc_status *st);
