// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/data_reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "datasets/hdf5/hdf5_lib.h"

/* Arguments of a request about a set. */
struct qc_set_arguments {
    int64_t set, first, count;
    char name[32];
};

/* ---- In the other process ---- */

enum { OPEN_SETS_MAX = 1 << 14 };

/* The objects it has open; nothing is closed before the process ends. */
struct open_file {
    struct qc_h5_file *file;
    struct qc_h5_set *sets[OPEN_SETS_MAX];
    int64_t count;
};

struct open_arguments {
    enum qc_follow follow;
    char path[];
};

static bool append_reply(struct qc_reply *out, const void *data, size_t size, struct qc_status *st)
{
    void *p = qc_reply_add(out, size, st);
    if (p && size) memcpy(p, data, size);
    return p != NULL;
}

static bool put_text(struct qc_reply *out, const char *text, struct qc_status *st)
{
    const size_t size = strlen(text) + 1;
    return append_reply(out, &size, sizeof size, st) && append_reply(out, text, size, st);
}

static bool work_open(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_arguments *a = arguments;
    struct open_file *o = calloc(1, sizeof *o);
    char *path = o ? strdup(a->path) : NULL;
    if (!path) return qc_fail_memory(st, sizeof *o);
    *state = o;
    return qc_h5_open(&o->file, path, a->follow, st);
}

static bool work_list(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_file *o = *state;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_data_list list;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_h5_list(&list, o->file, a, st) && append_reply(out, &list.count, sizeof list.count, st);
    for (size_t i = 0; ok && i < list.count; i++) {
        const struct qc_data_entry *e = &list.entries[i];
        ok = append_reply(out, e, sizeof *e, st) && append_reply(out, e->dims, e->rank * sizeof *e->dims, st) &&
             put_text(out, e->name, st) && put_text(out, e->type, st) && put_text(out, e->storage, st);
        for (size_t k = 0; ok && k < e->attribute_count; k++)
            ok = put_text(out, e->attributes[k].name, st) && put_text(out, e->attributes[k].text, st);
    }
    return ok;
}

static bool work_is_marked(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_file *o = *state;
    QC_H5_LOCKED;
    const bool there = H5Aexists(o->file->id, arguments) > 0;
    return append_reply(out, &there, sizeof there, st);
}

static bool work_set(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    struct open_file *o = *state;
    if (o->count == OPEN_SETS_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "more than %d data sets are read", (int)OPEN_SETS_MAX);
    struct qc_h5_set *s = calloc(1, sizeof *s);
    if (!s) return qc_fail_memory(st, sizeof *s);
    if (!qc_h5_set_open(s, o->file, arguments, st)) return false;
    o->sets[o->count] = s;
    struct qc_h5_set told = *s;
    told.id = ++o->count;
    return append_reply(out, &told, sizeof told, st) &&
           (!s->sizes || append_reply(out, s->sizes, (size_t)s->dims[0] * (s->rank - 1) * sizeof *s->sizes, st));
}

static bool work_rows(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_file *o = *state;
    const struct qc_set_arguments *a = arguments;
    const struct qc_h5_set *s = o->sets[a->set - 1];
    size_t bytes;
    if (!qc_mul_size(&bytes, (size_t)a->count, s->row_bytes)) return qc_fail_memory(st, s->row_bytes);
    if (s->sizes && a->count == 1) bytes = qc_h5_entry_bytes(s, a->first);
    void *rows = qc_reply_add(out, bytes, st);
    return rows && qc_h5_read_rows(rows, s, a->first, a->count, st);
}

static bool work_chunks(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_file *o = *state;
    const struct qc_set_arguments *a = arguments;
    const size_t count = (size_t)a->count;
    struct qc_h5_chunk c;
    size_t table;
    if (!qc_mul_size(&table, count, sizeof c)) return qc_fail_memory(st, count);
    void *p = qc_reply_add(out, table, st);
    if (!p) return false;
    memset(p, 0, table);
    for (size_t i = 0; i < count; i++) {
        const struct qc_h5_set *s = o->sets[a->set - 1];
        const int64_t row = a->first + (int64_t)i;
        c = (struct qc_h5_chunk){.at = out->size};
        if (!qc_h5_chunk_bytes(&c.size, s, row, st)) return false;
        void *to = c.size ? qc_reply_add(out, c.size, st) : NULL;
        if (c.size && (!to || !qc_h5_read_chunk(to, &c.mask, s, row, st))) return false;
        memcpy((struct qc_h5_chunk *)out->data + i, &c, sizeof c);
    }
    return true;
}

