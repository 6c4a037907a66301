// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/layered.h"
#include "export/report/repeats.h"
#include "export/report/report_parts.h"

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

/* Characters in a line; least number of nodes for folded blocks; nodes of the largest drawing. */
enum { LETTERS = 30, FOLDED = 48, LARGEST = 20000 };

/* Size of the cells in the box of a repeat. */
enum { CELL_WIDTH = 44, CELL_MARGIN = 5, CELL_TOP = 17, CELL_HEIGHT = 31 };

static const double least_db[] = {40, 30, 20, 10};
enum { LOSSES = sizeof least_db / sizeof *least_db };

/* A box of a drawing: a node, or a repeat with a cell for each copy. */
struct box {
    const struct qc_report_node *node; /* the first, if the box is a repeat */
    size_t count;                      /* number of nodes */
    size_t block;                      /* number of the copy that contains this box, or of the first copy; 0: none */
    size_t copies;                     /* 0: a node */
    const char *reads;                 /* inputs whose lines are too long to be drawn, or NULL */
};

/* Returns a copy of a repeat as a box. */
static struct box cell_of(const struct box *b, size_t copy)
{
    const size_t length = b->count / b->copies;
    return (struct box){.node = b->node + copy * length, .count = length, .block = b->block + copy};
}

struct drawing {
    const struct qc_report *r;
    struct qc_report_node *nodes; /* shown nodes, including their inputs */
    size_t count;
    struct qc_repeat *repeats;
    size_t repeat_count;
    struct qc_arena *a;
    struct qc_status *st;
};

/* Arithmetic on shapes and on other constants is not shown. */
static bool shown(const struct qc_report_node *n, const size_t *of)
{
    if (n->kind != QC_NODE_SHAPE) return true;
    if (strcmp(n->label, "Shape") == 0 || strcmp(n->label, "Size") == 0) return false;
    for (size_t k = 0; k < n->input_count; k++)
        if (of[n->inputs[k]] != QC_NO_INDEX) return true;
    return false;
}

static bool choose(struct drawing *d)
{
    size_t *of = QC_NEW_ARRAY(d->a, size_t, d->r->node_count, d->st);
    d->nodes = QC_NEW_ARRAY(d->a, struct qc_report_node, d->r->node_count, d->st);
    if (!of || !d->nodes) return false;
    for (size_t i = 0; i < d->r->node_count; i++) {
        const struct qc_report_node *n = &d->r->nodes[i];
        of[i] = QC_NO_INDEX;
        if (!shown(n, of)) continue;
        size_t *inputs = QC_NEW_ARRAY(d->a, size_t, n->input_count, d->st);
        struct qc_report_node *to = &d->nodes[d->count];
        if (!inputs) return false;
        *to = *n;
        to->inputs = inputs;
        to->input_count = 0;
        for (size_t k = 0; k < n->input_count; k++)
            if (of[n->inputs[k]] != QC_NO_INDEX) inputs[to->input_count++] = of[n->inputs[k]];
        of[i] = d->count++;
    }
    if (d->count < FOLDED) return true;
    if (!qc_repeats_find(&d->repeats, &d->repeat_count, d->nodes, d->count, d->a, d->st)) return false;
    size_t folded = d->count;
    for (size_t i = 0; i < d->repeat_count; i++) folded -= d->repeats[i].copies * (d->repeats[i].length - 1);
    if (2 * folded > d->count) d->repeat_count = 0; /* little shorter, but with less detail */
    return true;
}

/* *out: the boxes of a drawing; of: the box of each node. */
static bool boxes_of(struct box **out, size_t *count, size_t *of, const struct drawing *d, bool folded)
{
    struct box *list = QC_NEW_ARRAY(d->a, struct box, d->count, d->st);
    size_t many = 0, block = 0, i = 0;
    if (!list) return false;
    for (size_t k = 0; k <= d->repeat_count; k++) {
        const struct qc_repeat end = {.first = d->count}, *r = k < d->repeat_count ? &d->repeats[k] : &end;
        for (; i < r->first; i++) {
            of[i] = many;
            list[many++] = (struct box){.node = &d->nodes[i], .count = 1};
        }
        for (size_t n = 0; n < r->copies * r->length; n++, i++) {
            if (!folded)
                list[many++] = (struct box){.node = &d->nodes[i], .count = 1, .block = block + n / r->length + 1};
            else if (n == 0)
                list[many++] = (struct box){.node = &d->nodes[i],
                                            .count = r->copies * r->length,
                                            .block = block + 1,
                                            .copies = r->copies};
            of[i] = many - 1;
        }
        block += r->copies;
    }
    *out = list;
    *count = many;
    return true;
}

