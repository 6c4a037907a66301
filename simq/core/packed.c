// SPDX-License-Identifier: Apache-2.0
#include "simq/core/packed.h"

#include <stdlib.h>
#include <string.h>

struct block {
    struct block *next;
    const void *from;
    void *data;
    size_t bytes;
};

struct qc_packed {
    struct block *first;
};

bool qc_packed_new(struct qc_packed **out, struct qc_status *st)
{
    *out = calloc(1, sizeof **out);
    return *out || qc_fail_memory(st, sizeof **out);
}

void qc_packed_free(struct qc_packed *p)
{
    while (p && p->first) {
        struct block *b = p->first;
        p->first = b->next;
        free(b->data);
        free(b);
    }
    free(p);
}

bool qc_packed_take(void **out, size_t *added, struct qc_packed *p, const void *from, void *data, size_t bytes,
                    struct qc_status *st)
{
    /* In which order it is packed shows in the bytes themselves. */
    for (struct block *b = p->first; b; b = b->next) {
        if (b->from != from || b->bytes != bytes || memcmp(b->data, data, bytes) != 0) continue;
        free(data);
        *out = b->data;
        *added = 0;
        return true;
    }
    struct block *b = malloc(sizeof *b);
    if (!b) {
        free(data);
        return qc_fail_memory(st, sizeof *b);
    }
    *b = (struct block){.next = p->first, .from = from, .data = data, .bytes = bytes};
    p->first = b;
    *out = data;
    *added = bytes;
    return true;
}
