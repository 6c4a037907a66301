// SPDX-License-Identifier: Apache-2.0
/* Functions of the model (FunctionProto): each call is replaced by the nodes of the function before any other import.
   Names inside a function get the name of the call as a prefix. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "graph/types/number_format.h"
#include "onnx/read/importing.h"

/* Fields of NodeProto and FunctionProto from IR versions newer than our messages. */
enum { NODE_OVERLOAD = 8, FUNCTION_DEFAULTS = 11, FUNCTION_OVERLOAD = 13 };
/* Calls may come to LEAST nodes and one for each byte of the model, at most NODES, and to BYTES bytes and TIMES for
   each byte of the model. */
enum { DEPTH = 64, LEAST = 1 << 15, NODES = 1 << 18, BYTES = 32 << 20, TIMES = 64 };

struct function {
    const Onnx__FunctionProto *p;
    const char *overload;
    size_t default_count;
    ProtobufCMessage **defaults; /* AttributeProto */
    int opset;
    struct qc_texts inputs, outputs; /* numbers from 1 */
    size_t longest;                  /* bytes of the longest name that a node makes */
    bool active;                     /* being expanded: a call of it is recursive */
};

struct inliner {
    struct qc_importer *im;
    size_t function_count, made, made_most, calls;
    size_t bytes_before, bytes_most, bytes_checked; /* of the importer's arena */
    struct function *functions;
    struct qc_index by_name; /* of functions, from 1 */
    struct qc_texts taken;
    struct qc_texts suffixes; /* of a base of prefixes: the number after the last one in use */
};

/* The place of a node: the graph of the model (function NULL), or a call of a function. */
struct scope {
    const struct function *function;
    const char *prefix;
    const Onnx__NodeProto *call; /* its attributes and names are those of the outer graph */
    unsigned depth;
};

struct list {
    size_t count, capacity;
    Onnx__NodeProto **nodes; /* malloc */
};

/* --- Fields that our messages do not have --- */

/* *data: the bytes of a field of variable length. */
static bool field_bytes(const uint8_t **data, size_t *size, const ProtobufCMessageUnknownField *u)
{
    uint64_t length = 0;
    size_t at = 0;
    if (u->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) return false;
    for (unsigned shift = 0; at < u->len && shift < 64; shift += 7) {
        length |= (uint64_t)(u->data[at] & 0x7f) << shift;
        if (!(u->data[at++] & 0x80)) break;
    }
    if (length != u->len - at) return false;
    *data = u->data + at;
    *size = u->len - at;
    return true;
}

static const char *overload_of(const ProtobufCMessage *m, uint32_t tag, struct qc_arena *a, struct qc_status *st)
{
    const uint8_t *data;
    size_t size;
    for (unsigned i = 0; i < m->n_unknown_fields; i++)
        if (m->unknown_fields[i].tag == tag && field_bytes(&data, &size, &m->unknown_fields[i]))
            return qc_arena_strndup(a, (const char *)data, size, st);
    return "";
}

static bool read_defaults(struct function *f, struct qc_importer *im, struct qc_status *st)
{
    const ProtobufCMessage *m = &f->p->base;
    const uint8_t *data;
    size_t size;
    if (!(f->defaults = QC_NEW_ARRAY(im->arena, ProtobufCMessage *, m->n_unknown_fields, st))) return false;
    for (unsigned i = 0; i < m->n_unknown_fields; i++) {
        if (m->unknown_fields[i].tag != FUNCTION_DEFAULTS || !field_bytes(&data, &size, &m->unknown_fields[i]))
            continue;
        if (!qc_proto_check(&onnx__attribute_proto__descriptor, data, size, "an attribute", st) ||
            !qc_proto_unpack(&f->defaults[f->default_count], &onnx__attribute_proto__descriptor, data, size,
                             "an attribute", st))
            return qc_where(st, "function '%.200s'", qc_proto_text(f->p->name));
        struct qc_unpacked *u = QC_NEW(im->arena, struct qc_unpacked, st);
        if (!u) {
            onnx__attribute_proto__free_unpacked((Onnx__AttributeProto *)f->defaults[f->default_count], NULL);
            return false;
        }
        *u = (struct qc_unpacked){.message = f->defaults[f->default_count++], .next = im->unpacked};
        im->unpacked = u;
    }
    return true;
}

/* --- Names --- */

static bool take_name(struct inliner *x, const char *name, struct qc_status *st)
{
    return qc_texts_set(&x->taken, name, 1, x->im->arena, st);
}

