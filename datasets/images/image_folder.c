// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/scope.h"
#include "datasets/arrays/data_readers.h"
#include "datasets/images/image_plan.h"
#include "datasets/samples/folder_list.h"

/* Table of labels: lines `file,label` (RFC 4180); the first line may be a heading. */

struct row {
    const char *file;
    int64_t label;
};

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->file, ((const struct row *)b)->file);
}

/* Returns a field of *s, 0-terminated in place; *s moves after the comma or to the end of the line. Returns NULL if a
   quote does not end. */
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

/* Returns false without a status if the line has another form. */
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

/* Parses the lines of text, which is modified. */
static bool read_label_lines(struct row **out, size_t *count, char *text, struct qc_arena *a, struct qc_status *st)
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
                return label ? qc_fail(st, QC_BAD_INPUT, "line %zu: the label '%s' is not a whole number", line, label)
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

/* Returns the label of each of `count` files (paths below their folder), found by its path or else by its name without
   folders. Fails with QC_BAD_INPUT for a line of another form (with its number), a label that is no integer, a file
   with no or two labels; also as qc_file_read. */
static bool qc_label_file_read(int64_t *labels, const char *path, const char *const *files, size_t count,
                               struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct row *rows;
    void *text;
    size_t size, n;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_file_read(&text, &size, path, a, st);
    if (ok && strlen(text) != size) ok = qc_fail(st, QC_BAD_INPUT, "it is not a text file");
    ok = ok && read_label_lines(&rows, &n, text, a, st);
    for (size_t i = 0; ok && i < count; i++) {
        const char *slash = strrchr(files[i], '/');
        struct row wanted = {.file = files[i]};
        const struct row *r = bsearch(&wanted, rows, n, sizeof *rows, by_file);
        wanted.file = slash ? slash + 1 : files[i];
        if (!r) r = bsearch(&wanted, rows, n, sizeof *rows, by_file);
        if (r)
            labels[i] = r->label;
        else
            ok = qc_fail(st, QC_BAD_INPUT, "it has no label for '%s'", files[i]);
    }
    return ok || qc_where(st, "--labels %s", path);
}

enum { KEEP_BYTES = 64 << 20 };

enum state { UNKNOWN, GOOD, BROKEN };

struct images {
    unsigned users; /* arrays that use it */
    struct qc_arena *arena;
    const char *name; /* the path as given by the user */
    const char *root; /* "": the paths are complete */
    struct qc_folder folder;
    int64_t *labels; /* of files, from the table; NULL: labels by folder, if any */
    struct qc_image_plan plan;
    struct qc_image_processes *processes;
    struct qc_budget budget;
    struct qc_dataset_options options;
    uint32_t *rows;        /* file index of each row */
    size_t count;          /* rows: files not known to be broken */
    unsigned char *states; /* of files */
    unsigned char **kept;  /* pixels of files, malloc; NULL: decoded each time */
    size_t kept_bytes;
};

static void drop(void *user)
{
    struct images *x = user;
    if (--x->users) return;
    for (size_t i = 0; i < x->folder.count; i++) free(x->kept[i]);
    qc_image_processes_free(x->processes);
    qc_arena_free(x->arena); /* holds *x */
}

static bool decode_file(unsigned char *out, const struct images *x, size_t file, struct qc_status *st)
{
    return qc_image_processes_read(out, x->processes, file, st) || qc_where(st, "%s", x->folder.files[file]);
}

static bool is_unchanged(const struct images *x, size_t file, struct qc_status *st)
{
    char path[4096];
    qc_text(path, sizeof path, "%s%s%s", x->root, *x->root ? "/" : "", x->folder.files[file]);
    return qc_folder_is_unchanged(&x->folder, path, st) || qc_where(st, "%s", x->folder.files[file]);
}

static bool read_pixels(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct images *x = user;
    unsigned char *to = out;
    for (size_t i = 0; i < count; i++, to += x->plan.bytes) {
        const size_t file = x->rows[first + i];
        if (x->kept[file])
            memcpy(to, x->kept[file], x->plan.bytes);
        else if (!decode_file(to, x, file, st) || !is_unchanged(x, file, st))
            return false;
    }
    return true;
}

static bool read_file_labels(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    const struct images *x = user;
    for (size_t i = 0; i < count; i++) {
        const size_t file = x->rows[first + i];
        const int64_t label = x->labels ? x->labels[file] : (int64_t)x->folder.labels[file];
        memcpy((char *)out + i * sizeof label, &label, sizeof label);
    }
    return true;
}

