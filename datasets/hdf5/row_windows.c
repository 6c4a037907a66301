// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/row_windows.h"

#include <stdlib.h>

/* Size of a window: bytes, and for small rows a least and most number of rows. LATE_ROWS: a row at most this far before
   the windows is asked for by a late thread; it does not begin another pass. */
enum { WINDOW_BYTES = 1 << 18, ROWS_LEAST = 4, ROWS_MOST = 1 << 10, LATE_ROWS = 16 };

bool qc_rows_ask(struct qc_reply *out, const struct qc_row_source *from, int64_t first, int64_t count,
                 struct qc_status *st)
{
    const struct qc_set_arguments a = {.set = from->set->id, .first = first, .count = count};
    return qc_process_ask(out, from->process, from->work, &a, sizeof a,
                          (size_t)count * from->set->row_bytes + from->file_size / 16, st);
}

void qc_row_windows_free(struct qc_row_windows *w)
{
    free(w->there[0].bytes.data);
    free(w->there[1].bytes.data);
    free(w->alone.bytes.data);
    free(w->later.reply.data);
}

bool qc_rows_are_large(const struct qc_h5_set *s, size_t count)
{
    return s->row_bytes > WINDOW_BYTES / count;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the most rows of a window. */
static int64_t fit(const struct qc_h5_set *s)
{
    const size_t rows = s->row_bytes ? WINDOW_BYTES / s->row_bytes : ROWS_MOST;
    return rows < ROWS_LEAST ? ROWS_LEAST : rows > ROWS_MOST ? ROWS_MOST : (int64_t)rows;
}

size_t qc_row_windows_bytes(const struct qc_h5_set *s)
{
    return 4 * (size_t)least(fit(s), s->dims[0]) * s->row_bytes; /* two windows, the next one and the shared memory */
}

static bool has_rows(const struct qc_row_window *w, int64_t first, int64_t count)
{
    return first >= w->first && count <= w->count && first - w->first <= w->count - count;
}

static bool ask_window(struct qc_row_window *w, const struct qc_row_source *from, int64_t first, int64_t count,
                       struct qc_status *st)
{
    w->count = 0;
    if (!qc_rows_ask(&w->bytes, from, first, count, st)) return false;
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
    const int64_t count = least(least(w->ahead * 2, fit(s)), s->dims[0] - w->next);
    const struct qc_set_arguments a = {.set = s->id, .first = w->next, .count = count};
    if (count > 0 && !from->no_more &&
        qc_process_begin(&w->later, from->process, from->work, &a, sizeof a,
                         (size_t)count * s->row_bytes + from->file_size / 16)) {
        w->first = w->next;
        w->count = count;
    }
}

static void note(struct qc_row_windows *w, const struct qc_row_window *now)
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
    note(w, now);
    read_next(w, from);
    return true;
}

/* Reads rows; if they are read in order, also the rows after them. */
static bool fill(struct qc_row_windows *w, const struct qc_row_source *from, int64_t first, int64_t count,
                 struct qc_status *st)
{
    const bool goes_on = first == w->next && first > 0 && !from->no_more;
    int64_t more = goes_on ? least(w->ahead * 2, fit(from->set)) : count;
    more = least(more, from->set->dims[0] - first);
    more = more > count ? more : count;
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_row_window *now = newest(w);
    bool ok = ask_window(now, from, first, more, more > count ? &ignored : st);
    if (!ok && more > count)
        ok = ask_window(now, from, first, count, st); /* a row that was not asked for may be
                                                         damaged */
    if (!ok) return false;
    note(w, now);
    if (goes_on) read_next(w, from);
    return true;
}

bool qc_row_windows_get(const struct qc_row_window **out, struct qc_row_windows *w, const struct qc_row_source *from,
                        int64_t first, int64_t count, struct qc_status *st)
{
    const struct qc_row_window next = {.first = w->first, .count = w->count},
                               *oldest = &w->there[w->there[1].count > 0];
    *out = &w->there[0];
    if (has_rows(*out, first, count) || (has_rows(&next, first, count) && take_next(w, from))) return true;
    if (has_rows(&w->there[1], first, count))
        *out = &w->there[1];
    else if (first < oldest->first && oldest->first - first <= LATE_ROWS)
        return ask_window(&w->alone, from, first, count, st) && (*out = &w->alone);
    else
        return fill(w, from, first, count, st);
    return true;
}
