// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/checked.h"
#include "base/simd.h"
#include "graph/core/custom.h"
#include "graph/core/graph.h"
#include "graph/core/parameters.h"
#include "graph/core/tables.h"

bool qc_grow(void **array, size_t *capacity, size_t count, size_t size, struct qc_status *st)
{
    if (count + 2 <= *capacity) return true;
    size_t wanted = *capacity ? *capacity * 2 : 64, bytes;
    if (wanted > UINT32_MAX / 2 || !qc_mul_size(&bytes, wanted, size)) return qc_fail_memory(st, UINT64_MAX);
    void *p = realloc(*array, bytes);
    if (!p) return qc_fail_memory(st, bytes);
    memset((char *)p + *capacity * size, 0, (wanted - *capacity) * size);
    *array = p;
    *capacity = wanted;
    return true;
}

struct qc_graph *qc_graph_new(struct qc_status *st)
{
    struct qc_graph *g = calloc(1, sizeof *g);
    if (g) {
        g->arena = qc_arena_new();
        g->tables = calloc(1, sizeof *g->tables);
    }
    if (!g || !g->arena || !g->tables) {
        qc_graph_free(g);
        qc_fail_memory(st, sizeof *g);
        return NULL;
    }
    struct qc_graph_tables *t = g->tables;
    if (!qc_grow((void **)&g->values, &t->value_capacity, 0, sizeof *g->values, st) ||
        !qc_grow((void **)&g->nodes, &t->node_capacity, 0, sizeof *g->nodes, st) ||
        !qc_grow((void **)&g->qparams_of, &t->qparams_capacity, 0, sizeof *g->qparams_of, st)) {
        qc_graph_free(g);
        return NULL;
    }
    g->name = "graph";
    g->references = 1;
    return g;
}

size_t qc_graph_bytes(const struct qc_graph *g)
{
    const struct qc_graph_tables *t = g->tables;
    const struct qc_index *all[] = {&t->names, &t->constants, &t->nodes, &t->quantizer_names, &t->products};
    size_t bytes = qc_arena_bytes(g->arena) + t->value_capacity * sizeof *g->values +
                   t->node_capacity * (sizeof *g->nodes + sizeof *t->node_qparams) +
                   t->qparams_capacity * sizeof *g->qparams_of;
    for (size_t i = 0; i < (t->borrows_qparams ? 3 : sizeof all / sizeof *all); i++)
        bytes += all[i]->capacity * (sizeof *all[i]->hashes + sizeof *all[i]->ids);
    return bytes;
}

struct qc_graph *qc_graph_ref(const struct qc_graph *g)
{
    struct qc_graph *shared = (struct qc_graph *)(uintptr_t)g;
    shared->references++;
    return shared;
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
void qc_graph_free(struct qc_graph *g)
{
    if (!g || (g->references && --g->references)) return;
    for (size_t v = 1; g->values && v <= g->value_count; v++)
        qc_tensor_unref((struct qc_tensor *)(uintptr_t)g->values[v].constant);
    for (size_t n = 1; g->nodes && n <= g->node_count; n++)
        for (unsigned i = 0; i < g->nodes[n].attr_count; i++) {
            qc_tensor_unref((struct qc_tensor *)(uintptr_t)g->nodes[n].attrs[i].tensor);
            qc_graph_free((struct qc_graph *)(uintptr_t)g->nodes[n].attrs[i].graph);
        }
    if (g->tables) {
        qc_index_free(&g->tables->names);
        qc_index_free(&g->tables->constants);
        qc_index_free(&g->tables->nodes);
        if (!g->tables->borrows_qparams) {
            qc_index_free(&g->tables->quantizer_names);
            qc_index_free(&g->tables->products);
            free(g->qparams_of);
        }
        qc_index_free(&g->tables->suffixed);
        free(g->tables->suffixes);
        free(g->tables->node_qparams);
    }
    free(g->tables);
    free(g->values);
    free(g->nodes);
    free(g->inputs);
    free(g->outputs);
    free(g->calls);
    qc_carried_unref(g->carried);
    qc_custom_ops_unref(g->custom);
    qc_arena_free(g->arena);
    free(g);
}

void qc_graph_leave(struct qc_graph *const *g)
{
    qc_graph_free(*g);
}

qc_id qc_graph_find_value(const struct qc_graph *g, const char *name)
{
    uint64_t h = qc_hash_text(name);
    size_t slot = SIZE_MAX;
    for (qc_id v; (v = qc_index_next(&g->tables->names, h, &slot));)
        if (strcmp(g->values[v].name, name) == 0) return v;
    return 0;
}

/* Returns the suffixes of a used name: those below `next` are used too. Returns NULL if out of memory. */
static struct qc_suffixes *suffixes_of(struct qc_graph *g, const char *name, struct qc_status *st)
{
    struct qc_graph_tables *t = g->tables;
    const uint64_t hash = qc_hash_text(name);
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&t->suffixed, hash, &slot));)
        if (strcmp(t->suffixes[i].name, name) == 0) return &t->suffixes[i];
    if (!qc_grow((void **)&t->suffixes, &t->suffix_capacity, t->suffixed.used, sizeof *t->suffixes, st) ||
        !qc_index_reserve(&t->suffixed, st))
        return NULL;
    const struct qc_suffixes new = {.name = qc_arena_strdup(g->arena, name, st), .next = 1};
    if (!new.name) return NULL;
    const uint32_t i = (uint32_t)t->suffixed.used + 1;
    t->suffixes[i] = new;
    qc_index_put(&t->suffixed, hash, i);
    return &t->suffixes[i];
}