static void take_graph(struct inliner *x, const Onnx__GraphProto *g, struct qc_status *st)
{
    for (size_t i = 0; i < g->n_input; i++) take_name(x, qc_proto_text(g->input[i]->name), st);
    for (size_t i = 0; i < g->n_initializer; i++) take_name(x, qc_proto_text(g->initializer[i]->name), st);
    for (size_t i = 0; i < g->n_node; i++) {
        const Onnx__NodeProto *n = g->node[i];
        for (size_t k = 0; k < n->n_output; k++) take_name(x, n->output[k], st);
        for (size_t k = 0; k < n->n_attribute; k++) { /* qc_proto_check bounds the nesting */
            if (n->attribute[k]->g) take_graph(x, n->attribute[k]->g, st);
            for (size_t j = 0; j < n->attribute[k]->n_graphs; j++) take_graph(x, n->attribute[k]->graphs[j], st);
        }
    }
}

static bool prefix_fits(const struct inliner *x, const struct function *f, const char *prefix, struct qc_status *st)
{
    if (qc_texts_find(&x->taken, prefix)) return false;
    const size_t length = strlen(prefix);
    char *name = malloc(length + f->longest + 1);
    if (!name) return qc_fail_memory(st, length);
    memcpy(name, prefix, length);
    bool fits = true;
    for (size_t i = 0; fits && i < f->p->n_node; i++)
        for (size_t k = 0; fits && k < f->p->node[i]->n_output; k++) {
            strcpy(name + length, f->p->node[i]->output[k]);
            fits = !qc_texts_find(&x->taken, name);
        }
    free(name);
    return fits;
}

/* Returns a unique name prefix for a call. */
static const char *prefix_of(struct inliner *x, const struct function *f, const Onnx__NodeProto *call,
                             struct qc_status *st)
{
    const char *base = qc_proto_label(call), *prefix = qc_arena_printf(x->im->arena, st, "%s/", base);
    /* Names of values rarely end in a slash, so mostly other prefixes collide. */
    size_t next = qc_texts_find(&x->suffixes, base);
    if (!next) next = 1;
    while (prefix && !prefix_fits(x, f, prefix, st) && st->code == QC_OK)
        prefix = qc_arena_printf(x->im->arena, st, "%s_%zu/", base, next++);
    if (!prefix || st->code != QC_OK || !take_name(x, prefix, st) ||
        !qc_texts_set(&x->suffixes, base, next, x->im->arena, st))
        return NULL;
    return prefix;
}

static const char *name_in(const struct inliner *x, const struct scope *s, const char *name, struct qc_status *st)
{
    if (!s->function || !*name) return name;
    const size_t output = qc_texts_find(&s->function->outputs, name), input = qc_texts_find(&s->function->inputs, name);
    if (output && output <= s->call->n_output && *s->call->output[output - 1]) return s->call->output[output - 1];
    if (input) return input <= s->call->n_input ? s->call->input[input - 1] : "";
    return qc_arena_printf(x->im->arena, st, "%s%s", s->prefix, name);
}

static char **names_in(const struct inliner *x, const struct scope *s, char **names, size_t count, struct qc_status *st)
{
    char **out = QC_NEW_ARRAY(x->im->arena, char *, count, st);
    for (size_t i = 0; out && i < count; i++) {
        out[i] = (char *)(uintptr_t)name_in(x, s, names[i], st);
    }
    return out;
}

/* --- Opsets of functions --- */

static struct qc_node_opset *opset_slot(const struct qc_importer *im, const Onnx__NodeProto *n)
{
    size_t i = (size_t)((uintptr_t)n >> 4) & (im->opset_slots - 1);
    while (im->opset_of[i].node && im->opset_of[i].node != n) i = (i + 1) & (im->opset_slots - 1);
    return &im->opset_of[i];
}

int qc_import_opset_of(const struct qc_importer *im, const Onnx__NodeProto *n)
{
    const struct qc_node_opset *s = im->opset_count ? opset_slot(im, n) : NULL;
    return s && s->node ? s->opset : im->opset;
}

/* --- Copies --- */

static bool inline_nodes(struct list *out, struct inliner *x, const struct scope *s, Onnx__NodeProto **nodes,
                         size_t count, struct qc_status *st);

static void copy_value(Onnx__ValueInfoProto **v, const struct inliner *x, const struct scope *s, struct qc_status *st)
{
    Onnx__ValueInfoProto *copy = qc_arena_dup(x->im->arena, *v, 1, sizeof **v, st);
    if (copy) copy->name = (char *)(uintptr_t)name_in(x, s, qc_proto_text(copy->name), st);
    *v = copy;
}

