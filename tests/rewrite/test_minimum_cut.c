// SPDX-License-Identifier: Apache-2.0
/* Minimum cuts of random networks are those that a search over all divisions finds. */
#include "rewrite/passes/minimum_cut.h"
#include "tests/check.h"

enum { VERTICES = 8, EDGES = 20, NETWORKS = 300 };

struct made {
    unsigned count;
    uint32_t from[EDGES], to[EDGES];
    int64_t capacity[EDGES];
};

static uint32_t random_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* sides: bit v is set if vertex v is with the source. */
static int64_t sum_of(const struct made *m, unsigned sides)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < m->count; i++)
        if (sides >> m->from[i] & 1 && !(sides >> m->to[i] & 1)) sum += m->capacity[i];
    return sum;
}

Test(minimum_cut, is_the_least_of_all_divisions)
{
    uint64_t state = 1;
    for (unsigned n = 0; n < NETWORKS; n++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        struct qc_flow_cut *cut;
        struct made m = {.count = EDGES};
        int64_t least = INT64_MAX;
        unsigned most = 0, sides = 0;
        cr_assert(a && qc_cut_new(&cut, VERTICES, a, ST));
        for (unsigned i = 0; i < EDGES; i++) {
            m.from[i] = random_number(&state) % VERTICES;
            m.to[i] = random_number(&state) % VERTICES;
            m.capacity[i] = random_number(&state) % 10; /* few values: several cuts are minimum */
            MUST(qc_cut_edge(cut, m.from[i], m.to[i], m.capacity[i], ST));
        }
        for (unsigned s = 0; s < 1u << VERTICES; s++) {
            if (!(s >> QC_CUT_SOURCE & 1) || s >> QC_CUT_SINK & 1) continue;
            const int64_t sum = sum_of(&m, s);
            if (sum < least || (sum == least && __builtin_popcount(s) > __builtin_popcount(most))) most = s;
            least = sum < least ? sum : least;
        }
        cr_expect_eq(qc_cut_solve(cut), least, "network %u", n);
        for (unsigned v = 0; v < VERTICES; v++) sides |= (unsigned)qc_cut_with_source(cut, v) << v;
        cr_expect_eq(sides, most, "network %u: %x, not %x", n, sides, most);
    }
}

Test(minimum_cut, does_not_contain_an_edge_that_it_must_not)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_flow_cut *cut;
    enum { A = QC_CUT_FIRST, B, COUNT };
    cr_assert(a && qc_cut_new(&cut, COUNT, a, ST) && qc_cut_edge(cut, QC_CUT_SOURCE, A, 3, ST) &&
              qc_cut_edge(cut, A, B, QC_CUT_NEVER, ST) && qc_cut_edge(cut, B, QC_CUT_SINK, 5, ST));
    cr_expect_eq(qc_cut_solve(cut), 3);
    cr_expect(!qc_cut_with_source(cut, A) && !qc_cut_with_source(cut, B));
    MUST(qc_cut_edge(cut, QC_CUT_SOURCE, A, 9, ST));
    cr_expect_eq(qc_cut_solve(cut), 2);
    cr_expect(qc_cut_with_source(cut, A) && qc_cut_with_source(cut, B));
}
