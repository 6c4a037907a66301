// SPDX-License-Identifier: Apache-2.0
/* Wider types that --method auto chooses by itself: for recurrent weights, and for layers of a network with a noisy
   output. Outputs that stay useless get a warning. */
#include "quantize/search/searches.h"

#include <math.h>
#include <string.h>

#include "calib/ablation.h"
#include "graph/core/recurrent.h"
#include "quantize/search/attempts.h"

enum { RECURRENT_OPS = 3 };

/* ---- Recurrent weights ---- */

/* Proposes 16 bits for all recurrent weights. They stay if half of the output noise comes from 8 bits. */
static bool widen_recurrent(struct qc_attempts *t, const char *const ops[], size_t count, size_t layers,
                            struct qc_status *st)
{
    struct qc_arena *a = t->c->arena;
    struct qc_attempted *step;
    struct qc_change change = {0};
    for (size_t i = 0; i < count; i++)
        if (!qc_change_add(&change, "weight-type", qc_arena_printf(a, st, "int16:%s", ops[i]), a, st)) return false;
    t->halves = true;
    const bool ok = qc_attempt(&step, t, &change, layers, "16 bits", st);
    t->halves = false;
    return ok;
}

/* ---- Any layer ---- */

static bool widen_worst(struct qc_attempts *t, struct qc_status *st)
{
    struct qc_sensitivity *effects = NULL;
    struct qc_status why = QC_STATUS_INIT;
    if (t->at && !qc_candidate_make(t->c, &t->base, NULL, st)) return false;
    t->at = 0;
    const struct qc_report_trial *chosen = qc_auto_method_chosen(t->c->network->auto_method);
    if (chosen && !(t->base.sketch = qc_arena_strdup(t->c->arena, chosen->method, st))) return false;
    /* Unsupported: shapes depend on data, so there is no worst layer to know. */
    if (!qc_measure_sensitivity(&effects, t->c->network, NULL, QC_FALLBACK_BATCHES, NULL, &why))
        return why.code == QC_UNSUPPORTED || qc_fail(st, why.code, "%s", why.message);
    qc_sensitivity_sort(effects, QC_EFFECTS_BY_NOISE);
    const bool ok = qc_widen_layers(t, effects, st);
    qc_sensitivity_free(effects);
    return ok;
}

bool qc_mend(struct qc_json **out, bool *changed, struct qc_candidate *c, double db, struct qc_status *st)
{
    const char *ops[RECURRENT_OPS];
    const struct qc_partition_options *types = &c->scheme.partition;
    size_t layers;
    struct qc_demand d = {.c = c};
    struct qc_standing has = {.sqnr_db = (double)NAN};
    struct qc_attempts t;
    *out = NULL;
    *changed = false;
    /* Types are changed only if no option gives them and neither a demand nor --size decides them. */
    const struct qc_setup *s = c->setup;
    const struct qc_options *o = s->options;
    const unsigned bits = c->scheme.settings->plan.accumulator.bits;
    const bool may = c->scheme.calibration.activation->of_network && s->data && !s->in->team && !o->demand.size &&
                     !o->method.propagate && !qc_options_demand(o) && (!bits || bits == 32) &&
                     !o->given[QC_OPTION_WEIGHT_TYPE] && !o->types.per_tensor;
    if (!may) return true;
    const bool scaled = !types->dynamic && !types->activation_type_count;
    /* List the recurrent operators with quantized weights; layers: number of such nodes. */
    const struct qc_partition *p = c->network->partition;
    size_t named = 0;
    layers = 0;
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        const enum qc_op op = p->graph->nodes[id].op;
        bool known = false;
        if (!p->matches.at[id] || !qc_is_recurrent(op)) continue;
        ++layers;
        for (size_t i = 0; i < named; i++) known = known || strcmp(ops[i], qc_op_info(op)->name) == 0;
        if (!known) ops[named++] = qc_op_info(op)->name;
    }
    const size_t recurrent = db < QC_FALLBACK_RECURRENT_DB && scaled ? named : 0;
    const bool any = db < QC_FALLBACK_NOISY_DB && !c->setup->options->given[QC_OPTION_ACTIVATION_TYPE];
    if ((!recurrent && !any) || qc_ablated("mend")) return true;
    *changed = true;
    const bool ok = qc_demand_begin_outputs(&d, c, 0, st) && qc_demand_measure(&has, &d, st) &&
                    qc_attempts_begin(&t, &d, &has, false, st) &&
                    (!recurrent || widen_recurrent(&t, ops, recurrent, layers, st)) &&
                    (!any || t.best || widen_worst(&t, st)) && qc_attempts_end(out, &has, &t, st);
    if (!any && ok && !t.best) { /* nothing was to be mended */
        qc_json_free(*out);
        *out = NULL;
    }
    qc_demand_end(&d);
    return ok;
}