static bool work_numbers(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_file *o = *state;
    const struct qc_set_arguments *a = arguments;
    long double *values = NULL;
    size_t count;
    const bool ok = qc_h5_numbers(&values, &count, o->sets[a->set - 1], a->name, st) &&
                    append_reply(out, values, count * sizeof *values, st);
    free(values);
    return ok;
}

static bool work_text(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    const struct open_file *o = *state;
    const struct qc_set_arguments *a = arguments;
    char *text = NULL;
    const bool ok =
        qc_h5_text(&text, o->sets[a->set - 1], a->name, st) && (!text || append_reply(out, text, strlen(text) + 1, st));
    free(text);
    return ok;
}

/* ---- Here ---- */

/* Windows of rows for sequential reading: larger pieces are requested at once, and the next ones are read in the
   background, since a request costs as much as some kilobytes. */

/* The source of rows: the process, and the request for rows or for their chunks. */
struct qc_row_source {
    struct qc_process *process;
    qc_work *work; /* with struct qc_set_arguments */
    const struct qc_h5_set *set;
    size_t file_size;
    bool no_more; /* no reading ahead, as memory is scarce */
};

struct qc_row_window {
    int64_t first, count; /* rows in this window */
    struct qc_reply bytes;
};

/* All 0 at first; must not move. Not thread safe. */
struct qc_row_windows {
    struct qc_row_window there[2], alone; /* the newer window first; `alone`: rows before the windows */
    int64_t next;                         /* the row after the last request, */
    int64_t ahead;                        /* and its number of rows, which doubles each time */
    struct qc_later later;                /* the next window, */
    int64_t first, count;                 /* and its rows; count 0: none is requested */
};

struct qc_reader {
    struct qc_process *process;
    size_t size;          /* of the file: bounds the work of a request */
    size_t stored;        /* most bytes of stored values; SIZE_MAX: other files are read too */
    pthread_mutex_t lock; /* of the windows */
    struct open_set {
        struct qc_row_windows rows, chunks;
        int64_t *sizes; /* shapes of its entries, or NULL */
    } * *sets;          /* of set `id` at id - 1 */
    int64_t count;
    atomic_bool no_ahead;
};

/* Size of a window: bytes, and for small rows a least and most number of rows. LATE_ROWS: a row at most this far before
   the windows is asked for by a late thread; it does not begin another pass. */
enum { WINDOW_BYTES = 1 << 18, ROWS_LEAST = 4, ROWS_MOST = 1 << 10, LATE_ROWS = 16 };

/* Reads exactly these rows. */
static bool rows_ask(struct qc_reply *out, const struct qc_row_source *from, int64_t first, int64_t count,
                     struct qc_status *st)
{
    const struct qc_set_arguments a = {.set = from->set->id, .first = first, .count = count};
    return qc_process_ask(out, from->process, from->work, &a, sizeof a,
                          (size_t)count * from->set->row_bytes + from->file_size / 16, st);
}

static void row_windows_free(struct qc_row_windows *w)
{
    free(w->there[0].bytes.data);
    free(w->there[1].bytes.data);
    free(w->alone.bytes.data);
    free(w->later.reply.data);
}

