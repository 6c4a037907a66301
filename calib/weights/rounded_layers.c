// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/rounded_layers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"

struct solved {
    struct qc_tensor *weight; /* a reference, so that no other tensor can get its address */
    char *moments;            /* name and geometry, concatenated */
    enum qc_op op;
    bool correctable, has_input;
    int32_t pair_limit; /* of the weight */
    enum qc_dtype type, input_type;
    float input_scale;
    int32_t input_zero_point;
    size_t scales;
    float *scale;
    int32_t *zero_point;
    struct qc_tensor *rounded;
    struct qc_round_weights_output *made;
    struct qc_rounded_weights result;
};

struct qc_rounded_layers {
    pthread_mutex_t lock;
    size_t count, capacity;
    struct solved **all;   /* [count] */
    struct qc_index index; /* by hash_of: index + 1 */
};

static void free_solved(struct solved *s)
{
    if (!s) return;
    qc_tensor_unref(s->weight);
    free(s->moments);
    free(s->scale);
    free(s->zero_point);
    qc_tensor_unref(s->rounded);
    free(s->made);
    free(s);
}

bool qc_rounded_layers_new(struct qc_rounded_layers **out, struct qc_status *st)
{
    struct qc_rounded_layers *r = calloc(1, sizeof *r);
    if (!r) return qc_fail_memory(st, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return true;
}

void qc_rounded_layers_free(struct qc_rounded_layers *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->count; i++) free_solved(r->all[i]);
    free(r->all);
    qc_index_free(&r->index);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void *copy(const void *of, size_t size)
{
    void *p = malloc(size ? size : 1);
    if (p && size) memcpy(p, of, size);
    return p;
}

/* Returns true if a layer can be cached. With several input scales, which are rare, it is solved again. */
static bool is_simple(const struct qc_round_weights_layer *l)
{
    return !l->quantized && !l->qparams->block && !l->qparams->bits && (!l->input || l->input->count <= 1);
}

static bool is_same(const struct solved *s, const struct qc_round_weights_layer *l)
{
    const struct qc_qparams *q = l->qparams, *in = l->input;
    const size_t n = strlen(l->moments->name);
    if (s->weight != l->weight || s->op != l->g->nodes[l->node].op || s->correctable != l->correctable ||
        s->type != q->dtype || s->pair_limit != q->pair_limit || s->scales != q->count || s->has_input != (in != NULL))
        return false;
    if (in && in->count &&
        (s->input_type != in->dtype || s->input_zero_point != in->zero_point[0] ||
         memcmp(&s->input_scale, &in->scale[0], sizeof(float)) != 0))
        return false;
    return strncmp(s->moments, l->moments->name, n) == 0 && strcmp(s->moments + n, l->moments->geometry) == 0 &&
           memcmp(s->scale, q->scale, q->count * sizeof *q->scale) == 0 &&
           memcmp(s->zero_point, q->zero_point, q->count * sizeof *q->zero_point) == 0;
}

static uint64_t hash_of(const struct qc_round_weights_layer *l)
{
    return qc_hash_bytes(qc_hash_number((uintptr_t)l->weight), l->moments->name, strlen(l->moments->name));
}

bool qc_rounded_layers_recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_layers *r,
                              struct qc_status *st)
{
    *known = false;
    if (!is_simple(l)) return true;
    pthread_mutex_lock(&r->lock);
    const struct solved *s = NULL;
    size_t slot = SIZE_MAX;
    for (uint32_t i; !s && (i = qc_index_next(&r->index, hash_of(l), &slot));)
        if (is_same(r->all[i - 1], l)) s = r->all[i - 1];
    pthread_mutex_unlock(&r->lock); /* entries are never removed */
    if (!s) return true;
    const struct qc_rounded_weights own = *l->result;
    l->rounded = qc_tensor_ref(s->rounded);
    l->made = copy(s->made, l->moments->outputs * sizeof *s->made);
    if (!l->made) return qc_fail_memory(st, l->moments->outputs * sizeof *s->made);
    *l->result = s->result;
    l->result->quantizer = own.quantizer;
    l->result->name = own.name;
    l->result->reason = own.reason;
    *known = true;
    return true;
}

/* The caller holds the lock. */
static bool add(struct qc_rounded_layers *r, struct solved *s, uint64_t hash, struct qc_status *st)
{
    struct solved **all = qc_grown(r->all, r->count, &r->capacity, sizeof(struct solved *), st);
    if (!all) return false;
    r->all = all;
    if (!qc_index_add(&r->index, hash, (uint32_t)r->count + 1, st)) return false;
    r->all[r->count++] = s;
    return true;
}

bool qc_rounded_layers_keep(struct qc_rounded_layers *r, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const struct qc_qparams *q = l->qparams, *in = l->input;
    const size_t name = strlen(l->moments->name), geometry = strlen(l->moments->geometry);
    if (!is_simple(l)) return true;
    struct solved *s = calloc(1, sizeof *s);
    if (!s) return qc_fail_memory(st, sizeof *s);
    *s = (struct solved){.weight = qc_tensor_ref(l->weight),
                         .moments = malloc(name + geometry + 1),
                         .op = l->g->nodes[l->node].op,
                         .correctable = l->correctable,
                         .has_input = in != NULL,
                         .type = q->dtype,
                         .pair_limit = q->pair_limit,
                         .scales = q->count,
                         .scale = copy(q->scale, q->count * sizeof *q->scale),
                         .zero_point = copy(q->zero_point, q->count * sizeof *q->zero_point),
                         .rounded = qc_tensor_ref(l->rounded),
                         .made = copy(l->made, l->moments->outputs * sizeof *l->made),
                         .result = *l->result};
    if (in && in->count) {
        s->input_type = in->dtype;
        s->input_scale = in->scale[0];
        s->input_zero_point = in->zero_point[0];
    }
    if (!s->moments || !s->scale || !s->zero_point || !s->made) {
        free_solved(s);
        return qc_fail_memory(st, l->moments->outputs * sizeof *l->made);
    }
    memcpy(s->moments, l->moments->name, name);
    memcpy(s->moments + name, l->moments->geometry, geometry + 1);
    pthread_mutex_lock(&r->lock);
    const bool kept = add(r, s, hash_of(l), st);
    pthread_mutex_unlock(&r->lock);
    if (!kept) free_solved(s);
    return kept;
}
