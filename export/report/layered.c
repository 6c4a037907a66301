// SPDX-License-Identifier: Apache-2.0
#include "export/report/layered.h"

#include <math.h>
#include <stdlib.h>

/* Edges over more than LONGEST layers are omitted. If there would be too many bends, the limit is lower. */
enum { SWEEPS = 12, LONGEST = 60, SHORTEST = 4, BENDS_OF_NODE = 6, BENDS = 2000 };

/* A node, or a bend of an edge that crosses a layer. */
struct vertex {
    size_t layer, place; /* place: index in its layer */
    double width, x, wish;
    bool bend;
};

/* A link between vertices of adjacent layers. */
struct link {
    size_t up, down;
    double weight;
};

struct work {
    struct qc_arena *a;
    struct qc_status *st;
    const struct qc_layered_node *nodes;
    size_t count, vertex_count, link_count, layer_count, longest;
    struct vertex *v;
    struct link *links;
    size_t *start;                       /* [layer_count + 1] */
    size_t *order;                       /* [vertex_count], by layer and place */
    size_t *up_at, *up, *down_at, *down; /* links of each vertex: up[up_at[v] .. up_at[v + 1]) */
};

static bool rank(struct work *w)
{
    size_t *first_reader = QC_NEW_ARRAY(w->a, size_t, w->count, w->st),
           *reads = QC_NEW_ARRAY(w->a, size_t, w->count, w->st);
    if (!first_reader || !reads) return false;
    for (size_t i = 0; i < w->count; i++) {
        for (size_t k = 0; k < w->nodes[i].input_count; k++) {
            size_t below = w->v[w->nodes[i].inputs[k]].layer + 1;
            if (below > w->v[i].layer) w->v[i].layer = below;
        }
        if (w->v[i].layer + 1 > w->layer_count) w->layer_count = w->v[i].layer + 1;
    }
    /* A node with at least as many reads as inputs moves down to its first reader: the total edge length does not
       grow. */
    for (size_t i = w->count; i-- > 0;) {
        if (reads[i] && reads[i] >= w->nodes[i].input_count) w->v[i].layer = first_reader[i] - 1;
        for (size_t k = 0; k < w->nodes[i].input_count; k++) {
            size_t from = w->nodes[i].inputs[k];
            if (!reads[from]++ || w->v[i].layer < first_reader[from]) first_reader[from] = w->v[i].layer;
        }
    }
    return true;
}

static size_t span_of(const struct work *w, size_t node, size_t input)
{
    return w->v[node].layer - w->v[w->nodes[node].inputs[input]].layer;
}

/* Returns the number of bends of edges over at most `longest` layers. */
static size_t bends_of(const struct work *w, size_t longest)
{
    size_t bends = 0;
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < w->nodes[i].input_count; k++) {
            size_t span = span_of(w, i, k);
            if (span <= longest) bends += span - 1;
        }
    return bends;
}

static bool bend_edges(struct work *w, struct qc_layered *out)
{
    size_t edges = 0, links = 0, bends;
    w->longest = LONGEST;
    while ((bends = bends_of(w, w->longest)) > BENDS_OF_NODE * w->count + BENDS && w->longest > SHORTEST)
        w->longest -= w->longest / 4;
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < w->nodes[i].input_count; k++, edges++)
            if (span_of(w, i, k) <= w->longest) links += span_of(w, i, k);
    struct vertex *v = QC_NEW_ARRAY(w->a, struct vertex, w->count + bends, w->st);
    w->links = QC_NEW_ARRAY(w->a, struct link, links, w->st);
    out->edges = QC_NEW_ARRAY(w->a, struct qc_layered_edge, edges, w->st);
    if (!v || !w->links || !out->edges) return false;
    for (size_t i = 0; i < w->count; i++) v[i] = w->v[i];
    w->v = v;
    w->vertex_count = w->count;
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k < w->nodes[i].input_count; k++) {
            size_t from = w->nodes[i].inputs[k], span = span_of(w, i, k), last = from;
            struct qc_layered_edge *e = &out->edges[out->edge_count++];
            *e = (struct qc_layered_edge){.from = from, .to = i};
            if (span > w->longest) continue;
            e->point_count = 2 * span;
            e->x = QC_NEW_ARRAY(w->a, double, e->point_count, w->st);
            e->y = QC_NEW_ARRAY(w->a, double, e->point_count, w->st);
            if (!e->x || !e->y) return false;
            for (size_t s = 1; s <= span; s++) {
                size_t next = s == span ? i : w->vertex_count++;
                if (s < span) v[next] = (struct vertex){.layer = v[from].layer + s, .bend = true};
                /* larger weights keep long edges straight */
                w->links[w->link_count++] = (struct link){.up = last,
                                                          .down = next,
                                                          .weight = v[last].bend && v[next].bend   ? 8
                                                                    : v[last].bend || v[next].bend ? 2
                                                                                                   : 1};
                last = next;
            }
        }
    return true;
}

