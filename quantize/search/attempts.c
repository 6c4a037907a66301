// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/attempts.h"

#include <math.h>

#include "base/scope.h"
#include "graph/core/multiply_adds.h"
#include "quantize/report/command_text.h"
#include "quantize/report/record.h"
#include "quantize/search/own_metric.h"
#include "quantize/search/searches.h"

/* Each attempt doubles a number of layers or halves an interval, in one of two ways; one is for recurrent weights. */
enum { STEPS = 2 * (2 * 8 * sizeof(size_t) + 3) + 2 };

/* Returns the price of what a step costs at run time, in units of the float latency. Without known shapes the share of
   integers stands for latency. */
static double price_of_cost(const struct qc_attempts *t, const struct qc_attempted *s)
{
    const double bytes = (double)s->cost.bytes / (double)t->c->setup->model.graph->budget.model_bytes,
                 share = isfinite(s->int8_share) ? s->int8_share : 0,
                 latency = isfinite(s->cost.latency) ? s->cost.latency : 1 - share / 2;
    return t->base.partition.prefer == QC_PREFER_SIZE ? bytes : latency + QC_PRICE_OF_BYTES * bytes;
}

static double price(const struct qc_attempts *t, const struct qc_attempted *s)
{
    if (s->reason || (t->demanded && !s->met)) return (double)INFINITY;
    /* The price of the noise of an output grows steeply where the output loses its use, and ends where no use is left
       to lose. */
    const double noise = fmin(pow(10, -s->sqnr_db / 10), pow(10, -QC_FALLBACK_NOTHING_DB / 10)),
                 useless = pow(10, -QC_FALLBACK_USELESS_DB / 10);
    return price_of_cost(t, s) +
           (t->demanded ? 0 : QC_PRICE_OF_NOISE * noise + QC_PRICE_OF_USELESS * fmax(0, noise - useless));
}

static struct qc_attempted *add_step(struct qc_attempts *t, size_t layers, const char *type)
{
    const double none = (double)NAN;
    struct qc_attempted *s = &t->steps[t->count++];
    *s = (struct qc_attempted){
        .layers = layers, .type = type, .value = none, .drop = none, .int8_share = none, .sqnr_db = none, .nll = none};
    return s;
}

static void fill_step(struct qc_attempted *s, const struct qc_attempts *t, const struct qc_standing *has)
{
    const struct qc_graph *made = t->c->network->produced;
    const bool stored = t->base.options->graph.runs_on->wide_is_float && !t->base.options->graph.require_integer;
    s->int8_share = qc_product_share(made, stored ? QC_PRODUCT_INT8_STORED : QC_PRODUCT_INT8);
    s->sqnr_db = has->sqnr_db;
    if (!qc_measures_accuracy(t->c->setup) || t->demand->outputs_alone) return;
    s->value = has->metric.value;
    s->drop = qc_metric_drop(&t->demand->fp32, &has->metric);
    s->nll = has->metric.nll;
}

bool qc_attempts_begin(struct qc_attempts *t, struct qc_demand *d, const struct qc_standing *has, bool demanded,
                       struct qc_status *st)
{
    struct qc_candidate *c = d->c;
    *t = (struct qc_attempts){.c = c, .demand = d, .demanded = demanded, .base = c->scheme, .has = *has};
    if (!(t->steps = QC_NEW_ARRAY(c->arena, struct qc_attempted, STEPS, st))) return false;
    struct qc_attempted *s = add_step(t, 0, NULL);
    fill_step(s, t, has);
    if (!qc_cost_of(&s->cost, c->network, st)) return false;
    const bool integers = c->scheme.options->graph.require_integer || c->scheme.partition.prefer == QC_PREFER_INTEGERS;
    t->base.may_be_float = !demanded && !integers;
    if (demanded || integers) return true;
    const size_t real = c->setup->model.graph->budget.model_bytes;
    t->most =
        (struct qc_cost){.latency = fmax(1, s->cost.latency), .bytes = s->cost.bytes > real ? s->cost.bytes : real};
    return true;
}

