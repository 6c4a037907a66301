// SPDX-License-Identifier: Apache-2.0
/* Tokens of rule files. The first failure is recorded and ends the text: then the token is END, names and texts are
   "", numbers 0, so that a parser asks for it once, at the end. */
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
    struct qc_token token;  /* the current one */
    struct qc_arena *arena; /* of names and texts */
    struct qc_status *st;
};

/* Starts at the first token. */
void qc_lexer_start(struct qc_lexer *x, const char *file, const char *text, size_t size, struct qc_arena *a,
                    struct qc_status *st);
void qc_lexer_next(struct qc_lexer *x);
bool qc_lexer_is(const struct qc_lexer *x, const char *text);
/* If this is the current token, advances over it and returns true. */
bool qc_lexer_take(struct qc_lexer *x, const char *text);
void qc_lexer_expect(struct qc_lexer *x, const char *text);
const char *qc_lexer_name(struct qc_lexer *x, const char *what);
/* Reads "text" on one line, without escapes. */
const char *qc_lexer_text(struct qc_lexer *x);
double qc_lexer_number(struct qc_lexer *x);
/* Fails with "FILE:LINE:COLUMN: expected WHAT, got 'TOKEN'". Always returns false. */
bool qc_lexer_error(struct qc_lexer *x, struct qc_token at, const char *expected);
/* Allocates in the arena. Returns NULL if memory is out. */
void *qc_lexer_new(struct qc_lexer *x, size_t count, size_t size);