/* Returns true if so many rows are too large to share a window. */
static bool rows_are_large(const struct qc_h5_set *s, size_t count)
{
    return s->row_bytes > WINDOW_BYTES / count;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the most rows of a window. */
static int64_t rows_that_fit(const struct qc_h5_set *s)
{
    const size_t rows = s->row_bytes ? WINDOW_BYTES / s->row_bytes : ROWS_MOST;
    return rows < ROWS_LEAST ? ROWS_LEAST : rows > ROWS_MOST ? ROWS_MOST : (int64_t)rows;
}

static bool has_rows(const struct qc_row_window *w, int64_t first, int64_t count)
{
    return first >= w->first && count <= w->count && first - w->first <= w->count - count;
}

static bool ask_window(struct qc_row_window *w, const struct qc_row_source *from, int64_t first, int64_t count,
                       struct qc_status *st)
{
    w->count = 0;
    if (!rows_ask(&w->bytes, from, first, count, st)) return false;
    w->first = first;
    w->count = count;
    return true;
}

/* Replaces the older of the two windows. */
static struct qc_row_window *newest(struct qc_row_windows *w)
{
    const struct qc_row_window older = w->there[1];
    w->there[1] = w->there[0];
    w->there[0] = older;
    return &w->there[0];
}

static void read_next(struct qc_row_windows *w, const struct qc_row_source *from)
{
    const struct qc_h5_set *s = from->set;
    const int64_t count = least(least(w->ahead * 2, rows_that_fit(s)), s->dims[0] - w->next);
    const struct qc_set_arguments a = {.set = s->id, .first = w->next, .count = count};
    if (count > 0 && !from->no_more &&
        qc_process_begin(&w->later, from->process, from->work, &a, sizeof a,
                         (size_t)count * s->row_bytes + from->file_size / 16)) {
        w->first = w->next;
        w->count = count;
    }
}

static void note_window(struct qc_row_windows *w, const struct qc_row_window *now)
{
    w->ahead = now->count;
    w->next = now->first + now->count;
}

/* Takes the window that was read ahead; returns false if it could not be read. */
static bool take_next(struct qc_row_windows *w, const struct qc_row_source *from)
{
    const bool there = qc_process_wait(&w->later, from->process);
    const int64_t first = w->first, count = w->count;
    w->count = 0;
    if (!there) return false;
    struct qc_row_window *now = newest(w);
    const struct qc_reply spare = now->bytes;
    *now = (struct qc_row_window){.first = first, .count = count, .bytes = w->later.reply};
    w->later.reply = spare;
    note_window(w, now);
    read_next(w, from);
    return true;
}

/* Returns a window with these rows, valid until the next call. Fails with QC_BAD_INPUT if they cannot be read. */
static bool row_windows_get(const struct qc_row_window **out, struct qc_row_windows *w,
                            const struct qc_row_source *from, int64_t first, int64_t count, struct qc_status *st)
{
    const struct qc_row_window next = {.first = w->first, .count = w->count},
                               *oldest = &w->there[w->there[1].count > 0];
    *out = &w->there[0];
    if (has_rows(*out, first, count) || (has_rows(&next, first, count) && take_next(w, from))) return true;
    if (has_rows(&w->there[1], first, count)) return (*out = &w->there[1]);
    if (first < oldest->first && oldest->first - first <= LATE_ROWS)
        return ask_window(&w->alone, from, first, count, st) && (*out = &w->alone);
    /* Reads the rows; if they are read in order, also the rows after them. */
    const bool goes_on = first == w->next && first > 0 && !from->no_more;
    int64_t more = goes_on ? least(w->ahead * 2, rows_that_fit(from->set)) : count;
    more = least(more, from->set->dims[0] - first);
    more = more > count ? more : count;
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_row_window *now = newest(w);
    bool ok = ask_window(now, from, first, more, more > count ? &ignored : st);
    /* A row that was not asked for may be damaged. */
    if (!ok && more > count) ok = ask_window(now, from, first, count, st);
    if (!ok) return false;
    note_window(w, now);
    if (goes_on) read_next(w, from);
    return true;
}

static bool nonsense(struct qc_status *st)
{
    return qc_fail(
        st, QC_BAD_INPUT,
        "the HDF5 library cannot read it: its content makes no sense; the file is damaged, make or copy it again");
}

/* Returns the bytes that are not in holes. If the file cannot be opened, the reading process reports why. */
static size_t stored_file_bytes(const char *path, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const uint64_t stored = fd < 0 ? size : qc_stored_bytes(fd);
    if (fd >= 0) close(fd);
    return stored < size ? (size_t)stored : size;
}

bool qc_reader_open(struct qc_reader **out, const char *path, enum qc_follow follow, struct qc_status *st)
{
    const size_t length = strlen(path) + 1, size = sizeof(struct open_arguments) + length;
    struct qc_reader *r = calloc(1, sizeof *r);
    struct open_arguments *a = calloc(1, size);
    struct qc_reply none = {.data = NULL};
    bool ok = (r && a) || qc_fail_memory(st, size);
    if (ok) {
        struct stat info;
        pthread_mutex_init(&r->lock, NULL);
        r->size = stat(path, &info) == 0 ? (size_t)info.st_size : 0;
        r->stored = follow == QC_FOLLOW_NOTHING ? stored_file_bytes(path, r->size) : SIZE_MAX;
        a->follow = follow;
        memcpy(a->path, path, length);
        ok = qc_process_start(&r->process, &qc_process_hdf5, st) &&
             qc_process_ask(&none, r->process, work_open, a, size, r->size, st);
    }
    const bool begun = a != NULL;
    free(a);
    free(none.data);
    if (ok)
        *out = r;
    else if (!begun)
        free(r);
    else
        qc_reader_close(r);
    return ok;
}

void qc_reader_close(struct qc_reader *r)
{
    if (!r) return;
    qc_process_end(r->process);
    for (int64_t i = 0; i < r->count; i++) {
        row_windows_free(&r->sets[i]->rows);
        row_windows_free(&r->sets[i]->chunks);
        free(r->sets[i]->sizes);
        free(r->sets[i]);
    }
    free(r->sets);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* The unread part of an answer. */
struct rest {
    const char *at;
    size_t size;
};

static bool take_reply_part(void *out, struct rest *r, size_t size)
{
    if (r->size < size) return false;
    memcpy(out, r->at, size);
    r->at += size;
    r->size -= size;
    return true;
}

static const char *take_text(struct rest *r, struct qc_arena *a, struct qc_status *st)
{
    size_t size;
    if (!take_reply_part(&size, r, sizeof size) || size == 0 || size > r->size || r->at[size - 1]) return NULL;
    const char *text = qc_arena_strndup(a, r->at, size - 1, st);
    r->at += size;
    r->size -= size;
    return text;
}

static bool take_entry(struct qc_data_entry *e, struct rest *r, struct qc_arena *a, struct qc_status *st)
{
    if (!take_reply_part(e, r, sizeof *e) || e->rank > QC_DATA_RANK_MAX || e->dtype >= QC_DTYPE_COUNT ||
        e->attribute_count > r->size)
        return false;
    int64_t *dims = QC_NEW_ARRAY(a, int64_t, e->rank + 1, st);
    struct qc_data_attribute *attributes = QC_NEW_ARRAY(a, struct qc_data_attribute, e->attribute_count, st);
    if (!dims || !attributes || !take_reply_part(dims, r, e->rank * sizeof *dims)) return false;
    for (unsigned i = 0; i < e->rank; i++)
        if (dims[i] < (i ? -1 : 0)) return false; /* -1: differs from entry to entry */
    e->dims = dims;
    e->attributes = attributes;
    e->name = take_text(r, a, st);
    e->type = take_text(r, a, st);
    e->storage = take_text(r, a, st);
    bool ok = e->name && e->type && e->storage;
    for (size_t k = 0; ok && k < e->attribute_count; k++) {
        attributes[k].name = take_text(r, a, st);
        attributes[k].text = take_text(r, a, st);
        ok = attributes[k].name && attributes[k].text;
    }
    return ok;
}

bool qc_reader_list(struct qc_data_list *out, struct qc_reader *r, struct qc_arena *a, struct qc_status *st)
{
    struct qc_reply reply = {.data = NULL};
    struct qc_data_entry *entries = NULL;
    size_t count = 0;
    bool ok = qc_process_ask(&reply, r->process, work_list, "", 1, r->size, st);
    struct rest rest = {.at = reply.data, .size = reply.size};
    if (ok) {
        ok = take_reply_part(&count, &rest, sizeof count) && count <= QC_H5_SETS_MAX &&
             (entries = QC_NEW_ARRAY(a, struct qc_data_entry, count, st));
        for (size_t i = 0; ok && i < count; i++) ok = take_entry(&entries[i], &rest, a, st);
        if (!ok) nonsense(st);
    }
    free(reply.data);
    if (ok) *out = (struct qc_data_list){.entries = entries, .count = count};
    return ok;
}

bool qc_reader_is_marked(bool *out, struct qc_reader *r, const char *name, struct qc_status *st)
{
    unsigned char there = 0;
    struct qc_reply reply = {.data = &there, .capacity = sizeof there, .fixed = true};
    if (!qc_process_ask(&reply, r->process, work_is_marked, name, strlen(name) + 1, r->size, st)) return false;
    *out = there == 1;
    return true;
}

/* Recomputes the sizes of an answered set, since memory is allocated by them. sizes: shapes of the entries, `size`
   bytes; may be NULL. */
static bool check_set(struct qc_h5_set *s, int64_t *sizes, size_t size)
{
    const size_t rank = s->rank;
    size_t bytes;
    bool same = true;
    s->ragged = NULL;
    s->sizes = NULL;
    if (rank == 0 || rank > QC_DATA_RANK_MAX || s->dtype == QC_NONE || s->dtype >= QC_DTYPE_COUNT || s->dims[0] < 0)
        return false;
    s->element = qc_dtype_size(s->dtype);
    s->row_elements = 1;
    if (sizes) {
        if (!qc_mul_size(&bytes, (size_t)s->dims[0], (rank - 1) * sizeof *sizes) || bytes != size ||
            !qc_entry_sizes(s->dims + 1, &s->row_elements, &same, sizes, (size_t)s->dims[0], s->rank - 1))
            return false;
        if (!same) s->sizes = sizes;
    }
    for (size_t i = 1; same && !sizes && i < rank; i++)
        if (s->dims[i] < 0 || !qc_mul_size(&s->row_elements, s->row_elements, (size_t)s->dims[i])) return false;
    return qc_mul_size(&s->row_bytes, s->row_elements, s->element);
}

bool qc_reader_set(struct qc_h5_set *out, struct qc_reader *r, const char *name, struct qc_status *st)
{
    struct qc_h5_set s = {.id = 0};
    struct qc_reply reply = {.data = NULL};
    int64_t *sizes = NULL;
    bool ok = qc_process_ask(&reply, r->process, work_set, name, strlen(name) + 1, r->size, st) &&
              (reply.size >= sizeof s || nonsense(st));
    if (ok) memcpy(&s, reply.data, sizeof s);
    const size_t bytes = ok ? reply.size - sizeof s : 0; /* of the entries' shapes, which follow */
    if (bytes && (sizes = malloc(bytes)))
        memcpy(sizes, (char *)reply.data + sizeof s, bytes);
    else if (bytes)
        ok = qc_fail_memory(st, bytes);
    ok = ok && (check_set(&s, sizes, bytes) || nonsense(st));
    free(reply.data);
    pthread_mutex_lock(&r->lock);
    struct open_set **more = ok && s.id == r->count + 1 ? realloc(r->sets, (size_t)s.id * sizeof *more) : NULL;
    if (more) {
        r->sets = more;
        if ((r->sets[r->count] = calloc(1, sizeof **more)))
            r->sets[r->count++]->sizes = sizes;
        else
            more = NULL;
    }
    pthread_mutex_unlock(&r->lock);
    if (!more) free(sizes);
    if (ok && !more) return s.id == r->count + 1 ? qc_fail_memory(st, sizeof *more) : nonsense(st);
    if (s.stored > r->stored) s.stored = r->stored;
    if (ok) *out = s;
    return ok;
}

bool qc_reader_rows(void *out, struct qc_reader *r, const struct qc_h5_set *s, int64_t first, int64_t count,
                    struct qc_status *st)
{
    const size_t bytes = count == 1 ? qc_h5_entry_bytes(s, first) : (size_t)count * s->row_bytes; /* the caller's buffer
                                                                                                     is as large */
    const struct qc_row_source from = {
        .process = r->process, .work = work_rows, .set = s, .file_size = r->size, .no_more = r->no_ahead};
    if (s->sizes || rows_are_large(s, (size_t)count)) {
        struct qc_reply direct = {.data = out, .capacity = bytes, .fixed = true};
        return rows_ask(&direct, &from, first, count, st) && (direct.size == bytes || nonsense(st));
    }
    const struct qc_row_window *w;
    pthread_mutex_lock(&r->lock);
    bool ok = row_windows_get(&w, &r->sets[s->id - 1]->rows, &from, first, count, st);
    if (ok) ok = w->bytes.size == (size_t)w->count * s->row_bytes || nonsense(st);
    if (ok && bytes) memcpy(out, (char *)w->bytes.data + (size_t)(first - w->first) * s->row_bytes, bytes);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* Reads entry i of the table at the front of an answer with chunks. */
static bool chunk_at(struct qc_h5_chunk *out, const struct qc_reply *bytes, size_t i, struct qc_status *st)
{
    if (bytes->size / sizeof *out <= i) return nonsense(st);
    memcpy(out, (struct qc_h5_chunk *)bytes->data + i, sizeof *out);
    return (out->at <= bytes->size && out->size <= bytes->size - out->at) || nonsense(st);
}

bool qc_reader_chunks(void **data, size_t *capacity, struct qc_h5_chunk *where, struct qc_reader *r,
                      const struct qc_h5_set *s, int64_t first, size_t count, struct qc_status *st)
{
    const struct qc_row_source from = {
        .process = r->process, .work = work_chunks, .set = s, .file_size = r->size, .no_more = r->no_ahead};
    struct qc_reply to = {.data = *data, .capacity = *capacity};
    bool ok;
    if (rows_are_large(s, count)) {
        ok = rows_ask(&to, &from, first, (int64_t)count, st);
        for (size_t i = 0; ok && i < count; i++) ok = chunk_at(&where[i], &to, i, st);
    } else {
        const struct qc_row_window *w;
        pthread_mutex_lock(&r->lock);
        ok = row_windows_get(&w, &r->sets[s->id - 1]->chunks, &from, first, (int64_t)count, st);
        for (size_t i = 0; ok && i < count; i++) {
            ok = chunk_at(&where[i], &w->bytes, (size_t)(first - w->first) + i, st);
            const size_t at = where[i].at;
            where[i].at = to.size;
            ok = ok && append_reply(&to, (char *)w->bytes.data + at, where[i].size, st);
        }
        pthread_mutex_unlock(&r->lock);
    }
    *data = to.data;
    *capacity = to.capacity;
    return ok;
}

size_t qc_reader_ahead_bytes(const struct qc_reader *r, const struct qc_h5_set *s, size_t count)
{
    if (r->no_ahead || s->sizes || rows_are_large(s, count)) return 0;
    return 4 * (size_t)least(rows_that_fit(s), s->dims[0]) * s->row_bytes; /* 2 windows, the next, the shared memory */
}

void qc_reader_no_ahead(struct qc_reader *r)
{
    r->no_ahead = true;
}

bool qc_reader_numbers(long double **values, size_t *count, struct qc_reader *r, const struct qc_h5_set *s,
                       const char *name, struct qc_status *st)
{
    struct qc_set_arguments a = {.set = s->id};
    struct qc_reply reply = {.data = NULL};
    qc_text(a.name, sizeof a.name, "%s", name);
    bool ok = qc_process_ask(&reply, r->process, work_numbers, &a, sizeof a, r->size, st);
    if (ok && reply.size % sizeof **values) ok = nonsense(st);
    *count = ok ? reply.size / sizeof **values : 0;
    if (ok && *count)
        *values = reply.data;
    else
        free(reply.data);
    return ok;
}

bool qc_reader_text(const char **text, struct qc_reader *r, const struct qc_h5_set *s, const char *name,
                    struct qc_arena *a, struct qc_status *st)
{
    struct qc_set_arguments arguments = {.set = s->id};
    struct qc_reply reply = {.data = NULL};
    qc_text(arguments.name, sizeof arguments.name, "%s", name);
    *text = NULL;
    bool ok = qc_process_ask(&reply, r->process, work_text, &arguments, sizeof arguments, r->size, st);
    if (ok && reply.size) ok = (*text = qc_arena_strndup(a, reply.data, reply.size - 1, st)) != NULL;
    free(reply.data);
    return ok;
}
