// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/scope.h"
#include "calib/moments/moments_parts.h"
#include "calib/moments/second_moments.h"
#include "graph/core/parameters.h"
#include "graph/core/recurrent.h"
#include "rewrite/passes/centre.h"

/* RNN, GRU and LSTM multiply W with each step's input, and R with the state of the previous step. The states of all
   steps are the operator's first output, and R uses their moments, for each direction separately. The last state, which
   no step reads, stands in for the first. */

/* Returns v if it is a quantized constant weight, or the one that it is dequantized from; else 0. */
static qc_id constant_weight(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = v ? qc_node_of(g, v) : NULL;
    if (n && n->op == QC_OP_Dequantize) v = n->inputs[0];
    return qc_quantized_constant(g, v) && g->qparams_of[g->values[v].type.qparams].is_weight ? v : 0;
}

qc_id qc_second_moments_recurrent_weight(const struct qc_graph *g, const struct qc_node *n,
                                         enum qc_second_moments_recurrent which)
{
    const unsigned input = which == QC_MOMENTS_INPUT ? QC_RECURRENT_W : QC_RECURRENT_R;
    const qc_id v = qc_is_recurrent(n->op) && input < n->input_count ? n->inputs[input] : 0;
    const struct qc_node *shape = v ? qc_node_of(g, v) : NULL;
    return constant_weight(g, shape && shape->op == QC_OP_Reshape ? shape->inputs[0] : v);
}

/* Returns X before it is quantized. */
static qc_id recurrent_input(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *d = qc_node_of(g, n->inputs[QC_RECURRENT_X]),
                         *q = d && d->op == QC_OP_Dequantize ? qc_node_of(g, d->inputs[0]) : NULL;
    return q && q->op == QC_OP_Quantize ? q->inputs[0] : n->inputs[QC_RECURRENT_X];
}

static const struct qc_tensor *recurrent_weight(const struct qc_graph *g, const struct qc_node *n,
                                                enum qc_second_moments_recurrent which,
                                                enum qc_second_moments_layers layers)
{
    const qc_id w = qc_second_moments_recurrent_weight(g, n, which);
    const struct qc_tensor *t =
        w ? qc_constant_of(g, qc_quantized_constant(g, w))
        : layers == QC_MOMENTS_ALL
            ? qc_constant_of(g, n->inputs[which == QC_MOMENTS_INPUT ? QC_RECURRENT_W : QC_RECURRENT_R])
            : NULL;
    return t && t->dtype == QC_F32 && t->count ? t : NULL;
}

/* Returns true if a quantized weight has few levels; false for 0. */
static bool few_weight_levels(const struct qc_graph *g, qc_id weight)
{
    return weight && qc_qparams_are_few(&g->qparams_of[g->values[weight].type.qparams]);
}

static bool add_recurrent_weight(struct qc_second_moments *m, const struct qc_graph *g, qc_id id,
                                 const struct qc_recurrent *r, enum qc_second_moments_recurrent which, size_t block,
                                 struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    struct qc_second_moments_layer *l = QC_NEW_ARRAY(m->arena, struct qc_second_moments_layer, 1, st);
    if (!l) return false;
    const size_t ways = (size_t)r->directions;
    const bool states = which == QC_MOMENTS_STATE;
    l->value = states ? n->outputs : recurrent_input(g, n);
    l->groups = states ? ways : 1;
    l->channels = states ? ways * (size_t)r->hidden : (size_t)r->input;
    l->outputs = ways * (size_t)r->gates * (size_t)r->hidden;
    l->taps = 1;
    l->geometry = states ? "states" : "rows";
    l->direction_axis = !states ? 0 : r->batchwise ? 2 : 1;
    l->recurrent = true;
    l->few_levels = few_weight_levels(g, qc_second_moments_recurrent_weight(g, n, which));
    if (g->values[l->value].type.dtype != QC_F32 || qc_constant_of(g, l->value)) return true;
    const char *name = qc_value_name(g, l->value, m->arena, st);
    if (!name || !(l->name = qc_arena_strdup(m->arena, name, st))) return false;
    return qc_second_moments_put(&m->of_recurrent[which][id], m, l, block, st);
}