/* ---- Which files can be read ---- */

struct looking {
    struct images *images;
    uint32_t *files;      /* to check */
    unsigned char **room; /* for each worker */
};

static bool look_at_file(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct looking *l = user;
    struct images *x = l->images;
    const size_t file = l->files[item];
    struct qc_status one = QC_STATUS_INIT;
    if (!decode_file(x->kept[file] ? x->kept[file] : l->room[worker], x, file, &one)) {
        x->states[file] = BROKEN;
        if (one.code != QC_MACHINE && !x->options.strict) return true;
        *st = one;
        return false;
    }
    x->states[file] = GOOD;
    return true;
}

/* Warns with the names of the first broken files, which are decoded again for the reason. Fails if no file is left. */
static bool tell(struct images *x, const uint32_t *files, size_t count, size_t broken, struct qc_status *st)
{
    char text[900];
    size_t at = 0, named = 0;
    QC_FREED unsigned char *room = malloc(x->plan.bytes);
    if (!room) return qc_fail_memory(st, x->plan.bytes);
    text[0] = '\0';
    for (size_t i = 0; i < count && named < QC_NAMED && at < sizeof text; i++) {
        struct qc_status one = QC_STATUS_INIT;
        if (x->states[files[i]] != BROKEN) continue;
        if (decode_file(room, x, files[i], &one))
            qc_fail(&one, QC_BAD_INPUT, "%s: it is being written", x->folder.files[files[i]]);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.200s", named++ ? "; " : "", one.message);
    }
    const char *more = broken > named ? "; ..." : "";
    if (broken == x->count)
        return qc_fail(st, QC_BAD_INPUT, "%s: none of its images can be read: %s%s", x->name, text, more);
    qc_data_warn(&x->options, "%s: %zu of %zu images cannot be read and %s left out: %s%s", x->name, broken, x->count,
                 broken == 1 ? "is" : "are", text, more);
    return true;
}

static bool run_look(struct images *x, struct looking *l, size_t count, struct qc_status *st)
{
    const unsigned workers = x->options.workers ? x->options.workers : 1;
    bool ok = (l->room = calloc(workers, sizeof *l->room)) || qc_fail_memory(st, workers);
    for (unsigned i = 0; ok && i < workers; i++)
        ok = (l->room[i] = malloc(x->plan.bytes)) || qc_fail_memory(st, x->plan.bytes);
    /* The first files stay in memory, whichever worker decodes them. */
    const size_t keep = x->budget.memory_limit ? x->budget.memory_limit / 16 : KEEP_BYTES;
    for (size_t i = 0; ok && i < count && x->kept_bytes + x->plan.bytes <= keep; i++) {
        ok = (x->kept[l->files[i]] = malloc(x->plan.bytes)) || qc_fail_memory(st, x->plan.bytes);
        x->kept_bytes += x->plan.bytes;
    }
    const struct qc_pool_options pool = {.workers = workers,
                                         .progress = x->options.progress,
                                         .progress_user = x->options.progress_user};
    ok = ok && qc_pool_run(count, look_at_file, l, &pool, st);
    for (unsigned i = 0; l->room && i < workers; i++) free(l->room[i]);
    free(l->room);
    return ok;
}

static bool check(size_t *gone, void *user, const uint64_t *rows, size_t count, struct qc_status *st)
{
    struct images *x = user;
    struct looking l = {.images = x, .files = calloc(count ? count : 1, sizeof *l.files)};
    size_t n = 0, broken = 0;
    if (!l.files) return qc_fail_memory(st, count * sizeof *l.files);
    for (size_t i = 0; i < count; i++)
        if (x->states[x->rows[rows[i]]] == UNKNOWN) l.files[n++] = x->rows[rows[i]];
    bool ok = n == 0 || run_look(x, &l, n, st);
    for (size_t i = 0; ok && i < n; i++) broken += x->states[l.files[i]] == BROKEN;
    if (ok && broken) {
        ok = tell(x, l.files, n, broken, st);
        size_t left = 0;
        for (size_t i = 0; i < x->count; i++)
            if (x->states[x->rows[i]] != BROKEN) x->rows[left++] = x->rows[i];
        x->count = left;
    }
    free(l.files);
    *gone = broken;
    return ok;
}

