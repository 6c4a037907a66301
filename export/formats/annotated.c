// SPDX-License-Identifier: Apache-2.0
/* Annotated: the graph before requantize is inserted. Operators are the float operators of the normalised model. Every
   tensor that quantization stores as integers carries its parameters (quantization_annotation of ONNX), and the
   doc_string of every node describes its inputs and outputs. Weights and biases are the real values of their integers,
   scale * (q - zero point), so quantizing them again to the nearest gives the same integers. docs/annotated.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats/exporter.h"
#include "graph/core/custom.h"
#include "graph/core/function.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "onnx/write/emit.h"

struct annotating {
    const struct qc_graph *from, *produced;
    struct qc_graph *to;
    struct qc_query query;
    struct qc_arena *arena;
    qc_id *map;                  /* [value_count + 1] of from: the float value */
    qc_id *node;                 /* [node_count + 1] of from: the new node, or 0 */
    struct qc_parameters *known; /* [known_capacity] by value of to, grown as needed */
    size_t known_capacity;
};

static void note_parameters(struct annotating *x, qc_id v, const struct qc_parameters *p, struct qc_status *st)
{
    if (!p->affine || p->block) return; /* annotations have scales along an axis, not in blocks */
    if (v >= x->known_capacity) {
        const size_t capacity = 2 * (size_t)v + 64;
        struct qc_parameters *more = QC_NEW_ARRAY(x->arena, struct qc_parameters, capacity, st);
        if (!more) return;
        if (x->known_capacity) memcpy(more, x->known, x->known_capacity * sizeof *more);
        x->known = more;
        x->known_capacity = capacity;
    }
    if (!x->known[v].affine) x->known[v] = *p;
}

/* Adds a quantized constant with the real values of its integers. */
static void map_constant(struct annotating *x, qc_id quantized, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    const struct qc_value *c = &g->values[qc_quantized_constant(g, quantized)];
    const struct qc_parameters p = qc_value_parameters(g, quantized);
    /* The produced graph's integers of a constant with these qparams; if several constants share the qparams, the one
       with the name of the real constant. */
    qc_id stored = 0;
    for (qc_id v = 1; p.affine && v <= x->produced->value_count; v++) {
        const struct qc_value *made = &x->produced->values[v];
        if (!made->constant || made->type.qparams == QC_REAL ||
            strcmp(x->produced->qparams_of[made->type.qparams].name, p.quantizer) != 0 ||
            !qc_shape_equal(&made->type.shape, &c->type.shape))
            continue;
        if (!stored || (c->name && made->name && strcmp(c->name, made->name) == 0)) stored = v;
    }
    struct qc_tensor *t = stored ? qc_tensor_of_parameters(x->produced, stored, st) : NULL;
    x->map[quantized] = qc_graph_add_constant(x->to, c->name, t ? t : c->constant, st);
    qc_tensor_unref(t);
    note_parameters(x, x->map[quantized], &p, st);
}

static qc_id mapped_value(struct annotating *x, qc_id v, struct qc_status *st)
{
    const struct qc_value *c = &x->from->values[v];
    if (!x->map[v] && qc_quantized_constant(x->from, v)) map_constant(x, v, st);
    if (!x->map[v] && c->constant) x->map[v] = qc_graph_add_constant(x->to, c->name, c->constant, st);
    return x->map[v];
}

static void map_node(struct annotating *x, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    const struct qc_node *n = &g->nodes[id];
    if (qc_quantized_constant(g, n->outputs)) return; /* mapped where it is read */
    if (qc_op_is_conversion(n->op)) {
        const qc_id v = x->map[n->outputs] = mapped_value(x, n->inputs[0], st);
        if (v) qc_graph_name_value(x->to, v, g->values[n->outputs].name, st);
        return;
    }
    qc_id *in = QC_NEW_ARRAY(x->arena, qc_id, n->input_count + 1, st);
    for (unsigned i = 0; in && i < n->input_count; i++)
        if (n->inputs[i]) in[i] = mapped_value(x, n->inputs[i], st);
    const char *name = g->values[n->outputs].name;
    const struct qc_node_def with = {.inputs = in};
    struct qc_function f;
    const qc_id first = n->op != QC_OP_Table ? qc_graph_add_like(x->to, g, n, &with, st)
                        : in && qc_function_of(&f, n, x->arena, st)
                            ? qc_function_write_out(x->to, &f, in[0], n->name, name, st)
                            : 0;
    if (!first) return;
    x->node[id] = x->to->values[first].node;
    for (unsigned k = 0; k < n->output_count; k++) {
        const struct qc_parameters p = qc_query_end(&x->query, id, QC_TAKEN, k);
        x->map[n->outputs + k] = first + k;
        if (p.kind == QC_QPARAMS_QUANTIZER) note_parameters(x, first + k, &p, st);
    }
}

static void put_end(FILE *f, const char *what, unsigned k, const struct qc_parameters *p)
{
    if (!p->affine) {
        fprintf(f, "%s %u: float\n", what, k);
        return;
    }
    fprintf(f, "%s %u: %s ", what, k, qc_dtype_info(p->dtype)->name);
    if (p->count == 1)
        fprintf(f, "scale %.9g zero point %d", (double)p->scale[0], (int)p->zero_point[0]);
    else
        fprintf(f, "%zu scales along axis %d%s", p->count, p->axis, p->block ? " in blocks" : "");
    fprintf(f, ", of '%s'\n", p->quantizer);
}

