// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/resident.h"
#include "graph/core/source_call.h"
#include "graph/core/uses.h"

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
    if (h->units[unit].key) return true;
    bool ok = qc_dataset_scratch_new(&scratch, st);
    if (ok) qc_dataset_scratch_passes(scratch);
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

/* ---- Order ---- */

struct sized {
    const int64_t *dims; /* of all inputs */
    size_t count;        /* of them */
    size_t elements, place;
};

static int by_size(const void *x, const void *y)
{
    const struct sized *a = x, *b = y;
    if (a->elements != b->elements) return a->elements > b->elements ? -1 : 1;
    for (size_t i = 0; i < a->count; i++)
        if (a->dims[i] != b->dims[i]) return a->dims[i] > b->dims[i] ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static size_t elements_of(const struct qc_dataset *data, size_t inputs, size_t unit)
{
    size_t all = 0;
    for (size_t i = 0; i < inputs; i++) {
        const size_t n = qc_dataset_unit_elements(data, i, unit);
        all = n > SIZE_MAX - all ? SIZE_MAX : all + n;
    }
    return all;
}

static size_t all_ranks(const struct qc_dataset *data, size_t inputs)
{
    const int64_t *dims;
    size_t n = 0;
    for (size_t i = 0; i < inputs; i++) n += qc_dataset_dims(&dims, data, i);
    return n;
}

/* Returns the number of units from `first` on that are sorted together. */
static size_t block(const struct sized *all, size_t first, size_t count, enum qc_order how)
{
    size_t n = 0, elements = 0;
    if (how == QC_ORDER_FREE) return count - first;
    while (first + n < count && n < QC_ORDER_UNITS && (n == 0 || elements <= QC_ORDER_BYTES / sizeof(float)))
        elements += all[first + n++].elements;
    return n;
}

bool qc_order_by_size(size_t **out, const struct qc_dataset *data, size_t inputs, const size_t *units, size_t count,
                      enum qc_order how, struct qc_status *st)
{
    const size_t each = all_ranks(data, inputs);
    struct sized *all = calloc(count + 1, sizeof *all);
    int64_t *dims = calloc(count * each + QC_DATA_RANK_MAX, sizeof *dims);
    size_t *order = malloc((count + 1) * sizeof *order);
    const bool ok = all && dims && order;
    for (size_t k = 0; ok && k < count; k++) {
        const size_t unit = units ? units[k] : k;
        int64_t *to = dims + k * each;
        all[k] = (struct sized){.dims = to, .count = each, .elements = elements_of(data, inputs, unit), .place = k};
        for (size_t i = 0; i < inputs; i++) to += qc_dataset_unit_dims(to, data, i, unit);
    }
    for (size_t k = 0, n; ok && k < count; k += n) {
        n = block(all, k, count, how);
        qsort(all + k, n, sizeof *all, by_size);
    }
    for (size_t k = 0; ok && k < count; k++) order[k] = all[k].place;
    free(all);
    free(dims);
    if (ok) {
        *out = order;
        return true;
    }
    free(order);
    return qc_fail_memory(st, count * sizeof *all);
}

/* ---- The largest ---- */

static void note(size_t *list, size_t *count, size_t unit)
{
    for (size_t i = 0; i < *count; i++)
        if (list[i] == unit) return;
    list[(*count)++] = unit;
}

size_t *qc_largest_units(size_t *count, const struct qc_dataset *data, size_t inputs, struct qc_arena *a,
                         struct qc_status *st)
{
    const size_t ranks = all_ranks(data, inputs), units = qc_dataset_units(data);
    size_t *list = QC_NEW_ARRAY(a, size_t, ranks + 1, st), *best = QC_NEW_ARRAY(a, size_t, ranks + 1, st), most = 0;
    int64_t *top = QC_NEW_ARRAY(a, int64_t, ranks + 1, st), dims[QC_DATA_RANK_MAX];
    const int64_t *known;
    *count = 0;
    if (!list || !best || !top) return NULL;
    for (size_t u = 0; u < units; u++) {
        const size_t n = elements_of(data, inputs, u);
        if (n > most) {
            most = n;
            best[ranks] = u;
        }
        for (size_t i = 0, at = 0; i < inputs; i++) {
            const unsigned rank = qc_dataset_unit_dims(dims, data, i, u);
            for (unsigned d = 0; d < rank; d++, at++)
                if (dims[d] > top[at]) {
                    top[at] = dims[d];
                    best[at] = u;
                }
        }
    }
    if (units) note(list, count, best[ranks]);
    for (size_t i = 0, at = 0; i < inputs; i++) {
        const unsigned rank = qc_dataset_dims(&known, data, i);
        for (unsigned d = 0; d < rank; d++, at++)
            if (known[d] < 0 && units) note(list, count, best[at]);
    }
    return list;
}

bool qc_overflows_new(struct qc_overflows *out, const struct qc_plan *p, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_status *st)
{
    struct qc_overflows o = {.count = qc_plan_overflow_count(p)};
    if (!(o.layers = QC_NEW_ARRAY(a, struct qc_layer_overflow, o.count, st))) return false;
    for (size_t k = 0; k < o.count; k++) {
        o.layers[k].node = qc_plan_overflow_node(p, k);
        if (!(o.layers[k].name = qc_node_name(g, &g->nodes[o.layers[k].node], a, st))) return false;
        struct qc_sums *s = &o.layers[k].sums;
        s->channels = qc_plan_overflow_channels(p, k);
        s->lowest = QC_NEW_ARRAY(a, int64_t, s->channels, st);
        s->highest = QC_NEW_ARRAY(a, int64_t, s->channels, st);
        if (!s->lowest || !s->highest) return false;
    }
    *out = o;
    return true;
}

/* Returns the bits of two's complement that hold v. */
static unsigned bits_of(int64_t v)
{
    unsigned bits = 1;
    for (uint64_t u = (uint64_t)(v < 0 ? ~v : v); u; u >>= 1) bits++;
    return bits;
}

/* Adds the sums of a runner of that plan. */
static void overflows_add(struct qc_overflows *o, const struct qc_runner *r)
{
    for (size_t k = 0; k < o->count; k++) {
        const struct qc_sums *from = qc_runner_sums(r, k);
        struct qc_layer_overflow *to = &o->layers[k];
        if (!from->results) continue;
        to->sums.results += from->results;
        to->sums.overflows += from->overflows;
        for (size_t c = 0; c < from->channels; c++) {
            int64_t *lo = &to->sums.lowest[c], *hi = &to->sums.highest[c];
            *lo = from->lowest[c] < *lo ? from->lowest[c] : *lo;
            *hi = from->highest[c] > *hi ? from->highest[c] : *hi;
            const unsigned low = bits_of(*lo), high = bits_of(*hi);
            if (low > to->bits) to->bits = low;
            if (high > to->bits) to->bits = high;
        }
    }
}

const struct qc_layer_overflow *qc_overflow_of(const struct qc_overflows *o, qc_id node)
{
    for (size_t k = 0; k < o->count; k++)
        if (o->layers[k].node == node) return &o->layers[k];
    return NULL;
}

/* Integer inputs that represent real numbers. */

/* Gives the scale and zero point of a dequantizing node. Returns false unless it has one known scale and zero point. */
static bool constant_parameters(float *scale, int32_t *zero_point, const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op == QC_OP_Dequantize) {
        const struct qc_qparams *s = qc_graph_parameters(g, n->inputs[0]);
        if (!s || s->kind != QC_QPARAMS_QUANTIZER || s->count != 1) return false;
        *scale = s->scale[0];
        *zero_point = s->zero_point[0];
        return true;
    }
    const struct qc_tensor *by = qc_constant_of(g, n->inputs[1]), *zero = NULL;
    const bool has_zero = n->input_count > 2 && n->inputs[2];
    if (has_zero) zero = qc_constant_of(g, n->inputs[2]);
    if (!by || by->count != 1 || by->dtype != QC_F32 || (has_zero && (!zero || zero->count != 1))) return false;
    *scale = (float)qc_tensor_float(by, 0);
    *zero_point = zero ? (int32_t)qc_tensor_int(zero, 0) : 0;
    return true;
}

