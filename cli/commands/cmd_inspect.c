// SPDX-License-Identifier: Apache-2.0
/* qcalib inspect FILE: the content determines the kind of file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/statistics/statistics.h"
#include "cli/commands/cmd.h"
#include "cli/terminal/screen.h"
#include "datasets/samples/dataset.h"
#include "evaluate/evaluate.h"

/* Prints a description of a model (evaluate/evaluate.h). */

static void print_ports(const char *label, const struct qc_shown_ports *ports, bool all)
{
    enum { LISTED = 3 };
    const size_t n = ports->count;
    for (size_t i = 0; i < n && (all || i < LISTED || n == LISTED + 1); i++) {
        const struct qc_shown_port *p = &ports->of[i];
        qc_say("%-9s%s %s %s\n", label, p->name, p->type, QC_SHAPE_STR(p->shape));
    }
    if (!all && n > LISTED + 1) qc_say("         and %zu more %ss; -v lists them\n", n - LISTED, label);
}

static void print_quantized_values(const struct qc_model_summary *s)
{
    for (size_t i = 0; i < s->quantized_count; i++) {
        const struct qc_quantized_value *q = &s->quantized[i];
        qc_say("  %s  %s %s  ", QC_VALUE_LABEL(q->graph, q->value), q->weight ? "constant" : "activation",
               qc_dtype_info(q->dtype)->name);
        if (q->scale->count == 0)
            qc_say("no scale\n");
        else if (q->scale->count > 1)
            qc_say("%zu scales, first %.6g, zero point %d\n", q->scale->count, qc_tensor_float(q->scale, 0),
                   qc_quantized_zero_point(q, 0));
        else
            qc_say("scale %.6g, zero point %d\n", qc_tensor_float(q->scale, 0), qc_quantized_zero_point(q, 0));
    }
}

static void print_file(const struct qc_model *m)
{
    const struct qc_model_info *i = &m->info;
    if (i->format == QC_MODEL_TFLITE)
        qc_say("file     %s: TensorFlow Lite, schema %lld%s%s\n", m->path, (long long)i->model_version,
               *i->producer ? ", " : "", i->producer);
    else
        qc_say("file     %s: ONNX, opset %d, IR %lld%s%s%s%s\n", m->path, i->opset, (long long)i->ir_version,
               *i->producer ? ", made by " : "", i->producer, *i->producer_version ? " " : "", i->producer_version);
}

static void print_description(const struct qc_model *m, const struct qc_model_summary *s, bool verbose)
{
    const struct qc_graph *g = m->graph;
    print_file(m);
    print_ports("input", &s->inputs, verbose);
    print_ports("output", &s->outputs, verbose);
    const size_t nodes = s->nodes;
    int at = qc_say("ops      %zu:", nodes);
    for (size_t most = nodes; most > 0; most--) {
        for (unsigned op = 0; op < QC_OP_COUNT; op++) {
            if (s->ops[op] != most) continue;
            if (at > 90) at = qc_say("\n        ") - 1;
            at += qc_say(" %s %zu", qc_op_info((enum qc_op)op)->name, most);
        }
    }
    putchar('\n');
    if (g->carried) {
        char list[QC_CARRIED_TEXT];
        const size_t behind = g->carried->node_count - g->carried->unknown_count;
        qc_say("not handled: %s", qc_carried_text(list, g->carried));
        if (behind) qc_say("; %zu node%s follow%s from them", behind, qc_plural(behind), behind == 1 ? "s" : "");
        putchar('\n');
    }
    qc_say("weights  %s parameters, %s\n", QC_COUNT(s->parameters), QC_BYTES(s->parameter_bytes));
    if (s->macs_known) qc_say("work     %s multiply-accumulates (batch 1)\n", QC_COUNT(s->macs));
    if (s->quantized_count) {
        qc_say("int      %zu quantized values: %zu activations, %zu constants, %zu per channel%s\n", s->quantized_count,
               s->activations, s->weights, s->per_channel, verbose ? "" : "; -v lists them");
    }
    if (s->products || s->unknown)
        qc_say("x86      exact without VNNI: %s; %zu of %zu products of int8 weights can saturate%s\n",
               s->saturating ? "no"
               : s->unknown  ? "not known"
                             : "yes",
               s->saturating, s->products, s->unknown ? "; those of DynamicQuantizeLSTM are not examined" : "");
    if (!verbose) return;
    for (size_t i = 0; i < m->info.note_count; i++) {
        qc_say("note     %s\n", m->info.notes[i]);
    }
    if (s->quantized_count) qc_say("quantized values\n");
    print_quantized_values(s);
    qc_say("nodes\n");
    /* Print nodes with the names that options accept */
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        qc_say("  %s  %s\n", n->name && *n->name ? n->name : QC_VALUE_LABEL(g, n->outputs), qc_op_info(n->op)->name);
    }
    qc_say("values\n");
    for (size_t v = 1; v <= g->value_count; v++) {
        char label[QC_LABEL], shape[QC_SHAPE_TEXT];
        const struct qc_node *n = qc_node_of(g, (qc_id)v);
        qc_say("  %s  %s %s  %s\n", qc_value_label(label, g, (qc_id)v), qc_dtype_info(g->values[v].type.dtype)->name,
               qc_shape_text(shape, &g->values[v].type.shape),
               n                       ? qc_op_info(n->op)->name
               : g->values[v].constant ? "constant"
                                       : "input");
    }
}

