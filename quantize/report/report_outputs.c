// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "quantize/report/record.h"

/* Parts are told apart by a warning if their SQNR differs by this much, dB. */
static const double unlike = 10;

/* Returns true if a Concat of the float network joins integers in the quantized one. */
static bool joins_integers(const struct qc_network *net, qc_id join)
{
    const char *name = join ? net->real->values[net->real->nodes[join].outputs].name : NULL;
    const qc_id v = name ? qc_graph_find_value(net->folded, name) : 0;
    return v && net->folded->values[v].type.qparams;
}

static struct qc_json *output_json(const struct qc_network *net, const struct qc_measurement *m, size_t k)
{
    const struct qc_error *e = m ? &m->outputs[k] : NULL;
    const enum qc_judging judging = net->folded->outputs[k].judging;
    const double db = e ? qc_error_sqnr_db(e) : (double)NAN;
    struct qc_json *o = QC_JSON("name %s sqnr_db %g cosine %g max_abs %g state %s", net->folded->outputs[k].name, db,
                                e ? qc_error_cosine(e) : (double)NAN, e ? e->max_abs : (double)NAN,
                                isnan(db)      ? "not measured"
                                : isfinite(db) ? "measured"
                                : db > 0       ? "equal"
                                               : "not finite");
    const enum qc_dtype type = net->real->values[net->real->outputs[k].value].type.dtype;
    if (type != QC_F32) qc_json_put(o, "type %s", qc_dtype_long_name(type));
    if (judging != QC_JUDGED)
        qc_json_put(o, "ordered %hhd written %hhd", (bool)(judging == QC_NOT_JUDGED), (bool)(judging == QC_NOT_JUDGED));
    if (!m || judging == QC_NOT_JUDGED) return o;
    const struct qc_output_parts *parts = m->comparison->parts;
    if (parts->first[k + 1] - parts->first[k] < 2) return o;
    struct qc_json *list = qc_json_array();
    for (size_t i = parts->first[k]; i < parts->first[k + 1]; i++)
        qc_json_add(list, QC_JSON("name %s sqnr_db %g", QC_VALUE_LABEL(net->real, parts->of[i].value),
                                  qc_error_sqnr_db(&m->comparison->of_parts[i])));
    qc_json_set(o, "parts", list);
    return o;
}

void qc_record_outputs(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m)
{
    struct qc_json *outputs = qc_json_array(), *ports = qc_json_array();
    for (size_t k = 0; k < net->folded->output_count; k++) {
        qc_json_add(outputs, output_json(net, m, k));
        if (m && net->folded->outputs[k].judging != QC_NOT_JUDGED) {
            /* Warn of an output whose worst part shares a scale with a much better one. */
            const struct qc_output_parts *parts = m->comparison->parts;
            const struct qc_error *errors = m->comparison->of_parts;
            const size_t worst = qc_worst_part(parts, k, errors);
            const double worst_db = qc_error_sqnr_db(&errors[worst]);
            size_t best = worst;
            if (!joins_integers(net, parts->of[worst].join)) continue;
            for (size_t i = parts->first[k]; i < parts->first[k + 1]; i++)
                if (qc_error_sqnr_db(&errors[i]) > qc_error_sqnr_db(&errors[best]) &&
                    joins_integers(net, parts->of[i].join))
                    best = i;
            const double best_db = qc_error_sqnr_db(&errors[best]);
            if (!(best_db - worst_db >= unlike)) continue;
            qc_warn(net->listener->warnings,
                    "output '%s': its parts share a scale: '%s' has %.2f dB, '%s' only %.2f dB; %s",
                    net->folded->outputs[k].name, QC_VALUE_LABEL(net->real, parts->of[best].value), best_db,
                    QC_VALUE_LABEL(net->real, parts->of[worst].value), worst_db,
                    net->scheme.partition.one_scale_joins ? "without --require-integer each has its own"
                                                          : "--activation-type uint16 makes the steps finer");
        }
    }
    qc_json_set(r->record, "outputs", outputs);
    const struct qc_graph *g = qc_network_written(net);
    for (size_t i = 0; i < g->input_count + g->output_count; i++) {
        const bool input = i < g->input_count;
        const struct qc_port *p = input ? &g->inputs[i] : &g->outputs[i - g->input_count];
        if (!(p->scale > 0) && !p->pixels) continue;
        struct qc_json *port = QC_JSON("name %s direction %s type %s", p->name, input ? "input" : "output",
                                       qc_dtype_long_name(g->values[p->value].type.dtype));
        if (p->channels_last) qc_json_put(port, "layout %s", "nhwc");
        if (p->pixels) qc_json_put(port, "preprocess %s", p->pixels);
        if (p->scale > 0) qc_json_put(port, "scale %f zero_point %d", (double)p->scale, p->zero_point);
        qc_json_add(ports, port);
    }
    qc_json_set_some(r->record, "integer_ports", ports);
}