/* Copies a graph inside a node, with its names and calls replaced. */
static Onnx__GraphProto *copy_graph(struct inliner *x, const struct scope *s, const Onnx__GraphProto *from,
                                    struct qc_status *st)
{
    struct qc_arena *a = x->im->arena;
    Onnx__GraphProto *g = qc_arena_dup(a, from, 1, sizeof *from, st);
    struct list nodes = {0};
    if (!g) return NULL;
    g->input = qc_arena_dup(a, from->input, from->n_input, sizeof *g->input, st);
    g->output = qc_arena_dup(a, from->output, from->n_output, sizeof *g->output, st);
    g->initializer = qc_arena_dup(a, from->initializer, from->n_initializer, sizeof *g->initializer, st);
    if (st->code != QC_OK) return NULL;
    for (size_t i = 0; s->function && i < g->n_input; i++) copy_value(&g->input[i], x, s, st);
    for (size_t i = 0; s->function && i < g->n_output; i++) copy_value(&g->output[i], x, s, st);
    for (size_t i = 0; s->function && i < g->n_initializer; i++) {
        Onnx__TensorProto *t = qc_arena_dup(a, g->initializer[i], 1, sizeof *t, st);
        if (t) t->name = (char *)(uintptr_t)name_in(x, s, qc_proto_text(t->name), st);
        g->initializer[i] = t;
    }
    inline_nodes(&nodes, x, s, from->node, from->n_node, st);
    g->node = qc_arena_dup(a, nodes.nodes, nodes.count, sizeof *nodes.nodes, st);
    g->n_node = nodes.count;
    free(nodes.nodes);
    return st->code == QC_OK ? g : NULL;
}

static void copy_attributes(Onnx__NodeProto *n, struct inliner *x, const struct scope *s, struct qc_status *st)
{
    struct qc_arena *a = x->im->arena;
    Onnx__AttributeProto **from = n->attribute;
    const size_t count = n->n_attribute;
    n->n_attribute = 0;
    n->attribute = QC_NEW_ARRAY(a, Onnx__AttributeProto *, count, st);
    for (size_t i = 0; st->code == QC_OK && i < count; i++) {
        const char *reference = qc_proto_text(from[i]->ref_attr_name);
        if (*reference && s->function) {
            /* The call's attribute, else the function's default; without both it is absent here too. */
            const Onnx__AttributeProto *given = qc_proto_attr(s->call, reference);
            for (size_t k = 0; !given && k < s->function->default_count; k++) {
                const Onnx__AttributeProto *d = (const Onnx__AttributeProto *)s->function->defaults[k];
                if (strcmp(qc_proto_text(d->name), reference) == 0) given = d;
            }
            Onnx__AttributeProto *copy = given ? qc_arena_dup(a, given, 1, sizeof *given, st) : NULL;
            if (!copy) continue;
            copy->name = from[i]->name;
            n->attribute[n->n_attribute++] = copy;
            continue;
        }
        Onnx__AttributeProto *copy = from[i];
        if (copy->g || copy->n_graphs) {
            if (!(copy = qc_arena_dup(a, copy, 1, sizeof *copy, st))) return;
            if (copy->g) copy->g = copy_graph(x, s, copy->g, st);
            copy->graphs = qc_arena_dup(a, copy->graphs, copy->n_graphs, sizeof *copy->graphs, st);
            for (size_t k = 0; copy->graphs && k < copy->n_graphs; k++)
                copy->graphs[k] = copy_graph(x, s, copy->graphs[k], st);
        }
        n->attribute[n->n_attribute++] = copy;
    }
}

/* --- Nodes --- */

static bool push(struct list *out, struct inliner *x, Onnx__NodeProto *n, struct qc_status *st)
{
    Onnx__NodeProto **more = qc_grown(out->nodes, out->count, &out->capacity, sizeof *more, st);
    if (!more) return false;
    out->nodes = more;
    const size_t bytes = qc_arena_bytes(x->im->arena) - x->bytes_before;
    if (x->made++ == x->made_most || bytes > x->bytes_most)
        return qc_fail(
            st, QC_UNSUPPORTED,
            "its functions come to more than %zu nodes, or to more than %zu MB of names: they use each other "
            "too often",
            x->made_most, x->bytes_most >> 20);
    if (bytes - x->bytes_checked >= QC_BUDGET_GRAIN) {
        x->bytes_checked = bytes;
        if (!qc_budget_hold(&x->im->g->budget, bytes, st)) return false; /* for the nodes of the graph */
    }
    out->nodes[out->count++] = n;
    return true;
}

