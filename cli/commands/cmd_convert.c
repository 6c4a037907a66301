// SPDX-License-Identifier: Apache-2.0
/* qcalib convert MODEL --format F[,F..] -o OUT.onnx: converts a quantized model to another form, or a float model
   between ONNX and TensorFlow Lite, without data. */
#include <string.h>

#include "base/file.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"
#include "export/formats/exporter.h"
#include "graph/core/body.h"
#include "graph/text/text.h"
#include "tflite/read/tflite_import.h"

enum { SHOWN = 5 };

struct job {
    const struct qc_cli_options *o;
    struct qc_warnings *warnings;
    struct qc_model model;
    struct qc_file_list outputs;
    struct qc_canonical_model made;
    size_t integer_ops, float_ops;
};

/* Returns true if the graph or one of its bodies is quantized. */
static bool any_quantized(const struct qc_graph *g)
{
    bool any = qc_is_quantized(g);
    for (size_t id = 1; !any && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned i = 0; i < n->attr_count; i++)
            any = any || (n->attrs[i].kind == QC_ATTR_GRAPH && any_quantized(n->attrs[i].graph));
    }
    return any;
}

static void count_ops(struct job *j, const struct qc_graph *g)
{
    for (size_t id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (qc_op_is_qdq(n->op)) continue;
        if (g->values[n->outputs].type.qparams != QC_REAL)
            j->integer_ops++;
        else if (qc_dtype_info(g->values[n->outputs].type.dtype)->is_float)
            j->float_ops++;
    }
}

/* Returns true if every format is ONNX for a TensorFlow Lite file, or tflite for an ONNX file. */
static bool other_containers(const struct qc_cli_options *o)
{
    const bool from_tflite = qc_is_tflite_file(o->operands.items[0]);
    bool other = true;
    for (size_t i = 0; other && i < o->job.graph.formats.count; i++) {
        const bool onnx = qc_exporter_find(o->job.graph.formats.items[i])->lower != NULL;
        other = from_tflite ? onnx : strcmp(o->job.graph.formats.items[i], "tflite") == 0;
    }
    return other;
}

static bool produce(struct job *j, struct qc_status *st)
{
    const struct qc_cli_options *o = j->o;
    const struct qc_model_source model = {.file = o->operands.items[0],
                                          .outputs = j->outputs.items,
                                          .output_count = j->outputs.count};
    if (!qc_model_open(&j->model, &model, &o->job, j->warnings, st) ||
        !qc_model_warn_carried(&j->model, j->warnings, st))
        return false;
    if (!any_quantized(j->model.graph) && !other_containers(o))
        return qc_fail(
            st, QC_UNSUPPORTED,
            "'%s' is not quantized: convert takes a model with QuantizeLinear, DequantizeLinear or QLinear operators, "
            "or a float model of TensorFlow Lite, or one of ONNX with --format tflite; 'qcalib quantize' makes a "
            "quantized model from a float one",
            o->operands.items[0]);
    if (!any_quantized(j->model.graph) && !o->output)
        return qc_fail(st, QC_USAGE, "'%s' is a float model: name the result with -o", o->operands.items[0]);
    if (!qc_canonical_model_of(&j->made, j->model.graph, st)) return qc_where(st, "%s", o->operands.items[0]);
    count_ops(j, j->made.produced);
    return true;
}

/* --dump canonical or --dump realise, to standard output or to a file. */
static bool dump(const struct job *j, struct qc_status *st)
{
    for (size_t i = 0; i < j->o->dump.count; i++) {
        const char *wish = j->o->dump.items[i], *file = strchr(wish, '=');
        const size_t length = file ? (size_t)(file - wish) : strlen(wish);
        const struct qc_graph *g = length == 9 && memcmp(wish, QC_CANONICAL_PASS, 9) == 0 ? j->made.canonical
                                   : length == 7 && memcmp(wish, "realise", 7) == 0       ? j->made.produced
                                                                                          : NULL;
        if (!g) return qc_fail(st, QC_USAGE, "--dump %s: convert has the passes canonical and realise", wish);
        const struct qc_text_options all = QC_TEXT_ALL, some = QC_TEXT_SHORT;
        char *text = qc_graph_print(g, file ? &all : &some, st);
        if (!qc_dump_text(text, file ? file + 1 : NULL, st)) return false;
    }
    return true;
}

