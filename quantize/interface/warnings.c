// SPDX-License-Identifier: Apache-2.0
#include "quantize/interface/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct warning {
    char *text;
    size_t times;
};

struct qc_warnings {
    struct warning *items;
    size_t count, room;
    bool lost;
};

bool qc_warnings_new(struct qc_warnings **out, struct qc_status *st)
{
    struct qc_warnings *w = calloc(1, sizeof *w);
    if (!w) return qc_fail_memory(st, sizeof *w);
    *out = w;
    return true;
}

void qc_warnings_free(struct qc_warnings *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->count; i++) free(w->items[i].text);
    free(w->items);
    free(w);
}

void qc_warn(struct qc_warnings *w, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->items[i].text, text) != 0) continue;
        w->items[i].times++;
        return;
    }
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 16;
        struct warning *items = realloc(w->items, room * sizeof *items);
        if (!items) {
            w->lost = true;
            return;
        }
        w->items = items;
        w->room = room;
    }
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (!copy) {
        w->lost = true;
        return;
    }
    memcpy(copy, text, size);
    w->items[w->count++] = (struct warning){.text = copy, .times = 1};
}

void qc_warnings_drop(struct qc_warnings *w, size_t from, size_t to)
{
    if (from == to) return;
    for (size_t i = from; i < to; i++) free(w->items[i].text);
    memmove(w->items + from, w->items + to, (w->count - to) * sizeof *w->items);
    w->count -= to - from;
}

bool qc_warnings_lost(const struct qc_warnings *w)
{
    return w->lost;
}

size_t qc_warnings_count(const struct qc_warnings *w)
{
    return w->count;
}

const char *qc_warnings_text(const struct qc_warnings *w, size_t i)
{
    return w->items[i].text;
}

size_t qc_warnings_times(const struct qc_warnings *w, size_t i)
{
    return w->items[i].times;
}

struct qc_json *qc_warnings_json(const struct qc_warnings *w)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < qc_warnings_count(w); i++) qc_json_add(list, qc_json_string(qc_warnings_text(w, i)));
    return list;
}