/* ---- The folder ---- */

static bool list_labelled(struct images *x, const char *path, bool is_folder, struct qc_status *st)
{
    struct qc_arena *a = x->arena;
    if (!(x->name = qc_arena_strdup(a, path, st))) return false;
    if (is_folder) {
        x->root = x->name;
        if (!qc_folder_list(&x->folder, path, QC_FILE_IMAGE, x->options.follow, a, st)) return false;
    } else {
        x->root = "";
        x->folder.files = QC_NEW_ARRAY(a, const char *, 1, st);
        if (!x->folder.files || !(x->folder.files[0] = qc_arena_strdup(a, path, st))) return false;
        x->folder.count = 1;
    }
    x->count = x->folder.count;
    x->rows = QC_NEW_ARRAY(a, uint32_t, x->count, st);
    x->states = QC_NEW_ARRAY(a, unsigned char, x->count, st);
    unsigned char **kept = QC_NEW_ARRAY(a, unsigned char *, x->count, st);
    if (!x->rows || !x->states || !kept) {
        x->folder.count = 0;
        return false;
    }
    x->kept = kept;
    for (size_t i = 0; i < x->count; i++) x->rows[i] = (uint32_t)i;
    return true;
}

static bool add_labels(struct qc_memory_data *m, struct images *x, struct qc_status *st)
{
    static const struct qc_row_reader labels = {.read = read_file_labels, .free = drop};
    const int64_t count = (int64_t)x->count;
    const struct qc_array array = {.name = "labels", .dtype = QC_I64, .rank = 1, .dims = &count};
    if (!x->labels && !x->folder.class_count) return true;
    if (!qc_memory_data_storage(m, x->labels ? "of a table" : "names of folders", st)) return false;
    x->users++;
    return qc_memory_data_add_reader(m, &array, &labels, x, st);
}

static bool add_arrays(struct qc_memory_data *m, struct images *x, const char *name, struct qc_status *st)
{
    static const struct qc_row_reader pixels = {.read = read_pixels, .check = check, .free = drop};
    char storage[200];
    int64_t dims[4] = {(int64_t)x->count, x->plan.dims[0], x->plan.dims[1], x->plan.dims[2]};
    const struct qc_array array = {.name = name, .dtype = QC_U8, .rank = x->plan.rank + 1, .dims = dims};
    if (!qc_memory_data_storage(m, qc_text(storage, sizeof storage, "images, %s", x->plan.text), st)) return false;
    x->users++;
    return qc_memory_data_add_reader(m, &array, &pixels, x, st) && add_labels(m, x, st);
}

/* For a list only: without a model the shape of the pixels is not known. */
static bool list_images(struct qc_memory_data *m, struct images *x, struct qc_status *st)
{
    const int64_t count = (int64_t)x->count;
    const struct qc_array files = {.name = "input", .rank = 1, .dims = &count};
    return qc_memory_data_storage(m, "files", st) && qc_memory_data_add_unread(m, &files, "images", st) &&
           add_labels(m, x, st);
}

bool qc_read_images(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st)
{
    const struct qc_input_spec *input;
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct images *x = QC_NEW(a, struct images, st);
    if (!x) {
        qc_arena_free(a);
        return false;
    }
    x->users = 1; /* held by this function */
    x->arena = a;
    x->options = *call->options;
    x->budget.memory_limit = call->options->memory_limit;
    bool ok = qc_data_folder_input(&input, call, st) && list_labelled(x, call->path, call->is_folder, st);
    if (ok && !input && !call->options->image) {
        ok = list_images(m, x, st);
        drop(x);
        return ok;
    }
    ok = ok && qc_image_plan_make(&x->plan, call->options->image, input, st) &&
         qc_image_processes_new(&x->processes, &x->plan, x->root, x->folder.files, &x->budget, st);
    if (ok && x->options.labels) {
        x->labels = QC_NEW_ARRAY(a, int64_t, x->count, st);
        ok = x->labels && qc_label_file_read(x->labels, x->options.labels, x->folder.files, x->count, st);
    }
    if (ok && x->folder.others)
        qc_data_warn(call->options, "%s: %zu file%s no JPEG, PNG or WebP and left out (%s)", call->path,
                     x->folder.others, x->folder.others == 1 ? " is" : "s are", x->folder.first_other);
    ok = ok && add_arrays(m, x, input ? input->name : "input", st);
    drop(x);
    return ok;
}
