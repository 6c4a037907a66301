// SPDX-License-Identifier: Apache-2.0
#include "simq/core/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_map.h"
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
    size_t map_count, map_capacity;
    struct qc_file_map **maps; /* [map_count]: of qc_packed_room */
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
    for (size_t i = 0; i < p->map_count; i++) qc_file_map_unref(p->maps[i]);
    free(p->maps);
    free(p->blocks);
    qc_index_free(&p->index);
    free(p);
}

bool qc_packed_take(void **out, size_t *added, struct qc_packed *p, const void *from, void *data, size_t bytes,
                    struct qc_status *st)
{
    /* Bytes are compared too, since kernels pack the same constant in different orders. */
    const uint64_t hash = qc_hash_number((uintptr_t)from);
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&p->index, hash, &slot));) {
        const struct block *b = &p->blocks[i - 1];
        if (b->from != from || b->bytes != bytes || memcmp(b->data, data, bytes) != 0) continue;
        free(data);
        *out = b->data;
        *added = 0;
        return true;
    }
    struct block *blocks = qc_grown(p->blocks, p->count, &p->capacity, sizeof *blocks, st);
    if (blocks) p->blocks = blocks;
    if (!blocks || !qc_index_add(&p->index, hash, (uint32_t)p->count + 1, st)) {
        free(data);
        return false;
    }
    p->blocks[p->count++] = (struct block){.from = from, .data = data, .bytes = bytes};
    *out = data;
    *added = bytes;
    return true;
}

bool qc_packed_room(void **out, struct qc_packed *p, size_t bytes, struct qc_status *st)
{
    struct qc_status full = QC_STATUS_INIT; /* not an error: the weights are read where they are */
    struct qc_file_map **maps = qc_grown(p->maps, p->map_count, &p->map_capacity, sizeof *maps, st);
    *out = NULL;
    if (!maps) return false;
    p->maps = maps;
    if (!qc_file_map_scratch(&maps[p->map_count], bytes, &full)) return true;
    *out = qc_file_map_room(maps[p->map_count++]);
    return true;
}