/* Adds the layers of a recurrent node, if it has any. */
static bool add_recurrent_layers(struct qc_second_moments *m, const struct qc_graph *g, qc_id id,
                                 enum qc_second_moments_layers layers, size_t block, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    struct qc_status unknown = QC_STATUS_INIT;
    struct qc_recurrent r;
    if (!qc_recurrent_of(&r, g, n, &unknown) || r.input < 1 || r.hidden < 1) return true;
    const size_t rows = (size_t)r.directions * (size_t)r.gates * (size_t)r.hidden;
    for (int k = 0; k < QC_MOMENTS_RECURRENT; k++) {
        const enum qc_second_moments_recurrent which = (enum qc_second_moments_recurrent)k;
        const struct qc_tensor *w = recurrent_weight(g, n, which, layers);
        const int64_t columns = which == QC_MOMENTS_STATE ? r.hidden : r.input;
        if (!w || w->count % rows || w->count / rows != (size_t)columns) continue;
        if (!add_recurrent_weight(m, g, id, &r, which, block, st)) return false;
    }
    return true;
}

struct qc_second_moments_layer *qc_second_moments_of_recurrent(const struct qc_second_moments *m, qc_id node,
                                                               enum qc_second_moments_recurrent which)
{
    const size_t at = m->of_recurrent[which][node];
    return at ? m->layers[at - 1] : NULL;
}

enum {
    LANE_COLUMNS = 32,        /* most columns of matrices that are stored in lanes, if there are several groups */
    BUFFER_ENTRIES = 1 << 17, /* entries of a buffer, whose rows are limited to BUFFER_MIN .. BUFFER_MAX */
    BUFFER_MIN = 32,
    BUFFER_MAX = 256,
    SHARED_ENTRIES = 1 << 18, /* entries of the buffer that all layers share */
    ROWS_MIN = 16,            /* least rows of a sample */
    KEEP_MIN = 1 << 18        /* products in tiles from which rows may be kept: with fewer they save too little */
};
_Static_assert((int)BUFFER_MAX <= (int)QC_MOMENTS_ROWS, "the sums over a buffer fit into 32 bits");

static size_t within(size_t n, size_t least, size_t most)
{
    return n < least ? least : n > most ? most : n;
}

size_t qc_second_moments_width(const struct qc_second_moments_layer *l, size_t block)
{
    const size_t first = block * l->block, left = l->columns - first;
    return left < l->block ? left : l->block;
}

size_t qc_second_moments_matrix_at(const struct qc_second_moments_layer *l, size_t group, size_t block)
{
    const size_t whole = qc_second_moments_triangle(l->block),
                 last = qc_second_moments_triangle(qc_second_moments_width(l, l->blocks - 1));
    return group * ((l->blocks - 1) * whole + last) + block * whole;
}

qc_id qc_second_moments_weight(const struct qc_graph *g, const struct qc_node *n)
{
    return n->input_count > 1 ? constant_weight(g, n->inputs[1]) : 0;
}

static const struct qc_tensor *float_weight(const struct qc_graph *g, const struct qc_node *n,
                                            enum qc_second_moments_layers which)
{
    const qc_id w = qc_second_moments_weight(g, n);
    const struct qc_tensor *t = w ? qc_constant_of(g, qc_quantized_constant(g, w)) : NULL;
    if (which == QC_MOMENTS_ALL && n->input_count > 1 && n->inputs[1]) t = qc_constant_of(g, n->inputs[1]);
    return t && t->dtype == QC_F32 && t->count ? t : NULL;
}

static bool has_padding(const struct qc_second_moments_layer *l)
{
    bool found = false;
    for (int i = 0; i < l->window.spatial; i++) found = found || l->window.pad_begin[i] || l->window.pad_end[i];
    return found;
}

/* Collects x for a product that reads x minus a constant per channel, unless the model itself pads the difference with
   zeros. */
static bool take_centred(struct qc_second_moments_layer *l, const struct qc_graph *g, const struct qc_node *n,
                         struct qc_arena *a, struct qc_status *st)
{
    const struct qc_centred c = qc_centred_input(g, n);
    const int64_t *pads = c.pad ? qc_constant_of(g, c.pad->inputs[1])->data : NULL;
    if (!c.value || c.centre->count != l->channels || has_padding(l)) return true;
    double *centre = QC_NEW_ARRAY(a, double, l->channels, st);
    for (size_t i = 0; centre && i < l->channels; i++) centre[i] = (double)((const float *)c.centre->data)[i];
    l->centre = centre;
    l->value = c.value;
    for (int i = 0; pads && i < l->window.spatial; i++) {
        const int64_t begin = pads[2 + i], end = pads[4 + l->window.spatial + i];
        l->window.pad_begin[i] += begin;
        l->window.pad_end[i] += end;
        if (l->window.in[i] != QC_FREE) l->window.in[i] -= begin + end;
    }
    return centre != NULL;
}

