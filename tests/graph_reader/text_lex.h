// SPDX-License-Identifier: Apache-2.0
/* Reads the words, numbers and literals of the text form. */
#pragma once

#include "graph/core/graph.h"

/* A place in the text. Blanks and comments (# to the end of the line) are skipped before whatever is read; line ends
 * are not. */
struct qc_lex {
    const char *at, *end;
    const char *line_start;
    size_t line;
    struct qc_arena *arena; /* of strings and lists */
};

/* All errors are QC_BAD_INPUT and begin with "line L, column C: ". */
bool qc_lex_fail(const struct qc_lex *x, struct qc_status *st, const char *fmt, ...) QC_PRINTF(3, 4);

void qc_lex_blanks(struct qc_lex *x);
/* Blanks and line ends. */
void qc_lex_space(struct qc_lex *x);
bool qc_lex_at_end(const struct qc_lex *x); /* of the text */
/* A line end (or the end of the text) must come. */
bool qc_lex_line_end(struct qc_lex *x, struct qc_status *st);
/* Is c next? Then it is taken. */
bool qc_lex_try(struct qc_lex *x, char c);
bool qc_lex_next_is(struct qc_lex *x, char c);
bool qc_lex_expect(struct qc_lex *x, char c, struct qc_status *st);

/* A word: letters, digits and _ + - . ( ) as far as they go; at most QC_WORD - 1 characters. */
enum { QC_WORD = 64 };
bool qc_lex_word(char out[QC_WORD], struct qc_lex *x, const char *what, struct qc_status *st);
/* Is this word next? Then it is taken. */
bool qc_lex_try_word(struct qc_lex *x, const char *word);

bool qc_lex_string(const char **out, struct qc_lex *x, struct qc_status *st);
/* A string if one is next, else NULL. */
bool qc_lex_try_string(const char **out, struct qc_lex *x, struct qc_status *st);
bool qc_lex_int(int64_t *out, struct qc_lex *x, int64_t lowest, int64_t highest, struct qc_status *st);
/* A float; a suffix f is allowed. */
bool qc_lex_float(float *out, struct qc_lex *x, struct qc_status *st);
/* @7 or %7 (sigil given), the number at least 1. */
bool qc_lex_label(uint32_t *out, struct qc_lex *x, char sigil, struct qc_status *st);

/* f32[N,3] */
bool qc_lex_type(enum qc_dtype *dtype, struct qc_shape *shape, struct qc_lex *x, struct qc_status *st);
/* {1, 2, 3}: all elements of a tensor of that type; the result is owned. */
bool qc_lex_data(struct qc_tensor **out, enum qc_dtype dtype, const struct qc_shape *shape, struct qc_lex *x,
                 struct qc_status *st);
/* name=value; *tensor is owned when the value is one, else NULL. */
bool qc_lex_attr(struct qc_attr *out, struct qc_tensor **tensor, struct qc_lex *x, struct qc_status *st);