static bool inspect_model(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_model m = {0};
    struct qc_warnings *w = NULL;
    struct qc_model_summary s;
    const bool ok = qc_warnings_new(&w, st) &&
                    qc_model_open(&m, &(struct qc_model_source){.file = path}, &o->job, w, st) &&
                    qc_model_summarise(&s, m.graph, o->job.arena, st);
    if (ok) print_description(&m, &s, o->verbose);
    if (ok) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_model_close(&m);
    qc_warnings_free(w);
    return ok;
}

static void print_sample(uint64_t id)
{
    if (id != QC_NO_SAMPLE)
        qc_say(" (sample %llu of part %llu)", (unsigned long long)QC_SAMPLE_NUMBER(id),
               (unsigned long long)QC_SAMPLE_PART(id));
}

static void print_text_inspect_statistics(const char *path, const struct qc_collection *c, bool all)
{
    enum { LISTED = 4 };
    qc_say("file     %s: statistics of qcalib, version %u\n", path, qc_statistics_version(c));
    qc_say("model    SHA-256 %s\n", c->model_sha256);
    for (size_t i = 0; i < c->part_count && (all || i < LISTED); i++)
        qc_say("part %-3zu SHA-256 %s, %llu of %llu samples chosen\n", i, c->parts[i].sha256,
               (unsigned long long)c->parts[i].chosen, (unsigned long long)c->parts[i].samples);
    if (!all && c->part_count > LISTED) qc_say("and %zu more parts; -v lists them\n", c->part_count - LISTED);
    qc_say("samples  %llu\n", (unsigned long long)qc_collection_samples(c));
    for (size_t i = 0; i < c->count && (all || i < LISTED); i++) {
        const struct qc_tally *t = &c->values[i].histogram->tally;
        qc_say("tensor   %s from %g", c->values[i].name, (double)t->min);
        if (all) print_sample(t->min_sample);
        qc_say(" to %g", (double)t->max);
        if (all) print_sample(t->max_sample);
        qc_say(", %llu values\n", (unsigned long long)t->count);
    }
    if (!all && c->count > LISTED) qc_say("and %zu more tensors; -v lists them\n", c->count - LISTED);
}

static bool inspect_statistics(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_collection *c = NULL;
    const bool ok = qc_statistics_load(&c, path, st);
    if (ok) print_text_inspect_statistics(path, c, o->verbose);
    qc_collection_free(c);
    return ok;
}

