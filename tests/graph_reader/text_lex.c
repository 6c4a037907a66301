// SPDX-License-Identifier: Apache-2.0
#include "tests/graph_reader/text_lex.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/types/number_format.h"

bool qc_lex_fail(const struct qc_lex *x, struct qc_status *st, const char *fmt, ...)
{
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return qc_fail(st, QC_BAD_INPUT, "line %zu, column %zu: %s", x->line, (size_t)(x->at - x->line_start) + 1, message);
}

void qc_lex_blanks(struct qc_lex *x)
{
    while (x->at < x->end && (*x->at == ' ' || *x->at == '\t' || *x->at == '\r')) x->at++;
    if (x->at < x->end && *x->at == '#')
        while (x->at < x->end && *x->at != '\n') x->at++;
}

void qc_lex_space(struct qc_lex *x)
{
    for (;;) {
        qc_lex_blanks(x);
        if (x->at == x->end || *x->at != '\n') return;
        x->line_start = ++x->at;
        x->line++;
    }
}

bool qc_lex_at_end(const struct qc_lex *x)
{
    return x->at == x->end;
}

bool qc_lex_line_end(struct qc_lex *x, struct qc_status *st)
{
    qc_lex_blanks(x);
    if (x->at == x->end || *x->at == '\n') return true;
    return qc_lex_fail(x, st, "the line should end here");
}

bool qc_lex_next_is(struct qc_lex *x, char c)
{
    qc_lex_blanks(x);
    return x->at < x->end && *x->at == c;
}

bool qc_lex_try(struct qc_lex *x, char c)
{
    if (!qc_lex_next_is(x, c)) return false;
    x->at++;
    return true;
}

bool qc_lex_expect(struct qc_lex *x, char c, struct qc_status *st)
{
    return qc_lex_try(x, c) || qc_lex_fail(x, st, "expected '%c'", c);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_+-.()", c));
}

/* Length of the word that is next; at most QC_WORD. A closing parenthesis that the word did not open is not part of it.
 */
static size_t word_length(const struct qc_lex *x)
{
    size_t n = 0;
    bool open = false;
    while (n < QC_WORD && x->at + n < x->end && is_word(x->at[n])) {
        char c = x->at[n];
        if (c == '(' && (open || n != 3 || memcmp(x->at, "nan", 3) != 0)) break;
        if (c == ')' && !open) break;
        open = c == '(' || (open && c != ')');
        n++;
    }
    return n;
}

bool qc_lex_word(char out[QC_WORD], struct qc_lex *x, const char *what, struct qc_status *st)
{
    qc_lex_blanks(x);
    size_t n = word_length(x);
    if (n == 0 || n >= QC_WORD) return qc_lex_fail(x, st, "expected %s", what);
    memcpy(out, x->at, n);
    out[n] = '\0';
    x->at += n;
    return true;
}

