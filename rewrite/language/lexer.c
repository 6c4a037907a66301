// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/lexer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Ends the text after a failure. */
static bool end(struct qc_lexer *x)
{
    x->at = x->end;
    x->token.kind = QC_TOKEN_END;
    return false;
}

bool qc_lexer_error(struct qc_lexer *x, struct qc_token at, const char *expected)
{
    if (at.kind == QC_TOKEN_END)
        qc_fail(x->st, QC_BAD_INPUT, "%s:%u:%u: expected %s, got the end of the file", x->file, at.line, at.column,
                expected);
    else
        qc_fail(x->st, QC_BAD_INPUT, "%s:%u:%u: expected %s, got '%.*s'", x->file, at.line, at.column, expected,
                at.size > 40 ? 40 : (int)at.size, at.start);
    return end(x);
}

void *qc_lexer_new(struct qc_lexer *x, size_t count, size_t size)
{
    void *p = qc_arena_get(x->arena, count, size, x->st);
    if (!p) end(x);
    return p;
}

void qc_lexer_start(struct qc_lexer *x, const char *file, const char *text, size_t size, struct qc_arena *a,
                    struct qc_status *st)
{
    *x = (struct qc_lexer){
        .file = file, .at = text, .end = text + size, .line_start = text, .line = 1, .arena = a, .st = st};
    qc_lexer_next(x);
}

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

void qc_lexer_next(struct qc_lexer *x)
{
    while (x->at < x->end && (isspace((unsigned char)*x->at) || *x->at == '#')) {
        if (*x->at == '#') {
            while (x->at < x->end && *x->at != '\n') x->at++;
            continue;
        }
        if (*x->at == '\n') {
            x->line++;
            x->line_start = x->at + 1;
        }
        x->at++;
    }
    struct qc_token t = {.start = x->at, .line = x->line, .column = (unsigned)(x->at - x->line_start) + 1};
    const char *p = x->at;
    if (p == x->end) {
        t.kind = QC_TOKEN_END;
    } else if (isalpha((unsigned char)*p) || *p == '_') {
        t.kind = QC_TOKEN_NAME;
        while (p < x->end && name_char(*p)) p++;
    } else if (isdigit((unsigned char)*p) || (*p == '-' && p + 1 < x->end && isdigit((unsigned char)p[1]))) {
        t.kind = QC_TOKEN_NUMBER;
        p++;
        while (p < x->end &&
               (name_char(*p) || *p == '.' || ((*p == '-' || *p == '+') && (p[-1] == 'e' || p[-1] == 'E'))))
            p++;
    } else if (*p == '"') {
        t.kind = QC_TOKEN_TEXT;
        for (p++; p < x->end && *p != '"' && *p != '\n';) p++;
        if (p == x->end || *p != '"') {
            t.size = 1;
            qc_lexer_error(x, t, "a text that ends on its line");
            return;
        }
        p++;
    } else {
        t.kind = QC_TOKEN_SIGN;
        bool two = p + 1 < x->end && p[1] == '=' && strchr("=!<>", *p) != NULL && *p;
        p += two ? 2 : 1;
        if (!two && (!*t.start || !strchr("()[]{}|,:*?=.<>+-/%", *t.start))) {
            t.size = 1;
            qc_lexer_error(x, t, "a name, a number or a sign");
            return;
        }
    }
    t.size = (size_t)(p - t.start);
    x->at = p;
    x->token = t;
}

bool qc_lexer_is(const struct qc_lexer *x, const char *text)
{
    return x->token.kind != QC_TOKEN_END && x->token.size == strlen(text) &&
           memcmp(x->token.start, text, x->token.size) == 0;
}

bool qc_lexer_take(struct qc_lexer *x, const char *text)
{
    if (!qc_lexer_is(x, text)) return false;
    qc_lexer_next(x);
    return true;
}

void qc_lexer_expect(struct qc_lexer *x, const char *text)
{
    char expected[40];
    if (!qc_lexer_take(x, text)) qc_lexer_error(x, x->token, qc_text(expected, sizeof expected, "'%s'", text));
}

/* Copies `size` characters of the current token from `from` on and advances. */
static const char *copy_token(struct qc_lexer *x, size_t from, size_t size)
{
    char *copy = qc_lexer_new(x, size + 1, 1);
    if (!copy) return "";
    memcpy(copy, x->token.start + from, size);
    qc_lexer_next(x);
    return copy;
}

const char *qc_lexer_name(struct qc_lexer *x, const char *what)
{
    if (x->token.kind == QC_TOKEN_NAME) return copy_token(x, 0, x->token.size);
    qc_lexer_error(x, x->token, what);
    return "";
}

const char *qc_lexer_text(struct qc_lexer *x)
{
    if (x->token.kind == QC_TOKEN_TEXT) return copy_token(x, 1, x->token.size - 2);
    qc_lexer_error(x, x->token, "a text in quotes");
    return "";
}

double qc_lexer_number(struct qc_lexer *x)
{
    char text[64] = "", *rest = text;
    double value = 0;
    const bool number = x->token.kind == QC_TOKEN_NUMBER && x->token.size < sizeof text;
    if (number) {
        memcpy(text, x->token.start, x->token.size);
        value = strtod(text, &rest);
    }
    if (!number || *rest)
        qc_lexer_error(x, x->token, "a number");
    else
        qc_lexer_next(x);
    return value;
}