static bool index_links(struct work *w)
{
    size_t n = w->vertex_count;
    w->start = QC_NEW_ARRAY(w->a, size_t, w->layer_count + 2, w->st);
    w->order = QC_NEW_ARRAY(w->a, size_t, n, w->st);
    w->up_at = QC_NEW_ARRAY(w->a, size_t, n + 2, w->st);
    w->down_at = QC_NEW_ARRAY(w->a, size_t, n + 2, w->st);
    w->up = QC_NEW_ARRAY(w->a, size_t, w->link_count, w->st);
    w->down = QC_NEW_ARRAY(w->a, size_t, w->link_count, w->st);
    if (!w->start || !w->order || !w->up_at || !w->down_at || !w->up || !w->down) return false;
    for (size_t i = 0; i < n; i++) w->start[w->v[i].layer + 2]++;
    for (size_t l = 2; l <= w->layer_count + 1; l++) w->start[l] += w->start[l - 1];
    for (size_t i = 0; i < n; i++) w->order[w->start[w->v[i].layer + 1]++] = i;
    for (size_t at = 0; at < n; at++) w->v[w->order[at]].place = at - w->start[w->v[w->order[at]].layer];
    for (size_t k = 0; k < w->link_count; k++) {
        w->up_at[w->links[k].down + 2]++;
        w->down_at[w->links[k].up + 2]++;
    }
    for (size_t i = 2; i <= n + 1; i++) {
        w->up_at[i] += w->up_at[i - 1];
        w->down_at[i] += w->down_at[i - 1];
    }
    for (size_t k = 0; k < w->link_count; k++) {
        w->up[w->up_at[w->links[k].down + 1]++] = k;
        w->down[w->down_at[w->links[k].up + 1]++] = k;
    }
    return true;
}

struct place {
    size_t vertex, old;
    double wish;
};

static int by_wish(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->wish < y->wish ? -1 : x->wish > y->wish ? 1 : x->old < y->old ? -1 : 1;
}

static double mean_place(const struct work *w, size_t i, bool from_above)
{
    const size_t *at = from_above ? w->up_at : w->down_at, *list = from_above ? w->up : w->down;
    double sum = 0;
    for (size_t k = at[i]; k < at[i + 1]; k++)
        sum += (double)w->v[from_above ? w->links[list[k]].up : w->links[list[k]].down].place;
    return at[i] == at[i + 1] ? (double)w->v[i].place : sum / (double)(at[i + 1] - at[i]);
}

static bool order_layers(struct work *w)
{
    struct place *row = QC_NEW_ARRAY(w->a, struct place, w->vertex_count, w->st);
    if (!row) return false;
    for (int s = 0; s < SWEEPS; s++)
        for (size_t step = 0; step < w->layer_count; step++) {
            bool down = s % 2 == 0;
            size_t l = down ? step : w->layer_count - 1 - step, first = w->start[l], n = w->start[l + 1] - first;
            for (size_t k = 0; k < n; k++)
                row[k] = (struct place){.vertex = w->order[first + k],
                                        .old = k,
                                        .wish = mean_place(w, w->order[first + k], down)};
            qsort(row, n, sizeof *row, by_wish);
            for (size_t k = 0; k < n; k++) {
                w->order[first + k] = row[k].vertex;
                w->v[row[k].vertex].place = k;
            }
        }
    return true;
}

/* Returns the weighted mean of the neighbours' centres. */
static double wish(const struct work *w, size_t i, bool up, bool down)
{
    double sum = 0, weight = 0;
    for (size_t k = w->up_at[i]; up && k < w->up_at[i + 1]; k++) {
        const struct link *l = &w->links[w->up[k]];
        sum += l->weight * w->v[l->up].x;
        weight += l->weight;
    }
    for (size_t k = w->down_at[i]; down && k < w->down_at[i + 1]; k++) {
        const struct link *l = &w->links[w->down[k]];
        sum += l->weight * w->v[l->down].x;
        weight += l->weight;
    }
    return weight > 0 ? sum / weight : w->v[i].x;
}

/* A run of adjacent vertices that touch. */
struct block {
    double sum;
    size_t count, first;
};

