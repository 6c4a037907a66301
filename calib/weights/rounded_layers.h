// SPDX-License-Identifier: Apache-2.0
/* Memo of rounded layers (base/memo.h), for the same network with other options: a layer's weights, scales, input step
   and moments often stay the same. */
#pragma once

#include "base/memo.h"
#include "calib/weights/round_weights_parts.h"

/* Makes a memo for one collection of statistics and one set of options, except the types of layers. budget: borrowed.
 */
bool qc_rounded_layers_new(struct qc_memo **out, struct qc_memo_budget *budget, struct qc_status *st);

/* If the layer is known, sets *known and fills in what qc_round_weights_solve does. Thread safe, like the next. */
bool qc_rounded_layers_recall(bool *known, struct qc_round_weights_layer *l, struct qc_memo *memo,
                              struct qc_status *st);
/* Keeps a copy of a solved layer if there is room. */
bool qc_rounded_layers_keep(struct qc_memo *memo, const struct qc_round_weights_layer *l, struct qc_status *st);

/* Rounded layers in a file beside a checkpoint: a resumed job continues after the last one. A record holds a layer's
   integers, its bias shift and its report, under a key of all that they depend on, and ends with a checksum. An
   unfinished or damaged record is ignored. */

struct qc_rounded_file;

/* Opens or makes the file. job: 64 hex digits that identify model, samples and options; a file of another job is
   emptied. Fails if the file is of another kind (QC_BAD_INPUT), or cannot be written or is open in another process
   (QC_MACHINE). */
bool qc_rounded_file_open(struct qc_rounded_file **out, const char *path, const char *job, struct qc_status *st);
void qc_rounded_file_close(struct qc_rounded_file *f); /* NULL-safe; the file stays */

/* If the file has the layer, sets *known and fills in what qc_round_weights_solve does. Thread safe, like the next
   function. */
bool qc_rounded_file_recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_file *f,
                            struct qc_status *st);
/* Appends a solved layer. Layers of recurrent operators and with means or pairs of the quantized network are not
   stored. */
bool qc_rounded_file_keep(struct qc_rounded_file *f, const struct qc_round_weights_layer *l, struct qc_status *st);
