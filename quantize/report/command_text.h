// SPDX-License-Identifier: Apache-2.0
/* Command lines to repeat what was done, or to do it otherwise. */
#pragma once

#include "quantize/pipeline_state.h"

/* A change to a command line: words to put in, unquoted, and an option to leave out. */
struct qc_command_change {
    size_t count;
    const char *const *name, *const *value; /* [count]: --name=value; value NULL: --name */
    const char *without;                    /* name of an option, or NULL */
    bool met;                               /* without --max-drop and its like too */
};

/* The part of the command line that decides the result, word by word from "qcalib" on, unquoted, in the arena. */
bool qc_command_words(struct qc_text_list *out, struct qc_arena *a, const struct qc_options *o,
                      const char *const *operands, size_t operand_count, const struct qc_command_change *change,
                      struct qc_status *st);

/* The part of the command line that decides the result, "qcalib quantize --data=... MODEL", quoted for a shell, in the
   arena. change may be NULL. */
bool qc_command_text(const char **out, struct qc_arena *a, const struct qc_options *o, const char *const *operands,
                     size_t operand_count, const struct qc_command_change *change, struct qc_status *st);

/* Words as one line, quoted for a shell, in the arena. Errors: memory. */
bool qc_words_text(const char **out, struct qc_arena *a, const struct qc_text_list *words, struct qc_status *st);

/* The command line of the job, or of one like it (change; may be NULL), in the arena of p. */
bool qc_pipeline_command(const char **out, const struct qc_pipeline *p, const struct qc_command_change *change,
                         struct qc_status *st);