static const char *window_layer(struct qc_second_moments_layer *l, const struct qc_graph *g, const struct qc_node *n,
                                const struct qc_tensor *w)
{
    struct qc_status ignored = QC_STATUS_INIT;
    const int64_t groups = qc_attr_int(n, "group", 1);
    if (groups < 1 || !qc_window_of(&l->window, g, n, &ignored)) return "its window is not known";
    l->window_given = true;
    l->transposed = n->op == QC_OP_ConvTranspose;
    if (l->transposed && groups > 1) return "its weights have a scale for each input channel";
    l->groups = (size_t)groups;
    l->taps = 1;
    for (int i = 0; i < l->window.spatial; i++) {
        if (l->window.pad_begin[i] == QC_FREE || l->window.pad_end[i] == QC_FREE)
            return "its padding depends on free dimensions";
        l->taps *= (size_t)l->window.kernel[i];
    }
    const size_t first = (size_t)w->shape.dim[0], second = (size_t)w->shape.dim[1];
    l->outputs = l->transposed ? second : first;
    l->channels = l->transposed ? first : second * l->groups;
    return NULL;
}

static const char *dense_layer(struct qc_second_moments_layer *l, const struct qc_node *n, const struct qc_tensor *w)
{
    if (w->shape.rank != 2) return "its weight is no matrix";
    if (n->op == QC_OP_Gemm && qc_attr_int(n, "transA", 0)) return "its input is transposed";
    const bool transposed = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
    l->groups = l->taps = 1;
    l->outputs = (size_t)w->shape.dim[transposed ? 0 : 1];
    l->channels = (size_t)w->shape.dim[transposed ? 1 : 0];
    return NULL;
}

/* Returns the number of tiles of a group's products. */
static size_t tiles_of_group(const struct qc_second_moments_layer *l)
{
    return (l->blocks - 1) * qc_second_moments_triangle(qc_second_moments_panels(l->block)) +
           qc_second_moments_triangle(qc_second_moments_panels(qc_second_moments_width(l, l->blocks - 1)));
}

void qc_second_moments_lay_out(struct qc_second_moments_layer *l, size_t block)
{
    l->columns = l->taps * l->channels / l->groups;
    l->lanes = l->groups > 1 && l->columns <= LANE_COLUMNS;
    l->blocks = (l->columns + block - 1) / block;
    l->block = (l->columns + l->blocks - 1) / l->blocks;
    if (l->blocks > 1) { /* pairs of graph/core/pair_order.h may not span two blocks */
        l->block += l->block % 2;
        l->blocks = (l->columns + l->block - 1) / l->block;
    }
    if (l->lanes) {
        l->blocks = 1;
        l->block = l->columns;
        l->product_count = l->groups * (l->columns * (l->columns + 1) / 2);
    } else {
        l->product_count = qc_second_moments_matrix_at(l, l->groups, 0);
        l->keep = l->groups * tiles_of_group(l) * QC_MOMENTS_TILE_SIZE >= KEEP_MIN ? l->block : 0;
    }
}

/* Returns a text of the window's properties that decide which elements form a row. */
static const char *geometry_of(const struct qc_second_moments_layer *l, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_window *w = &l->window;
    char text[512];
    size_t at = 0;
    if (!l->window_given) return "rows";
    for (int i = 0; i < w->spatial; i++) {
        qc_text(text + at, (unsigned)(sizeof text - at), "%skernel %lld stride %lld dilation %lld pads %lld %lld",
                i ? ", " : "", (long long)w->kernel[i], (long long)w->stride[i], (long long)w->dilation[i],
                (long long)w->pad_begin[i], (long long)w->pad_end[i]);
        at += strlen(text + at);
        if (l->transposed) qc_text(text + at, (unsigned)(sizeof text - at), " out %lld", (long long)w->out[i]);
        at += strlen(text + at);
    }
    return qc_arena_printf(a, st, "%s%s%s", l->transposed ? "transposed, " : "", w->ceil_mode ? "rounded up, " : "",
                           text);
}

