// SPDX-License-Identifier: Apache-2.0
#include "graph/infer/einsum.h"

#include <string.h>

#include "graph/infer/infer_help.h"

enum { LETTERS = 52, UNUSED = -2 };

static int letter(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* Reads a term up to `end`, with `wide` dimensions for "...". Returns false if it has more than QC_RANK_MAX dimensions
   or invalid characters. */
static bool read_term(uint8_t label[QC_RANK_MAX], int *rank, const char *s, const char *end, int wide)
{
    bool dots = false;
    *rank = 0;
    while (s < end) {
        int n = 1, first = letter(*s);
        if (*s == ' ') {
            s++;
            continue;
        }
        if (end - s >= 3 && strncmp(s, "...", 3) == 0 && !dots) {
            dots = true;
            first = LETTERS + QC_RANK_MAX - wide;
            n = wide;
            s += 2;
        } else if (first < 0) {
            return false;
        }
        s++;
        for (int i = 0; i < n; i++) {
            if (*rank == QC_RANK_MAX) return false;
            label[(*rank)++] = (uint8_t)(first + i);
        }
    }
    return true;
}

static bool has_dots(const char *s, const char *end)
{
    return s < end && memchr(s, '.', (size_t)(end - s)) != NULL;
}

/* Returns the number of dimensions of "..." in a term of an input of this rank. */
static int width_of(const char *s, const char *end, int rank)
{
    int letters = 0;
    if (!has_dots(s, end)) return 0;
    for (; s < end; s++) letters += letter(*s) >= 0;
    return rank - letters;
}

/* The result of an equation without "->": "...", then the letters that occur once, in alphabetical order. */
static bool implicit(struct qc_einsum *e, int wide)
{
    int seen[QC_EINSUM_LABELS] = {0};
    for (unsigned i = 0; i < e->input_count; i++)
        for (int d = 0; d < e->rank[i]; d++) seen[e->label[i][d]]++;
    for (int k = 0; k < wide; k++) e->result[e->result_rank++] = (uint8_t)(LETTERS + QC_RANK_MAX - wide + k);
    for (int k = 0; k < LETTERS; k++) {
        if (seen[k] != 1) continue;
        if (e->result_rank == QC_RANK_MAX) return false;
        e->result[e->result_rank++] = (uint8_t)k;
    }
    return true;
}

static bool bind_sizes(struct qc_einsum *e, const struct qc_infer *c, struct qc_status *st)
{
    char text[QC_SHAPE_TEXT];
    for (int k = 0; k < QC_EINSUM_LABELS; k++) e->size[k] = UNUSED;
    for (unsigned i = 0; i < e->input_count; i++) {
        const struct qc_shape *x = &qc_in(c, i)->shape;
        bool fits = x->rank == e->rank[i];
        for (int d = 0; fits && d < x->rank; d++) {
            int64_t *size = &e->size[e->label[i][d]];
            const bool known = *size != UNUSED && *size != QC_FREE && *size != 1;
            if (*size == UNUSED || (*size == 1 && x->dim[d] != QC_FREE) || (*size == QC_FREE && x->dim[d] > 1))
                *size = x->dim[d];
            else
                fits = !known || x->dim[d] == *size || x->dim[d] == 1 || x->dim[d] == QC_FREE;
        }
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "input %u of shape %s does not fit the equation", i,
                           qc_shape_text(text, x));
    }
    return true;
}

bool qc_einsum_of(struct qc_einsum *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_infer c = {.graph = g, .node = n};
    const char *equation = qc_attr_string(n, "equation", ""), *arrow = strstr(equation, "->");
    const char *const left = arrow ? arrow : equation + strlen(equation);
    struct qc_einsum e = {.input_count = n->input_count};
    int wide = 0;
    bool ok = n->input_count <= QC_EINSUM_INPUTS;
    const char *s = equation;
    for (unsigned i = 0; ok && i < n->input_count;
         i++) { /* finds the width first: fewer dimensions are aligned with the last ones */
        const char *comma = memchr(s, ',', (size_t)(left - s)), *end = comma ? comma : left;
        const int width = width_of(s, end, qc_in(&c, i)->shape.rank);
        ok = width >= 0 && (comma != NULL) == (i + 1 < n->input_count);
        wide = width > wide ? width : wide;
        s = comma ? comma + 1 : left;
    }
    s = equation;
    for (unsigned i = 0; ok && i < n->input_count; i++) {
        const char *comma = memchr(s, ',', (size_t)(left - s)), *end = comma ? comma : left;
        ok = read_term(e.label[i], &e.rank[i], s, end, width_of(s, end, qc_in(&c, i)->shape.rank));
        s = comma ? comma + 1 : left;
    }
    ok = ok &&
         (arrow ? read_term(e.result, &e.result_rank, arrow + 2, arrow + strlen(arrow), wide) : implicit(&e, wide));
    if (!ok) return qc_fail(st, QC_BAD_INPUT, "the equation \"%.80s\" does not fit the inputs", equation);
    if (!bind_sizes(&e, &c, st)) return false;
    for (int d = 0; d < e.result_rank; d++) {
        bool twice = false;
        for (int k = 0; k < d; k++) twice = twice || e.result[k] == e.result[d];
        if (twice || e.size[e.result[d]] == UNUSED)
            return qc_fail(st, QC_BAD_INPUT, "the result of the equation \"%.80s\" cannot be", equation);
    }
    *out = e;
    return true;
}

bool qc_infer_einsum(struct qc_infer *c, struct qc_status *st)
{
    struct qc_einsum e;
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    bool ranked = true;
    if (!qc_infer_same_dtype(c, 0, c->node->input_count, st)) return false;
    for (unsigned i = 0; i < c->node->input_count; i++) {
        if (!qc_has_in(c, i)) return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
        ranked = ranked && qc_in(c, i)->shape.rank >= 0;
    }
    if (ranked) {
        if (!qc_einsum_of(&e, c->graph, c->node, st)) return false;
        s = (struct qc_shape){.rank = e.result_rank};
        for (int d = 0; d < s.rank; d++) s.dim[d] = e.size[e.result[d]];
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}