bool qc_lex_try_word(struct qc_lex *x, const char *word)
{
    qc_lex_blanks(x);
    size_t n = word_length(x);
    if (n != strlen(word) || memcmp(x->at, word, n) != 0) return false;
    x->at += n;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character behind a backslash; -1 when there is none of that kind. */
static int escaped(struct qc_lex *x)
{
    if (x->at == x->end) return -1;
    char c = *x->at++;
    if (c == '"' || c == '\\') return c;
    if (c == 'n') return '\n';
    if (c == 't') return '\t';
    if (c != 'x' || x->end - x->at < 2) return -1;
    int high = hex_digit(x->at[0]), low = hex_digit(x->at[1]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return -1;
    x->at += 2;
    return high * 16 + low;
}

bool qc_lex_string(const char **out, struct qc_lex *x, struct qc_status *st)
{
    if (!qc_lex_next_is(x, '"')) return qc_lex_fail(x, st, "expected a string in quotes");
    const char *close = x->at + 1;
    while (close < x->end && *close != '"' && *close != '\n') close += *close == '\\' && x->end - close > 1 ? 2 : 1;
    char *s = qc_arena_get(x->arena, (size_t)(close - x->at), 1, st);
    if (!s) return false;
    size_t n = 0;
    x->at++;
    while (x->at < x->end && *x->at != '"') {
        int c = (unsigned char)*x->at;
        if (c == '\n' || c == '\0') return qc_lex_fail(x, st, "the string has no closing quote");
        x->at++;
        if (c == '\\' && (c = escaped(x)) < 0) return qc_lex_fail(x, st, "unknown escape in a string");
        s[n++] = (char)c;
    }
    if (x->at == x->end) return qc_lex_fail(x, st, "the string has no closing quote");
    x->at++;
    s[n] = '\0';
    *out = s;
    return true;
}

bool qc_lex_try_string(const char **out, struct qc_lex *x, struct qc_status *st)
{
    *out = NULL;
    return !qc_lex_next_is(x, '"') || qc_lex_string(out, x, st);
}

static bool parse_int(int64_t *out, const char *word, int64_t lowest, int64_t highest)
{
    const char *digits = word + (*word == '-');
    bool negative = *word == '-';
    uint64_t v = 0, limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    if (!*digits) return false;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9') return false;
        uint64_t d = (uint64_t)(*digits - '0');
        if (v > (limit - d) / 10) return false;
        v = v * 10 + d;
    }
    int64_t r = negative ? (v == limit ? INT64_MIN : -(int64_t)v) : (int64_t)v;
    if (r < lowest || r > highest) return false;
    *out = r;
    return true;
}

bool qc_lex_int(int64_t *out, struct qc_lex *x, int64_t lowest, int64_t highest, struct qc_status *st)
{
    char word[QC_WORD] = "";
    qc_lex_blanks(x);
    struct qc_lex start = *x;
    if (!qc_lex_word(word, x, "a whole number", st)) return false;
    return parse_int(out, word, lowest, highest) ||
           qc_lex_fail(&start, st, "expected a whole number from %" PRId64 " to %" PRId64 ", got '%s'", lowest, highest,
                       word);
}

bool qc_lex_label(uint32_t *out, struct qc_lex *x, char sigil, struct qc_status *st)
{
    int64_t v;
    if (!qc_lex_next_is(x, sigil)) return qc_lex_fail(x, st, "expected %c and a number", sigil);
    x->at++;
    if (!qc_lex_int(&v, x, 1, UINT32_MAX, st)) return false;
    *out = (uint32_t)v;
    return true;
}

static bool is_decimal(const char *word)
{
    return *word && strspn(word, "0123456789+-.eE") == strlen(word);
}

/* nan, or nan(BITS) with the bits of a NaN of that width: sign, exponent all ones, mantissa of `mantissa` bits not 0.
 */
static bool parse_nan(uint64_t *bits, const char *word, uint64_t usual, unsigned width, unsigned mantissa)
{
    if (strncmp(word, "nan", 3) != 0) return false;
    *bits = usual;
    if (!word[3]) return true;
    uint64_t v = 0, exponent = (UINT64_C(1) << (width - 1)) - (UINT64_C(1) << mantissa);
    size_t digits = 0;
    const char *s = word + 4;
    for (int d; (d = hex_digit(*s)) >= 0; s++, digits++) v = v << 4 | (uint64_t)d;
    if (word[3] != '(' || digits == 0 || digits > width / 4 || strcmp(s, ")") != 0) return false;
    if ((v & exponent) != exponent || (v & ((UINT64_C(1) << mantissa) - 1)) == 0) return false;
    *bits = v;
    return true;
}

static bool parse_infinity(double *out, const char *word)
{
    bool negative = *word == '-';
    if (strcmp(word + negative, "inf") != 0) return false;
    *out = negative ? -(double)INFINITY : (double)INFINITY;
    return true;
}

/* Decimal text; what overflows is an error. */
static bool parse_float(float *out, const char *word)
{
    double infinite;
    uint64_t bits;
    char *end;
    if (parse_infinity(&infinite, word)) {
        *out = (float)infinite;
        return true;
    }
    if (parse_nan(&bits, word, 0x7fc00000u, 32, 23)) {
        uint32_t low = (uint32_t)bits;
        memcpy(out, &low, sizeof low);
        return true;
    }
    if (!is_decimal(word)) return false;
    float v = strtof(word, &end);
    if (*end || isinf(v)) return false;
    *out = v;
    return true;
}

bool qc_lex_float(float *out, struct qc_lex *x, struct qc_status *st)
{
    char word[QC_WORD] = "";
    qc_lex_blanks(x);
    struct qc_lex start = *x;
    if (!qc_lex_word(word, x, "a number", st)) return false;
    size_t n = strlen(word);
    if (n > 1 && word[n - 1] == 'f' && isdigit((unsigned char)word[n - 2])) word[n - 1] = '\0';
    return parse_float(out, word) || qc_lex_fail(&start, st, "'%s' is not a number that float32 can hold", word);
}

static bool lex_shape(struct qc_shape *out, struct qc_lex *x, struct qc_status *st)
{
    struct qc_shape s = QC_SCALAR;
    if (!qc_lex_expect(x, '[', st)) return false;
    if (qc_lex_try(x, '?')) {
        s.rank = -1;
    } else if (!qc_lex_next_is(x, ']')) {
        do {
            if (s.rank == QC_RANK_MAX) return qc_lex_fail(x, st, "more than %d dimensions", (int)QC_RANK_MAX);
            int64_t d = QC_FREE;
            if (!qc_lex_try_word(x, "N") && !qc_lex_int(&d, x, 0, INT64_MAX, st)) return false;
            s.dim[s.rank++] = d;
        } while (qc_lex_try(x, ','));
    }
    *out = s;
    return qc_lex_expect(x, ']', st);
}

bool qc_lex_type(enum qc_dtype *dtype, struct qc_shape *shape, struct qc_lex *x, struct qc_status *st)
{
    char word[QC_WORD] = "";
    qc_lex_blanks(x);
    struct qc_lex start = *x;
    if (!qc_lex_word(word, x, "an element type", st)) return false;
    *dtype = qc_dtype_from_name(word);
    if (*dtype == QC_NONE) return qc_lex_fail(&start, st, "'%s' is not an element type", word);
    return lex_shape(shape, x, st);
}

static bool set_f64(double *out, const char *word)
{
    uint64_t bits;
    char *end;
    if (parse_infinity(out, word)) return true;
    if (parse_nan(&bits, word, UINT64_C(0x7ff8000000000000), 64, 52)) {
        memcpy(out, &bits, sizeof bits);
        return true;
    }
    if (!is_decimal(word)) return false;
    double v = strtod(word, &end);
    if (*end || isinf(v)) return false;
    *out = v;
    return true;
}

static bool set_half(uint16_t *out, const char *word, bool brain)
{
    uint64_t bits;
    float v;
    if (parse_nan(&bits, word, brain ? 0x7fc0u : 0x7e00u, 16, brain ? 7 : 10)) {
        *out = (uint16_t)bits;
        return true;
    }
    if (strncmp(word, "nan", 3) == 0 || !parse_float(&v, word)) return false;
    *out = brain ? qc_float_to_bfloat(v) : qc_float_to_half(v);
    return true;
}

/* NaNs are told apart by their bits alone, so they are printed as such. */
static bool set_small(uint8_t *out, enum qc_dtype t, const char *word)
{
    int64_t bits;
    float v;
    if (strncmp(word, "nan(", 4) == 0) {
        char *end;
        bits = strtol(word + 4, &end, 16);
        *out = (uint8_t)bits;
        return strcmp(end, ")") == 0 && bits >= 0 && bits <= UINT8_MAX;
    }
    if (strncmp(word, "nan", 3) == 0 || !parse_float(&v, word)) return false;
    *out = qc_float_to_small(t, (double)v, QC_SMALL_OVERFLOWS, QC_SMALL_NEAREST);
    return true;
}

static bool set_u64(uint64_t *out, const char *word)
{
    uint64_t v = 0;
    if (!*word) return false;
    for (; *word; word++) {
        if (*word < '0' || *word > '9') return false;
        uint64_t d = (uint64_t)(*word - '0');
        if (v > (UINT64_MAX - d) / 10) return false;
        v = v * 10 + d;
    }
    *out = v;
    return true;
}

static bool set_int(struct qc_tensor *t, size_t i, const char *word, int64_t lowest, int64_t highest)
{
    int64_t v;
    if (!parse_int(&v, word, lowest, highest)) return false;
    memcpy((char *)t->data + i * qc_dtype_size(t->dtype), &v, qc_dtype_size(t->dtype));
    return true;
}

static bool set_element(struct qc_tensor *t, size_t i, const char *word)
{
    switch (t->dtype) {
    case QC_F32: return parse_float(&((float *)t->data)[i], word);
    case QC_F64: return set_f64(&((double *)t->data)[i], word);
    case QC_F16: return set_half(&((uint16_t *)t->data)[i], word, false);
    case QC_BF16:
        return set_half(&((uint16_t *)t->data)[i], word, true);
    QC_CASE_SMALL_FLOATS:
        return set_small((uint8_t *)t->data + i, t->dtype, word);
    case QC_U64: return set_u64(&((uint64_t *)t->data)[i], word);
    case QC_I64: return set_int(t, i, word, INT64_MIN, INT64_MAX);
    case QC_U32: return set_int(t, i, word, 0, UINT32_MAX);
    case QC_U8:
    case QC_I8:
    case QC_U16:
    case QC_I16:
    case QC_I32:
    case QC_BOOL:
    case QC_U4:
    case QC_I4:
    case QC_U2:
    case QC_I2: return set_int(t, i, word, qc_dtype_info(t->dtype)->lo, qc_dtype_info(t->dtype)->hi);
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
    return false;
}

bool qc_lex_data(struct qc_tensor **out, enum qc_dtype dtype, const struct qc_shape *shape, struct qc_lex *x,
                 struct qc_status *st)
{
    size_t count;
    char word[QC_WORD] = "";
    if (qc_lex_next_is(x, '.'))
        return qc_lex_fail(x, st, "the data of this constant was left out when the text was printed");
    if (!qc_lex_expect(x, '{', st)) return false;
    /* Every element takes a character at least: what is announced cannot be more than what is there. */
    if (!qc_shape_count(&count, shape) || count > (size_t)(x->end - x->at))
        return qc_lex_fail(x, st, "the text is too short for a constant of this shape");
    struct qc_tensor *t = qc_tensor_new(dtype, shape, st);
    if (!t) return false;
    for (size_t i = 0; i < count; i++) {
        qc_lex_space(x);
        if (i && !qc_lex_expect(x, ',', st)) goto fail;
        qc_lex_space(x);
        struct qc_lex start = *x;
        if (!qc_lex_word(word, x, "an element", st)) goto fail;
        if (!set_element(t, i, word)) {
            qc_lex_fail(&start, st, "'%s' is not a value of type %s", word, qc_dtype_info(dtype)->name);
            goto fail;
        }
    }
    qc_lex_space(x);
    if (!qc_lex_expect(x, '}', st)) goto fail;
    *out = t;
    return true;
fail:
    qc_tensor_unref(t);
    return false;
}