static bool moves_elements(enum qc_op op)
{
    return op == QC_OP_Transpose || op == QC_OP_Reshape || op == QC_OP_Flatten || op == QC_OP_Squeeze ||
           op == QC_OP_Unsqueeze;
}

/* Returns true if all readers of v dequantize it with the same scale and zero point. *scale is 0 before the first
   reader. */
static bool read_as_real(float *scale, int32_t *zero_point, const struct qc_uses *u, qc_id v)
{
    const struct qc_graph *g = u->graph;
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        float s;
        int32_t z;
        if (readers.of[i].input != 0) return false;
        if (moves_elements(n->op)) {
            if (!read_as_real(scale, zero_point, u, n->outputs)) return false;
            continue;
        }
        if ((n->op != QC_OP_DequantizeLinear && n->op != QC_OP_Dequantize) || !constant_parameters(&s, &z, g, n) ||
            !(s > 0) || (*scale > 0 && (s != *scale || z != *zero_point)))
            return false;
        *scale = s;
        *zero_point = z;
    }
    return readers.count > 0;
}

/* Scale and zero point of inputs of 8 or 16 bits that only dequantizers with one constant scale read, all with the
   same; nodes that move elements may stand between. Part of qc_stream_specs. */
static bool stream_levels(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a,
                          struct qc_status *st)
{
    struct qc_uses uses;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const enum qc_dtype t = specs[i].dtype;
        float scale = 0;
        int32_t zero_point = 0;
        const bool narrow = t == QC_I8 || t == QC_U8 || t == QC_I16 || t == QC_U16;
        if (!narrow || !read_as_real(&scale, &zero_point, &uses, g->inputs[i].value)) continue;
        specs[i].scale = scale;
        specs[i].zero_point = zero_point;
    }
    return true;
}

