// SPDX-License-Identifier: Apache-2.0
/* Command lines that repeat a job, or run it with other options. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/options/changes.h"

/* Sets *out to the words of the command line that decide the result, beginning with "qcalib", unquoted, in the arena.
   change may be NULL. */
bool qc_command_words(struct qc_text_list *out, struct qc_arena *a, const struct qc_options *o,
                      const char *const *operands, size_t operand_count, const struct qc_change *change,
                      struct qc_status *st);

/* The same as one line, "qcalib quantize --data=... MODEL", quoted for a shell. */
bool qc_command_text(const char **out, struct qc_arena *a, const struct qc_options *o, const char *const *operands,
                     size_t operand_count, const struct qc_change *change, struct qc_status *st);

/* Joins words to one line, quoted for a shell, in the arena. */
bool qc_words_text(const char **out, struct qc_arena *a, const struct qc_text_list *words, struct qc_status *st);

/* Sets *out to the words of the command of a job on the model of `in` with a change, in the arena. A command with a
   change writes the same files; change NULL: the options alone. */
bool qc_job_words(struct qc_text_list *out, const struct qc_job_inputs *in, const struct qc_options *o,
                  const struct qc_change *change, struct qc_arena *a, struct qc_status *st);

/* The same as one line, quoted for a shell. */
bool qc_job_command(const char **out, const struct qc_job_inputs *in, const struct qc_options *o,
                    const struct qc_change *change, struct qc_arena *a, struct qc_status *st);

/* Returns the added options as texts, "--name=value", a list of the record. */
struct qc_json *qc_change_json(const struct qc_change *change, struct qc_arena *a, struct qc_status *st);
