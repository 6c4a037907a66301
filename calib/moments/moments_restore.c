// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "calib/moments/moments_parts.h"

/* Returns true if a layer can have these sizes; sizes computed from them then do not overflow. */
static bool plausible(const struct qc_second_moments_layer *l)
{
    size_t columns, row, bytes;
    if (!l->groups || !l->outputs || !l->channels || !l->taps || !l->block || l->block > QC_MOMENTS_BLOCK ||
        l->channels % l->groups || l->outputs % l->groups)
        return false;
    return qc_mul_size(&columns, l->taps, l->channels / l->groups) && qc_mul_size(&row, columns, l->groups) &&
           qc_mul_size(&bytes, row, sizeof(int64_t) * (QC_MOMENTS_BLOCK + QC_MOMENTS_TILE)) && l->block <= columns &&
           (l->block == columns || l->block >= QC_MOMENTS_BLOCK_MIN / 2);
}

bool qc_second_moments_restore(struct qc_second_moments **out, size_t count,
                               const struct qc_second_moments_layer *layers, struct qc_status *st)
{
    struct qc_second_moments *m = NULL;
    bool ok = qc_second_moments_make(&m, count, st);
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_second_moments_layer *l = QC_NEW_ARRAY(m->arena, struct qc_second_moments_layer, 1, st);
        const char *name = qc_arena_strdup(m->arena, layers[i].name, st),
                   *geometry = qc_arena_strdup(m->arena, layers[i].geometry, st);
        if (!l || !name || !geometry) {
            ok = false;
            break;
        }
        *l = (struct qc_second_moments_layer){.name = name,
                                              .geometry = geometry,
                                              .groups = layers[i].groups,
                                              .outputs = layers[i].outputs,
                                              .channels = layers[i].channels,
                                              .taps = layers[i].taps,
                                              .block = layers[i].block};
        if (plausible(l) && !qc_second_moments_find(m, l))
            qc_second_moments_lay_out(l, l->block);
        else
            ok = qc_fail(st, QC_BAD_INPUT, "the second moments of '%s' have invalid sizes", name);
        if (!ok || l->block != layers[i].block) {
            ok = ok && qc_fail(st, QC_BAD_INPUT, "the second moments of '%s' have invalid blocks", name);
            break;
        }
        ok = qc_second_moments_append(m, l, st);
        if (!ok) break;
        pthread_mutex_init(&m->locks[m->count - 1], NULL);
    }
    if (ok)
        *out = m;
    else
        qc_second_moments_free(m);
    return ok;
}

bool qc_second_moments_merge(struct qc_second_moments *to, const struct qc_second_moments *from, struct qc_status *st)
{
    if (to->count != from->count)
        return qc_fail(st, QC_BAD_INPUT, "holds second moments of %zu layers, expected %zu: made with other options",
                       from->count, to->count);
    for (size_t i = 0; i < to->count; i++) {
        if (!qc_second_moments_same(to->layers[i], from->layers[i]))
            return qc_fail(st, QC_BAD_INPUT, "holds second moments of other layers: of '%s' (%s), expected '%s' (%s)",
                           from->layers[i]->name, from->layers[i]->geometry, to->layers[i]->name,
                           to->layers[i]->geometry);
        if (!qc_second_moments_add(to->layers[i], from->layers[i], st)) return false;
    }
    return true;
}

/* Takes the sums of `from` without a copy. */
static void take_parts(struct qc_second_moments_layer *l, const struct qc_second_moments_layer *from)
{
    qc_second_moments_lay_out(l, from->block);
    memcpy(l->parts, from->parts, sizeof l->parts);
    l->divisor = from->divisor;
    l->borrowed = from->borrowed;
}

bool qc_second_moments_bind(struct qc_second_moments **out, struct qc_second_moments *seen, const struct qc_graph *g,
                            const char *source, struct qc_status *st)
{
    struct qc_second_moments *m = NULL;
    bool ok = qc_second_moments_new(&m, g, QC_MOMENTS_QUANTIZED, 0, st);
    for (size_t i = 0; ok && i < m->count; i++) {
        struct qc_second_moments_layer *l = m->layers[i], *from = qc_second_moments_find(seen, l);
        if (!from && l->recurrent) continue; /* statistics may come from a version without recurrent layers */
        if (!from) {
            ok = qc_fail(st, QC_BAD_INPUT,
                         "%s: has no second moments of tensor '%s' (%s); collect again with the same model, --rules "
                         "and --target",
                         source, l->name, l->geometry);
            break;
        }
        take_parts(l, from);
        memset(from->parts, 0, sizeof from->parts); /* moved */
    }
    if (ok) {
        *out = m;
        qc_second_moments_free(seen);
    } else {
        qc_second_moments_free(m);
    }
    return ok;
}

bool qc_second_moments_for(struct qc_second_moments **out, const struct qc_second_moments *m, const struct qc_graph *g,
                           struct qc_status *st)
{
    struct qc_second_moments *to = NULL;
    bool there = true, ok = qc_second_moments_new(&to, g, QC_MOMENTS_QUANTIZED, 0, st);
    *out = NULL;
    for (size_t i = 0; ok && there && i < to->count; i++) {
        const struct qc_second_moments_layer *from = qc_second_moments_find(m, to->layers[i]);
        there = from != NULL;
        if (there) take_parts(to->layers[i], from);
        if (there) to->layers[i]->borrowed = true;
    }
    if (ok && there)
        *out = to;
    else
        qc_second_moments_free(to);
    return ok;
}