/* Inputs of a decoder that can be made from its tokens. */

/* Returns true for a cache that is an input of an operator of ONNX Runtime, whatever integers it has. */
static bool is_of_operator(const struct qc_graph *g, qc_id v)
{
    for (size_t i = 0; i < g->call_count; i++) {
        const struct qc_source_call *c = &g->calls[i];
        if (qc_call_takes_caches(c) && (c->inputs[QC_CACHES_PAST] == v || c->inputs[QC_CACHES_PAST + 1] == v))
            return true;
    }
    return false;
}

/* Makes a cache without entries of the spec: the axis that grows has none, and other free dimensions are those of what
   is appended. Returns false, and leaves the spec, if nothing is appended to the input. */
static bool empty_cache(struct qc_input_spec *spec, const struct qc_uses *u, qc_id v, int64_t *dims)
{
    const struct qc_graph *g = u->graph;
    struct qc_cache cache = {.axis = 2};
    const bool appended = qc_cache_of(&cache, u, v);
    if (!appended && !is_of_operator(g, v)) return false;
    const struct qc_shape *by = appended ? &g->values[cache.joins->inputs[1]].type.shape : &g->values[v].type.shape;
    const unsigned axis = (unsigned)cache.axis;
    for (unsigned d = 0; d < spec->rank; d++) {
        dims[d] = d == axis ? QC_FREE : spec->dims[d];
        if (d == 0 || d == axis) continue;
        if (dims[d] < 0 && by->rank == (int)spec->rank) dims[d] = by->dim[d];
        if (dims[d] < 0) return false;
    }
    spec->dims = dims;
    spec->made = QC_MADE_EMPTY;
    return true;
}

/* Inputs of a decoder that can be made from its tokens: a cache of keys or values to which a Concat appends, and beside
   one `attention_mask` and `position_ids`. Free dimensions of a cache but batch and length become those of what is
   appended. Part of qc_stream_specs. */