static bool same_moments_layer(const struct qc_second_moments_layer *a, const struct qc_second_moments_layer *b)
{
    return a->groups == b->groups && a->outputs == b->outputs && a->channels == b->channels && a->taps == b->taps &&
           strcmp(a->name, b->name) == 0 && strcmp(a->geometry, b->geometry) == 0;
}

/* Returns the number + 1 of the first equal layer; 0: none. */
static size_t find_equal_layer(const struct qc_second_moments *m, const struct qc_second_moments_layer *like)
{
    size_t first = 0, slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&m->by_name, qc_hash_text(like->name), &slot));)
        if ((!first || i < first) && same_moments_layer(m->layers[i - 1], like)) first = i;
    return first;
}

/* Returns the equal layer, or NULL. */
static struct qc_second_moments_layer *find_moments_layer(const struct qc_second_moments *m,
                                                          const struct qc_second_moments_layer *like)
{
    const size_t found = find_equal_layer(m, like);
    return found ? m->layers[found - 1] : NULL;
}

/* Adds a layer that is laid out, and its value. Fails if memory is out. */
static bool append_moments_layer(struct qc_second_moments *m, struct qc_second_moments_layer *l, struct qc_status *st)
{
    const uint64_t value = qc_hash_number(l->value);
    const uint32_t number = (uint32_t)m->count + 1;
    size_t slot = SIZE_MAX;
    uint32_t known = l->value ? 0 : number; /* layers of a file have no graph */
    for (uint32_t i; !known && (i = qc_index_next(&m->by_value, value, &slot));)
        if (m->layers[i - 1]->value == l->value) known = i;
    if (!qc_index_add(&m->by_name, qc_hash_text(l->name), number, st) ||
        (l->value && !qc_index_add(&m->by_value, value, number, st)))
        return false;
    m->layers[m->count++] = l;
    if (!known) m->values[m->value_count++] = l->value;
    return true;
}

static bool append_layer(size_t *index, struct qc_second_moments *m, struct qc_second_moments_layer *l, size_t block,
                         bool products, struct qc_status *st)
{
    qc_second_moments_lay_out(l, block);
    if (!products) l->product_count = l->keep = 0;
    const size_t row = qc_second_moments_row(l), own = within(BUFFER_ENTRIES / row, BUFFER_MIN, BUFFER_MAX),
                 shared = within(SHARED_ENTRIES / row, own, QC_MOMENTS_ROWS);
    m->capacity[m->count] = own;
    m->shared_capacity[m->count] = shared;
    if (shared * row > m->shared_size) m->shared_size = shared * row;
    if (!append_moments_layer(m, l, st)) return false;
    *index = m->count;
    if (!products) return true;
    const size_t count =
                     l->lanes ? l->columns * qc_second_moments_panels(l->groups) : qc_second_moments_panels(l->block),
                 panels = count * ((shared + 1) / 2) * QC_MOMENTS_PAIR_SIZE;
    if (panels > m->panel_size) m->panel_size = panels;
    if (l->lanes && l->groups > m->lane_size) m->lane_size = l->groups;
    if (row > m->square_size) m->square_size = row;
    return true;
}

bool qc_second_moments_put(size_t *index, struct qc_second_moments *m, struct qc_second_moments_layer *l, size_t block,
                           struct qc_status *st)
{
    *index = find_equal_layer(m, l);
    if (!*index) return append_layer(index, m, l, block, true, st);
    if (l->few_levels) m->layers[*index - 1]->few_levels = true;
    return true;
}

enum taken { MEANS, PRODUCTS, PAIRS };

static bool add_moments_layer(struct qc_second_moments *m, const struct qc_graph *g, qc_id id,
                              enum qc_second_moments_layers which, size_t block, enum taken taken, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    const struct qc_tensor *w = float_weight(g, n, which);
    if (!w) return true;
    struct qc_second_moments_layer *l = QC_NEW_ARRAY(m->arena, struct qc_second_moments_layer, 1, st);
    if (!l) return false;
    const struct qc_node *q = qc_node_of(g, n->inputs[0]);
    l->value = q && q->op == QC_OP_Quantize ? q->inputs[0] : n->inputs[0];
    const char *reason =
        n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose ? window_layer(l, g, n, w) : dense_layer(l, n, w);
    if (!reason && g->values[l->value].type.dtype != QC_F32) reason = "its input is not float32";
    if (!reason && qc_constant_of(g, l->value)) reason = "its input is constant";
    if (!reason && (!l->channels || !l->outputs)) reason = "it is empty";
    m->reasons[id] = reason;
    if (reason) return true;
    if (taken == PRODUCTS && !take_centred(l, g, n, m->arena, st)) return false;
    const char *name = qc_value_name(g, l->value, m->arena, st); /* copied: moments outlive the graph */
    if (!name || !(l->name = qc_arena_strdup(m->arena, name, st)) || !(l->geometry = geometry_of(l, m->arena, st)))
        return false;
    l->few_levels = few_weight_levels(g, qc_second_moments_weight(g, n));
    if (taken == PAIRS) {
        l->paired = true;
        l->channels *= 2;
    }
    return taken == PRODUCTS ? qc_second_moments_put(&m->by_node[id], m, l, block, st)
                             : append_layer(&m->by_node[id], m, l, block, taken == PAIRS, st);
}