/* Moves centres as near to the wished positions as order and widths allow. */
static void settle(struct work *w, size_t layer, struct block *blocks, double *offset, bool up, bool down)
{
    size_t first = w->start[layer], n = w->start[layer + 1] - first, count = 0;
    for (size_t k = 0; k < n; k++) {
        const struct vertex *v = &w->v[w->order[first + k]];
        offset[k] = k ? offset[k - 1] + (w->v[w->order[first + k - 1]].width + v->width) / 2 + QC_LAYERED_GAP : 0;
        blocks[count++] =
            (struct block){.sum = wish(w, w->order[first + k], up, down) - offset[k], .count = 1, .first = k};
        while (count > 1 && blocks[count - 2].sum / (double)blocks[count - 2].count >
                                blocks[count - 1].sum / (double)blocks[count - 1].count) {
            blocks[count - 2].sum += blocks[count - 1].sum;
            blocks[count - 2].count += blocks[count - 1].count;
            count--;
        }
    }
    for (size_t b = 0; b < count; b++)
        for (size_t k = 0; k < blocks[b].count; k++) {
            size_t at = blocks[b].first + k;
            w->v[w->order[first + at]].x = blocks[b].sum / (double)blocks[b].count + offset[at];
        }
}

static bool position(struct work *w)
{
    struct block *blocks = QC_NEW_ARRAY(w->a, struct block, w->vertex_count, w->st);
    double *offset = QC_NEW_ARRAY(w->a, double, w->vertex_count, w->st);
    if (!blocks || !offset) return false;
    for (int s = 0; s <= 2 * SWEEPS; s++) /* the last sweep goes down, which keeps chains straight */
        for (size_t step = 0; step < w->layer_count; step++) {
            bool down = s % 2 == 0, both = s > SWEEPS / 2 && s < SWEEPS;
            settle(w, down ? step : w->layer_count - 1 - step, blocks, offset, both || down, both || !down);
        }
    return true;
}

static void place_all(struct qc_layered *out, const struct work *w)
{
    double least = 0, most = 0;
    for (size_t i = 0; i < w->vertex_count; i++) {
        least = i ? fmin(least, w->v[i].x - w->v[i].width / 2) : w->v[i].x - w->v[i].width / 2;
        most = i ? fmax(most, w->v[i].x + w->v[i].width / 2) : w->v[i].x + w->v[i].width / 2;
    }
    for (size_t i = 0; i < w->vertex_count; i++) w->v[i].x -= least;
    for (size_t i = 0; i < w->count; i++) {
        out->x[i] = w->v[i].x - w->v[i].width / 2;
        out->y[i] = (double)w->v[i].layer * QC_LAYERED_PITCH;
    }
    out->width = most - least;
    out->height = w->layer_count ? (double)(w->layer_count - 1) * QC_LAYERED_PITCH + QC_LAYERED_HEIGHT : 0;
    size_t bend = w->count; /* bends are in the order of their creation */
    for (size_t k = 0; k < out->edge_count; k++) {
        struct qc_layered_edge *e = &out->edges[k];
        size_t n = e->point_count;
        if (!n) continue;
        e->x[0] = w->v[e->from].x;
        e->y[0] = out->y[e->from] + QC_LAYERED_HEIGHT;
        for (size_t s = 1; s + 1 < n; s += 2, bend++) {
            e->x[s] = e->x[s + 1] = w->v[bend].x;
            e->y[s] = (double)w->v[bend].layer * QC_LAYERED_PITCH;
            e->y[s + 1] = e->y[s] + QC_LAYERED_HEIGHT;
        }
        e->x[n - 1] = w->v[e->to].x;
        e->y[n - 1] = out->y[e->to];
    }
}

bool qc_layered_new(struct qc_layered **out, const struct qc_layered_node *nodes, size_t count, struct qc_arena *a,
                    struct qc_status *st)
{
    struct work w = {.a = a, .st = st, .nodes = nodes, .count = count};
    struct qc_layered *d = QC_NEW(a, struct qc_layered, st);
    w.v = QC_NEW_ARRAY(a, struct vertex, count, st);
    if (!d || !w.v || !(d->x = QC_NEW_ARRAY(a, double, count, st)) || !(d->y = QC_NEW_ARRAY(a, double, count, st)))
        return false;
    for (size_t i = 0; i < count; i++) w.v[i].width = nodes[i].width;
    if (!rank(&w) || !bend_edges(&w, d) || !index_links(&w) || !order_layers(&w) || !position(&w)) return false;
    place_all(d, &w);
    *out = d;
    return true;
}
