// SPDX-License-Identifier: Apache-2.0
/* Command lines that repeat a job, or run it with other options. */
#pragma once

#include "quantize/pipeline_state.h"

/* --name=value, unquoted; value NULL: --name */
struct qc_command_option {
    const char *name, *value;
};

/* A change of a command line: options to add, and an option to leave out. */
struct qc_command_change {
    size_t count;
    const struct qc_command_option *options; /* [count] */
    const char *without;                     /* name of an option, or NULL */
    bool met;                                /* leave out --max-drop, --min-sqnr and --max-nll, too */
};

/* Sets *out to the words of the command line that decide the result, beginning with "qcalib", unquoted, in the arena.
   change may be NULL. */
bool qc_command_words(struct qc_text_list *out, struct qc_arena *a, const struct qc_options *o,
                      const char *const *operands, size_t operand_count, const struct qc_command_change *change,
                      struct qc_status *st);

/* The same as one line, "qcalib quantize --data=... MODEL", quoted for a shell. */
bool qc_command_text(const char **out, struct qc_arena *a, const struct qc_options *o, const char *const *operands,
                     size_t operand_count, const struct qc_command_change *change, struct qc_status *st);

/* Joins words to one line, quoted for a shell, in the arena. */
bool qc_words_text(const char **out, struct qc_arena *a, const struct qc_text_list *words, struct qc_status *st);

/* Sets *out to the command line of the job with a change (may be NULL), in the arena of p. */
bool qc_pipeline_command(const char **out, const struct qc_pipeline *p, const struct qc_command_change *change,
                         struct qc_status *st);

/* The same, and the added options as texts, "--name=value" [change->count]. */
bool qc_pipeline_change(const char *const **options, const char **command, const struct qc_pipeline *p,
                        const struct qc_command_change *change, struct qc_status *st);