/* Makes second moments without layers, with room for those of each node. Fails if memory is out. */
static bool make_moments(struct qc_second_moments **out, size_t nodes, struct qc_status *st)
{
    *out = NULL;
    struct qc_second_moments *m;
    if (!QC_NEW_OWNER(m, st)) return false;
    const size_t most = QC_MOMENTS_RECURRENT * nodes + 1;
    bool ok = true;
    m->node_count = nodes;
    m->layers = QC_NEW_ARRAY(m->arena, struct qc_second_moments_layer *, most, st);
    m->capacity = QC_NEW_ARRAY(m->arena, size_t, most, st);
    m->shared_capacity = QC_NEW_ARRAY(m->arena, size_t, most, st);
    m->by_node = QC_NEW_ARRAY(m->arena, size_t, nodes + 1, st);
    m->reasons = QC_NEW_ARRAY(m->arena, const char *, nodes + 1, st);
    m->values = QC_NEW_ARRAY(m->arena, qc_id, most, st);
    m->locks = QC_NEW_ARRAY(m->arena, pthread_mutex_t, most, st);
    for (int k = 0; k < QC_MOMENTS_RECURRENT; k++)
        ok = (m->of_recurrent[k] = QC_NEW_ARRAY(m->arena, size_t, nodes + 1, st)) && ok;
    return QC_HAND_OVER(ok && m->layers && m->capacity && m->shared_capacity && m->by_node && m->reasons && m->values &&
                            m->locks,
                        out, m, qc_second_moments_free);
}

static bool find_moments_layers(struct qc_second_moments **out, const struct qc_graph *g,
                                enum qc_second_moments_layers which, size_t block, bool products, const bool *pairs,
                                struct qc_status *st)
{
    struct qc_second_moments *m = NULL;
    bool ok = make_moments(&m, g->node_count, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const enum qc_op op = g->nodes[id].op;
        if (op == QC_OP_Conv || op == QC_OP_ConvTranspose || op == QC_OP_Gemm || op == QC_OP_MatMul)
            ok = add_moments_layer(m, g, id, which, block ? block : QC_MOMENTS_BLOCK,
                                   products             ? PRODUCTS
                                   : pairs && pairs[id] ? PAIRS
                                                        : MEANS,
                                   st);
        else if (qc_is_recurrent(op) && products)
            ok = add_recurrent_layers(m, g, id, which, block ? block : QC_MOMENTS_BLOCK, st);
    }
    for (size_t i = 0; ok && i < m->count; i++) pthread_mutex_init(&m->locks[i], NULL);
    return QC_HAND_OVER(ok, out, m, qc_second_moments_free);
}

bool qc_second_moments_new(struct qc_second_moments **out, const struct qc_graph *g,
                           enum qc_second_moments_layers which, size_t block, struct qc_status *st)
{
    return find_moments_layers(out, g, which, block, true, NULL, st);
}

bool qc_second_moments_new_means(struct qc_second_moments **out, const struct qc_graph *g, struct qc_status *st)
{
    return find_moments_layers(out, g, QC_MOMENTS_QUANTIZED, 0, false, NULL, st);
}

bool qc_second_moments_new_pairs(struct qc_second_moments **out, const struct qc_graph *g, const bool *pairs,
                                 struct qc_status *st)
{
    if (!find_moments_layers(out, g, QC_MOMENTS_QUANTIZED, 0, false, pairs, st)) return false;
    (*out)->one_by_one = true;
    return true;
}

static void free_sums(struct qc_second_moments_sums *s)
{
    qc_second_moments_drop_products(s);
    free(s->sums);
    qc_second_moments_drop_rows(s);
    *s = (struct qc_second_moments_sums){0};
}