/* Returns the number of bytes in the first `count` characters of s. */
static size_t letter_bytes(const char *s, size_t count)
{
    size_t at = 0;
    for (size_t seen = 0; s[at]; at++)
        if (((unsigned char)s[at] & 0xc0) != 0x80 && seen++ == count) break;
    return at;
}

static size_t letters(const char *s)
{
    size_t count = 0;
    for (; *s; s++) count += ((unsigned char)*s & 0xc0) != 0x80;
    return count;
}

/* Write the beginning of s, or its end, which distinguishes names. */
static void first_letters(FILE *f, const char *s)
{
    qc_html_part(f, s, letter_bytes(s, LETTERS));
    if (letters(s) > LETTERS) fputs("…", f);
}

static void tail(FILE *f, const char *s)
{
    size_t many = letters(s);
    qc_html(f, "%s%s", many > LETTERS ? "…" : "", s + (many > LETTERS ? letter_bytes(s, many - LETTERS) : 0));
}

/* Returns the length in bytes of the common prefix of a block's names, up to a separator. */
static size_t prefix_of(const struct box *b)
{
    const char *name = b->node->name;
    size_t same = strlen(name), end = 0;
    for (size_t i = 1; i < b->count; i++) {
        size_t k = 0;
        while (k < same && b->node[i].name[k] == name[k]) k++;
        if (k > 1) same = k; /* one different name does not remove the prefix */
    }
    for (size_t i = 1; i < same; i++)
        if (name[i] == '/' || name[i] == '.' || name[i] == ':') end = i;
    return end;
}

/* Returns the least SQNR of the values that the box makes; NaN: not measured. */
static double sqnr_of(const struct drawing *d, const struct box *b)
{
    double least = (double)NAN;
    for (size_t i = 0; i < b->count; i++) {
        const struct qc_report_node *n = &b->node[i];
        if (n->layer != QC_NO_INDEX && !isnan(d->r->layers[n->layer].sqnr_db))
            least = fmin(least, d->r->layers[n->layer].sqnr_db);
    }
    return least;
}

static bool hurts(const struct qc_report *r, const struct box *b)
{
    for (size_t k = 0; k < b->count; k++)
        for (size_t i = 0; i < r->suggestion_count; i++)
            if (b->node[k].name && strcmp(b->node[k].name, r->suggestions[i].node) == 0) return true;
    return false;
}

static const char *kind_of(const struct box *b)
{
    if (b->count > 1) return "q";
    switch (b->node->kind) {
    case QC_NODE_INTEGER: return "q";
    case QC_NODE_FLOAT: return "f";
    case QC_NODE_SHAPE:
    case QC_NODE_INPUT:
    case QC_NODE_OUTPUT: return "io";
    }
    return "";
}

static void classes(FILE *f, const struct drawing *d, const struct box *b)
{
    double db = sqnr_of(d, b);
    fputs(kind_of(b), f);
    if (!isnan(db)) {
        size_t loss = 0;
        while (loss < LOSSES && db < least_db[loss]) loss++;
        qc_html(f, " l%zu", loss);
    }
    if (hurts(d->r, b)) fputs(" hurt", f);
}

/* Lines of a box: the op or the name of a port, the other of the two, then shape and SQNR of the result. */
static const char *words(const struct box *b)
{
    const struct qc_report_node *n = b->node;
    return n->kind == QC_NODE_INPUT || n->kind == QC_NODE_OUTPUT ? n->name : n->label;
}

static const char *second(const struct box *b)
{
    const struct qc_report_node *n = b->node;
    return n->kind == QC_NODE_INPUT || n->kind == QC_NODE_OUTPUT ? n->label : n->name ? n->name : "";
}