static bool stream_past(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_uses uses;
    size_t caches = 0;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        int64_t *dims = QC_NEW_ARRAY(a, int64_t, specs[i].rank + 1, st);
        if (!dims) return false;
        caches += empty_cache(&specs[i], &uses, g->inputs[i].value, dims);
    }
    for (size_t i = 0; caches && i < g->input_count; i++) {
        const bool unread = qc_readers(&uses, g->inputs[i].value).count == 0;
        if (specs[i].rank == 0 && unread) specs[i].made = QC_MADE_ONES; /* only handed on: any number will do */
        if (specs[i].rank != 2 || specs[i].made != QC_MADE_NOT) continue;
        if (strcmp(specs[i].name, "attention_mask") == 0) specs[i].made = QC_MADE_ONES;
        if (strcmp(specs[i].name, "position_ids") == 0) specs[i].made = QC_MADE_POSITIONS;
    }
    return true;
}

/* Freed memory that the allocator keeps does not count if memory is scarce or limited. */
static size_t resident(size_t limit)
{
    static const size_t plenty = (size_t)1 << 30;
    return limit || qc_machine_left() < plenty ? qc_resident_bytes() : qc_resident_bytes_as_is();
}

size_t qc_stream_held_bytes(size_t limit)
{
    return resident(limit) + QC_STREAM_RESERVE;
}

struct worker {
    struct qc_runner *runners[QC_STREAM_PLANS];
    struct qc_dataset_scratch *scratch;
    char *buffer;     /* of the plans that share a buffer */
    struct returned { /* a state that a plan has returned */
        void *data;
        size_t bytes;
    } * states[QC_STREAM_PLANS]; /* [inputs]; NULL: none yet */
};

struct running {
    const struct qc_stream *s;
    const size_t *order; /* of the units if their sizes differ; NULL: as given */
    struct worker *workers;
    pthread_mutex_t lock; /* of done */
    size_t done;          /* units of sequences */
};

struct observing {
    const struct qc_stream *s;
    struct qc_unit at;
};

static bool observe_stream(void *user, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct observing *o = user;
    return o->s->observe(o->s->user, &o->at, index, v, st);
}

/* Hashes eight bytes at a time in four lanes. */
uint64_t qc_stream_key(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *x = bytes;
    const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lane[4] = {h, h ^ 1, h ^ 2, h ^ 3};
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t k = 0; k < 4; k++) {
            uint64_t word;
            memcpy(&word, x + i + 8 * k, sizeof word);
            lane[k] = (lane[k] ^ word) * prime;
            lane[k] ^= lane[k] >> 29;
        }
    for (; i < n; i++) lane[0] = (lane[0] ^ x[i]) * prime ^ lane[0] >> 29;
    for (size_t k = 0; k < 4; k++) h = ((h ^ lane[k]) * prime) ^ (h >> 31);
    return h ^ (h >> 32);
}

/* Fills the inputs of plan at->plan. step: of the sequence. */
static bool fill_inputs(struct observing *o, struct worker *w, size_t step, struct qc_status *st)
{
    const struct qc_stream *s = o->s;
    struct qc_unit *at = &o->at;
    const bool keyed = at->plan == 0 && s->keyed;
    for (size_t i = 0; i < s->input_count; i++) {
        struct qc_view in = qc_runner_input(w->runners[at->plan], i);
        const size_t bytes = qc_view_bytes(&in);
        const bool fed = at->plan < s->fed && step && qc_dataset_state(s->data, i);
        if ((!fed || keyed) && !qc_dataset_read(in.data, s->data, i, at->unit, w->scratch, st)) return false;
        if (keyed) at->key = qc_stream_key(at->key, in.data, bytes);
        if (!fed) continue;
        if (w->states[at->plan][i].bytes != bytes)
            return qc_fail(st, QC_BAD_INPUT,
                           "--state: the output that is the next state of '%s' has %zu bytes, and %zu follow from the "
                           "shapes of the step's inputs; give the states as data",
                           qc_dataset_input(s->data, i), w->states[at->plan][i].bytes, bytes);
        memcpy(in.data, w->states[at->plan][i].data, bytes);
    }
    return true;
}