struct lowering {
    struct job *j;
    const struct qc_exporter *exporter;
    bool counts; /* the operators of bodies */
};

static bool lower_body(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st);

/* Lowers the graph, and its bodies as models of their own. Recursion is bounded by QC_BODY_DEPTH_MAX. */
static bool lower_form(struct qc_graph **out, const struct lowering *l, const struct qc_canonical_model *made,
                       struct qc_status *st)
{
    const struct qc_lower_options options = {.real = made->canonical};
    struct qc_graph *lowered;
    if (!l->exporter->lower(out, made->produced, &options, st)) return false;
    if (!(*out)->depth) return true;
    if (!qc_bodies_replace(&lowered, *out, lower_body, l, st)) return false;
    qc_graph_free(*out);
    *out = lowered;
    return true;
}

static bool lower_body(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct lowering *l = user;
    struct qc_canonical_model made;
    if (!qc_canonical_model_of(&made, body, st)) return false;
    if (l->counts) count_ops(l->j, made.produced);
    const bool ok = lower_form(out, l, &made, st);
    qc_canonical_model_free(&made);
    return ok;
}

bool qc_cmd_convert(const struct qc_cli_options *o, struct qc_status *st)
{
    struct job j = {.o = o};
    const size_t n = o->job.graph.formats.count;
    const char *stem, *word, **paths = QC_NEW_ARRAY(o->job.arena, const char *, n, st);
    bool ok = paths && qc_quantized_stem(&stem, &word, o->job.arena, o->operands.items[0], st) &&
              qc_dump_beside_json(o, st) && qc_warnings_new(&j.warnings, st);
    if (ok && o->output && n > 1)
        ok = qc_fail(st, QC_USAGE, "-o names one file, but --format asks for %zu; leave one of them out", n);
    for (size_t i = 0; ok && i < n; i++) {
        const struct qc_exporter *e = qc_exporter_find(o->job.graph.formats.items[i]);
        if (!e)
            ok = qc_fail(st, QC_USAGE, "--format %s: there is no such format; see 'qcalib list formats'",
                         o->job.graph.formats.items[i]);
        else
            ok = (paths[i] = o->output ? o->output : qc_exported_name(o->job.arena, stem, word, e, st)) != NULL;
    }
    ok = ok && qc_outputs_apart(&j.outputs, paths, n, NULL, o, st);
    for (size_t i = 0; ok && i < n; i++) ok = qc_output_check(paths[i], st);
    ok = ok && produce(&j, st) && dump(&j, st) && qc_interrupt_check(st);
    for (size_t i = 0; ok && i < n; i++) {
        const char *format = o->job.graph.formats.items[i];
        const struct qc_exporter *e = qc_exporter_find(format);
        const struct qc_export_source source = {.produced = j.made.produced};
        const struct lowering l = {.j = &j, .exporter = e, .counts = i == 0};
        struct qc_graph *lowered = NULL;
        ok = !e->lower || (lower_form(&lowered, &l, &j.made, st) && qc_lower_functions(&lowered, st)) ||
             qc_where(st, "format %s", format);
        ok = ok && qc_export_file(NULL, paths[i], e, &source, lowered, st);
        qc_graph_free(lowered);
    }
    if (ok && o->json) {
        struct qc_json *json = qc_json_object();
        qc_json_set(json, "files", qc_json_strings(paths, n));
        qc_json_put(json, "integer_ops %zu float_ops %zu", j.integer_ops, j.float_ops);
        qc_json_set(json, "notes", qc_json_strings(j.made.notes.lines, j.made.notes.count));
        ok = qc_print_json(json, st);
    } else if (ok) {
        const size_t count = j.made.notes.count, shown = o->verbose || count <= SHOWN ? count : SHOWN;
        qc_say("converted   %zu op%s on integers, %zu in float\n", j.integer_ops, qc_plural(j.integer_ops),
               j.float_ops);
        for (size_t i = 0; i < shown; i++) qc_say("note        %s\n", j.made.notes.lines[i]);
        if (shown < count) qc_say("note        and %zu more; -v shows them\n", count - shown);
        for (size_t i = 0; i < n; i++) qc_say("written     %s\n", paths[i]);
    }
    qc_warnings_print(j.warnings, o);
    qc_canonical_model_free(&j.made);
    qc_model_close(&j.model);
    qc_warnings_free(j.warnings);
    return ok;
}