static void measures(FILE *f, const struct drawing *d, const struct box *b)
{
    double db = sqnr_of(d, b);
    qc_html(f, "%s", b->node->shape);
    if (!isnan(db)) qc_html(f, "%s%s dB", b->node->shape ? " · " : "", QC_FIXED(db, 1));
}

static double width_of(const struct box *b)
{
    size_t first = letters(words(b)), two = letters(b->reads ? b->reads : second(b)) + (b->reads ? 11 : 0),
           third = (b->node->shape ? letters(b->node->shape) : 0) + 10;
    if (b->copies) return fmax(190, 2 * CELL_MARGIN + (double)b->copies * CELL_WIDTH);
    double most = fmax(6.6 * (double)(first < LETTERS ? first : LETTERS),
                       fmax(5.7 * (double)(two < LETTERS ? two : LETTERS),
                            5.7 * (double)(b->count == 1 && b->node->layer == QC_NO_INDEX ? third - 10 : third)));
    return fmax(64, 18 + most);
}

static void box_hint(FILE *f, const struct drawing *d, const struct box *b)
{
    const struct qc_report_node *n = b->node;
    double db = sqnr_of(d, b);
    if (b->count > 1) {
        qc_html(f, "<title>block, %zu ops: ", b->count);
        for (size_t i = 0; i < b->count; i++) qc_html(f, "%s%s", i ? ", " : "", n[i].name);
    } else {
        qc_html(f, "<title>%s: %s", n->name, n->label);
        if (n->shape) qc_html(f, " %s", n->shape);
        if (n->reason) qc_html(f, "; float: %s", n->reason);
    }
    if (b->reads) qc_html(f, "; also reads %s", b->reads);
    if (!isnan(db)) qc_html(f, "; %s dB", QC_FIXED(db, 2));
    fputs("</title>", f);
}

static void line_of(FILE *f, double x, double y, const char *css)
{
    qc_html(f, "<text x=\"%.1f\" y=\"%.0f\"", x, y);
    fprintf(f, "%s>", css);
}

/* Draws all copies of a repeat: a line of words, and a cell for each copy with its number and least SQNR. */
static void draw_repeat(FILE *f, const struct drawing *d, const struct box *b, double x, double y, double width)
{
    const struct box first = cell_of(b, 0);
    fputs("<g class=\"run\">", f);
    qc_html(f, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" rx=\"6\"/>", x, y, width, QC_LAYERED_HEIGHT);
    line_of(f, x + width / 2, y + 12, "");
    qc_html(f, "%zu blocks of %zu ops", b->copies, first.count);
    if (prefix_of(&first) && width > 240) {
        fputs(", the first is ", f);
        qc_html_part(f, b->node->name, prefix_of(&first));
    }
    fputs("</text></g>\n", f);
    x += (width - (double)b->copies * CELL_WIDTH) / 2;
    for (size_t c = 0; c < b->copies; c++, x += CELL_WIDTH) {
        const struct box cell = cell_of(b, c);
        const double db = sqnr_of(d, &cell);
        fputs("<a href=\"#graph\" tabindex=\"-1\" class=\"box block ", f);
        classes(f, d, &cell);
        qc_html(f, "\" data-block=\"%zu\">", cell.block);
        box_hint(f, d, &cell);
        qc_html(f, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"4\"/>", x + 2, y + CELL_TOP,
                CELL_WIDTH - 4, CELL_HEIGHT);
        line_of(f, x + CELL_WIDTH / 2., y + CELL_TOP + 13, " class=\"strong\"");
        qc_html(f, "%zu</text>", c + 1);
        line_of(f, x + CELL_WIDTH / 2., y + CELL_TOP + 26, "");
        if (!isnan(db)) qc_html(f, "%s dB", QC_FIXED(db, 0));
        fputs("</text></a>\n", f);
    }
}

