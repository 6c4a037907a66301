// SPDX-License-Identifier: Apache-2.0
#include "quantize/demand/mend.h"

#include <math.h>
#include <string.h>

#include "calib/ablation.h"
#include "graph/core/recurrent.h"
#include "quantize/demand/demand.h"
#include "quantize/demand/fallback.h"
#include "quantize/options/integer_options.h"
#include "quantize/pipeline.h"

/* SQNR in dB. At USELESS the noise has a tenth of the output's power. Below it layers are widened until the output has
   MENDED, or at least USELESS. Below RECURRENT recurrent weights are tried in 16 bits and kept if that removes half of
   the noise (HALF_OF_NOISE). */
static const double USELESS = 10, MENDED = 20, RECURRENT = 30, HALF_OF_NOISE = 3;
enum { BATCHES = 4, RECURRENT_OPS = 3 };

/* Returns the SQNR of the worst float32 output, dB; infinity if there is none. */
static double worst_output(size_t *worst, const struct qc_pipeline *p, const struct qc_measurement *m)
{
    double least = (double)INFINITY;
    *worst = QC_NO_INDEX;
    for (size_t k = 0; m && k < m->output_count; k++) {
        const double db = qc_error_sqnr_db(&m->outputs[k]);
        if (p->real->values[p->real->outputs[k].value].type.dtype != QC_F32 || !(db < least)) continue;
        least = db;
        *worst = k;
    }
    return least;
}

/* Types are changed only if no option gives them and neither a demand nor --size decides them. */
static bool may_mend(const struct qc_pipeline *p)
{
    const struct qc_options *o = p->options;
    const unsigned bits = p->how.accumulator.bits;
    return p->calibration_options.activation->of_network && p->from->data && !p->in->team && !o->size &&
           !o->propagate && !qc_options_demand(o) && (!bits || bits == 32) && !o->given[QC_OPTION_WEIGHT_TYPE] &&
           !o->per_tensor;
}

/* ---- Recurrent weights ---- */

/* Lists the recurrent operators with quantized weights; *layers: number of such nodes. Returns the number of names. */
static size_t recurrent_ops(const char *names[RECURRENT_OPS], size_t *layers, const struct qc_partition *p)
{
    size_t count = 0;
    *layers = 0;
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        const enum qc_op op = p->graph->nodes[id].op;
        bool known = false;
        if (!p->matches.at[id] || !qc_is_recurrent(op)) continue;
        ++*layers;
        for (size_t i = 0; i < count; i++) known = known || strcmp(names[i], qc_op_info(op)->name) == 0;
        if (!known) names[count++] = qc_op_info(op)->name;
    }
    return count;
}

static bool describe_recurrent(struct qc_report_fallback *out, struct qc_pipeline *p, const char *const *ops,
                               size_t count, struct qc_status *st)
{
    struct qc_command_option options[RECURRENT_OPS];
    const struct qc_command_change change = {.count = count, .options = options};
    for (size_t i = 0; i < count; i++) {
        options[i] = (struct qc_command_option){"weight-type", qc_arena_printf(p->arena, st, "int16:%s", ops[i])};
        if (!options[i].value) return false;
    }
    out->option_count = count;
    return qc_pipeline_change(&out->options, &out->command, p, &change, st);
}

static struct qc_report_fallback_step *add_step(struct qc_report_fallback_step *steps, size_t layers, const char *type,
                                                double sqnr_db)
{
    *steps = (struct qc_report_fallback_step){.layers = layers,
                                              .type = type,
                                              .value = (double)NAN,
                                              .drop = (double)NAN,
                                              .nll = (double)NAN,
                                              .int8_share = (double)NAN,
                                              .sqnr_db = sqnr_db};
    return steps;
}

/* Gives all recurrent weights 16 bits, if half of the output noise comes from them. */
static bool widen_recurrent(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                            struct qc_status *st)
{
    struct qc_pipeline *p = d->p;
    const char *ops[RECURRENT_OPS];
    size_t layers;
    const size_t count = recurrent_ops(ops, &layers, p->partition);
    const struct qc_partition_options base = p->scheme;
    const double before = has->sqnr_db;
    if (!count) return true;
    struct qc_type_choice *types = QC_NEW_ARRAY(p->arena, struct qc_type_choice, base.weight_type_count + count, st);
    struct qc_report_fallback *to = QC_NEW(p->arena, struct qc_report_fallback, st);
    struct qc_report_fallback_step *steps = QC_NEW_ARRAY(p->arena, struct qc_report_fallback_step, 2, st);
    if (!types || !to || !steps) return false;
    for (size_t i = 0; i < base.weight_type_count; i++) types[i] = base.weight_types[i];
    for (size_t i = 0; i < count; i++)
        types[base.weight_type_count + i] = (struct qc_type_choice){.dtype = QC_I16, .glob = ops[i]};
    p->scheme.weight_types = types;
    p->scheme.weight_type_count = base.weight_type_count + count;
    struct qc_status why = QC_STATUS_INIT;
    const bool made = qc_pipeline_again(p, &why);
    if (!made && why.code != QC_UNSUPPORTED && why.code != QC_USAGE) return qc_fail(st, why.code, "%s", why.message);
    if (made && !qc_demand_measure(has, d, st)) return false;
    if (!made || !(has->sqnr_db - before >= HALF_OF_NOISE) || has->sqnr_db < USELESS) {
        p->scheme = base;
        has->sqnr_db = before;
        return qc_pipeline_again(p, st);
    }
    add_step(&steps[0], 0, "", before);
    add_step(&steps[1], layers, "16 bits", has->sqnr_db)->chosen = true;
    steps[1].met = true;
    *to = (struct qc_report_fallback){.limit = (double)NAN,
                                      .min_sqnr = before + HALF_OF_NOISE,
                                      .max_nll = (double)NAN,
                                      .met = true,
                                      .steps = steps,
                                      .step_count = 2};
    *out = to;
    return describe_recurrent(to, p, ops, count, st);
}