void qc_second_moments_close(struct qc_second_moments *m)
{
    for (unsigned w = 0; m->workers && w < m->worker_count; w++) {
        struct qc_second_moments_worker *own = &m->workers[w];
        for (size_t i = 0; own->buffers && i < m->count * QC_MOMENTS_BUFFERS; i++) free(own->buffers[i].rows);
        free(own->buffers);
        free(own->shared.rows);
        free(own->panels);
        free(own->lanes);
        free(own->squares);
    }
    free(m->workers);
    m->workers = NULL;
    m->worker_count = 0;
}

static void free_layer(struct qc_second_moments_layer *l)
{
    for (int p = 0; p < QC_MOMENTS_PARTS && !l->borrowed; p++)
        for (int k = 0; k < QC_MOMENTS_CLASSES; k++) free_sums(&l->parts[p].of[k]);
}

void qc_second_moments_forget(struct qc_second_moments *m, qc_id node)
{
    struct qc_second_moments_layer *l = qc_second_moments_of(m, NULL, node);
    if (!l) return;
    free_layer(l);
    for (unsigned k = 0; m->one_by_one && k < m->worker_count; k++)
        for (size_t i = 0; i < QC_MOMENTS_BUFFERS; i++) {
            struct qc_second_moments_buffer *b =
                &m->workers[k].buffers[(m->by_node[node] - 1) * QC_MOMENTS_BUFFERS + i];
            free(b->rows);
            b->rows = NULL;
        }
}

void qc_second_moments_free(struct qc_second_moments *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->count; i++) {
        free_layer(m->layers[i]);
        pthread_mutex_destroy(&m->locks[i]);
    }
    qc_second_moments_close(m);
    qc_index_free(&m->by_name);
    qc_index_free(&m->by_value);
    qc_arena_free(m->arena);
    free(m);
}

size_t qc_second_moments_block(const struct qc_second_moments *m)
{
    size_t most = 0;
    for (size_t i = 0; i < m->count; i++) most = m->layers[i]->block > most ? m->layers[i]->block : most;
    return most;
}

size_t qc_second_moments_count(const struct qc_second_moments *m)
{
    return m->count;
}

struct qc_second_moments_layer *qc_second_moments_at(const struct qc_second_moments *m, size_t i)
{
    return m->layers[i];
}

struct qc_second_moments_layer *qc_second_moments_of(const struct qc_second_moments *m, const char **reason, qc_id node)
{
    if (reason) *reason = m->reasons[node];
    return m->by_node[node] ? m->layers[m->by_node[node] - 1] : NULL;
}

bool qc_second_moments_keeps_rows(const struct qc_second_moments *m)
{
    for (size_t i = 0; i < m->count; i++)
        for (int p = 0; p < QC_MOMENTS_PARTS; p++)
            for (int c = 0; c < QC_MOMENTS_CLASSES; c++)
                if (m->layers[i]->parts[p].of[c].rows) return true;
    return false;
}

/* Returns the output positions of a layer in a run with `elements` of its input; 0: unknown. */
static size_t positions_of(const struct qc_second_moments_layer *l, size_t elements)
{
    const struct qc_window *w = &l->window;
    size_t in = l->channels, out = 1;
    for (int i = 0; l->window_given && i < w->spatial; i++) {
        if (w->in[i] == QC_FREE || w->out[i] == QC_FREE) return 0;
        in *= (size_t)w->in[i];
        out *= (size_t)w->out[i];
    }
    return in ? elements / in * out : 0;
}

void qc_second_moments_expect(struct qc_second_moments *m, qc_id value, size_t elements, size_t runs)
{
    size_t slot = SIZE_MAX;
    for (uint32_t i; (i = qc_index_next(&m->by_value, qc_hash_number(value), &slot));) {
        struct qc_second_moments_layer *l = m->layers[i - 1];
        const size_t n = l->value == value ? positions_of(l, elements) : 0;
        if (n && runs) l->rows_max = runs * (qc_second_moments_positions(l, n) + 1);
    }
}

/* Least products for a file: 512 KiB. */
enum { SPILL_MIN = 1 << 16 };

void qc_second_moments_spill(struct qc_second_moments *m)
{
    for (size_t i = 0; i < m->count; i++) {
        struct qc_second_moments_layer *l = m->layers[i];
        l->spills = !l->lanes && l->product_count >= SPILL_MIN;
    }
}

