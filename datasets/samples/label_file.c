// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/label_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

struct row {
    const char *file;
    int64_t label;
};

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->file, ((const struct row *)b)->file);
}

/* A field from *s, 0-terminated in place; *s goes behind the comma or to the end of the line. NULL: quotes that do not
   end. */
static char *field(char **s)
{
    char *out = *s, *to = out, *p = out;
    if (*p == '"') {
        for (p++; *p && !(*p == '"' && p[1] != '"'); p++) {
            if (*p == '"') p++;
            *to++ = *p;
        }
        if (*p++ != '"' || (*p && *p != ',')) return NULL;
    } else {
        p += strcspn(p, ",");
        to = p;
    }
    *s = *p ? p + 1 : p;
    *to = '\0';
    return out;
}

/* False without a status: the line has no such form. */
static bool read_line(struct row *r, char *line, const char **label)
{
    char *end, *file = field(&line), *text = file ? field(&line) : NULL;
    if (!text || !*file || !*text || *line) return false;
    text += strspn(text, " ");
    *label = text;
    errno = 0;
    *r = (struct row){.file = strncmp(file, "./", 2) == 0 ? file + 2 : file, .label = strtoll(text, &end, 10)};
    return end != text && *end == '\0' && errno == 0;
}

/* Lines of text, which is changed. */
static bool read_rows(struct row **out, size_t *count, char *text, struct qc_arena *a, struct qc_status *st)
{
    size_t lines = 1, n = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    struct row *rows = QC_NEW_ARRAY(a, struct row, lines, st);
    if (!rows) return false;
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* a byte order mark */
    for (size_t line = 1; *text; line++) {
        char *end = text + strcspn(text, "\n"), *next = *end ? end + 1 : end;
        const char *label = NULL;
        if (end > text && end[-1] == '\r') end--;
        *end = '\0';
        if (*text && !read_line(&rows[n], text, &label)) {
            if (line > 1)
                return label ? qc_fail(st, QC_BAD_INPUT, "line %zu: the label '%s' is no whole number", line, label)
                             : qc_fail(st, QC_BAD_INPUT, "line %zu is not 'file,label'", line);
        } else if (*text) {
            n++;
        }
        text = next;
    }
    qsort(rows, n, sizeof *rows, by_file);
    for (size_t i = 1; i < n; i++)
        if (strcmp(rows[i - 1].file, rows[i].file) == 0 && rows[i - 1].label != rows[i].label)
            return qc_fail(st, QC_BAD_INPUT, "'%s' has two labels", rows[i].file);
    *out = rows;
    *count = n;
    return true;
}

bool qc_label_file_read(int64_t *labels, const char *path, const char *const *files, size_t count, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct row *rows;
    void *text;
    size_t size, n;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_file_read(&text, &size, path, a, st);
    if (ok && strlen(text) != size) ok = qc_fail(st, QC_BAD_INPUT, "it is no text");
    ok = ok && read_rows(&rows, &n, text, a, st);
    for (size_t i = 0; ok && i < count; i++) {
        const char *slash = strrchr(files[i], '/');
        struct row wanted = {.file = files[i]};
        const struct row *r = bsearch(&wanted, rows, n, sizeof *rows, by_file);
        wanted.file = slash ? slash + 1 : files[i];
        if (!r) r = bsearch(&wanted, rows, n, sizeof *rows, by_file);
        if (r)
            labels[i] = r->label;
        else
            ok = qc_fail(st, QC_BAD_INPUT, "it has no label of '%s'", files[i]);
    }
    qc_arena_free(a);
    return ok || qc_where(st, "--labels %s", path);
}
