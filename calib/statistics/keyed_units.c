// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/keyed_units.h"

#include <stdlib.h>

struct hashing {
    const struct qc_dataset *data;
    size_t inputs;
    struct qc_keyed_unit *units;
};

static bool hash_unit(void *user, size_t unit, unsigned worker, struct qc_status *st)
{
    const struct hashing *h = user;
    struct qc_dataset_scratch *scratch = NULL;
    uint64_t key = 0;
    (void)worker;
    if (h->units[unit].key) return true;
    bool ok = qc_dataset_scratch_new(&scratch, st);
    for (size_t i = 0; ok && i < h->inputs; i++) {
        const size_t bytes = qc_dataset_unit_bytes(h->data, i, unit);
        void *x = malloc(bytes + 1);
        ok = x ? qc_dataset_read(x, h->data, i, unit, scratch, st) : qc_fail_memory(st, bytes);
        if (ok) key = qc_stream_key(key, x, bytes);
        free(x);
    }
    qc_dataset_scratch_free(scratch);
    h->units[unit].key = key;
    return ok;
}

static int by_key(const void *x, const void *y)
{
    const struct qc_keyed_unit *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return (a->unit > b->unit) - (a->unit < b->unit);
}

bool qc_keyed_units(struct qc_keyed_unit **out, const struct qc_dataset *data, size_t inputs, const uint64_t *keys,
                    unsigned workers, struct qc_arena *a, struct qc_status *st)
{
    const size_t count = qc_dataset_units(data);
    struct hashing h = {.data = data, .inputs = inputs, .units = QC_NEW_ARRAY(a, struct qc_keyed_unit, count, st)};
    const struct qc_pool_options pool = {.workers = workers};
    if (!h.units) return false;
    for (size_t u = 0; u < count; u++) h.units[u] = (struct qc_keyed_unit){.key = keys ? keys[u] : 0, .unit = u};
    if (!qc_pool_run(count, hash_unit, &h, &pool, st)) return false;
    if (count) qsort(h.units, count, sizeof *h.units, by_key);
    *out = h.units;
    return true;
}