static size_t product_bytes(const struct qc_second_moments_layer *l)
{
    return l->rows_max && l->rows_max <= l->keep
               ? qc_second_moments_kept_bytes(l, l->rows_max)
               : QC_MOMENTS_PARTS * QC_MOMENTS_CLASSES * l->product_count * sizeof(int64_t);
}

static size_t means_bytes(const struct qc_second_moments_layer *l)
{
    return QC_MOMENTS_PARTS * QC_MOMENTS_CLASSES * qc_second_moments_row(l) * sizeof(int64_t);
}

size_t qc_second_moments_bytes(const struct qc_second_moments *m)
{
    size_t bytes = 0;
    for (size_t i = 0; i < m->count; i++) bytes += means_bytes(m->layers[i]) + product_bytes(m->layers[i]);
    return bytes;
}

size_t qc_second_moments_held_bytes(const struct qc_second_moments *m)
{
    size_t bytes = 0;
    for (size_t i = 0; i < m->count; i++)
        bytes += means_bytes(m->layers[i]) + (m->layers[i]->spills ? 0 : product_bytes(m->layers[i]));
    return bytes;
}

size_t qc_second_moments_spilled_bytes(const struct qc_second_moments_layer *l)
{
    const bool rows = l->rows_max && l->rows_max <= l->keep;
    if (!l->spills) return 0;
    return qc_second_moments_kept_bytes(l, rows ? l->rows_max : l->keep) +
           (rows ? 0 : l->product_count * sizeof(int64_t));
}

size_t qc_second_moments_worker_bytes(const struct qc_second_moments *m)
{
    size_t bytes =
               (m->panel_size + m->shared_size) * sizeof(int16_t) + (m->lane_size + m->square_size) * sizeof(int32_t),
           spilled = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct qc_second_moments_layer *l = m->layers[i];
        const size_t products = qc_second_moments_spilled_bytes(l);
        bytes += QC_MOMENTS_BUFFERS * m->capacity[i] * qc_second_moments_row(l) * sizeof(int16_t);
        spilled = products > spilled ? products : spilled;
    }
    return bytes + spilled;
}

size_t qc_second_moments_values(const qc_id **values, const struct qc_second_moments *m)
{
    *values = m->values;
    return m->value_count;
}

size_t qc_second_moments_positions(const struct qc_second_moments_layer *l, size_t n)
{
    const size_t columns = l->paired ? l->columns / 2 : l->columns;
    const double work = (double)n * (double)(l->outputs / l->groups) / (double)columns;
    size_t p = n / 4 < 2 * QC_MOMENTS_POSITIONS ? n / 4 : 2 * QC_MOMENTS_POSITIONS;
    if (p < QC_MOMENTS_POSITIONS) p = QC_MOMENTS_POSITIONS;
    if (p < n / 64) p = n / 64 < QC_MOMENTS_POSITIONS_MOST ? n / 64 : QC_MOMENTS_POSITIONS_MOST;
    if (p > 16 * columns) p = 16 * columns;
    if ((double)p > work) p = work < ROWS_MIN ? ROWS_MIN : (size_t)work;
    return p < n ? p : n;
}

bool qc_second_moments_class(struct qc_second_moments_sums **out, struct qc_second_moments_layer *l,
                             enum qc_second_moments_part part, int32_t c, struct qc_status *st)
{
    struct qc_second_moments_moments *m = &l->parts[part];
    *out = NULL;
    if (m->seen && c <= m->top - QC_MOMENTS_CLASSES) return true;
    if (!m->seen) m->top = c;
    m->seen = true;
    for (; m->top < c; m->top++) { /* the class that enters the window takes the slot of the one that leaves */
        if (c - m->top > QC_MOMENTS_CLASSES) m->top = c - QC_MOMENTS_CLASSES;
        free_sums(&m->of[qc_second_moments_slot(m->top + 1)]);
    }
    struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
    if (!s->sums) {
        s->sums = calloc(qc_second_moments_row(l), sizeof *s->sums);
        if (!s->sums) return qc_fail_memory(st, qc_second_moments_row(l) * sizeof *s->sums);
    }
    *out = s;
    return true;
}

void qc_second_moments_add_counts(struct qc_second_moments_moments *to, uint64_t rows, uint64_t samples,
                                  uint64_t skipped)
{
    to->rows += rows;
    to->samples += samples;
    to->skipped += skipped;
}

