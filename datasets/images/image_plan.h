// SPDX-License-Identifier: Apache-2.0
/* Size, layout and colours of prepared images; private to datasets/. */
#pragma once

#include "datasets/images/pixels.h"
#include "datasets/samples/dataset.h"
#include "datasets/samples/image_options.h"

struct qc_image_plan {
    struct qc_image_options how; /* with layout, colours and crop settled */
    unsigned channels;           /* 1 or 3 */
    unsigned rank;               /* of one image: 2 to 3 */
    int64_t dims[3];
    size_t bytes;   /* of one image, one byte per element */
    char text[160]; /* the complete options as text */
};

/* Completes the options in `given` (may be NULL) from the input: [N,C,H,W], [N,H,W,C], [C,H,W], [H,W,C] or [N,H,W],
   where C is 1 or 3. input NULL: three colours, NCHW. Fails with QC_USAGE if options contradict the input or each
   other, or if the size is unknown; with QC_BAD_INPUT if the input does not take images. */
bool qc_image_plan_make(struct qc_image_plan *out, const struct qc_image_options *given,
                        const struct qc_input_spec *input, struct qc_status *st);

/* Reads an image file: decodes it, turns it upright, resizes and crops it, and writes it in the layout and colours of
   the plan. */
bool qc_image_plan_apply(unsigned char *out, const struct qc_image_plan *plan, const char *path,
                         const struct qc_budget *budget, struct qc_status *st);

/* Reads image files in processes of their own, so that a decoder that crashes costs one image; private to datasets/.
   docs/decisions/0034-images-are-decoded-in-processes-of-their-own.md */

struct qc_image_processes;

/* Copies the plan and the budget; root ("": paths are complete) and files are borrowed. Processes are started on
   demand, one for each thread that reads at the same time. */
bool qc_image_processes_new(struct qc_image_processes **out, const struct qc_image_plan *plan, const char *root,
                            const char *const *files, const struct qc_budget *budget, struct qc_status *st);
void qc_image_processes_free(struct qc_image_processes *p); /* NULL-safe */

/* qc_image_plan_apply of files[file] in a process. Fails also with QC_BAD_INPUT if the process dies of the image or
   takes too long, and with QC_MACHINE if it is killed from outside or no process can be started. Thread safe. */
bool qc_image_processes_read(unsigned char *out, struct qc_image_processes *p, size_t file, struct qc_status *st);