/* ---- The warning ---- */

/* Returns the first layer of the ranking, else the one whose result has the least SQNR, or with weight-only
   quantization the weight with the least SQNR. */
static const char *layer_to_name(const struct qc_report *r)
{
    const struct qc_layer *worst = NULL;
    const struct qc_json *ranks = qc_json_get(r->record, "ranking");
    for (size_t i = 0; i < qc_json_size(ranks); i++)
        if (*qc_json_find_text(qc_json_at(ranks, i), "node")) return qc_json_find_text(qc_json_at(ranks, i), "node");
    for (size_t i = 0; i < r->layer_count; i++)
        if (!isnan(r->layers[i].sqnr_db) && (!worst || r->layers[i].sqnr_db < worst->sqnr_db)) worst = &r->layers[i];
    if (worst) return worst->node ? worst->node : worst->name;
    for (size_t i = 0; i < r->layer_count; i++)
        if (!worst || r->layers[i].alone_db < worst->alone_db) worst = &r->layers[i];
    return worst ? worst->name : NULL;
}

/* Returns the remedy for an output: a measured command, one that follows from the cause of error, or a demand. */
static const char *remedy_text(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                               const char *output, struct qc_status *st)
{
    static const char demand[] = "--min-sqnr 10 widens the worst layers";
    const struct qc_json *advice = qc_json_get(r->record, "advice"), *fallback = qc_json_find(r->record, "fallback");
    const struct qc_json *outputs = qc_json_find(qc_json_at(advice, 0), "measured.outputs");
    double db = (double)NAN; /* the SQNR of the output with the best advice, if there is any */
    for (size_t i = qc_json_size(outputs); i--;)
        if (strcmp(qc_json_find_text(qc_json_at(outputs, i), "name"), output) == 0)
            db = qc_json_find_number(qc_json_at(outputs, i), "sqnr_db_after");
    const char *command;
    if (db >= QC_FALLBACK_USELESS_DB)
        return qc_arena_printf(net->arena, st, "%.2f dB with: %s", db,
                               qc_json_find_text(qc_json_at(advice, 0), "shell"));
    if (fallback) {
        /* How far wider types go, and what is left. */
        const struct qc_json *steps = qc_json_get(fallback, "steps");
        double most = -(double)INFINITY;
        for (size_t i = 1; i < qc_json_size(steps); i++)
            most = fmax(most, qc_json_find_number(qc_json_at(steps, i), "sqnr_db"));
        if (!(most > qc_json_find_number(qc_json_at(steps, 0), "sqnr_db")))
            return "wider types for the worst layers do not help: leave activations in float with --activation-type "
                   "none";
        return qc_arena_printf(net->arena, st,
                               "wider types reach %.2f dB: leave activations in float with --activation-type none",
                               most);
    }
    if (qc_json_find_number(r->record, "advice_tried") > 0 || !ideas->count) return demand;
    if (!qc_job_command(&command, net->setup->in, net->scheme.options, &ideas->of[0].change, net->arena, st))
        return NULL;
    return qc_arena_printf(net->arena, st, "%s, or try: %s", demand, command);
}

bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                     const struct qc_measurement *m, struct qc_status *st)
{
    size_t output;
    const double db = qc_worst_output(&output, net, m);
    if (!(db < QC_FALLBACK_USELESS_DB) || qc_json_find(r->record, "samples_differ")) return true; /* has a warning */
    const char *layer = layer_to_name(r), *name = net->real->outputs[output].name,
               *remedy = remedy_text(r, ideas, net, name, st);
    if (!remedy) return false;
    qc_warn(net->listener->warnings, "output '%.80s' has %.2f dB, too low to be useful%s%.200s%s; %s", name, db,
            layer ? "; most is lost in '" : "", layer ? layer : "", layer ? "'" : "", remedy);
    return true;
}
