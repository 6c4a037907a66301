// SPDX-License-Identifier: Apache-2.0
/* What the subgraphs of a node read from outside. A name that a subgraph or one around it makes is its own. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "onnx/read/importing.h"

/* The names of one graph, sorted; the graphs around it follow. */
struct scope {
    const struct scope *around;
    size_t count;
    const char **names;
};

struct found {
    size_t count, capacity;
    const char **names;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool makes(const struct scope *s, const char *name)
{
    for (; s; s = s->around)
        if (s->count && bsearch(&name, s->names, s->count, sizeof *s->names, by_name)) return true;
    return false;
}

static bool add(struct found *f, struct qc_importer *im, const char *name, struct qc_status *st)
{
    if (f->count == f->capacity) {
        const size_t capacity = f->capacity ? 2 * f->capacity : 16;
        const char **names = QC_NEW_ARRAY(im->arena, const char *, capacity, st);
        if (!names) return false;
        if (f->count) memcpy(names, f->names, f->count * sizeof *names);
        f->names = names;
        f->capacity = capacity;
    }
    f->names[f->count++] = name;
    return true;
}

/* An optional name that is not there is NULL or empty. */
static bool read(struct found *f, struct qc_importer *im, const struct scope *s, const char *name, struct qc_status *st)
{
    return !*qc_proto_text(name) || makes(s, name) || !qc_import_find(im, name) || add(f, im, name, st);
}

static void put(struct scope *s, const char *name)
{
    if (*qc_proto_text(name)) s->names[s->count++] = name;
}

static bool enter(struct scope *s, struct qc_importer *im, const Onnx__GraphProto *g, struct qc_status *st)
{
    size_t most = g->n_input;
    bool fits = qc_add_size(&most, most, g->n_initializer) && qc_add_size(&most, most, g->n_sparse_initializer);
    for (size_t i = 0; fits && i < g->n_node; i++) fits = qc_add_size(&most, most, g->node[i]->n_output);
    if (!fits) return qc_fail_memory(st, UINT64_MAX);
    if (!(s->names = QC_NEW_ARRAY(im->arena, const char *, most, st))) return false;
    for (size_t i = 0; i < g->n_input; i++) put(s, g->input[i]->name);
    for (size_t i = 0; i < g->n_initializer; i++) put(s, g->initializer[i]->name);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (g->sparse_initializer[i]->values) put(s, g->sparse_initializer[i]->values->name);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) put(s, g->node[i]->output[k]);
    qsort(s->names, s->count, sizeof *s->names, by_name);
    return true;
}

/* Recursion ends with the nesting of messages, which qc_proto_check bounds. */
static bool look_into(struct found *f, struct qc_importer *im, const struct scope *around, const Onnx__NodeProto *p,
                      struct qc_status *st);

static bool look_at(struct found *f, struct qc_importer *im, const struct scope *around, const Onnx__GraphProto *g,
                    struct qc_status *st)
{
    struct scope s = {.around = around};
    if (!enter(&s, im, g, st)) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (!read(f, im, &s, g->node[i]->input[k], st)) return false;
        if (!look_into(f, im, &s, g->node[i], st)) return false;
    }
    for (size_t i = 0; i < g->n_output; i++)
        if (!read(f, im, &s, g->output[i]->name, st)) return false;
    return true;
}

static bool look_into(struct found *f, struct qc_importer *im, const struct scope *around, const Onnx__NodeProto *p,
                      struct qc_status *st)
{
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *a = p->attribute[i];
        if (a->g && !look_at(f, im, around, a->g, st)) return false;
        for (size_t k = 0; k < a->n_graphs; k++)
            if (!look_at(f, im, around, a->graphs[k], st)) return false;
    }
    return true;
}

bool qc_import_find_outer(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *g = im->proto;
    if (!(im->outer = QC_NEW_ARRAY(im->arena, struct qc_outer_names, g->n_node, st))) return false;
    for (size_t i = 0; i < g->n_node; i++) {
        struct found f = {.count = 0};
        size_t kept = 0;
        if (!look_into(&f, im, NULL, g->node[i], st)) return false;
        if (f.count) qsort(f.names, f.count, sizeof *f.names, by_name);
        for (size_t k = 0; k < f.count; k++)
            if (!kept || strcmp(f.names[kept - 1], f.names[k]) != 0) f.names[kept++] = f.names[k];
        im->outer[i] = (struct qc_outer_names){.count = kept, .names = f.names};
    }
    return true;
}