/* Keeps the states that plan at->plan has returned, for the next unit of the sequence. */
static bool keep_states(const struct observing *o, struct worker *w, struct qc_status *st)
{
    const struct qc_stream *s = o->s;
    for (size_t i = 0; o->at.plan < s->fed && i < s->input_count; i++) {
        const size_t output = qc_dataset_state(s->data, i);
        if (!output) continue;
        const struct qc_view in = qc_runner_input(w->runners[o->at.plan], i),
                             v = qc_runner_output(w->runners[o->at.plan], output - 1);
        bool same = v.rank == in.rank && v.dtype == in.dtype;
        for (int d = 0; same && d < v.rank; d++) same = v.dim[d] == in.dim[d] || qc_dataset_varies(s->data);
        if (!same) {
            const struct qc_shape was = qc_shape_of(in.rank, in.dim), is = qc_shape_of(v.rank, v.dim);
            char before[QC_SHAPE_TEXT], after[QC_SHAPE_TEXT];
            return qc_fail(st, QC_BAD_INPUT,
                           "--state: the output that is the next state of '%s' is %s %s, the state is %s %s; states "
                           "must keep type and shape (if its axes are free, give the first state in the data)",
                           qc_dataset_input(s->data, i), qc_dtype_info(v.dtype)->name, qc_shape_text(after, &is),
                           qc_dtype_info(in.dtype)->name, qc_shape_text(before, &was));
        }
        const size_t bytes = qc_view_bytes(&v);
        if (!w->states[o->at.plan]) w->states[o->at.plan] = calloc(s->input_count, sizeof **w->states);
        struct returned *state = w->states[o->at.plan] ? &w->states[o->at.plan][i] : NULL;
        void *data = state ? realloc(state->data, bytes + 1) : NULL;
        if (!data) return qc_fail_memory(st, bytes);
        *state = (struct returned){data, bytes};
        memcpy(data, v.data, bytes);
    }
    return true;
}

static bool shares(const struct qc_stream *s, size_t plan)
{
    return s->share_buffer && plan >= s->apart && qc_plan_buffer_bytes(s->plans[plan]);
}

