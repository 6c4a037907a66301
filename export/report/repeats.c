// SPDX-License-Identifier: Apache-2.0
#include "export/report/repeats.h"

#include <stdlib.h>

enum { ROUNDS = 8, SHORTEST = 3, WORK = 20000000 };

struct search {
    size_t count;
    uint64_t *ops; /* a hash of the op of each node */
    bool *taken;
    size_t *read_in; /* by node: the last query that counted it */
    size_t questions;
    const struct qc_report_node *nodes;
};

static uint64_t number_of(const struct qc_report_node *n)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (const char *s = n->label; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (h ^ n->input_count) * 1099511628211u;
}

/* Returns true if [first, first + length) consists of several copies of a shorter stretch. */
static bool repeats_itself(const struct search *s, size_t first, size_t length)
{
    for (size_t p = 1; p <= length / 2; p++) {
        size_t i = 0;
        if (length % p) continue;
        while (i + p < length && s->ops[first + i] == s->ops[first + i + p]) i++;
        if (i + p == length) return true;
    }
    return false;
}

/* Returns the number of nodes before `first` that nodes of [first, first + length) read. */
static size_t comes_in(struct search *s, size_t first, size_t length)
{
    size_t many = 0;
    s->questions++;
    for (size_t i = first; i < first + length; i++)
        for (size_t k = 0; k < s->nodes[i].input_count; k++) {
            const size_t from = s->nodes[i].inputs[k];
            if (from >= first || s->read_in[from] == s->questions) continue;
            s->read_in[from] = s->questions;
            many++;
        }
    return many;
}

/* Returns the best start of the copies in the run [first, end) with the period `length`: fewest inputs from outside. */
static struct qc_repeat cut(struct search *s, size_t first, size_t end, size_t length)
{
    struct qc_repeat best = {.first = first, .length = length, .copies = (end - first) / length};
    size_t least = SIZE_MAX;
    for (size_t shift = 0; shift < length && first + shift + 2 * length <= end; shift++) {
        size_t in = comes_in(s, first + shift + length, length);
        if (in >= least) continue;
        least = in;
        best.first = first + shift;
        best.copies = (end - best.first) / length;
    }
    return best;
}

/* Returns the run of free nodes that saves most; copies 0: none. */
static struct qc_repeat largest(struct search *s)
{
    struct qc_repeat best = {.copies = 0};
    size_t saved = 0, longest = s->count / 2;
    if (longest > WORK / (s->count + 1)) longest = WORK / (s->count + 1);
    for (size_t p = SHORTEST; p <= longest; p++)
        for (size_t i = 0; i + p < s->count; i++) {
            size_t first = i;
            while (i + p < s->count && !s->taken[i] && !s->taken[i + p] && s->ops[i] == s->ops[i + p]) i++;
            size_t run = i - first;
            if (run < p || run / p * p <= saved || repeats_itself(s, first, p)) continue;
            saved = run / p * p;
            best = (struct qc_repeat){.first = first, .length = p, .copies = run + p}; /* copies: length of the run for
                                                                                          now; cut divides it */
        }
    return best.copies ? cut(s, best.first, best.first + best.copies, best.length) : best;
}

static int by_place(const void *a, const void *b)
{
    const struct qc_repeat *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

bool qc_repeats_find(struct qc_repeat **out, size_t *repeat_count, const struct qc_report_node *nodes, size_t count,
                     struct qc_arena *a, struct qc_status *st)
{
    struct search s = {.count = count, .nodes = nodes};
    struct qc_repeat *list = QC_NEW_ARRAY(a, struct qc_repeat, ROUNDS, st);
    size_t found = 0;
    s.ops = QC_NEW_ARRAY(a, uint64_t, count, st);
    s.taken = QC_NEW_ARRAY(a, bool, count, st);
    s.read_in = QC_NEW_ARRAY(a, size_t, count, st);
    if (!list || !s.ops || !s.taken || !s.read_in) return false;
    for (size_t i = 0; i < count; i++) s.ops[i] = number_of(&nodes[i]);
    for (; found < ROUNDS; found++) {
        struct qc_repeat r = largest(&s);
        if (!r.copies) break;
        for (size_t i = 0; i < r.copies * r.length; i++) s.taken[r.first + i] = true;
        list[found] = r;
    }
    qsort(list, found, sizeof *list, by_place);
    *out = list;
    *repeat_count = found;
    return true;
}
