// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/quantize_report.h"

#include <math.h>

/* Parts are told apart by a warning if their SQNR differs by this much, dB. */
static const double unlike = 10;

static bool fill_parts(struct qc_report_output *out, const struct qc_network *net, const struct qc_measurement *m,
                       size_t o, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_output_parts *parts = m->comparison->parts;
    const struct qc_error *errors = m->comparison->of_parts;
    const size_t first = parts->first[o];
    struct qc_report_part *list = QC_NEW_ARRAY(a, struct qc_report_part, parts->first[o + 1] - first, st);
    if (!list) return false;
    out->part_count = parts->first[o + 1] - first;
    out->worst = qc_worst_part(parts, o, errors) - first;
    out->parts = list;
    for (size_t i = 0; i < out->part_count; i++) {
        list[i] = (struct qc_report_part){.name = qc_value_name(net->real, parts->of[first + i].value, a, st),
                                          .sqnr_db = qc_error_sqnr_db(&errors[first + i])};
        if (!list[i].name) return false;
    }
    return true;
}

/* Returns true if a Concat of the float network joins integers in the quantized one. */
static bool joins_integers(const struct qc_network *net, qc_id join)
{
    const char *name = join ? net->real->values[net->real->nodes[join].outputs].name : NULL;
    const qc_id v = name ? qc_graph_find_value(net->folded, name) : 0;
    return v && net->folded->values[v].type.qparams;
}

/* Warns of an output whose worst part shares a scale with a much better one. */
static void warn_of_parts(const struct qc_report_output *out, const struct qc_network *net,
                          const struct qc_output_part *parts)
{
    size_t best = out->worst;
    if (!joins_integers(net, parts[out->worst].join)) return;
    for (size_t i = 0; i < out->part_count; i++)
        if (out->parts[i].sqnr_db > out->parts[best].sqnr_db && joins_integers(net, parts[i].join)) best = i;
    if (!(out->parts[best].sqnr_db - out->parts[out->worst].sqnr_db >= unlike)) return;
    qc_warn(net->listener->warnings, "output '%s': its parts share a scale: '%s' has %.2f dB, '%s' only %.2f dB; %s",
            out->name, out->parts[best].name, out->parts[best].sqnr_db, out->parts[out->worst].name,
            out->parts[out->worst].sqnr_db,
            net->scheme.partition.one_scale_joins ? "without --require-integer each has its own"
                                                  : "--activation-type uint16 makes the steps finer");
}

bool qc_fill_outputs(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                     struct qc_arena *a, struct qc_status *st)
{
    const size_t count = net->folded->output_count;
    struct qc_report_output *outputs = QC_NEW_ARRAY(a, struct qc_report_output, count, st);
    if (!outputs) return false;
    for (size_t k = 0; k < count; k++) {
        const struct qc_error *e = m ? &m->outputs[k] : NULL;
        outputs[k] = (struct qc_report_output){.name = net->folded->outputs[k].name,
                                               .sqnr_db = e ? qc_error_sqnr_db(e) : (double)NAN,
                                               .cosine = e ? qc_error_cosine(e) : (double)NAN,
                                               .max_abs = e ? e->max_abs : (double)NAN,
                                               .part_count = 1,
                                               .judging = net->folded->outputs[k].judging};
        if (!m || outputs[k].judging == QC_NOT_JUDGED) continue;
        if (!fill_parts(&outputs[k], net, m, k, a, st)) return false;
        warn_of_parts(&outputs[k], net, &m->comparison->parts->of[m->comparison->parts->first[k]]);
    }
    r->outputs = outputs;
    r->output_count = count;
    return true;
}

bool qc_fill_ports(struct qc_report *r, const struct qc_network *net, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = qc_network_written(net);
    struct qc_report_port *ports = QC_NEW_ARRAY(a, struct qc_report_port, g->input_count + g->output_count, st);
    r->port_count = 0;
    r->ports = ports;
    for (size_t i = 0; ports && i < g->input_count + g->output_count; i++) {
        const bool input = i < g->input_count;
        const struct qc_port *p = input ? &g->inputs[i] : &g->outputs[i - g->input_count];
        if (!(p->scale > 0)) continue;
        ports[r->port_count++] = (struct qc_report_port){.name = p->name,
                                                         .type = qc_dtype_long_name(g->values[p->value].type.dtype),
                                                         .input = input,
                                                         .scale = p->scale,
                                                         .zero_point = p->zero_point};
    }
    return ports != NULL;
}
