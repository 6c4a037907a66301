// SPDX-License-Identifier: Apache-2.0
/* Drawings of graphs: nothing overlaps, edges go down and do not cross nodes, everything is inside, and drawings are
   reproducible. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "export/report/layered.h"

enum { MOST = 5000, INPUTS = 3 };

struct random {
    uint64_t state;
};

static size_t below(struct random *r, size_t n)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(r->state >> 33) % n;
}

/* Where an edge passes the height of nodes it is straight, and no node is there. */
static void check_beside(const struct qc_layered *d, const struct qc_layered_node *nodes, size_t count,
                         const struct qc_layered_edge *e)
{
    for (size_t p = 1; p < e->point_count; p++) {
        double top = e->y[p - 1], bottom = e->y[p], in_layer = fmod(top, QC_LAYERED_PITCH);
        if (in_layer >= QC_LAYERED_HEIGHT) {
            cr_assert_leq(bottom - top, QC_LAYERED_PITCH - QC_LAYERED_HEIGHT, "it bends where nodes are");
            continue;
        }
        cr_assert(in_layer == 0 && bottom - top == QC_LAYERED_HEIGHT && e->x[p] == e->x[p - 1]);
        for (size_t i = 0; i < count && count <= 1000; i++)
            cr_assert(d->y[i] != top || e->x[p] <= d->x[i] || e->x[p] >= d->x[i] + nodes[i].width,
                      "an edge runs behind node %zu", i);
    }
}

static void check(const struct qc_layered *d, const struct qc_layered_node *nodes, size_t count)
{
    static const double slack = 1e-6;
    size_t drawn = 0, points = 0;
    for (size_t i = 0; i < count; i++) {
        cr_assert(d->x[i] >= -slack && d->x[i] + nodes[i].width <= d->width + slack && d->y[i] >= 0 &&
                      d->y[i] + QC_LAYERED_HEIGHT <= d->height + slack,
                  "node %zu is outside", i);
        for (size_t k = 0; k < nodes[i].input_count; k++)
            cr_assert_gt(d->y[i], d->y[nodes[i].inputs[k]], "node %zu stands above its input", i);
        for (size_t j = 0; j < i; j++) {
            if (d->y[i] != d->y[j]) continue;
            double gap = fmax(d->x[i] - d->x[j] - nodes[j].width, d->x[j] - d->x[i] - nodes[i].width);
            cr_assert(gap >= QC_LAYERED_GAP - slack, "nodes %zu and %zu are %g apart", j, i, gap);
        }
    }
    for (size_t k = 0; k < d->edge_count; k++) {
        const struct qc_layered_edge *e = &d->edges[k];
        drawn += e->point_count > 0;
        points += e->point_count;
        if (!e->point_count) continue;
        cr_assert_eq(e->y[0], d->y[e->from] + QC_LAYERED_HEIGHT);
        cr_assert_eq(e->y[e->point_count - 1], d->y[e->to]);
        cr_assert(fabs(e->x[0] - d->x[e->from] - nodes[e->from].width / 2) < slack &&
                  fabs(e->x[e->point_count - 1] - d->x[e->to] - nodes[e->to].width / 2) < slack);
        for (size_t p = 1; p < e->point_count; p++) cr_assert_gt(e->y[p], e->y[p - 1]);
        for (size_t p = 0; p < e->point_count; p++) cr_assert(e->x[p] >= -slack && e->x[p] <= d->width + slack);
        check_beside(d, nodes, count, e);
    }
    cr_assert(points <= 20 * count + 5000, "%zu points for %zu nodes", points, count);
    cr_assert(2 * drawn >= d->edge_count, "%zu of %zu edges are drawn", drawn, d->edge_count);
}

Test(layered, random_graphs_of_1_to_5000_nodes)
{
    static size_t inputs[MOST][INPUTS];
    static struct qc_layered_node nodes[MOST];
    struct random r = {.state = 7};
    static const size_t sizes[] = {1, 2, 10, 100, 1000, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_arena *a = qc_arena_new();
        struct qc_layered *d, *again;
        size_t edges = 0;
        for (size_t i = 0; i < sizes[s]; i++) {
            nodes[i] = (struct qc_layered_node){.width = 40 + (double)below(&r, 100), .inputs = inputs[i]};
            for (size_t k = 0; i && k < INPUTS - 1 && below(&r, 3); k++) {
                /* Mostly near, sometimes far: skip connections. */
                size_t from = below(&r, 8) ? i - 1 - below(&r, i < 4 ? i : 4) : below(&r, i);
                if (k && inputs[i][0] == from) continue;
                inputs[i][nodes[i].input_count++] = from;
                edges++;
            }
        }
        cr_assert(qc_layered_new(&d, nodes, sizes[s], a, &st), "%s", st.message);
        cr_assert_eq(d->edge_count, edges);
        check(d, nodes, sizes[s]);
        cr_assert(qc_layered_new(&again, nodes, sizes[s], a, &st));
        cr_assert(memcmp(d->x, again->x, sizes[s] * sizeof *d->x) == 0 &&
                  memcmp(d->y, again->y, sizes[s] * sizeof *d->y) == 0);
        qc_arena_free(a);
    }
}

Test(layered, a_chain_is_straight_and_a_side_input_stands_at_its_reader)
{
    static const size_t in[6][2] = {{0}, {0}, {1}, {2}, {0}, {3, 4}}; /* 0 -> 1 -> 2 -> 3 -> 5, and 4 -> 5 */
    struct qc_layered_node nodes[6];
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    struct qc_layered *d;
    for (size_t i = 0; i < 6; i++)
        nodes[i] = (struct qc_layered_node){.width = 50,
                                            .input_count = i == 5             ? 2
                                                           : i == 0 || i == 4 ? 0
                                                                              : 1,
                                            .inputs = in[i]};
    cr_assert(qc_layered_new(&d, nodes, 6, a, &st), "%s", st.message);
    check(d, nodes, 6);
    cr_expect_eq(d->y[4], d->y[3], "the side input is as far up as the first node");
    cr_expect(fabs(d->x[0] - d->x[3]) < 1e-9);
    qc_arena_free(a);
}

Test(layered, no_nodes_are_an_empty_drawing)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    struct qc_layered *d;
    cr_assert(qc_layered_new(&d, NULL, 0, a, &st), "%s", st.message);
    cr_expect(d->width == 0 && d->height == 0 && d->edge_count == 0);
    qc_arena_free(a);
}