static size_t shared_bytes(const struct qc_stream *s)
{
    size_t most = 0;
    for (size_t k = 0; k < s->plan_count; k++) {
        const size_t bytes = shares(s, k) ? qc_plan_buffer_bytes(s->plans[k]) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void free_worker(struct worker *w, const struct qc_stream *s)
{
    qc_dataset_scratch_free(w->scratch);
    for (size_t k = 0; k < s->plan_count; k++) {
        for (size_t i = 0; w->states[k] && i < s->input_count; i++) free(w->states[k][i].data);
        free(w->states[k]);
        qc_runner_free(w->runners[k]);
    }
    free(w->buffer);
    *w = (struct worker){.scratch = NULL};
}

/* Each worker makes what it needs before its first unit: with many of them this takes long. */
static bool new_worker(struct worker *w, const struct qc_stream *s, struct qc_status *st)
{
    enum { FEW = 1024 }; /* trials read at most 256 units, again and again */
    const size_t bytes = shared_bytes(s);
    bool ok = qc_dataset_scratch_new(&w->scratch, st);
    if (ok && (s->units ? s->unit_count : qc_dataset_units(s->data)) > FEW) qc_dataset_scratch_passes(w->scratch);
    if (ok && bytes) {
        if ((w->buffer = qc_pages_new(bytes)))
            memset(w->buffer, 0, bytes);
        else
            ok = qc_fail_memory(st, bytes);
    }
    for (size_t k = 0; ok && k < s->plan_count; k++)
        ok = shares(s, k) ? qc_runner_new_in(&w->runners[k], s->plans[k], w->buffer, st)
                          : qc_runner_new(&w->runners[k], s->plans[k], st);
    if (!ok) free_worker(w, s);
    return ok;
}

/* Runs all plans on a unit. step: of the sequence. */
static bool run_step(const struct running *r, size_t unit, size_t step, unsigned worker, struct qc_status *st)
{
    const struct qc_stream *s = r->s;
    struct worker *w = &r->workers[worker];
    if (!w->scratch && !new_worker(w, s, st)) return false;
    struct observing o = {.s = s,
                          .at = {.unit = unit, .worker = worker, .sample = qc_dataset_first_sample(s->data, unit)}};
    for (size_t k = 0; k < s->plan_count; k++) {
        o.at.plan = k;
        if ((k || !s->keyed) && s->skips && s->skips(s->user, &o.at)) continue;
        if (!qc_stream_unit_shapes(w->runners[k], s->data, s->input_count, unit, st))
            return qc_where(st, "%s: sample %llu", qc_dataset_file(s->data), (unsigned long long)o.at.sample);
        if (!fill_inputs(&o, w, step, st)) return false;
        if (k == 0 && s->keyed && s->keys) s->keys[unit] = o.at.key;
        const bool whole = !s->reads_outputs || s->reads_outputs(s->user, &o.at);
        qc_observe_fn *observe = s->observe ? observe_stream : NULL;
        if (!(whole ? qc_runner_run : qc_runner_observe)(w->runners[k], observe, &o, st) || !keep_states(&o, w, st))
            return qc_where(st, "%s: sample %llu", qc_dataset_file(s->data), (unsigned long long)o.at.sample);
        if (s->ran && !s->ran(s->user, &o.at, w->runners, w->scratch, st)) return false;
    }
    return !s->unit || s->unit(s->user, &o.at, w->runners, w->scratch, st);
}

static bool run_stream_unit(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct running *r = user;
    const size_t place = r->order ? r->order[item] : item;
    return run_step(r, r->s->units ? r->s->units[place] : place, 0, worker, st);
}

static bool run_sequence(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct running *r = user;
    const size_t first = qc_dataset_sequence(r->s->data, item), end = qc_dataset_sequence(r->s->data, item + 1);
    for (size_t unit = first; unit < end; unit++) {
        if (!run_step(r, unit, unit - first, worker, st)) return false;
        /* Count finished units of all sequences */
        const struct qc_stream *s = r->s;
        bool on = true;
        pthread_mutex_lock(&r->lock);
        r->done++;
        if (s->progress) on = s->progress(s->progress_user, r->done, qc_dataset_units(s->data));
        pthread_mutex_unlock(&r->lock);
        if (!on) return qc_fail(st, QC_INTERRUPTED, "interrupted");
    }
    return true;
}

size_t qc_stream_runner_bytes(const struct qc_stream *s)
{
    size_t bytes = shared_bytes(s);
    for (size_t k = 0; k < s->plan_count; k++)
        bytes += qc_plan_runner_bytes(s->plans[k]) - (shares(s, k) ? qc_plan_buffer_bytes(s->plans[k]) : 0);
    return bytes;
}

bool qc_stream_run(const struct qc_stream *s, struct qc_status *st)
{
    const size_t count = s->units ? s->unit_count : qc_dataset_units(s->data);
    const size_t sequences = s->fed ? qc_dataset_sequences(s->data) : 0;
    const unsigned workers = sequences && sequences < s->workers ? (unsigned)sequences : s->workers;
    struct running r = {.s = s, .workers = calloc(workers, sizeof *r.workers), .lock = PTHREAD_MUTEX_INITIALIZER};
    size_t *order = NULL;
    bool ok = r.workers ? true : qc_fail_memory(st, workers * sizeof *r.workers);
    if (ok && qc_dataset_varies(s->data))
        ok = qc_order_by_size(&order, s->data, s->input_count, s->units, count,
                              s->in_order ? QC_ORDER_KEPT : QC_ORDER_FREE, st);
    r.order = order;
    const struct qc_pool_options pool = {.workers = workers,
                                         .progress = sequences ? NULL : s->progress,
                                         .progress_user = s->progress_user};
    ok = ok && (sequences ? qc_pool_run(sequences, run_sequence, &r, &pool, st)
                          : qc_pool_run(count, run_stream_unit, &r, &pool, st));
    for (unsigned w = 0; r.workers && w < workers; w++) {
        for (size_t k = 0; ok && k < s->plan_count; k++)
            if (s->overflows[k] && r.workers[w].runners[k]) overflows_add(s->overflows[k], r.workers[w].runners[k]);
        free_worker(&r.workers[w], s);
    }
    free(r.workers);
    free(order);
    return ok;
}

struct qc_input_spec *qc_stream_specs(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_input_spec *specs = QC_NEW_ARRAY(a, struct qc_input_spec, g->input_count, st);
    for (size_t i = 0; specs && i < g->input_count; i++) {
        const struct qc_type *t = &g->values[g->inputs[i].value].type;
        if (t->shape.rank < 0) {
            qc_fail(st, QC_UNSUPPORTED, "input '%s' has no shape in the model; export the model with one",
                    g->inputs[i].name);
            return NULL;
        }
        specs[i] = (struct qc_input_spec){.name = g->inputs[i].name,
                                          .dtype = t->dtype,
                                          .rank = (unsigned)t->shape.rank,
                                          .dims = t->shape.dim};
    }
    return specs && stream_levels(specs, g, a, st) && stream_past(specs, g, a, st) ? specs : NULL;
}

/* ---- Shapes and plans ---- */

struct qc_shape *qc_stream_shapes(const struct qc_graph *g, const struct qc_dataset *data, struct qc_arena *a,
                                  struct qc_status *st)
{
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
    for (size_t i = 0; shapes && i < g->input_count; i++) {
        const int64_t *dims;
        unsigned rank = qc_dataset_dims(&dims, data, i);
        shapes[i] = qc_shape_of((int)rank, dims);
    }
    return shapes;
}

static void unit_shapes(struct qc_shape *shapes, const struct qc_dataset *data, size_t inputs, size_t unit)
{
    int64_t dims[QC_DATA_RANK_MAX];
    for (size_t i = 0; i < inputs; i++) {
        const unsigned rank = qc_dataset_unit_dims(dims, data, i, unit);
        shapes[i] = qc_shape_of((int)rank, dims);
    }
}

static bool has_free_sizes(const struct qc_graph *g)
{
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_shape *s = &g->values[v].type.shape;
        if (s->rank < 0) return true;
        for (int i = 1; i < s->rank; i++)
            if (s->dim[i] < 0) return true;
    }
    return false;
}

bool qc_stream_largest(struct qc_largest_sample *out, const struct qc_graph *g, const struct qc_dataset *data,
                       struct qc_arena *a, struct qc_status *st)
{
    size_t *order = NULL, unit = 0;
    *out = (struct qc_largest_sample){.count = 0};
    if (!has_free_sizes(g) || !qc_dataset_units(data)) return true;
    if (qc_dataset_varies(data)) {
        if (!qc_order_by_size(&order, data, g->input_count, NULL, qc_dataset_units(data), QC_ORDER_FREE, st))
            return false;
        unit = order[0];
        free(order);
    }
    const size_t room = all_ranks(data, g->input_count) + QC_DATA_RANK_MAX;
    if (!(out->sizes = QC_NEW_ARRAY(a, int64_t, room + 1, st))) return false;
    out->sizes[out->count++] = (int64_t)elements_of(data, g->input_count, unit);
    for (size_t i = 0; i < g->input_count; i++)
        out->count += qc_dataset_unit_dims(out->sizes + out->count, data, i, unit);
    return true;
}

bool qc_largest_shapes(struct qc_shape *shapes, const struct qc_largest_sample *s, const struct qc_graph *g)
{
    size_t at = 1;
    for (size_t i = 0; i < g->input_count; i++) {
        const int rank = g->values[g->inputs[i].value].type.shape.rank;
        if (rank < 0 || at + (size_t)rank > s->count) return false;
        shapes[i] = qc_shape_of(rank, s->sizes + at);
        if (!qc_shape_fixed(&shapes[i])) return false;
        at += (size_t)rank;
    }
    return at == s->count;
}

bool qc_stream_plan(struct qc_plan **out, const struct qc_graph *g, const struct qc_dataset *data,
                    const struct qc_plan_options *options, struct qc_status *st)
{
    struct qc_plan_options how = options ? *options : (struct qc_plan_options){0};
    struct qc_plan_case *largest = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const struct qc_shape *shapes = qc_stream_shapes(g, data, a, st);
    bool ok = shapes != NULL;
    if (ok && qc_dataset_varies(data)) {
        const size_t *units = qc_largest_units(&how.largest_count, data, g->input_count, a, st);
        ok = units && (largest = QC_NEW_ARRAY(a, struct qc_plan_case, how.largest_count, st));
        for (size_t k = 0; ok && k < how.largest_count; k++) {
            struct qc_shape *of = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
            const char *name = qc_arena_printf(a, st, "%s: sample %zu", qc_dataset_file(data),
                                               qc_dataset_first_sample(data, units[k]));
            if (!(ok = of && name)) break;
            unit_shapes(of, data, g->input_count, units[k]);
            largest[k] = (struct qc_plan_case){.shapes = of, .name = name};
        }
        how.largest = largest;
    }
    return ok && qc_plan_new(out, g, shapes, &how, st);
}

bool qc_stream_unit_shapes(struct qc_runner *r, const struct qc_dataset *data, size_t input_count, size_t unit,
                           struct qc_status *st)
{
    if (!qc_dataset_varies(data)) return true;
    struct qc_shape *shapes = calloc(input_count + 1, sizeof *shapes);
    if (!shapes) return qc_fail_memory(st, input_count * sizeof *shapes);
    unit_shapes(shapes, data, input_count, unit);
    const bool ok = qc_runner_shapes(r, shapes, st);
    free(shapes);
    return ok;
}

bool qc_stream_one_size(const struct qc_dataset *data, const char *who, struct qc_status *st)
{
    return !qc_dataset_varies(data) ||
           qc_fail(st, QC_UNSUPPORTED,
                   "%s: %s needs samples of one size, but these differ; leave it out or use other samples",
                   qc_dataset_file(data), who);
}

/* ---- Memory ---- */

bool qc_stream_workers(unsigned *workers, unsigned wanted, size_t limit, size_t fixed, size_t each,
                       struct qc_status *st)
{
    const double mib = 1024.0 * 1024.0;
    *workers = wanted ? wanted : 1;
    if (!limit) {
        const size_t held = resident(limit), left = qc_machine_left();
        const size_t all = left > SIZE_MAX - held ? SIZE_MAX : held + left;
        if (all < fixed || all - fixed < each)
            return qc_fail(st, QC_MACHINE,
                           "this model needs %.1f MiB with one worker, and this machine has %.1f MiB left; use one "
                           "with more memory",
                           (double)(fixed + each) / mib, (double)left / mib);
        limit = all;
    }
    if (limit < fixed || limit - fixed < each)
        return qc_fail(st, QC_MACHINE, "--memory-limit %.1f MiB is too low: this model needs %.1f MiB with one worker",
                       (double)limit / mib,
                       (double)(fixed + each) / mib + 1); /* held memory varies a little from run to run */
    size_t fit = each ? (limit - fixed) / each : *workers;
    if (fit < *workers) *workers = (unsigned)fit;
    return true;
}

size_t qc_stream_ahead(const struct qc_dataset *data, size_t limit, size_t fixed, size_t each)
{
    size_t bytes;
    const unsigned units = qc_dataset_ahead(&bytes, data);
    const size_t left = limit > fixed && limit - fixed > each ? limit - fixed - each : 0;
    if (!limit || !bytes || left / bytes >= units) return units * bytes;
    qc_dataset_read_less_ahead(data, (unsigned)(left / bytes));
    return left / bytes * bytes;
}

bool qc_stream_fit(unsigned *workers, const struct qc_settings *o, const struct qc_dataset *data, size_t each,
                   struct qc_status *st)
{
    each += qc_dataset_scratch_bytes(data);
    const size_t held = qc_stream_held_bytes(o->memory_limit),
                 fixed = held + qc_stream_ahead(data, o->memory_limit, held, each);
    return qc_stream_workers(workers, o->workers, o->memory_limit, fixed, each, st);
}