const char *qc_graph_free_name(struct qc_graph *g, const char *name, struct qc_status *st)
{
    if (!qc_graph_find_value(g, name)) return qc_arena_strdup(g->arena, name, st);
    struct qc_suffixes *s = suffixes_of(g, name, st);
    const char *unique;
    do unique = s ? qc_arena_printf(g->arena, st, "%s_%u", name, s->next++) : NULL;
    while (unique && qc_graph_find_value(g, unique));
    return unique;
}

bool qc_graph_name_value(struct qc_graph *g, qc_id value, const char *name, struct qc_status *st)
{
    if (!value || !name || !*name || g->values[value].name) return true;
    const char *unique = qc_graph_free_name(g, name, st);
    if (!unique || !qc_index_reserve(&g->tables->names, st)) return false;
    g->values[value].name = unique;
    qc_index_put(&g->tables->names, qc_hash_text(unique), value);
    return true;
}

qc_id qc_graph_new_value(struct qc_graph *g, const struct qc_value *v, const char *name, struct qc_status *st)
{
    if (st->code != QC_OK ||
        !qc_grow((void **)&g->values, &g->tables->value_capacity, g->value_count, sizeof *g->values, st))
        return 0;
    qc_id id = (qc_id)++g->value_count;
    g->values[id] = *v;
    g->values[id].name = NULL;
    return qc_graph_name_value(g, id, name, st) ? id : 0;
}

static bool add_port(struct qc_port **ports, size_t *count, size_t *capacity, struct qc_port port, struct qc_status *st)
{
    if (!qc_grow((void **)ports, capacity, *count, sizeof **ports, st)) return false;
    (*ports)[(*count)++] = port;
    return true;
}

qc_id qc_graph_add_input(struct qc_graph *g, const char *name, enum qc_dtype dtype, const struct qc_shape *shape,
                         struct qc_status *st)
{
    struct qc_value v = {.kind = QC_VALUE_INPUT, .type = {.dtype = dtype, .shape = *shape}};
    qc_id id = qc_graph_new_value(g, &v, name, st);
    if (!id) return 0;
    struct qc_port port = {.value = id, .name = g->values[id].name};
    return add_port(&g->inputs, &g->input_count, &g->tables->input_capacity, port, st) ? id : 0;
}

bool qc_graph_add_output(struct qc_graph *g, const char *name, qc_id value, struct qc_status *st)
{
    struct qc_port port = {.value = value, .name = qc_arena_strdup(g->arena, name, st)};
    if (!value) return qc_fail(st, QC_BAD_INPUT, "output '%s' is not made", name);
    return st->code == QC_OK && add_port(&g->outputs, &g->output_count, &g->tables->output_capacity, port, st);
}

size_t qc_graph_held_bytes(const struct qc_graph *g, size_t bytes)
{
    return g->spills && bytes >= QC_SPILLED_LEAST ? 0 : bytes;
}

/* Returns a reference to the tensor, or a copy in a temporary file: the caller frees the original soon. */
static struct qc_tensor *keep_tensor(const struct qc_graph *g, const struct qc_tensor *t, struct qc_status *st)
{
    if (t->map || !t->bytes || qc_graph_held_bytes(g, t->bytes)) return qc_tensor_ref(t);
    struct qc_file_map *map;
    if (!qc_file_map_spill(&map, t->data, t->bytes, st)) return NULL;
    struct qc_tensor *kept = qc_tensor_mapped(t->dtype, &t->shape, map, 0, st);
    qc_file_map_unref(map);
    if (!kept) return NULL;
    kept->hash = t->hash;
    kept->made_from = t->made_from;
    return kept;
}