/* Describes the inputs and outputs of a node; NULL without a status if none is affine. */
static const char *doc_of(struct annotating *x, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &x->from->nodes[id];
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    bool any = false;
    if (!f) {
        qc_fail_memory(st, 1);
        return NULL;
    }
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_parameters p = qc_query_end(&x->query, id, QC_INPUT, i);
        any = any || p.affine;
        if (n->inputs[i]) put_end(f, "input", i, &p);
    }
    for (unsigned k = 0; k < n->output_count; k++) {
        const struct qc_parameters own = qc_query_end(&x->query, id, QC_OUTPUT, k),
                                   taken = qc_query_end(&x->query, id, QC_TAKEN, k);
        any = any || taken.affine;
        if (own.affine && own.kind == QC_QPARAMS_PRODUCT) put_end(f, "accumulator", k, &own);
        put_end(f, "output", k,
                taken.affine && taken.kind == QC_QPARAMS_PRODUCT ? &(struct qc_parameters){.dtype = QC_F32} : &taken);
    }
    const bool written = fclose(f) == 0;
    const char *copy = written && any ? qc_arena_strdup(x->arena, text, st) : NULL;
    free(text);
    if (!written) qc_fail_memory(st, size);
    return copy;
}

static bool emit(size_t *bytes, const char *path, struct annotating *x, struct qc_status *st)
{
    struct qc_onnx_emit_options o = QC_ONNX_EMIT_DEFAULTS;
    const struct qc_graph *g = x->to;
    struct qc_onnx_annotation *all = QC_NEW_ARRAY(x->arena, struct qc_onnx_annotation, g->value_count + 1, st);
    const char **docs = QC_NEW_ARRAY(x->arena, const char *, g->node_count + 1, st);
    if (!all || !docs) return false;
    for (qc_id v = 1; v <= g->value_count && v < x->known_capacity; v++) {
        const struct qc_parameters *p = &x->known[v];
        if (!p->affine) continue;
        if (qc_dtype_info(p->dtype)->bits == 4) o.opset_min = 21; /* the first with 4-bit types */
        all[o.annotation_count++] = (struct qc_onnx_annotation){.value = v,
                                                                .base = p->quantizer,
                                                                .dtype = p->dtype,
                                                                .count = p->count,
                                                                .scale = p->scale,
                                                                .zero_point = p->zero_point,
                                                                .axis = p->axis};
    }
    for (qc_id id = 1; id <= x->from->node_count; id++)
        if (x->node[id] && !docs[x->node[id]]) docs[x->node[id]] = doc_of(x, id, st);
    if (st->code != QC_OK) return false;
    o.annotations = all;
    o.node_docs = docs;
    o.doc = "Float operators with the parameters of the integers that stand for their tensors.";
    return qc_onnx_emit_file(bytes, path, g, &o, st);
}

static bool write_annotated(size_t *bytes, const char *path, const struct qc_export_source *source,
                            struct qc_status *st)
{
    if (!source->expanded)
        return qc_fail(st, QC_UNSUPPORTED,
                       "a quantized model no longer has the float weights and clamps that annotations describe: "
                       "use 'qcalib quantize --format annotated' on the float model");
    const struct qc_graph *g = source->expanded;
    QC_ARENA_SCOPE *a = qc_arena_new();
    QC_GRAPH_SCOPE *to = NULL;
    struct annotating x = {.from = g,
                           .produced = source->produced,
                           .arena = a,
                           .map = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                           .node = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st)};
    if (!x.map || !x.node || !qc_query_of(&x.query, g, a, st) || !qc_graph_new_like(&to, g, st)) return false;
    x.to = to;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_port *port = &g->inputs[i];
        const struct qc_parameters p = qc_query_taken(&x.query, port->value);
        const qc_id v = qc_graph_add_input(to, port->name, g->values[port->value].type.dtype,
                                           &g->values[port->value].type.shape, st);
        if (!v) return false;
        note_parameters(&x, x.map[port->value] = v, &p, st);
        memcpy(to->inputs[i].symbol, port->symbol, sizeof port->symbol);
    }
    for (qc_id id = 1; id <= g->node_count; id++) map_node(&x, id, st);
    for (size_t i = 0; st->code == QC_OK && i < g->output_count && g->outputs[i].judging != QC_ONLY_JUDGED; i++) {
        const struct qc_port *port = &g->outputs[i];
        if (!qc_graph_add_output(to, port->name, mapped_value(&x, port->value, st), st)) break;
        memcpy(to->outputs[i].symbol, port->symbol, sizeof port->symbol);
        to->outputs[i].declared = port->declared;
    }
    return st->code == QC_OK && emit(bytes, path, &x, st);
}

extern const struct qc_exporter qc_exporter_annotated;
const struct qc_exporter qc_exporter_annotated = {
    .summary = "ONNX of float ops, before requantize is inserted, with the parameters of each input and output",
    .suffix = ".annotated.onnx",
    .write = write_annotated,
};
