// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "tests/graph_reader/text_lex.h"

/* Upper bound of the items of a list: the commas before its end, and one. */
static size_t list_bound(const struct qc_lex *x)
{
    size_t n = 1;
    for (const char *p = x->at; p < x->end && *p != ']' && *p != '\n'; p++) n += *p == ',';
    return n;
}

static bool lex_ints(struct qc_attr *out, struct qc_lex *x, struct qc_status *st)
{
    int64_t *v = QC_NEW_ARRAY(x->arena, int64_t, list_bound(x), st);
    out->kind = QC_ATTR_INTS;
    if (!v || !qc_lex_expect(x, '[', st)) return false;
    if (!qc_lex_next_is(x, ']')) {
        do {
            if (!qc_lex_int(&v[out->count++], x, INT64_MIN, INT64_MAX, st)) return false;
        } while (qc_lex_try(x, ','));
    }
    out->ints = v;
    return qc_lex_expect(x, ']', st);
}

static bool lex_floats(struct qc_attr *out, struct qc_lex *x, struct qc_status *st)
{
    float *v = QC_NEW_ARRAY(x->arena, float, list_bound(x), st);
    out->kind = QC_ATTR_FLOATS;
    if (!v || !qc_lex_expect(x, '[', st)) return false;
    if (!qc_lex_next_is(x, ']')) {
        do {
            if (!qc_lex_float(&v[out->count++], x, st)) return false;
        } while (qc_lex_try(x, ','));
    }
    out->floats = v;
    return qc_lex_expect(x, ']', st);
}

static bool lex_strings(struct qc_attr *out, struct qc_lex *x, struct qc_status *st)
{
    size_t bound = 1; /* two quotes an item, and brackets may stand inside */
    for (const char *p = x->at; p < x->end && *p != '\n'; p++) bound += *p == '"';
    const char **v = QC_NEW_ARRAY(x->arena, const char *, bound, st);
    out->kind = QC_ATTR_STRINGS;
    if (!v || !qc_lex_expect(x, '[', st)) return false;
    if (!qc_lex_next_is(x, ']')) {
        do {
            if (out->count == bound) return qc_lex_fail(x, st, "a list of strings stands in one line");
            if (!qc_lex_string(&v[out->count++], x, st)) return false;
        } while (qc_lex_try(x, ','));
    }
    out->strings = v;
    return qc_lex_expect(x, ']', st);
}

/* 3 is an int; 3f, inf, -inf and nan are floats. */
static bool lex_number(struct qc_attr *out, struct qc_lex *x, struct qc_status *st)
{
    struct qc_lex start = *x;
    char word[QC_WORD] = "";
    if (!qc_lex_word(word, x, "a value", st)) return false;
    size_t n = strlen(word);
    *x = start;
    if (word[n - 1] == 'f' || strncmp(word, "nan", 3) == 0) {
        out->kind = QC_ATTR_FLOAT;
        return qc_lex_float(&out->f, x, st);
    }
    out->kind = QC_ATTR_INT;
    return qc_lex_int(&out->i, x, INT64_MIN, INT64_MAX, st);
}

bool qc_lex_attr(struct qc_attr *out, struct qc_tensor **tensor, struct qc_lex *x, struct qc_status *st)
{
    struct qc_attr a = {.kind = QC_ATTR_INT};
    char word[QC_WORD] = "";
    *tensor = NULL;
    if (!qc_lex_try_string(&a.name, x, st)) return false;
    if (!a.name) {
        if (!qc_lex_word(word, x, "the name of an attribute", st)) return false;
        if (!(a.name = qc_arena_strdup(x->arena, word, st))) return false;
    }
    if (!qc_lex_expect(x, '=', st)) return false;
    if (qc_lex_next_is(x, '"')) {
        a.kind = QC_ATTR_STRING;
        if (!qc_lex_string(&a.s, x, st)) return false;
    } else if (qc_lex_next_is(x, '[')) {
        if (!lex_ints(&a, x, st)) return false;
    } else if (qc_lex_try_word(x, "floats")) {
        if (!lex_floats(&a, x, st)) return false;
    } else if (qc_lex_try_word(x, "strings")) {
        if (!lex_strings(&a, x, st)) return false;
    } else {
        struct qc_lex start = *x;
        if (!qc_lex_word(word, x, "a value", st)) return false;
        bool typed = qc_lex_next_is(x, '[');
        *x = start;
        if (!typed) {
            if (!lex_number(&a, x, st)) return false;
        } else {
            enum qc_dtype dtype;
            struct qc_shape shape;
            if (!qc_lex_type(&dtype, &shape, x, st) || !qc_lex_data(tensor, dtype, &shape, x, st)) return false;
            a.kind = QC_ATTR_TENSOR;
            a.tensor = *tensor;
        }
    }
    *out = a;
    return true;
}
