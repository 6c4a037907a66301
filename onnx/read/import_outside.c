// SPDX-License-Identifier: Apache-2.0
/* What the bodies of a node use and do not make: the node needs it as it needs its inputs. */
#include <string.h>

#include "graph/core/body.h"
#include "onnx/read/importing.h"

enum { OUTSIDE_MAX = 4096 };

struct found {
    struct qc_importer *im;
    size_t count, capacity;
    const char **names;
};

static bool add_name(struct found *o, const char *name, struct qc_status *st)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->names[i], name) == 0) return true;
    if (o->count == OUTSIDE_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "its bodies use more than %d values from outside", (int)OUTSIDE_MAX);
    if (o->count == o->capacity) {
        const size_t more = o->capacity ? 2 * o->capacity : 16;
        const char **names = QC_NEW_ARRAY(o->im->arena, const char *, more, st);
        if (!names) return false;
        if (o->count) memcpy(names, o->names, o->count * sizeof *names);
        o->names = names;
        o->capacity = more;
    }
    o->names[o->count++] = name;
    return true;
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
static bool add_outside(struct found *o, const Onnx__GraphProto *p, unsigned depth, struct qc_status *st)
{
    struct qc_importer inner = {.arena = o->im->arena, .proto = p};
    if (depth > QC_BODY_DEPTH_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "bodies are nested more than %d deep", (int)QC_BODY_DEPTH_MAX);
    if (!qc_import_enter_own_names(&inner, 0, st)) return false;
    for (size_t i = 0; i < p->n_node; i++) {
        const Onnx__NodeProto *n = p->node[i];
        struct found nested = {.im = o->im};
        for (size_t k = 0; k < n->n_input; k++)
            if (*n->input[k] && !qc_import_find(&inner, n->input[k]) && !add_name(o, n->input[k], st)) return false;
        for (size_t k = 0; k < n->n_attribute; k++)
            if (n->attribute[k]->g && !add_outside(&nested, n->attribute[k]->g, depth + 1, st)) return false;
        for (size_t k = 0; k < nested.count; k++)
            if (!qc_import_find(&inner, nested.names[k]) && !add_name(o, nested.names[k], st)) return false;
    }
    for (size_t i = 0; i < p->n_output; i++) {
        const char *name = qc_proto_text(p->output[i]->name);
        if (*name && !qc_import_find(&inner, name) && !add_name(o, name, st)) return false;
    }
    return true;
}

bool qc_import_enter_outside(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    im->outside = QC_NEW_ARRAY(im->arena, struct qc_outside, p->n_node, st);
    if (!im->outside) return false;
    for (size_t i = 0; i < p->n_node; i++) {
        struct found o = {.im = im};
        for (size_t k = 0; k < p->node[i]->n_attribute; k++)
            if (p->node[i]->attribute[k]->g && !add_outside(&o, p->node[i]->attribute[k]->g, im->depth + 1, st))
                return qc_where(st, "node '%.200s' (%.80s)", qc_proto_text(p->node[i]->name),
                                qc_proto_text(p->node[i]->op_type));
        im->outside[i] = (struct qc_outside){.count = o.count, .names = o.names};
    }
    return true;
}
