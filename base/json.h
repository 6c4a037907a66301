// SPDX-License-Identifier: Apache-2.0
/* JSON values, built and read (RFC 8259). Numbers are finite or null; keys keep the order of insertion. Printed text is
   UTF-8 and cannot control a terminal: control and format characters are escaped (base/shown.h). If memory runs out
   while a tree is built, the functions go on; then qc_json_print returns NULL and qc_json_is_whole false. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct qc_json; /* a value put into another is owned by it */

struct qc_json *qc_json_object(void);
struct qc_json *qc_json_array(void);
struct qc_json *qc_json_string(const char *s); /* NULL gives null; a byte that is not UTF-8 becomes "\\xNN" */
struct qc_json *qc_json_number(double v); /* NaN and infinity give null; prints the shortest text that reads back */
struct qc_json *qc_json_float(float v);   /* the same for float: 0.1f prints as 0.1 */
struct qc_json *qc_json_integer(int64_t v);
struct qc_json *qc_json_whole(uint64_t v);
struct qc_json *qc_json_bool(bool v);
struct qc_json *qc_json_null(void);
/* Both take ownership of the value and free it if memory is out: fill a value before you put it in. An existing key
   gets the new value. */
void qc_json_set(struct qc_json *object, const char *key, struct qc_json *value);
void qc_json_add(struct qc_json *array, struct qc_json *value);
void qc_json_set_some(struct qc_json *object, const char *key, struct qc_json *list); /* frees an empty list instead */
/* Sets several members and returns the object: qc_json_put(o, "name %s samples %zu met %hhd", name, samples, met).
   %s a text or NULL, %g a double, %f a float's digits, %hhd a bool, %d %u %zu and those of inttypes.h an integer. A key
   has no spaces and no percent sign. */
struct qc_json *qc_json_put(struct qc_json *object, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define QC_JSON(...) qc_json_put(qc_json_object(), __VA_ARGS__)
struct qc_json *qc_json_pair(struct qc_json *x, struct qc_json *y);      /* an array; takes both */
struct qc_json *qc_json_strings(const char *const *texts, size_t count); /* an array */
void qc_json_free(struct qc_json *v);                                    /* NULL-safe; only for a root */

/* Returns false if memory ran out while the tree, or one that it is a copy of, was built, or if v is NULL. */
bool qc_json_is_whole(const struct qc_json *v);

/* Returns text owned by the caller (free), or NULL if memory is out; indent 0 gives one line. */
char *qc_json_print(const struct qc_json *v, unsigned indent);

/* Parses text; *out is owned (qc_json_free). Fails with QC_BAD_INPUT, naming line and column: syntax, a duplicate key,
   a number out of range, a NUL character, bytes that are not UTF-8, nesting beyond 2048. */
bool qc_json_parse(struct qc_json **out, const char *text, size_t size, struct qc_status *st);
enum qc_json_kind { QC_JSON_NULL, QC_JSON_BOOL, QC_JSON_NUMBER, QC_JSON_STRING, QC_JSON_ARRAY, QC_JSON_OBJECT };
enum qc_json_kind qc_json_kind(const struct qc_json *v);
size_t qc_json_size(const struct qc_json *v);                                /* of an array or object, else 0 */
const struct qc_json *qc_json_at(const struct qc_json *v, size_t i);         /* array element or object value */
const char *qc_json_key(const struct qc_json *v, size_t i);                  /* key of the i-th member */
const struct qc_json *qc_json_get(const struct qc_json *v, const char *key); /* NULL if absent */
/* Returns the member that a path such as "model.file" names; NULL if it is absent, null, or v is NULL. The number and
   the text of it: NaN or NULL if it is none. */
const struct qc_json *qc_json_find(const struct qc_json *v, const char *path);
double qc_json_find_number(const struct qc_json *v, const char *path);
const char *qc_json_find_text(const struct qc_json *v, const char *path);
const char *qc_json_text(const struct qc_json *v);     /* NULL if not a string */
struct qc_json *qc_json_copy(const struct qc_json *v); /* NULL gives null; not whole if v is not */
/* Returns a number as it prints or was read, with all digits, where qc_json_value may have rounded. NULL if not a
   number. */
const char *qc_json_digits(const struct qc_json *v);
double qc_json_value(const struct qc_json *v); /* NaN if not a number; a bool gives 0 or 1 */