bool qc_second_moments_add(struct qc_second_moments_layer *to, const struct qc_second_moments_layer *from,
                           struct qc_status *st)
{
    if (to->groups != from->groups || to->columns != from->columns || to->block != from->block)
        return qc_fail(st, QC_BAD_INPUT,
                       "second moments of '%s' differ: %zu groups of %zu columns in blocks of %zu, and %zu of %zu in "
                       "blocks of %zu (--memory-limit decides on blocks)",
                       to->name, to->groups, to->columns, to->block, from->groups, from->columns, from->block);
    for (int p = 0; p < QC_MOMENTS_PARTS; p++)
        if (to->parts[p].rows + from->parts[p].rows > QC_MOMENTS_ROWS_MAX)
            return qc_fail(st, QC_BAD_INPUT, "too many samples for the second moments of '%s'; use fewer (--samples)",
                           to->name);
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) {
        const struct qc_second_moments_moments *m = &from->parts[p];
        qc_second_moments_add_counts(&to->parts[p], m->rows, m->samples, m->skipped);
        for (int32_t c = m->top; m->seen && c > m->top - QC_MOMENTS_CLASSES; c--) {
            const struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
            struct qc_second_moments_sums *mine;
            if (!s->sums) continue;
            if (!qc_second_moments_class(&mine, to, (enum qc_second_moments_part)p, c, st) ||
                (mine && !qc_second_moments_add_sums(mine, s, to, st)))
                return false;
        }
    }
    return true;
}

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
    bool ok = make_moments(&m, count, st);
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_second_moments_layer *l = QC_NEW_ARRAY(m->arena, struct qc_second_moments_layer, 1, st);
        const char *name = qc_arena_strdup(m->arena, layers[i].name, st),
                   *geometry = qc_arena_strdup(m->arena, layers[i].geometry, st);
        if (!l || !name || !geometry) {
            ok = false;
            break;
        }
        *l = layers[i];
        l->name = name;
        l->geometry = geometry;
        if (!plausible(l) || find_moments_layer(m, l)) {
            ok = qc_fail(st, QC_BAD_INPUT, "the second moments of '%s' have invalid sizes", name);
            break;
        }
        qc_second_moments_lay_out(l, l->block);
        ok = l->block == layers[i].block
                 ? append_moments_layer(m, l, st)
                 : qc_fail(st, QC_BAD_INPUT, "the second moments of '%s' have invalid blocks", name);
        if (ok) pthread_mutex_init(&m->locks[m->count - 1], NULL);
    }
    return QC_HAND_OVER(ok, out, m, qc_second_moments_free);
}

bool qc_second_moments_merge(struct qc_second_moments *to, const struct qc_second_moments *from, struct qc_status *st)
{
    if (to->count != from->count)
        return qc_fail(st, QC_BAD_INPUT, "holds second moments of %zu layers, expected %zu: made with other options",
                       from->count, to->count);
    for (size_t i = 0; i < to->count; i++) {
        if (!same_moments_layer(to->layers[i], from->layers[i]))
            return qc_fail(st, QC_BAD_INPUT, "holds second moments of other layers: of '%s' (%s), expected '%s' (%s)",
                           from->layers[i]->name, from->layers[i]->geometry, to->layers[i]->name,
                           to->layers[i]->geometry);
        if (!qc_second_moments_add(to->layers[i], from->layers[i], st)) return false;
    }
    return true;
}

/* Takes the sums of `from` without a copy. */
static void take_parts_of(struct qc_second_moments_layer *l, const struct qc_second_moments_layer *from)
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
        struct qc_second_moments_layer *l = m->layers[i], *from = find_moments_layer(seen, l);
        if (!from && l->recurrent) continue; /* statistics may come from a version without recurrent layers */
        if (!from) {
            ok = qc_fail(st, QC_BAD_INPUT,
                         "%s: has no second moments of tensor '%s' (%s); collect again with the same model, --rules "
                         "and --target",
                         source, l->name, l->geometry);
            break;
        }
        take_parts_of(l, from);
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
        const struct qc_second_moments_layer *from = find_moments_layer(m, to->layers[i]);
        there = from != NULL;
        if (there) take_parts_of(to->layers[i], from);
        if (there) to->layers[i]->borrowed = true;
    }
    return QC_HAND_OVER(ok && there, out, to, qc_second_moments_free) || ok;
}
