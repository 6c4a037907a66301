// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 65536 };

/* Parses one decimal number, without the hex, inf and nan that strtod also takes. */
static bool parse_number(double *out, const char **s)
{
    char *end;
    if (strspn(*s, "+-.0123456789") == 0) return false;
    double v = strtod(*s, &end);
    for (const char *p = *s; p < end; p++)
        if (!strchr("+-.0123456789eE", *p)) return false;
    if (end == *s || !isfinite(v)) return false;
    *s = end;
    *out = v;
    return true;
}

/* Parses NUMBER or NUMBER/NUMBER. */
static bool fraction(float *out, const char **s)
{
    double a, b = 1;
    if (!parse_number(&a, s)) return false;
    if (**s == '/') {
        ++*s;
        if (!parse_number(&b, s) || b == 0) return false;
    }
    float v = (float)(a / b);
    if (!isfinite(v)) return false;
    *out = v;
    return true;
}

/* s: the list after the '=' of the word. */
static bool parse_list(const float **out, size_t *count, const char *word, size_t length, const char *s,
                       struct qc_arena *a, struct qc_status *st)
{
    const char *end = word + length;
    size_t n = 1;
    for (const char *p = s; p < end; p++) n += *p == ',';
    if (n > VALUES_MAX) return qc_fail(st, QC_USAGE, "--preprocess: more than %d values in a list", VALUES_MAX);
    float *v = QC_NEW_ARRAY(a, float, n, st);
    if (!v) return false;
    for (size_t i = 0; i < n; i++) {
        if (!fraction(&v[i], &s) || s > end || (i + 1 < n ? *s++ != ',' : s != end))
            return qc_fail(st, QC_USAGE,
                           "--preprocess: '%.*s' is not a list of numbers or fractions with commas between, as in "
                           "scale=1/255 or mean=.485,.456,.406",
                           (int)(length < 200 ? length : 200), word);
    }
    *out = v;
    *count = n;
    return true;
}

static bool parse_word(struct qc_preprocess *p, const char *s, size_t length, struct qc_arena *a, struct qc_status *st)
{
    const struct {
        const char *name;
        const float **values;
        size_t *count;
    } keys[] = {{"scale", &p->scale, &p->scale_count},
                {"mean", &p->mean, &p->mean_count},
                {"std", &p->std, &p->std_count}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i].name);
        if (length <= n || strncmp(s, keys[i].name, n) != 0 || s[n] != '=') continue;
        if (*keys[i].count) return qc_fail(st, QC_USAGE, "--preprocess: '%s' is given twice", keys[i].name);
        return parse_list(keys[i].values, keys[i].count, s, length, s + n + 1, a, st);
    }
    return qc_fail(
        st, QC_USAGE,
        "--preprocess: '%.*s' is not understood; expected scale=, mean=, std=, none, or alone one of imagenet, "
        "tensorflow, caffe, yolo",
        (int)(length < 200 ? length : 200), s);
}

static const char space[] = " \t\r\n";

/* Named recipes for pixels of 0 to 255. */
static const struct recipe {
    const char *name, *text;
    bool bgr;
} recipes[] = {
    {"imagenet", "scale=1/255 mean=.485,.456,.406 std=.229,.224,.225", false}, /* torchvision.models */
    {"tensorflow", "scale=1/127.5 mean=1", false},                             /* keras' mode "tf" */
    {"caffe", "mean=103.939,116.779,123.68", true},                            /* keras' mode "caffe" */
    {"yolo", "scale=1/255", false},
};

static const struct recipe *find_recipe(const char *text)
{
    text += strspn(text, space);
    const size_t n = strcspn(text, space);
    if (text[n + strspn(text + n, space)]) return NULL;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strlen(recipes[i].name) == n && strncmp(recipes[i].name, text, n) == 0) return &recipes[i];
    return NULL;
}

bool qc_preprocess_parse(struct qc_preprocess *out, const char *text, struct qc_arena *a, struct qc_status *st)
{
    struct qc_preprocess p = {.scale_count = 0};
    size_t words = 0;
    bool none = false;
    const struct recipe *recipe = find_recipe(text);
    if (recipe) {
        text = recipe->text;
        p.bgr = recipe->bgr;
    }
    for (const char *s = text + strspn(text, space); *s; s += strspn(s, space)) {
        size_t length = strcspn(s, space);
        words++;
        if (length == 4 && strncmp(s, "none", 4) == 0)
            none = true;
        else if (!parse_word(&p, s, length, a, st))
            return false;
        s += length;
    }
    if (words == 0)
        return qc_fail(st, QC_USAGE, "--preprocess: nothing is given; expected scale=, mean=, std= or none");
    if (none && words > 1) return qc_fail(st, QC_USAGE, "--preprocess: 'none' cannot be combined with others");
    for (size_t i = 0; i < p.std_count; i++)
        if (p.std[i] == 0.0f) return qc_fail(st, QC_USAGE, "--preprocess: std must not be 0");
    *out = p;
    return true;
}

bool qc_preprocess_is_none(const struct qc_preprocess *p)
{
    return p->scale_count == 0 && p->mean_count == 0 && p->std_count == 0;
}

bool qc_preprocess_copy(struct qc_preprocess *out, const struct qc_preprocess *p, struct qc_arena *a,
                        struct qc_status *st)
{
    *out = *p;
    out->scale = qc_arena_dup(a, p->scale, p->scale_count, sizeof *p->scale, st);
    out->mean = qc_arena_dup(a, p->mean, p->mean_count, sizeof *p->mean, st);
    out->std = qc_arena_dup(a, p->std, p->std_count, sizeof *p->std, st);
    return out->scale && out->mean && out->std;
}

static void put_numbers(FILE *f, const char *key, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) fprintf(f, "%s%s%.9g", i ? "," : " ", i ? "" : key, (double)x[i]);
}

void qc_preprocess_print(FILE *f, const struct qc_preprocess *p)
{
    put_numbers(f, "scale=", p->scale, p->scale_count);
    put_numbers(f, "mean=", p->mean, p->mean_count);
    put_numbers(f, "std=", p->std, p->std_count);
}