/* Returns true for attributes that change a model's input or its evaluation; -v shows the others too. */
static bool preprocesses(const char *name)
{
    static const char *const names[] = {"scale", "mean", "std", "peak"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Fails as qc_data_list. */
static bool inspect_data(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_data_list list;
    if (!qc_data_list(&list, path, qc_options_follow(&o->job), o->job.arena, st)) return false;
    qc_say("file     %s: %s%zu data set%s\n", path, qc_data_is_hdf5(path) ? "HDF5, " : "", list.count,
           qc_plural(list.count));
    const bool all = o->verbose;
    enum { LISTED = 4 };
    for (size_t i = 0; i < list.count && (all || i < LISTED); i++) {
        const struct qc_data_entry *e = &list.entries[i];
        qc_say("%s  %s [", e->name, e->type);
        for (unsigned d = 0; d < e->rank; d++)
            e->dims[d] < 0 ? qc_say("%s?", d ? "," : "") : qc_say("%s%lld", d ? "," : "", (long long)e->dims[d]);
        qc_say("]  %s\n", e->storage);
        for (size_t k = 0; k < e->attribute_count; k++) {
            if (!all && !preprocesses(e->attributes[k].name)) continue;
            qc_say("    %s = %s\n", e->attributes[k].name, e->attributes[k].text);
        }
    }
    if (!all && list.count > LISTED) qc_say("and %zu more data sets; -v lists them\n", list.count - LISTED);
    return true;
}

/* Return members of an object; the file may have other types. */
static const char *text_of_member(const struct qc_json *v, const char *key)
{
    const struct qc_json *member = qc_json_get(v, key);
    return member ? qc_json_text(member) : NULL;
}

static size_t size_of(const struct qc_json *v, const char *key)
{
    const struct qc_json *member = qc_json_get(v, key);
    return member ? qc_json_size(member) : 0;
}

static double number_of(const struct qc_json *v, const char *key)
{
    const struct qc_json *member = qc_json_get(v, key);
    return member ? qc_json_value(member) : (double)NAN;
}

/* Prints a text or a number, for the head of a report. */
static void print_member(const char *label, const struct qc_json *v)
{
    char *text = v ? qc_json_print(v, 0) : NULL;
    if (text) {
        size_t n = strlen(text);
        bool quotes = n >= 2 && text[0] == '"';
        if (quotes) text[n - 1] = '\0';
        qc_say("%-9s%s\n", label, text + quotes);
    }
    free(text);
}

/* Fails as qc_report_read. */
static bool inspect_report(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_json *r = NULL;
    const bool ok = qc_report_read(&r, path, o->job.arena, st);
    if (ok) {
        const struct qc_json *model = qc_json_get(r, "model"), *data = qc_json_get(r, "data"),
                             *options = qc_json_get(r, "options");
        qc_say("file     %s: report of qcalib %s\n", path,
               text_of_member(r, "version") ? text_of_member(r, "version") : "?");
        print_member("command", qc_json_get(r, "command"));
        print_member("model", model ? qc_json_get(model, "file") : NULL);
        print_member("data", data ? qc_json_get(data, "file") : NULL);
        print_member("samples", data ? qc_json_get(data, "samples") : NULL);
        print_member("method", options ? qc_json_get(options, "method") : NULL);
        const struct qc_json *accuracy = qc_json_get(r, "accuracy");
        const char *metric = accuracy ? text_of_member(accuracy, "metric") : NULL;
        if (metric) {
            qc_say("accuracy %s %.6g %s, %.6g int8\n", metric, number_of(accuracy, "fp32"),
                   qc_json_get(r, "reference") ? "reference" : "float", number_of(accuracy, "int8"));
        }
        qc_say("layers   %zu quantized values, %zu ops in float, %zu warnings\n", size_of(r, "layers"),
               size_of(r, "float_ops"), size_of(r, "warnings"));
    }
    qc_json_free(r);
    return ok;
}

static bool inspect_json(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_json *all = NULL;
    struct qc_warnings *w = NULL;
    const bool ok = qc_warnings_new(&w, st) &&
                    qc_describe_file(&all, o->operands.items[0], &o->job, o->verbose, w, st) && qc_print_json(all, st);
    if (ok) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_warnings_free(w);
    return ok;
}

bool qc_cmd_inspect(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *path = o->operands.items[0];
    enum qc_inspected kind;
    if (o->json) return inspect_json(o, st);
    if (!qc_inspected_kind(&kind, &path, &o->job, st)) return false;
    switch (kind) {
    case QC_INSPECTED_MODEL: return inspect_model(path, o, st);
    case QC_INSPECTED_DATA: return inspect_data(path, o, st);
    case QC_INSPECTED_STATISTICS: return inspect_statistics(path, o, st);
    case QC_INSPECTED_REPORT: return inspect_report(path, o, st);
    }
    return false;
}
