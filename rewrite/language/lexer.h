// SPDX-License-Identifier: Apache-2.0
/* Tokens of rule files. */
#pragma once

#include "base/arena.h"

enum qc_token_kind { QC_TOKEN_END, QC_TOKEN_NAME, QC_TOKEN_NUMBER, QC_TOKEN_TEXT, QC_TOKEN_SIGN };

struct qc_token {
    enum qc_token_kind kind;
    const char *start; /* into the text, not terminated */
    size_t size;
    unsigned line, column;
};

struct qc_lexer {
    const char *file, *at, *end, *line_start;
    unsigned line;
    struct qc_token token; /* the current one */
};

/* Starts at the first token. */
bool qc_lexer_start(struct qc_lexer *x, const char *file, const char *text, size_t size, struct qc_status *st);
bool qc_lexer_next(struct qc_lexer *x, struct qc_status *st);
bool qc_lexer_is(const struct qc_lexer *x, const char *text);
/* If this is the current token, advances over it and returns true. */
bool qc_lexer_take(struct qc_lexer *x, const char *text, struct qc_status *st);
bool qc_lexer_expect(struct qc_lexer *x, const char *text, struct qc_status *st);
bool qc_lexer_name(const char **name, struct qc_lexer *x, const char *what, struct qc_arena *a, struct qc_status *st);
/* Reads "text" on one line, without escapes. */
bool qc_lexer_text(const char **text, struct qc_lexer *x, struct qc_arena *a, struct qc_status *st);
bool qc_lexer_number(double *value, struct qc_lexer *x, struct qc_status *st);
/* "FILE:LINE:COLUMN: expected WHAT, got 'TOKEN'"; always false. */
bool qc_lexer_error(const struct qc_lexer *x, const char *expected, struct qc_status *st);