bool qc_attempt(struct qc_attempted **step, struct qc_attempts *t, const struct qc_change *change, size_t layers,
                const char *type, struct qc_status *st)
{
    struct qc_attempted *s = *step = add_step(t, layers, type);
    struct qc_status why = QC_STATUS_INIT;
    struct qc_standing has = {.sqnr_db = (double)NAN};
    t->at = QC_NO_INDEX;
    if (!qc_candidate_change(t->c, &t->base, change, &why)) return qc_candidate_refused(&s->reason, t->c, &why, st);
    t->at = (size_t)(s - t->steps);
    /* Refuse a network that costs too much, or with --require-integer has an operator in float. */
    if (!qc_cost_of(&s->cost, t->c->network, st)) return false;
    if (t->most.bytes && s->cost.bytes > t->most.bytes) s->reason = "the file would be larger than the float model";
    if (t->most.bytes && s->cost.latency > t->most.latency) s->reason = "it would take longer than the float model";
    if (t->base.options->graph.require_integer) {
        size_t quantized = 0;
        struct qc_json *ops = qc_json_array();
        const bool ok = qc_float_ops(ops, &quantized, t->c->network, NULL, st);
        const struct qc_json *first = qc_json_size(ops) ? qc_json_at(ops, 0) : NULL;
        if (first)
            s->reason = qc_arena_printf(t->c->arena, st, "'%.80s' (%s) would stay in float",
                                        qc_json_find_text(first, "name"), qc_json_find_text(first, "op"));
        qc_json_free(ops);
        if (!ok || st->code != QC_OK) return false;
    }
    if (s->reason) return true;
    qc_progress_phase(t->c->setup->progress, "accuracy, %zu layers in %s", layers, type);
    if (!qc_demand_measure(&has, t->demand, st)) return false;
    fill_step(s, t, &has);
    s->met = t->demanded && qc_demand_met(t->demand, &has);
    const struct qc_attempted *best = &t->steps[t->best];
    const double is = price(t, s), was = price(t, best);
    const bool better = t->halves
                            ? s->sqnr_db - best->sqnr_db >= QC_FALLBACK_HALF_DB && s->sqnr_db >= QC_FALLBACK_USELESS_DB
                            : is < was || (t->best && is <= was && s->layers < best->layers);
    if (!better) return true;
    t->best = t->at;
    t->change = *change;
    t->has = has;
    return true;
}

bool qc_attempts_over(const struct qc_attempts *t, const struct qc_attempted *step)
{
    const bool refused = step->reason && t->at == (size_t)(step - t->steps);
    return (!t->demanded && refused) || price_of_cost(t, step) >= price(t, &t->steps[t->best]);
}

/* Brings the candidate to the best step, made in full. If a sketch was better than the base and the whole network is
   not, or cannot be made, the base is best. */
static bool settle_attempts(struct qc_attempts *t, struct qc_status *st)
{
    struct qc_candidate *c = t->c;
    struct qc_attempted *best = &t->steps[t->best];
    const bool sketched = t->base.sketch;
    t->base.sketch = NULL;
    if (t->best && (sketched || t->at != t->best)) {
        struct qc_status why = QC_STATUS_INIT;
        if (!sketched) return qc_candidate_change(c, &t->base, &t->change, st);
        if (qc_candidate_change(c, &t->base, &t->change, &why)) {
            if (!qc_cost_of(&best->cost, c->network, st) || !qc_demand_measure(&t->has, t->demand, st)) return false;
            fill_step(best, t, &t->has);
        } else if (!qc_candidate_refused(&best->reason, c, &why, st)) {
            return false;
        }
        if (price(t, best) < price(t, t->steps)) return true; /* infinite with a reason */
        t->best = 0;
        t->at = QC_NO_INDEX;
    }
    return t->at == t->best || qc_candidate_make(c, &t->base, NULL, st);
}

bool qc_attempts_end(struct qc_json **out, struct qc_standing *has, struct qc_attempts *t, struct qc_status *st)
{
    struct qc_candidate *c = t->c;
    const char *command = NULL;
    struct qc_change none = {0}, *change = &none;
    if (!settle_attempts(t, st)) return false;
    if (t->best) *has = t->has;
    const struct qc_partition *p = c->network->partition;
    if (t->best && !p->matches.count &&
        !p->weight_only_count) { /* options that leave nothing to quantize are refused: no command */
        qc_warn(c->warnings,
                "nothing is quantized: with integers the worst output has %.2f dB, and no wider types are better than "
                "float at its price; --prefer integers quantizes it",
                t->steps[0].sqnr_db);
    } else if (t->best) {
        struct qc_change told = t->change; /* may get an option more */
        change = &t->change;
        if (!qc_change_settle(&told, c->network, c->arena, st) ||
            !qc_job_command(&command, c->setup->in, t->base.options, &told, c->arena, st))
            return false;
    }
    struct qc_json *steps = qc_json_array(),
                   *o = QC_JSON("max_drop %g min_sqnr %g max_nll %g met %hhd", t->demand->max_drop, t->demand->min_sqnr,
                                t->demand->max_nll, (bool)(t->best > 0));
    qc_json_set(o, "options", qc_change_json(change, c->arena, st));
    qc_json_put(o, "command %s mended %hhd", command, (bool)!t->demanded);
    for (size_t i = 0; i < t->count; i++) {
        const struct qc_attempted *s = &t->steps[i];
        const bool chosen = t->best && i == t->best;
        struct qc_json *step = QC_JSON("layers %zu type %s", s->layers, s->type);
        if (s->cost.bytes) qc_json_set(step, "cost", qc_cost_json(&s->cost));
        qc_json_add(steps,
                    qc_json_put(step, "value %g drop %g sqnr_db %g nll %g int8_share %g met %hhd chosen %hhd reason %s",
                                s->value, s->drop, s->sqnr_db, s->nll, s->int8_share, (bool)(s->met || chosen), chosen,
                                s->reason));
    }
    qc_json_set(o, "steps", steps);
    return QC_HAND_OVER(st->code == QC_OK, out, o, qc_json_free);
}
