// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/lexer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool qc_lexer_error(const struct qc_lexer *x, const char *expected, struct qc_status *st)
{
    const struct qc_token *t = &x->token;
    if (t->kind == QC_TOKEN_END)
        return qc_fail(st, QC_BAD_INPUT, "%s:%u:%u: expected %s, got the end of the file", x->file, t->line, t->column,
                       expected);
    return qc_fail(st, QC_BAD_INPUT, "%s:%u:%u: expected %s, got '%.*s'", x->file, t->line, t->column, expected,
                   t->size > 40 ? 40 : (int)t->size, t->start);
}

bool qc_lexer_start(struct qc_lexer *x, const char *file, const char *text, size_t size, struct qc_status *st)
{
    *x = (struct qc_lexer){.file = file, .at = text, .end = text + size, .line_start = text, .line = 1};
    return qc_lexer_next(x, st);
}

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool qc_lexer_next(struct qc_lexer *x, struct qc_status *st)
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
            x->token = t;
            x->token.size = 1;
            return qc_lexer_error(x, "a text that ends on its line", st);
        }
        p++;
    } else {
        t.kind = QC_TOKEN_SIGN;
        bool two = p + 1 < x->end && p[1] == '=' && strchr("=!<>", *p) != NULL && *p;
        p += two ? 2 : 1;
        if (!two && (!*t.start || !strchr("()[]{}|,:*?=.<>+-/%", *t.start))) {
            x->token = t;
            x->token.size = 1;
            return qc_lexer_error(x, "a name, a number or a sign", st);
        }
    }
    t.size = (size_t)(p - t.start);
    x->at = p;
    x->token = t;
    return true;
}

bool qc_lexer_is(const struct qc_lexer *x, const char *text)
{
    return x->token.kind != QC_TOKEN_END && x->token.size == strlen(text) &&
           memcmp(x->token.start, text, x->token.size) == 0;
}

bool qc_lexer_take(struct qc_lexer *x, const char *text, struct qc_status *st)
{
    return qc_lexer_is(x, text) && qc_lexer_next(x, st);
}

bool qc_lexer_expect(struct qc_lexer *x, const char *text, struct qc_status *st)
{
    char expected[40];
    if (qc_lexer_is(x, text)) return qc_lexer_next(x, st);
    return qc_lexer_error(x, qc_text(expected, sizeof expected, "'%s'", text), st);
}

bool qc_lexer_name(const char **name, struct qc_lexer *x, const char *what, struct qc_arena *a, struct qc_status *st)
{
    if (x->token.kind != QC_TOKEN_NAME) return qc_lexer_error(x, what, st);
    *name = qc_arena_strndup(a, x->token.start, x->token.size, st);
    return *name && qc_lexer_next(x, st);
}

bool qc_lexer_text(const char **text, struct qc_lexer *x, struct qc_arena *a, struct qc_status *st)
{
    if (x->token.kind != QC_TOKEN_TEXT) return qc_lexer_error(x, "a text in quotes", st);
    *text = qc_arena_strndup(a, x->token.start + 1, x->token.size - 2, st);
    return *text && qc_lexer_next(x, st);
}

bool qc_lexer_number(double *value, struct qc_lexer *x, struct qc_status *st)
{
    char text[64], *end;
    if (x->token.kind != QC_TOKEN_NUMBER || x->token.size >= sizeof text) return qc_lexer_error(x, "a number", st);
    memcpy(text, x->token.start, x->token.size);
    text[x->token.size] = '\0';
    *value = strtod(text, &end);
    if (*end) return qc_lexer_error(x, "a number", st);
    return qc_lexer_next(x, st);
}