static struct function *function_of(const struct inliner *x, const Onnx__NodeProto *n, const char *overload)
{
    size_t slot = SIZE_MAX;
    const uint64_t hash = qc_hash_text(qc_proto_text(n->op_type));
    for (uint32_t i; (i = qc_index_next(&x->by_name, hash, &slot));) {
        struct function *f = &x->functions[i - 1];
        if (strcmp(qc_proto_text(f->p->name), qc_proto_text(n->op_type)) == 0 &&
            strcmp(qc_proto_domain(f->p->domain), qc_proto_domain(n->domain)) == 0 &&
            strcmp(f->overload, overload) == 0)
            return f;
    }
    return NULL;
}

/* Writes an Identity for a function output that is an input. */
static bool pass_on(struct list *out, struct inliner *x, const struct scope *s, struct qc_status *st)
{
    static char identity[] = "Identity";
    const Onnx__FunctionProto *p = s->function->p;
    struct qc_arena *a = x->im->arena;
    for (size_t i = 0; i < p->n_output && i < s->call->n_output; i++) {
        const size_t input = *s->call->output[i] ? qc_texts_find(&s->function->inputs, p->output[i]) : 0;
        if (!input) continue;
        Onnx__NodeProto *n = QC_NEW(a, Onnx__NodeProto, st);
        char **in = QC_NEW_ARRAY(a, char *, 2, st);
        if (!n || !in) return false;
        onnx__node_proto__init(n);
        in[0] = input <= s->call->n_input ? s->call->input[input - 1] : s->call->output[i];
        in[1] = s->call->output[i];
        n->op_type = identity;
        n->n_input = n->n_output = 1;
        n->input = in;
        n->output = in + 1;
        if (!push(out, x, n, st)) return false;
    }
    return true;
}

static bool inline_call(struct list *out, struct inliner *x, const struct scope *s, struct function *f,
                        const Onnx__NodeProto *call, struct qc_status *st)
{
    const char *name = qc_proto_text(call->op_type);
    if (f->active) return qc_fail(st, QC_BAD_INPUT, "function '%.200s' uses itself", name);
    if (s->depth == DEPTH) return qc_fail(st, QC_UNSUPPORTED, "functions are nested deeper than %d", DEPTH);
    if (call->n_input > f->p->n_input || call->n_output > f->p->n_output)
        return qc_fail(st, QC_BAD_INPUT, "function '%.200s' has %zu inputs and %zu outputs, called with %zu and %zu",
                       name, f->p->n_input, f->p->n_output, call->n_input, call->n_output);
    const struct scope inner = {.function = f,
                                .prefix = prefix_of(x, f, call, st),
                                .call = call,
                                .depth = s->depth + 1};
    if (!inner.prefix) return false;
    x->calls++;
    f->active = true;
    const bool ok = pass_on(out, x, &inner, st) && inline_nodes(out, x, &inner, f->p->node, f->p->n_node, st);
    f->active = false;
    return ok;
}

static bool inline_nodes(struct list *out, struct inliner *x, const struct scope *s, Onnx__NodeProto **nodes,
                         size_t count, struct qc_status *st)
{
    struct qc_arena *a = x->im->arena;
    struct qc_importer *im = x->im;
    for (size_t i = 0; i < count; i++) {
        Onnx__NodeProto *n = qc_arena_dup(a, nodes[i], 1, sizeof *n, st);
        const char *overload = n ? overload_of(&nodes[i]->base, NODE_OVERLOAD, a, st) : NULL;
        if (!overload) return false;
        if (s->function) {
            const char *own = *qc_proto_text(n->name) ? n->name : qc_proto_text(n->op_type);
            n->input = names_in(x, s, n->input, n->n_input, st);
            n->output = names_in(x, s, n->output, n->n_output, st);
            n->name = qc_arena_printf(a, st, "%s%s", s->prefix, own);
        }
        copy_attributes(n, x, s, st);
        if (st->code != QC_OK) return false;
        struct function *f = function_of(x, n, overload);
        if (f ? !inline_call(out, x, s, f, n, st) : !push(out, x, n, st)) return false;
        if (f || !s->function || s->function->opset == im->opset) continue;
        /* Note the opset. */
        if (2 * (im->opset_count + 1) > im->opset_slots) {
            const size_t before = im->opset_slots;
            const struct qc_node_opset *old = im->opset_of;
            im->opset_slots = before ? 2 * before : 256;
            if (!(im->opset_of = QC_NEW_ARRAY(im->arena, struct qc_node_opset, im->opset_slots, st))) return false;
            for (size_t k = 0; k < before; k++)
                if (old[k].node) *opset_slot(im, old[k].node) = old[k];
        }
        *opset_slot(im, n) = (struct qc_node_opset){.node = n, .opset = s->function->opset};
        im->opset_count++;
    }
    return true;
}