static void draw_box(FILE *f, const struct drawing *d, const struct box *b, double x, double y, double width)
{
    if (b->copies) {
        draw_repeat(f, d, b, x, y, width);
        return;
    }
    const bool link = b->node->layer != QC_NO_INDEX;
    double middle = x + width / 2;
    if (link)
        qc_html(f, "<a href=\"#L%zu\" tabindex=\"-1\" class=\"box ", b->node->layer + 1);
    else
        fputs("<g class=\"box ", f);
    classes(f, d, b);
    if (b->block) qc_html(f, "\" data-block=\"%zu", b->block);
    fputs("\">", f);
    box_hint(f, d, b);
    qc_html(f, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" rx=\"6\"/>", x, y, width, QC_LAYERED_HEIGHT);
    line_of(f, middle, y + 17, " class=\"strong\"");
    first_letters(f, words(b));
    fputs("</text>", f);
    line_of(f, middle, y + 31, "");
    if (b->reads) {
        fputs("also reads ", f);
        tail(f, b->reads);
    } else
        tail(f, second(b));
    fputs("</text>", f);
    line_of(f, middle, y + 45, "");
    measures(f, d, b);
    fputs(link ? "</text></a>\n" : "</text></g>\n", f);
}

static void draw_edge(FILE *f, const struct qc_layered_edge *e, const char *css)
{
    if (!e->point_count) return;
    qc_html(f, "<path class=\"%s\" d=\"M%.1f %.0f", css, e->x[0], e->y[0]);
    for (size_t i = 1; i < e->point_count; i++) {
        double half = (e->y[i] - e->y[i - 1]) / 2;
        if (fabs(e->x[i] - e->x[i - 1]) >= .05)
            qc_html(f, "C%.1f %.0f %.1f %.0f %.1f %.0f", e->x[i - 1], e->y[i - 1] + half, e->x[i], e->y[i] - half,
                    e->x[i], e->y[i]);
        else if (i + 1 == e->point_count || fabs(e->x[i + 1] - e->x[i]) >= .05) /* straight parts are one line */
            qc_html(f, "V%.0f", e->y[i]);
    }
    fputs("\"/>\n", f);
}

static bool inputs_of(struct qc_layered_node *to, const struct drawing *d, const struct box *b, const size_t *of,
                      size_t self, size_t *last_reader)
{
    size_t total = 0;
    for (size_t i = 0; i < b->count; i++) total += b->node[i].input_count;
    size_t *inputs = QC_NEW_ARRAY(d->a, size_t, total, d->st);
    if (!inputs) return false;
    for (size_t i = 0; i < b->count; i++)
        for (size_t k = 0; k < b->node[i].input_count; k++) {
            size_t from = of[b->node[i].inputs[k]];
            if (from == self || last_reader[from] == self + 1) continue;
            last_reader[from] = self + 1;
            inputs[to->input_count++] = from;
        }
    to->inputs = inputs;
    return true;
}

/* Boxes name inputs whose lines are omitted, and get room for the names. */
static bool say_what_is_left_out(struct qc_layered **l, struct qc_layered_node *nodes, struct box *boxes, size_t count,
                                 const struct drawing *d)
{
    bool any = false;
    for (size_t k = 0; k < (*l)->edge_count; k++) {
        const struct qc_layered_edge *e = &(*l)->edges[k];
        if (e->point_count) continue;
        any = true;
        boxes[e->to].reads = boxes[e->from].node->name;
        nodes[e->to].width = width_of(&boxes[e->to]);
    }
    return !any || qc_layered_new(l, nodes, count, d->a, d->st);
}

static bool draw(FILE *f, const struct drawing *d, bool folded)
{
    struct qc_layered *l;
    struct box *boxes;
    size_t count, *of = QC_NEW_ARRAY(d->a, size_t, d->count, d->st),
                  *last_reader = QC_NEW_ARRAY(d->a, size_t, d->count, d->st);
    struct qc_layered_node *nodes = QC_NEW_ARRAY(d->a, struct qc_layered_node, d->count, d->st);
    if (!of || !nodes || !last_reader || !boxes_of(&boxes, &count, of, d, folded)) return false;
    for (size_t i = 0; i < count; i++) {
        nodes[i].width = width_of(&boxes[i]);
        if (!inputs_of(&nodes[i], d, &boxes[i], of, i, last_reader)) return false;
    }
    if (!qc_layered_new(&l, nodes, count, d->a, d->st) || !say_what_is_left_out(&l, nodes, boxes, count, d))
        return false;
    qc_html(
        f,
        "<div class=\"graph\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n<svg width=\"%.0f\" height=\"%.0f\" "
        "viewBox=\"-2 -2 %.0f %.0f\" role=\"group\" aria-label=\"The graph: %zu boxes, %zu edges\">\n",
        folded ? "Graph, blocks folded" : "Graph, every op", l->width + 4, l->height + 4, l->width + 4, l->height + 4,
        count, l->edge_count);
    for (size_t k = 0; k < l->edge_count; k++) draw_edge(f, &l->edges[k], kind_of(&boxes[l->edges[k].from]));
    for (size_t i = 0; i < count; i++) draw_box(f, d, &boxes[i], l->x[i], l->y[i], nodes[i].width);
    fputs("</svg></div>\n", f);
    return true;
}

