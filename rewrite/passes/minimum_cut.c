// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/minimum_cut.h"

#include <string.h>

#include "base/array.h"

/* Edges are stored in pairs: edge e ^ 1 leads back. */
struct edge {
    uint32_t to, next; /* next: 1 + the next edge of the same vertex; 0: none */
    int64_t left;
};

struct qc_flow_cut {
    struct qc_arena *arena;
    size_t vertices, edge_count, edge_capacity;
    struct edge *edges;
    uint32_t *first; /* [vertices]: 1 + the first edge; 0: none */
    uint32_t *at;    /* [vertices]: the edge to try next */
    uint32_t *depth; /* [vertices]: 1 + the distance to the sink; 0: no path */
    uint32_t *queue; /* [vertices] */
    uint32_t *path;  /* [vertices]: the edges of a path */
};

bool qc_cut_new(struct qc_flow_cut **out, size_t vertices, struct qc_arena *a, struct qc_status *st)
{
    struct qc_flow_cut *c = QC_NEW_ARRAY(a, struct qc_flow_cut, 1, st);
    if (!c) return false;
    *c = (struct qc_flow_cut){.arena = a,
                              .vertices = vertices,
                              .first = QC_NEW_ARRAY(a, uint32_t, vertices, st),
                              .at = QC_NEW_ARRAY(a, uint32_t, vertices, st),
                              .depth = QC_NEW_ARRAY(a, uint32_t, vertices, st),
                              .queue = QC_NEW_ARRAY(a, uint32_t, vertices, st),
                              .path = QC_NEW_ARRAY(a, uint32_t, vertices, st)};
    *out = c;
    return st->code == QC_OK;
}

bool qc_cut_edge(struct qc_flow_cut *c, uint32_t from, uint32_t to, int64_t capacity, struct qc_status *st)
{
    const uint32_t ends[] = {from, to};
    for (unsigned i = 0; i < 2; i++) {
        struct edge *more = qc_arena_grown(c->arena, c->edges, c->edge_count, &c->edge_capacity, sizeof *more, st);
        if (!more) return false;
        c->edges = more;
        c->edges[c->edge_count++] =
            (struct edge){.to = ends[1 - i], .next = c->first[ends[i]], .left = i ? 0 : capacity};
        c->first[ends[i]] = (uint32_t)c->edge_count;
    }
    return true;
}

/* Sets the distance of each vertex to the sink over edges that have capacity left. Returns true if the source has
   one. */
static bool measure(struct qc_flow_cut *c)
{
    size_t head = 0, tail = 0;
    memset(c->depth, 0, c->vertices * sizeof *c->depth);
    memcpy(c->at, c->first, c->vertices * sizeof *c->at);
    c->depth[QC_CUT_SINK] = 1;
    c->queue[tail++] = QC_CUT_SINK;
    while (head < tail) {
        const uint32_t v = c->queue[head++];
        for (uint32_t e = c->first[v]; e; e = c->edges[e - 1].next) {
            const uint32_t from = c->edges[e - 1].to;
            if (c->depth[from] || !c->edges[(e - 1) ^ 1].left) continue;
            c->depth[from] = c->depth[v] + 1;
            c->queue[tail++] = from;
        }
    }
    return c->depth[QC_CUT_SOURCE] != 0;
}

/* Sends flow along one shortest path and returns its amount; 0 if no such path is left. */
static int64_t send(struct qc_flow_cut *c)
{
    size_t length = 0;
    int64_t amount = INT64_MAX;
    for (uint32_t v = QC_CUT_SOURCE; v != QC_CUT_SINK;) {
        uint32_t e = c->at[v];
        while (e && (!c->edges[e - 1].left || c->depth[c->edges[e - 1].to] + 1 != c->depth[v]))
            e = c->edges[e - 1].next;
        c->at[v] = e;
        if (e) {
            c->path[length++] = e - 1;
            v = c->edges[e - 1].to;
        } else if (length) { /* a dead end: go back, and do not come again */
            c->depth[v] = 0;
            v = c->edges[c->path[--length] ^ 1].to;
        } else {
            return 0;
        }
    }
    for (size_t i = 0; i < length; i++)
        amount = c->edges[c->path[i]].left < amount ? c->edges[c->path[i]].left : amount;
    for (size_t i = 0; i < length; i++) {
        c->edges[c->path[i]].left -= amount;
        c->edges[c->path[i] ^ 1].left += amount;
    }
    return amount;
}

int64_t qc_cut_solve(struct qc_flow_cut *c)
{
    int64_t sum = 0, amount;
    while (measure(c))
        while ((amount = send(c))) sum += amount;
    return sum;
}

bool qc_cut_with_source(const struct qc_flow_cut *c, uint32_t vertex)
{
    return !c->depth[vertex];
}