/* --- The model --- */

static int opset_of(const Onnx__FunctionProto *f, int of_model)
{
    for (size_t i = 0; i < f->n_opset_import; i++) {
        const int64_t v = f->opset_import[i]->version;
        if (!*qc_proto_domain(f->opset_import[i]->domain) && v >= 1 && v <= INT16_MAX) return (int)v;
    }
    return of_model;
}

/* Numbers names from 1; the first of equal names wins. */
static void number_names(struct qc_texts *out, char *const *names, size_t count, struct qc_arena *a,
                         struct qc_status *st)
{
    for (size_t i = 0; i < count; i++)
        if (!qc_texts_find(out, names[i])) qc_texts_set(out, names[i], i + 1, a, st);
}

static bool read_functions(struct inliner *x, const Onnx__ModelProto *m, struct qc_status *st)
{
    struct qc_arena *a = x->im->arena;
    if (!(x->functions = QC_NEW_ARRAY(a, struct function, m->n_functions, st))) return false;
    for (size_t i = 0; i < m->n_functions; i++) {
        /* Functions of onnx/write/emit_node.c are ops here. */
        if (strcmp(qc_proto_domain(m->functions[i]->domain), "qcalib") == 0 &&
            qc_number_format_named(qc_proto_text(m->functions[i]->name)))
            continue;
        struct function *f = &x->functions[x->function_count++];
        f->p = m->functions[i];
        f->opset = opset_of(f->p, x->im->opset);
        for (size_t k = 0; k < f->p->n_node; k++)
            for (size_t j = 0; j < f->p->node[k]->n_output; j++) {
                const size_t length = strlen(f->p->node[k]->output[j]);
                if (length > f->longest) f->longest = length;
            }
        f->overload = overload_of(&f->p->base, FUNCTION_OVERLOAD, a, st);
        number_names(&f->inputs, f->p->input, f->p->n_input, a, st);
        number_names(&f->outputs, f->p->output, f->p->n_output, a, st);
        if (st->code != QC_OK || !read_defaults(f, x->im, st) ||
            !qc_index_add(&x->by_name, qc_hash_text(qc_proto_text(f->p->name)), (uint32_t)x->function_count, st))
            return false;
    }
    return true;
}

bool qc_import_inline(const Onnx__GraphProto **out, struct qc_importer *im, const Onnx__ModelProto *m,
                      struct qc_status *st)
{
    const size_t size = im->g->budget.model_bytes;
    struct inliner x = {.im = im, .made_most = size < NODES - LEAST ? LEAST + size : NODES};
    const struct scope top = {.function = NULL};
    *out = m->graph;
    if (!m->n_functions) return true;
    const Onnx__GraphProto *g = NULL;
    const bool read = read_functions(&x, m, st);
    x.bytes_before = qc_arena_bytes(im->arena);
    if (!qc_mul_size(&x.bytes_most, size, TIMES) || !qc_add_size(&x.bytes_most, x.bytes_most, BYTES))
        x.bytes_most = SIZE_MAX;
    if (read && x.function_count) {
        take_name(&x, "", st);
        take_graph(&x, m->graph, st);
        if (st->code == QC_OK) g = copy_graph(&x, &top, m->graph, st);
    }
    qc_index_free(&x.by_name);
    if (!read || (x.function_count && !g)) return false;
    if (!x.function_count) return true;
    *out = g;
    if (!x.calls) return qc_lines_add(&im->notes, im->g->arena, st, "functions that no node needs were left out");
    return qc_lines_add(&im->notes, im->g->arena, st, "%zu calls of the model's own functions were expanded", x.calls);
}

void qc_import_release_unpacked(struct qc_importer *im)
{
    for (const struct qc_unpacked *u = im->unpacked; u; u = u->next)
        onnx__attribute_proto__free_unpacked((Onnx__AttributeProto *)u->message, NULL);
    im->unpacked = NULL;
}
