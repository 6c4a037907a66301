// SPDX-License-Identifier: Apache-2.0
/* What is in a model, for people (evaluate/describe.h). */
#include <stdio.h>

#include "cli/commands/inspect.h"
#include "cli/terminal/print_warnings.h"
#include "cli/terminal/screen.h"
#include "evaluate/describe.h"

static void print_ports(const char *label, const struct qc_shown_ports *ports, bool all)
{
    enum { LISTED = 3 };
    const size_t n = ports->count;
    for (size_t i = 0; i < n && (all || i < LISTED || n == LISTED + 1); i++) {
        const struct qc_shown_port *p = &ports->of[i];
        char shape[QC_SHAPE_TEXT];
        qc_say("%-9s%s %s %s\n", label, p->name, p->type, qc_shape_text(shape, p->shape));
    }
    if (!all && n > LISTED + 1) qc_say("         and %zu more %ss; -v lists them\n", n - LISTED, label);
}

static void print_carried(const struct qc_carried *c)
{
    char list[QC_CARRIED_TEXT];
    const size_t behind = c->node_count - c->unknown_count;
    qc_say("not handled: %s", qc_carried_text(list, c));
    if (behind) qc_say("; %zu node%s follow%s from them", behind, behind == 1 ? "" : "s", behind == 1 ? "s" : "");
    putchar('\n');
}

static void print_ops(const struct qc_model_summary *s, size_t nodes)
{
    int at = qc_say("ops      %zu:", nodes);
    for (size_t most = nodes; most > 0; most--) {
        for (unsigned op = 0; op < QC_OP_COUNT; op++) {
            if (s->ops[op] != most) continue;
            if (at > 90) at = qc_say("\n        ") - 1;
            at += qc_say(" %s %zu", qc_op_info((enum qc_op)op)->name, most);
        }
    }
    putchar('\n');
}

static void print_quantized(const struct qc_model_summary *s)
{
    for (size_t i = 0; i < s->quantized_count; i++) {
        const struct qc_quantized_value *q = &s->quantized[i];
        char label[QC_LABEL];
        qc_say("  %s  %s %s  ", qc_value_label(label, q->graph, q->value), q->weight ? "constant" : "activation",
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

static void print_values(const struct qc_graph *g)
{
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

/* As options name them. */
static void print_nodes(const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        char label[QC_LABEL];
        const struct qc_node *n = &g->nodes[id];
        qc_say("  %s  %s\n", n->name && *n->name ? n->name : qc_value_label(label, g, n->outputs),
               qc_op_info(n->op)->name);
    }
}

static void print_text(const struct qc_model *m, const struct qc_model_summary *s, bool verbose)
{
    const struct qc_graph *g = m->graph;
    char count[QC_NUMBER_TEXT], bytes[QC_NUMBER_TEXT];
    qc_say("file     %s: ONNX, opset %d, IR %lld%s%s%s%s\n", m->path, m->info.opset, (long long)m->info.ir_version,
           *m->info.producer ? ", made by " : "", m->info.producer, *m->info.producer_version ? " " : "",
           m->info.producer_version);
    print_ports("input", &s->inputs, verbose);
    print_ports("output", &s->outputs, verbose);
    print_ops(s, s->nodes);
    if (g->carried) print_carried(g->carried);
    qc_say("weights  %s parameters, %s\n", qc_count_text(count, s->parameters),
           qc_bytes_text(bytes, s->parameter_bytes));
    if (s->macs_known) qc_say("work     %s multiply-accumulates (batch 1)\n", qc_count_text(count, s->macs));
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
    print_quantized(s);
    qc_say("nodes\n");
    print_nodes(g);
    qc_say("values\n");
    print_values(g);
}

bool qc_inspect_model(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_model m = {0};
    struct qc_warnings *w = NULL;
    struct qc_model_summary s;
    const bool ok = qc_warnings_new(&w, st) &&
                    qc_model_open(&m, &(struct qc_model_source){.file = path}, &o->job, w, st) &&
                    qc_model_summarise(&s, m.graph, o->job.arena, st);
    if (ok) print_text(&m, &s, o->verbose);
    if (ok) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_model_close(&m);
    qc_warnings_free(w);
    return ok;
}
