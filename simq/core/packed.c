// SPDX-License-Identifier: Apache-2.0
#include "simq/core/packed.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"

struct block {
    const void *from;
    void *data;
    size_t bytes;
};

struct qc_packed {
    size_t count, capacity;
    struct block *blocks;  /* [count] */
    struct qc_index index; /* by `from`: index + 1 */
};

bool qc_packed_new(struct qc_packed **out, struct qc_status *st)
{
    *out = calloc(1, sizeof **out);
    return *out || qc_fail_memory(st, sizeof **out);
}

void qc_packed_free(struct qc_packed *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) free(p->blocks[i].data);
    free(p->blocks);
    qc_index_free(&p->index);
    free(p);
}

static bool add_block(struct qc_packed *p, const struct block *b, struct qc_status *st)
{
    struct block *blocks = qc_grown(p->blocks, p->count, &p->capacity, sizeof *blocks, st);
    if (!blocks) return false;
    p->blocks = blocks;
    if (!qc_index_add(&p->index, qc_hash_number((uintptr_t)b->from), (uint32_t)p->count + 1, st)) return false;
    p->blocks[p->count++] = *b;
    return true;
}

bool qc_packed_take(void **out, size_t *added, struct qc_packed *p, const void *from, void *data, size_t bytes,
                    struct qc_status *st)
{
    /* Bytes are compared too, since kernels pack the same constant in different orders. */
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&p->index, qc_hash_number((uintptr_t)from), &slot));) {
        const struct block *b = &p->blocks[i - 1];
        if (b->from != from || b->bytes != bytes || memcmp(b->data, data, bytes) != 0) continue;
        free(data);
        *out = b->data;
        *added = 0;
        return true;
    }
    if (!add_block(p, &(struct block){.from = from, .data = data, .bytes = bytes}, st)) {
        free(data);
        return false;
    }
    *out = data;
    *added = bytes;
    return true;
}