static qc_id new_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, qc_id qparams, int axis,
                          struct qc_status *st)
{
    struct qc_tensor *kept = st->code == QC_OK ? keep_tensor(g, t, st) : NULL;
    if (!kept) return 0;
    struct qc_value v = {.kind = QC_VALUE_CONSTANT,
                         .type = {.dtype = qparams && g->simulated ? QC_F32 : t->dtype,
                                  .shape = t->shape,
                                  .qparams = qparams,
                                  .axis = axis},
                         .constant = kept};
    return qc_graph_new_value(g, &v, name, st);
}

static qc_id add_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, qc_id qparams, int axis,
                          struct qc_status *st)
{
    if (st->code != QC_OK) return 0;
    uint64_t h = qc_hash_bytes(QC_HASH_START, &t->dtype, sizeof t->dtype);
    h = qc_hash_bytes(h, &t->shape.rank, sizeof t->shape.rank);
    h = qc_hash_bytes(h, t->shape.dim, sizeof t->shape.dim);
    const uint64_t data = qc_tensor_hash(t);
    h = qc_hash_bytes(h, &data, sizeof data);
    h = qc_hash_bytes(h, &qparams, sizeof qparams); /* the integers of many biases are all zeros */
    size_t slot = SIZE_MAX;
    for (qc_id v; (v = qc_index_next(&g->tables->constants, h, &slot));)
        if (g->values[v].type.qparams == qparams && g->values[v].type.axis == axis &&
            qc_tensor_equal(g->values[v].constant, t))
            return v;
    if (!qc_index_reserve(&g->tables->constants, st)) return 0;
    const qc_id id = new_constant(g, name, t, qparams, axis, st);
    if (id) qc_index_put(&g->tables->constants, h, id);
    return id;
}

qc_id qc_graph_add_constant_apart(struct qc_graph *g, const char *name, const struct qc_tensor *t, struct qc_status *st)
{
    const qc_id v = new_constant(g, name, t, QC_REAL, 0, st);
    if (v) g->values[v].apart = true;
    return v;
}

qc_id qc_graph_add_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, struct qc_status *st)
{
    return add_constant(g, name, t, QC_REAL, 0, st);
}

qc_id qc_graph_add_made_constant(struct qc_graph *g, const char *name, struct qc_tensor *t, struct qc_status *st)
{
    const qc_id v = t ? qc_graph_add_constant(g, name, t, st) : 0;
    qc_tensor_unref(t);
    return v;
}

qc_id qc_graph_cast(struct qc_graph *g, qc_id v, enum qc_dtype dtype, struct qc_status *st)
{
    if (!v || g->values[v].type.dtype == dtype) return v;
    return qc_graph_add(g, QC_NODE(QC_OP_Cast, QC_INPUTS(v), QC_ATTRS(QC_INT("to", qc_dtype_info(dtype)->onnx))), st);
}

bool qc_graph_fix_input(struct qc_graph *g, size_t i, const struct qc_shape *shape, struct qc_status *st)
{
    struct qc_shape *s = &g->values[g->inputs[i].value].type.shape;
    bool fits = qc_shape_fixed(shape) && (s->rank < 0 || s->rank == shape->rank);
    for (int d = 0; fits && d < s->rank; d++) fits = s->dim[d] == QC_FREE || s->dim[d] == shape->dim[d];
    if (!fits)
        return qc_fail(st, QC_BAD_INPUT, "input '%s' cannot have shape %s: the model declares %s", g->inputs[i].name,
                       QC_SHAPE_STR(shape), QC_SHAPE_STR(s));
    *s = *shape;
    return true;
}

/* Smallest and largest byte after `flip`, which maps the order of signed bytes to that of unsigned ones. */
QC_VECTOR(extremes, (uint8_t * lo, uint8_t *hi, const uint8_t *x, size_t n, uint8_t flip), (lo, hi, x, n, flip))
{
    uint8_t low = UINT8_MAX, high = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t v = x[i] ^ flip;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    *lo = low;
    *hi = high;
}

