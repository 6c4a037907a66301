// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/words.h"

/* Parsed by jansson. The values are our own, because jansson prints 0.1f with 17 digits and cannot tell that memory ran
   out while a tree was built. */
struct qc_json {
    enum qc_json_kind kind;
    bool failed; /* a member is missing because memory ran out */
    bool truth;
    double number;
    char *text; /* of a string; of a number as it prints */
    size_t size, room;
    struct qc_json **items; /* of an array or object */
    char **keys;            /* of an object */
};

static char *copy_json(const char *s, size_t n)
{
    char *p = malloc(n + 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

static struct qc_json *make(enum qc_json_kind kind)
{
    struct qc_json *v = calloc(1, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

static struct qc_json *make_text(enum qc_json_kind kind, const char *s, size_t n)
{
    struct qc_json *v = make(kind);
    if (!v) return NULL;
    v->text = copy_json(s, n);
    if (v->text) return v;
    free(v);
    return NULL;
}

struct qc_json *qc_json_object(void)
{
    return make(QC_JSON_OBJECT);
}

struct qc_json *qc_json_array(void)
{
    return make(QC_JSON_ARRAY);
}

struct qc_json *qc_json_null(void)
{
    return make(QC_JSON_NULL);
}

struct qc_json *qc_json_bool(bool b)
{
    struct qc_json *v = make(QC_JSON_BOOL);
    if (v) v->truth = b;
    return v;
}

/* Returns a UTF-8 copy. Bytes that are not UTF-8 are spelled out, so that names which differ only in them stay
   different. */
static char *utf8(const char *s)
{
    const size_t size = strlen(s);
    char *text = size < SIZE_MAX / 4 ? malloc(4 * size + 1) : NULL, *to = text;
    while (text && *s) {
        uint32_t code;
        const size_t n = qc_utf8(&code, s);
        if (n) memcpy(to, s, n);
        to += n ? n : (size_t)sprintf(to, "\\x%02x", (unsigned)(unsigned char)*s);
        s += n ? n : 1;
    }
    if (!text) return NULL;
    *to = '\0';
    char *fitting = realloc(text, (size_t)(to - text) + 1);
    return fitting ? fitting : text;
}

struct qc_json *qc_json_string(const char *s)
{
    if (!s) return qc_json_null();
    struct qc_json *v = make(QC_JSON_STRING);
    if (!v || (v->text = utf8(s))) return v;
    free(v);
    return NULL;
}

static struct qc_json *make_number(const char *text, double value)
{
    struct qc_json *v = make_text(QC_JSON_NUMBER, text, strlen(text));
    if (!v) return NULL;
    v->number = value;
    /* Replace the decimal point of the locale by '.' */
    char *s = v->text;
    char *to = s;
    bool point = false;
    for (; *s; s++) {
        if (strchr("0123456789+-e", *s)) {
            *to++ = *s;
        } else if (!point) {
            *to++ = '.';
            point = true;
        }
    }
    *to = '\0';
    return v;
}

struct qc_json *qc_json_number(double v)
{
    char text[QC_NUMBER_TEXT];
    return isfinite(v) ? make_number(qc_double_text(text, v), v) : qc_json_null();
}

struct qc_json *qc_json_float(float v)
{
    char text[QC_NUMBER_TEXT];
    return isfinite(v) ? make_number(qc_float_text(text, v), (double)v) : qc_json_null();
}

struct qc_json *qc_json_integer(int64_t v)
{
    char text[QC_NUMBER_TEXT];
    snprintf(text, sizeof text, "%" PRId64, v);
    return make_number(text, (double)v);
}

struct qc_json *qc_json_whole(uint64_t v)
{
    char text[QC_NUMBER_TEXT];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return make_number(text, (double)v);
}

static bool grow(struct qc_json *v)
{
    if (v->size < v->room) return true;
    size_t room = v->room ? 2 * v->room : 8;
    struct qc_json **items = realloc(v->items, room * sizeof *items);
    if (!items) return false;
    v->items = items;
    if (v->kind == QC_JSON_OBJECT) {
        char **keys = realloc(v->keys, room * sizeof *keys);
        if (!keys) return false;
        v->keys = keys;
    }
    v->room = room;
    return true;
}

/* Takes ownership of key and value; either may be NULL if memory was out. Then v may be null instead of an object. */
static void append_json(struct qc_json *v, char *key, struct qc_json *value)
{
    if (v && value && v->kind == (key ? QC_JSON_OBJECT : QC_JSON_ARRAY) && grow(v)) {
        v->items[v->size] = value;
        if (key) v->keys[v->size] = key;
        v->size++;
        return;
    }
    if (v) v->failed = true;
    free(key);
    qc_json_free(value);
}

void qc_json_set(struct qc_json *object, const char *key, struct qc_json *value)
{
    char *k = utf8(key);
    for (size_t i = 0; object && value && k && i < object->size; i++) {
        if (strcmp(object->keys[i], k) != 0) continue;
        qc_json_free(object->items[i]);
        object->items[i] = value;
        free(k);
        return;
    }
    append_json(object, k, value);
}

void qc_json_set_some(struct qc_json *object, const char *key, struct qc_json *list)
{
    if (qc_json_size(list) || !qc_json_is_whole(list))
        qc_json_set(object, key, list);
    else
        qc_json_free(list);
}

void qc_json_add(struct qc_json *array, struct qc_json *value)
{
    append_json(array, NULL, value);
}

/* Returns the argument of a conversion without its percent sign. */
static struct qc_json *argument(const char *conversion, size_t n, va_list *ap)
{
    switch (conversion[n - 1]) {
    case 's': return qc_json_string(va_arg(*ap, const char *));
    case 'g': return qc_json_number(va_arg(*ap, double));
    case 'f': return qc_json_float((float)va_arg(*ap, double));
    case 'u':
        if (n == 1) return qc_json_integer(va_arg(*ap, unsigned));
        return qc_json_whole(*conversion == 'z' ? va_arg(*ap, size_t) : va_arg(*ap, uint64_t));
    default:
        if (n == 1) return qc_json_integer(va_arg(*ap, int));
        return *conversion == 'h' ? qc_json_bool(va_arg(*ap, int)) : qc_json_integer(va_arg(*ap, int64_t));
    }
}

struct qc_json *qc_json_put(struct qc_json *object, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    for (const char *at = format; *at;) {
        const size_t key = strcspn(at, " "), n = strcspn(at + key + 2, " ");
        char *name = copy_json(at, key);
        struct qc_json *value = argument(at + key + 2, n, &ap);
        if (name)
            qc_json_set(object, name, value);
        else
            append_json(object, NULL, value);
        free(name);
        at += key + 2 + n;
        at += strspn(at, " ");
    }
    va_end(ap);
    return object;
}

struct qc_json *qc_json_pair(struct qc_json *x, struct qc_json *y)
{
    struct qc_json *list = qc_json_array();
    qc_json_add(list, x);
    qc_json_add(list, y);
    return list;
}

struct qc_json *qc_json_strings(const char *const *texts, size_t count)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < count; i++) qc_json_add(list, qc_json_string(texts[i]));
    return list;
}

void qc_json_free(struct qc_json *v)
{
    if (!v) return;
    for (size_t i = 0; i < v->size; i++) {
        qc_json_free(v->items[i]);
        if (v->keys) free(v->keys[i]);
    }
    free(v->items);
    free(v->keys);
    free(v->text);
    free(v);
}

bool qc_json_is_whole(const struct qc_json *v)
{
    if (!v || v->failed) return false;
    for (size_t i = 0; i < v->size; i++)
        if (!qc_json_is_whole(v->items[i])) return false;
    return true;
}

static void print_string(FILE *f, const char *s)
{
    fputc('"', f);
    while (*s) {
        uint32_t code;
        const size_t n = qc_utf8(&code, s); /* never 0: texts are UTF-8 */
        if (code == '"' || code == '\\')
            fprintf(f, "\\%c", (int)code);
        else if (code == '\n')
            fputs("\\n", f);
        else if (code == '\t')
            fputs("\\t", f);
        else if (!qc_unprintable(code))
            fwrite(s, 1, n, f);
        else if (code <= 0xFFFF)
            fprintf(f, "\\u%04x", (unsigned)code);
        else
            fprintf(f, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((code - 0x10000) >> 10)),
                    (unsigned)(0xDC00 + (code & 0x3FF)));
        s += n ? n : 1;
    }
    fputc('"', f);
}

static void new_line(FILE *f, unsigned indent, unsigned depth)
{
    if (indent) fprintf(f, "\n%*s", (int)(indent * depth), "");
}

static void print(FILE *f, const struct qc_json *v, unsigned indent, unsigned depth)
{
    switch (v->kind) {
    case QC_JSON_NULL: fputs("null", f); break;
    case QC_JSON_BOOL: fputs(v->truth ? "true" : "false", f); break;
    case QC_JSON_NUMBER: fputs(v->text, f); break;
    case QC_JSON_STRING: print_string(f, v->text); break;
    case QC_JSON_ARRAY:
    case QC_JSON_OBJECT:
        fputc(v->kind == QC_JSON_ARRAY ? '[' : '{', f);
        for (size_t i = 0; i < v->size; i++) {
            if (i) fputs(indent ? "," : ", ", f);
            new_line(f, indent, depth + 1);
            if (v->keys) {
                print_string(f, v->keys[i]);
                fputs(": ", f);
            }
            print(f, v->items[i], indent, depth + 1);
        }
        if (v->size) new_line(f, indent, depth);
        fputc(v->kind == QC_JSON_ARRAY ? ']' : '}', f);
        break;
    }
}

char *qc_json_print(const struct qc_json *v, unsigned indent)
{
    if (!qc_json_is_whole(v)) return NULL;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    print(f, v, indent < 16 ? indent : 16, 0);
    bool bad = ferror(f);
    if (fclose(f) || bad) {
        free(text);
        return NULL;
    }
    return text;
}

/* A text that is known to be valid JSON; no zero follows it. */
struct rest {
    const char *at, *end;
};

/* Returns the next number of the text. There is one. */
static struct qc_json *next_number(struct rest *rest, double value)
{
    const char *p = rest->at;
    while (!strchr("-0123456789", *p)) {
        if (*p++ != '"') continue;
        while (*p != '"') p += *p == '\\' ? 2 : 1;
        p++;
    }
    size_t n = 0;
    while (p + n < rest->end && p[n] && strchr("-+.eE0123456789", p[n])) n++;
    struct qc_json *v = make_text(QC_JSON_NUMBER, p, n);
    if (v) v->number = value;
    rest->at = p + n;
    return v;
}

/* jansson keeps numbers as doubles, so the digits are taken from the text. The tree is walked in text order; rest
   begins after the last number. The parser bounds the depth (JSON_PARSER_MAX_DEPTH, 2048). */
static struct qc_json *from_jansson(json_t *j, struct rest *rest)
{
    struct qc_json *v = NULL;
    size_t i;
    const char *key;
    void *it;
    switch (json_typeof(j)) {
    case JSON_NULL: return qc_json_null();
    case JSON_TRUE: return qc_json_bool(true);
    case JSON_FALSE: return qc_json_bool(false);
    case JSON_INTEGER:
    case JSON_REAL: return next_number(rest, json_number_value(j));
    case JSON_STRING: return make_text(QC_JSON_STRING, json_string_value(j), json_string_length(j));
    case JSON_ARRAY:
        v = qc_json_array();
        for (i = 0; i < json_array_size(j); i++) append_json(v, NULL, from_jansson(json_array_get(j, i), rest));
        return v;
    case JSON_OBJECT:
        v = qc_json_object();
        for (it = json_object_iter(j); it; it = json_object_iter_next(j, it)) {
            key = json_object_iter_key(it);
            append_json(v, copy_json(key, strlen(key)), from_jansson(json_object_iter_value(it), rest));
        }
        return v;
    }
    return NULL;
}

bool qc_json_parse(struct qc_json **out, const char *text, size_t size, struct qc_status *st)
{
    json_error_t error;
    json_t *j = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    if (!j) {
        if (json_error_code(&error) == json_error_out_of_memory) return qc_fail_memory(st, size);
        return qc_fail(st, QC_BAD_INPUT, "line %d, column %d: %s", error.line, error.column, error.text);
    }
    struct rest rest = {.at = text, .end = text + size};
    struct qc_json *v = from_jansson(j, &rest);
    json_decref(j);
    if (!qc_json_is_whole(v)) {
        qc_json_free(v);
        return qc_fail_memory(st, size);
    }
    *out = v;
    return true;
}

struct qc_json *qc_json_copy(const struct qc_json *v)
{
    if (!v) return qc_json_null();
    if (v->text) {
        struct qc_json *same = make_text(v->kind, v->text, strlen(v->text));
        if (same) same->number = v->number;
        return same;
    }
    struct qc_json *all = make(v->kind);
    if (all) all->truth = v->truth;
    if (all) all->failed = v->failed;
    for (size_t i = 0; i < v->size; i++)
        append_json(all, v->keys ? copy_json(v->keys[i], strlen(v->keys[i])) : NULL, qc_json_copy(v->items[i]));
    return all;
}

enum qc_json_kind qc_json_kind(const struct qc_json *v)
{
    return v->kind;
}

size_t qc_json_size(const struct qc_json *v)
{
    return v ? v->size : 0;
}

const struct qc_json *qc_json_at(const struct qc_json *v, size_t i)
{
    return v && i < v->size ? v->items[i] : NULL;
}

const char *qc_json_key(const struct qc_json *v, size_t i)
{
    return v->keys && i < v->size ? v->keys[i] : NULL;
}

const struct qc_json *qc_json_get(const struct qc_json *v, const char *key)
{
    for (size_t i = 0; v && v->keys && i < v->size; i++) {
        if (strcmp(v->keys[i], key) == 0) return v->items[i];
    }
    return NULL;
}

const struct qc_json *qc_json_find(const struct qc_json *v, const char *path)
{
    char key[64];
    for (size_t part; v && *path; path += part + (path[part] == '.')) {
        part = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)part, path);
        v = qc_json_get(v, key);
    }
    return v && qc_json_kind(v) != QC_JSON_NULL ? v : NULL;
}

double qc_json_find_number(const struct qc_json *v, const char *path)
{
    const struct qc_json *found = qc_json_find(v, path);
    return found ? qc_json_value(found) : (double)NAN;
}

const char *qc_json_find_text(const struct qc_json *v, const char *path)
{
    const struct qc_json *found = qc_json_find(v, path);
    return found ? qc_json_text(found) : NULL;
}

const char *qc_json_text(const struct qc_json *v)
{
    return v->kind == QC_JSON_STRING ? v->text : NULL;
}

const char *qc_json_digits(const struct qc_json *v)
{
    return v->kind == QC_JSON_NUMBER ? v->text : NULL;
}

double qc_json_value(const struct qc_json *v)
{
    if (v->kind == QC_JSON_BOOL) return v->truth ? 1 : 0;
    return v->kind == QC_JSON_NUMBER ? v->number : (double)NAN;
}