static void swatch(FILE *f, const char *css, const char *words)
{
    qc_html(f,
            "<li class=\"%s\"><svg width=\"26\" height=\"14\"><rect x=\"1\" y=\"1\" width=\"24\" height=\"12\" "
            "rx=\"3\"/></svg>%s</li>",
            css, words);
}

static void legend(FILE *f)
{
    fputs("<ul class=\"legend boxes\">", f);
    swatch(f, "q l0", "40 dB and more");
    swatch(f, "q l1", "30 to 40");
    swatch(f, "q l2", "20 to 30");
    swatch(f, "q l3", "10 to 20");
    swatch(f, "q l4", "below 10 dB");
    swatch(f, "f", "in float");
    swatch(f, "q hurt", "hurts most");
    fputs("</ul>\n", f);
}

/* Writes one line for each reason. */
static void islands(FILE *f, const struct qc_report *r)
{
    if (!r->float_op_count) return;
    qc_html(f,
            "<h3 style=\"margin-top:14px\">%zu op%s stay%s in float</h3>\n<div "
            "class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Ops in "
            "float\"><table><thead><tr><th>reason</th><th "
            "class=\"n\">ops</th><th>names</th></tr></thead><tbody>\n",
            r->float_op_count, qc_plural(r->float_op_count), r->float_op_count == 1 ? "s" : "");
    for (size_t i = 0; i < r->float_op_count; i++) {
        const char *reason = r->float_ops[i].reason;
        size_t count = 0, first = 0;
        while (strcmp(r->float_ops[first].reason, reason) != 0) first++;
        if (first < i) continue;
        for (size_t k = i; k < r->float_op_count; k++) count += strcmp(r->float_ops[k].reason, reason) == 0;
        qc_html(f, "<tr><td>%s</td><td class=\"n\">%zu</td><td class=\"name\">", reason, count);
        for (size_t k = i, shown = 0; k < r->float_op_count && shown <= 6; k++) {
            if (strcmp(r->float_ops[k].reason, reason) != 0) continue;
            if (shown++ == 6) {
                qc_html(f, ", … and %zu more", count - 6);
                break;
            }
            qc_html(f, "%s%s (%s)", shown > 1 ? ", " : "", r->float_ops[k].name, r->float_ops[k].op);
        }
        fputs("</td></tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

bool qc_html_graph(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct drawing d = {.r = r, .a = a, .st = st};
    if (!a) return qc_fail_memory(st, 1);
    if (!choose(&d)) return false;
    fputs("<p class=\"note\">A box is computed in one piece; its colour shows the error relative to the float network. "
          "Arithmetic on shapes is left out.</p>\n",
          f);
    legend(f);
    fputs("<div class=\"tools\"><input id=\"find\" type=\"search\" placeholder=\"Find: name, op, shape\" "
          "aria-label=\"Find in the graph\"><span class=\"zoom\" role=\"group\" aria-label=\"Zoom\"></span><span "
          "class=\"muted\" id=\"found\" role=\"status\"></span></div>\n",
          f);
    if (d.repeat_count && !draw(f, &d, true)) return false;
    if (d.count > LARGEST)
        qc_html(f, "<p>%zu boxes are too many for a drawing with every op.</p>\n", d.count);
    else if (!draw(f, &d, false))
        return false;
    fputs("<p class=\"readout\" id=\"graph-readout\" role=\"status\"></p>\n", f);
    islands(f, r);
    return true;
}