/* ---- Any layer ---- */

static double best_of(const struct qc_report_fallback *f)
{
    double best = -(double)INFINITY;
    for (size_t i = 0; i < f->step_count; i++) best = fmax(best, f->steps[i].sqnr_db);
    return best;
}

static bool widen_worst(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                        struct qc_status *st)
{
    struct qc_sensitivity *effects = NULL;
    struct qc_status why = QC_STATUS_INIT;
    /* Unsupported: shapes depend on data, so there is no worst layer to know. */
    if (!qc_measure_sensitivity(&effects, d->p, NULL, BATCHES, NULL, 0, &why))
        return why.code == QC_UNSUPPORTED || qc_fail(st, why.code, "%s", why.message);
    qc_sensitivity_sort(effects, QC_EFFECTS_BY_NOISE);
    const struct qc_standing before = *has;
    bool ok = qc_fall_back(out, has, d, effects, st);
    if (ok && !(*out)->met && best_of(*out) >= USELESS) {
        d->min_sqnr = USELESS;
        *has = before;
        ok = qc_fall_back(out, has, d, effects, st);
    }
    qc_sensitivity_free(effects);
    return ok;
}

bool qc_mend(struct qc_report_fallback **out, bool *again, struct qc_pipeline *p, const struct qc_measurement *m,
             struct qc_status *st)
{
    const char *ops[RECURRENT_OPS];
    size_t layers, worst;
    struct qc_demand d = {.p = p};
    struct qc_standing has = {.sqnr_db = (double)NAN};
    *out = NULL;
    *again = false;
    if (!m || !may_mend(p)) return true;
    const double db = worst_output(&worst, p, m);
    const bool recurrent = db < RECURRENT && !p->scheme.dynamic && !p->scheme.activation_type_count &&
                           recurrent_ops(ops, &layers, p->partition);
    const bool any = db < USELESS && !p->options->given[QC_OPTION_ACTIVATION_TYPE];
    if ((!recurrent && !any) || qc_ablated("mend")) return true;
    *again = true;
    bool ok = qc_demand_begin_outputs(&d, p, MENDED, st) && qc_demand_measure(&has, &d, st);
    ok = ok && (!recurrent || widen_recurrent(out, &has, &d, st));
    if (ok && !*out && any && !(has.sqnr_db >= MENDED)) ok = widen_worst(out, &has, &d, st);
    if (ok && *out) (*out)->mended = true;
    qc_demand_end(&d);
    return ok;
}

/* ---- The warning ---- */

/* Returns the layer of the best advice, else of the first cause of error, else the one whose result has the least SQNR,
   or with weight-only quantization the weight with the least SQNR. */
static const char *layer_to_name(const struct qc_report *r, const struct qc_ideas *ideas)
{
    const struct qc_layer *worst = NULL;
    if (r->advice_count && r->advice[0].node) return r->advice[0].node;
    for (size_t i = 0; i < ideas->count; i++)
        if (ideas->of[i].node) return ideas->of[i].node;
    for (size_t i = 0; i < r->layer_count; i++)
        if (!isnan(r->layers[i].sqnr_db) && (!worst || r->layers[i].sqnr_db < worst->sqnr_db)) worst = &r->layers[i];
    if (worst) return worst->node ? worst->node : worst->name;
    for (size_t i = 0; i < r->layer_count; i++)
        if (!worst || r->layers[i].alone_db < worst->alone_db) worst = &r->layers[i];
    return worst ? worst->name : NULL;
}

/* Returns the remedy: a measured command, one that follows from the cause of error, or a demand. */
static const char *remedy_of(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_pipeline *p,
                             struct qc_status *st)
{
    static const char demand[] = "--min-sqnr 10 widens the worst layers";
    const char *command;
    if (r->advice_count && r->advice[0].after_db >= USELESS)
        return qc_arena_printf(p->arena, st, "%.2f dB with: %s", r->advice[0].after_db, r->advice[0].command);
    if (r->fallback)
        return "wider types for the worst layers do not help: leave activations in float with --activation-type none";
    if (r->advice_tried || !ideas->count) return demand;
    if (!qc_pipeline_command(&command, p, &ideas->of[0].change, st)) return NULL;
    return qc_arena_printf(p->arena, st, "%s, or try: %s", demand, command);
}

bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_pipeline *p,
                     const struct qc_measurement *m, struct qc_status *st)
{
    size_t output;
    const double db = worst_output(&output, p, m);
    if (!(db < USELESS)) return true;
    const char *layer = layer_to_name(r, ideas), *remedy = remedy_of(r, ideas, p, st);
    if (!remedy) return false;
    qc_warn(p->warnings, "output '%.80s' has %.2f dB, too low to be useful%s%.200s%s; %s",
            p->real->outputs[output].name, db, layer ? "; most is lost in '" : "", layer ? layer : "", layer ? "'" : "",
            remedy);
    return true;
}