bool qc_graph_check_affine_constant(const struct qc_graph *g, const struct qc_tensor *t, qc_id qparams, int axis,
                                    struct qc_status *st)
{
    if (qparams == QC_REAL || qparams > g->qparams_count)
        return qc_fail(st, QC_BAD_INPUT, "qparams @%u does not exist", qparams);
    const struct qc_qparams *s = &g->qparams_of[qparams];
    const struct qc_levels levels = qc_qparams_levels(s);
    if (s->state != QC_QPARAMS_BOUND)
        return qc_fail(st, QC_BAD_INPUT, "qparams '%s' have no parameters: they cannot describe a constant", s->name);
    if (t->dtype != qc_qparams_storage(s))
        return qc_fail(st, QC_BAD_INPUT, "the constant is %s, its qparams '%s' are %s", qc_dtype_info(t->dtype)->name,
                       s->name, qc_dtype_info(s->dtype)->name);
    if (s->count > 1 && (axis < 0 || axis >= t->shape.rank || qc_scale_layout_of(s, &t->shape, axis).count != s->count))
        return qc_fail(st, QC_BAD_INPUT, "qparams '%s' have %zu channels, which axis %d of the constant does not have",
                       s->name, s->count, axis);
    if (levels.mantissa && t->dtype == QC_F32) {
        /* For floating-point levels, which float32 holds. */
        const float *x = t->data, lo = (float)levels.lo, hi = (float)levels.hi;
        for (size_t i = 0; i < t->count; i++) {
            const float level = qc_float_level(x[i], lo, hi, levels.mantissa, levels.least);
            if (!(x[i] >= level && x[i] <= level))
                return qc_fail(st, QC_BAD_INPUT, "element %zu of the constant is %g, which is no level", i,
                               (double)x[i]);
        }
        return true;
    }
    if (t->dtype == QC_I8 || t->dtype == QC_U8) {
        /* Bytes, the type of most weights. The extremes are cached for all graphs with the tensor. */
        const int32_t offset = t->dtype == QC_I8 ? INT8_MIN : 0;
        uint8_t lo, hi;
        uint64_t known = t->extremes;
        if (!known) {
            extremes(&lo, &hi, t->data, t->count, t->dtype == QC_I8 ? 0x80 : 0);
            known = (uint64_t)1 << 16 | (uint64_t)hi << 8 | lo;
            ((struct qc_tensor *)(uintptr_t)t)->extremes = known;
        }
        lo = (uint8_t)known;
        hi = (uint8_t)(known >> 8);
        if (t->count == 0 || (lo + offset >= levels.lo && hi + offset <= levels.hi)) return true;
    }
    enum { CHUNK = 1024 };
    int32_t q[CHUNK];
    for (size_t first = 0; first < t->count; first += CHUNK) {
        const size_t n = t->count - first < CHUNK ? t->count - first : CHUNK;
        bool outside = false;
        qc_tensor_ints(q, t, first, n);
        for (size_t i = 0; i < n; i++) outside |= (q[i] < levels.lo) | (q[i] > levels.hi);
        for (size_t i = 0; outside && i < n; i++)
            if (q[i] < levels.lo || q[i] > levels.hi)
                return qc_fail(st, QC_BAD_INPUT, "element %zu of the constant is %d, outside the levels", first + i,
                               q[i]);
    }
    return true;
}

qc_id qc_graph_add_affine_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, qc_id qparams,
                                   int axis, struct qc_status *st)
{
    if (!qc_graph_check_affine_constant(g, t, qparams, axis, st)) {
        qc_where(st, "constant '%s'", name ? name : "");
        return 0;
    }
    return add_constant(g, name, t, qparams, axis, st);
}

const char *qc_value_label(char buf[QC_LABEL], const struct qc_graph *g, qc_id v)
{
    if (v && v <= g->value_count && g->values[v].name) return qc_text(buf, QC_LABEL, "%s", g->values[v].name);
    return qc_text(buf, QC_LABEL, "%%%u", v);
}

const char *qc_node_label(char buf[QC_LABEL], const struct qc_graph *g, const struct qc_node *n)
{
    return n->name && *n->name ? n->name : qc_value_label(buf, g, n->outputs);
}

const char *qc_node_name(const struct qc_graph *g, const struct qc_node *n, struct qc_arena *a, struct qc_status *st)
{
    return qc_arena_strdup(a, QC_NODE_LABEL(g, n), st);
}

uint32_t *qc_graph_uses(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    uint32_t *use = QC_NEW_ARRAY(a, uint32_t, g->value_count + 1, st);
    if (!use) return NULL;
    for (size_t n = 1; n <= g->node_count; n++)
        for (unsigned i = 0; i < g->nodes[n].input_count; i++) use[g->nodes[n].inputs[i]]++;
    for (size_t i = 0; i < g->output_count; i++) use[g->outputs[i].value]++;
    return use;
}
