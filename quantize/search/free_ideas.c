// SPDX-License-Identifier: Apache-2.0
/* Takes what is free: changes of the scheme that cost neither latency nor bytes, if the outputs gain on samples.

   An idea that needs other statistics is first made on few samples, beside the job's scheme made the same way. All
   ideas of one kind that gain there are made in full, and compared with the job's network on units held out from second
   moments; the best is kept. */
#include "quantize/search/searches.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "quantize/make/make.h"
#include "quantize/report/command_text.h"
#include "quantize/search/race.h"

/* Kinds of ideas, in the order in which they are tried. */
enum { CHANNELS, WEIGHTS, OPERATORS, KINDS };
enum { OPTIONS = 3 };

struct idea {
    const char *name; /* for the report and for scripts/ablation */
    unsigned kind;    /* of one kind at most one idea is kept */
    enum qc_derivation how;
    bool (*applies)(const struct qc_candidate *c); /* NULL: always; quantize/search/float_operators.c decides */
    size_t count;
    struct qc_option_text options[OPTIONS];
    size_t operators; /* so many operators stay in float (quantize/search/float_operators.c) */
};

/* Whether operators can be in float is decided in quantize/search/float_operators.c. */
static bool has_units(const struct qc_candidate *c)
{
    return qc_dataset_units(c->setup->data) >= QC_FREE_LEAST;
}

bool qc_outputs_are_good(const struct qc_network *net)
{
    const struct qc_report_trial *t = qc_auto_method_chosen(net->auto_method);
    return t && t->sqnr_db >= QC_FREE_GOOD_DB;
}

/* True if factors of channels can gain: activations have calibrated ranges, and no option decides the factors. */
static bool may_scale(const struct qc_candidate *c)
{
    const struct qc_partition_options *p = &c->scheme.partition;
    return has_units(c) && p->activation.dtype != QC_NONE && !p->activation.per_channel && !p->dynamic &&
           !c->setup->given.count && !c->scheme.options->types.per_tensor &&
           !c->scheme.options->given[QC_OPTION_EQUALIZE] && !c->scheme.options->given[QC_OPTION_SCALE_CHANNELS] &&
           !c->setup->in->team && !qc_has_statistics(c->setup->in);
}

static bool has_few_bits(const struct qc_candidate *c)
{
    const struct qc_type_scheme *w = &c->scheme.partition.weight;
    return w->dtype != QC_NONE && (qc_dtype_info(w->dtype)->bits < 8 || (w->bits && w->bits < 8));
}

/* True if the ranges of weights matter: weights have few bits, or all noise is theirs, in a network that is in float
   because it is small. Second moments show the error of outputs; without memory for a search there are none. */
static bool may_choose_weights(const struct qc_candidate *c)
{
    const struct qc_partition_options *p = &c->scheme.partition;
    const bool alone = has_units(c) && p->weight.dtype != QC_NONE && p->activation.dtype != QC_NONE &&
                       qc_network_weights_alone(c->network);
    return (has_few_bits(c) || alone) && !p->weight.format && !p->weight_block &&
           !c->scheme.options->given[QC_OPTION_WEIGHT_METHOD] &&
           (qc_network_moments(c->network) || !qc_memory_ample(c->network));
}

static bool may_use_full_range(const struct qc_candidate *c)
{
    const struct qc_options *o = c->scheme.options;
    return may_choose_weights(c) && !o->given[QC_OPTION_RANGE] && !o->by_target[QC_OPTION_RANGE] &&
           c->scheme.partition.weight.restricted;
}

/* Weights of few bits: which factors are best depends on the ranges of weights. */
static bool may_scale_few(const struct qc_candidate *c)
{
    return may_scale(c) && may_use_full_range(c) && !qc_ablated("full_range");
}

#define EQUALIZED "equalize", "free"
#define SMOOTHED "scale-channels", "free"
#define BY_OUTPUT "weight-method", "output"
#define FULL "range", "full"
static const struct idea ideas[] = {
    {"equalize", CHANNELS, QC_ANOTHER_FORM, may_scale, 1, {{EQUALIZED}}, 0},
    {"equalize", CHANNELS, QC_ANOTHER_FORM, may_scale_few, 3, {{EQUALIZED}, {BY_OUTPUT}, {FULL}}, 0},
    {"smooth", CHANNELS, QC_SCALED_FORM, may_scale, 1, {{SMOOTHED}}, 0},
    {"smooth", CHANNELS, QC_SCALED_FORM, may_scale_few, 3, {{SMOOTHED}, {BY_OUTPUT}, {FULL}}, 0},
    {"weight_method", WEIGHTS, QC_SAME_FORM, may_choose_weights, 1, {{BY_OUTPUT}}, 0},
    {"full_range", WEIGHTS, QC_SAME_FORM, may_use_full_range, 2, {{BY_OUTPUT}, {FULL}}, 0},
    {"float_operators", OPERATORS, QC_SAME_FORM, has_units, 0, {{0}}, 8},
    {"float_operators", OPERATORS, QC_SAME_FORM, has_units, 0, {{0}}, 4},
    {"float_operators", OPERATORS, QC_SAME_FORM, has_units, 0, {{0}}, 2},
    {"float_operators", OPERATORS, QC_SAME_FORM, has_units, 0, {{0}}, 1},
};
enum { IDEAS = sizeof ideas / sizeof *ideas };

/* What the search works on. */
struct trying {
    struct qc_candidate *c;
    bool probes;  /* candidates are made on few samples */
    bool unequal; /* channels differ so much that factors may gain */
    struct qc_float_operators operators;
    struct qc_json *list; /* "free_changes" of the record */
};

/* Sets *out to the change of an idea, in the arena of the job's candidate. */
static bool change_of(struct qc_change *out, const struct trying *t, const struct idea *idea, struct qc_status *st)
{
    const struct qc_change own = {.count = idea->count, .options = idea->options};
    struct qc_arena *a = t->c->arena;
    *out = (struct qc_change){0};
    if (!qc_change_join(out, &own, a, st)) return false;
    for (size_t i = 0; i < idea->operators && i < t->operators.count; i++)
        if (!qc_change_add(out, "skip", t->operators.globs[i], a, st)) return false;
    return true;
}

/* Makes a candidate of the job's scheme with an idea (NULL: without), as cheap as a probe may be. base: such a
   candidate without an idea, or NULL. *out is NULL if that is not possible. */
static bool make_probe(struct qc_candidate **out, const struct trying *t, const struct idea *idea,
                       const struct qc_candidate *base, bool cheaply, struct qc_status *st)
{
    struct qc_dataset *data = t->c->setup->data;
    const struct qc_selection few = qc_few_samples(t->c->network, QC_FREE_PROBE);
    /* The observer that --method auto chose among several, or NULL. */
    const struct qc_auto_method *m = t->c->network->auto_method;
    const char *chosen = m && m->trial_count > 1 && qc_auto_method_chosen(m) ? qc_auto_method_chosen(m)->method : NULL;
    const char *method = cheaply ? "mse" : idea->operators ? chosen : NULL;
    struct qc_change change = {0};
    struct qc_status why = QC_STATUS_INIT;
    bool free_of_cost = true;
    *out = NULL;
    if ((idea && !change_of(&change, t, idea, st)) ||
        (method && !qc_change_add(&change, "method", method, t->c->arena, st)))
        return false;
    const bool beside = cheaply && base && idea->how == QC_SCALED_FORM; /* it has seen the few samples */
    bool ok =
        (!cheaply || qc_dataset_select(data, &few, &why)) &&
        qc_candidate_derive(out, beside ? base : t->c, &change, cheaply && !beside ? QC_FEW_SAMPLES : idea->how, &why);
    if (cheaply && !qc_model_select_again(data, t->c->setup->options, st)) return false;
    if (ok && idea && idea->operators)
        ok = qc_costs_nothing(&free_of_cost, (*out)->network, t->c->network, t->operators.must_save, &why);
    if (!ok || !free_of_cost) {
        qc_candidate_free(*out);
        *out = NULL;
    }
    return ok || qc_candidate_refused(NULL, t->c, &why, st);
}

static struct qc_json *note(struct qc_json *row, const struct qc_race_result *r, bool kept)
{
    return qc_json_put(row, "gain_db %g error_db %g samples %zu kept %hhd", r->gain, r->error, r->units, kept);
}

/* Returns the row of an idea with its result, or NULL. */
static struct qc_json *describe(const struct trying *t, const struct idea *idea, const struct qc_race_result *r,
                                struct qc_status *st)
{
    struct qc_change change;
    if (!change_of(&change, t, idea, st)) return NULL;
    struct qc_json *row = QC_JSON("name %s", idea->name);
    qc_json_set(row, "options", qc_change_json(&change, t->c->arena, st));
    return note(row, r, false);
}

/* made: of all samples. Units held out are few: the small gains of 8-bit weights need all. */
static struct qc_race_terms terms_of(bool made, unsigned kind, const struct qc_candidate *c)
{
    return (struct qc_race_terms){.units = QC_FREE_JUDGED,
                                  .held = made && (kind != WEIGHTS || has_few_bits(c)),
                                  .least_db = QC_FREE_GAIN_DB,
                                  .expected = kind == WEIGHTS};
}

/* Makes the job's network with each idea whose probe gains, and keeps the best if it gains on held-out units. of, rows:
   [count] by candidate; those of the job are not used. */
static bool confirm(bool *changed, const struct trying *t, const struct idea *const *of, struct qc_json *const *rows,
                    const struct qc_race_result *probes, size_t count, struct qc_status *st)
{
    const struct qc_race_terms terms = terms_of(true, of[1]->kind, t->c);
    struct qc_candidate *full[IDEAS + 1] = {NULL};
    const struct qc_network *networks[IDEAS + 1] = {t->c->network};
    struct qc_json *row_of[IDEAS + 1];
    struct qc_race_result results[IDEAS + 1];
    size_t made = 1, best = 0;
    bool ok = true;
    for (size_t k = 1; ok && k < count; k++) {
        struct qc_status why = QC_STATUS_INIT;
        struct qc_change change;
        if (!(probes[k].worth > terms.least_db)) continue;
        if (!(ok = change_of(&change, t, of[k], st))) break;
        if (!qc_candidate_derive(&full[made], t->c, &change, QC_RIVAL, &why)) {
            ok = qc_candidate_refused(NULL, t->c, &why, st);
            continue;
        }
        row_of[made] = rows[k];
        networks[made] = full[made]->network;
        made++;
    }
    ok = ok && (made == 1 || qc_race_of_networks(results, &best, t->c->network, networks, made, &terms, st));
    for (size_t k = 1; ok && k < made; k++) note(row_of[k], &results[k], k == best);
    if (ok && best) {
        *changed = true;
        qc_candidate_adopt(t->c, full[best]);
    }
    for (size_t k = 1; k < made; k++) qc_candidate_free(full[k]);
    return ok;
}

/* Makes probes of the ideas of one kind, compares them with the job's scheme, and confirms the best. */
static bool try_kind(bool *changed, struct trying *t, unsigned kind, struct qc_status *st)
{
    struct qc_candidate *made[IDEAS + 1] = {NULL};
    const struct qc_network *networks[IDEAS + 1];
    const struct idea *of[IDEAS + 1];
    struct qc_race_result results[IDEAS + 1] = {{0}};
    size_t count = 1, best = 0;
    bool ok = kind != OPERATORS || qc_find_float_operators(&t->operators, t->c, st);
    for (size_t i = 0; ok && i < IDEAS; i++) {
        const bool cheaply = t->probes && kind == CHANNELS;
        if (ideas[i].kind != kind || (ideas[i].applies && !ideas[i].applies(t->c)) ||
            (ideas[i].operators && (count > 1 || ideas[i].operators / 2 >= t->operators.count)) ||
            qc_ablated(ideas[i].name))
            continue;
        if (kind == CHANNELS && !t->unequal) continue;
        if (cheaply && !made[0]) ok = make_probe(&made[0], t, NULL, NULL, true, st);
        ok = ok && make_probe(&made[count], t, &ideas[i], made[0], cheaply, st);
        if (!ok || !made[count] || (cheaply && !made[0])) continue;
        of[count] = &ideas[i];
        networks[count] = made[count]->network;
        count++;
    }
    networks[0] = made[0] ? made[0]->network : t->c->network;
    const struct qc_race_terms terms = terms_of(!made[0], kind, t->c);
    ok = ok && (count == 1 || qc_race_of_networks(results, &best, t->c->network, networks, count, &terms, st));
    if (kind == OPERATORS && !t->operators.must_save && results[0].sqnr_db >= QC_FREE_GOOD_DB) best = 0;
    struct qc_json *rows[IDEAS + 1] = {NULL};
    for (size_t k = 1; ok && k < count; k++) {
        rows[k] = describe(t, of[k], &results[k], st);
        if (rows[k]) qc_json_add(t->list, rows[k]);
        ok = rows[k] && st->code == QC_OK && (qc_json_is_whole(t->list) || qc_fail_memory(st, 1));
    }
    for (size_t k = 0; k <= IDEAS; k++) qc_candidate_free(made[k]);
    if (!ok || !best) return ok;
    if (kind != OPERATORS) return confirm(changed, t, of, rows, results, count, st);
    bool kept;
    /* Make the job's network with operators in float; the probe was made in full, of the same evidence. */
    const struct qc_scheme base = t->c->scheme;
    struct qc_status why = QC_STATUS_INIT;
    struct qc_change change;
    kept = false;
    if (!change_of(&change, t, of[best], st)) return false;
    kept = qc_candidate_change(t->c, &base, &change, &why);
    if (!kept && (!qc_candidate_refused(NULL, t->c, &why, st) || !qc_candidate_make(t->c, &base, NULL, st)))
        return false;
    note(rows[best], &results[best], kept);
    *changed = *changed || kept;
    return true;
}

/* True if the job may look for free changes, but for memory. */
static bool may_try(const struct qc_candidate *c)
{
    const struct qc_options *o = c->setup->options;
    const unsigned bits = c->scheme.settings->plan.accumulator.bits;
    return o->method.effort != QC_EFFORT_LOW && c->setup->data && !o->method.propagate && !o->demand.size &&
           !o->demand.benchmark && !c->setup->of_body && (!bits || bits == 32) &&
           qc_dataset_units(c->setup->data) >= QC_FREE_LEAST_WEIGHTS;
}

bool qc_looks_for_free(const struct qc_candidate *c)
{
    return may_try(c) && !c->evidence->moments_dropped && qc_memory_ample(c->network);
}

bool qc_take_free_ideas(struct qc_report *r, bool *changed, struct qc_candidate *c, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const bool high = c->setup->options->method.effort == QC_EFFORT_HIGH;
    struct trying t = {.c = c};
    double hope = 0;
    bool ok = true;
    *changed = false;
    if (!may_try(c)) return true;
    const bool ample = qc_memory_ample(c->network);
    if (ample && !qc_looks_for_free(c)) return true;
    if (ample && may_scale(c) && !qc_scale_hope(&hope, c->network, st)) return false;
    t.list = qc_json_array();
    if (ample) {
        t.unequal = hope > (high ? 0 : qc_outputs_are_good(c->network) ? QC_FREE_HOPE_GOOD_DB : QC_FREE_HOPE_DB);
        t.probes = !high && qc_dataset_units(c->setup->data) > 2 * QC_FREE_PROBE;
        qc_progress_phase(c->setup->progress, "trying free changes");
        for (unsigned kind = 0; ok && kind < KINDS; kind++) ok = try_kind(changed, &t, kind, st);
        qc_progress_end(c->setup->progress);
    } else {
        /* List the ideas that --memory-limit leaves no room for, and warn of them. */
        const struct qc_race_result none = {.gain = (double)NAN, .error = (double)NAN};
        for (size_t i = 0; ok && i < IDEAS; i++) {
            if ((ideas[i].applies && !ideas[i].applies(c)) || (i && strcmp(ideas[i].name, ideas[i - 1].name) == 0))
                continue;
            struct qc_json *row = describe(&t, &ideas[i], &none, st);
            if (row) qc_json_add(t.list, qc_json_put(row, "reason %s", "--memory-limit leaves too little memory"));
            ok = row && st->code == QC_OK;
        }
        if (ok && qc_json_size(t.list))
            qc_warn(c->warnings,
                    "changes that cost nothing at run time are not tried: --memory-limit leaves too little "
                    "memory; the model may differ from that of a job with more");
    }
    const bool tried = qc_json_size(t.list);
    if (tried) qc_json_put(r->timing, "free_changes_seconds %g", ample ? qc_seconds() - t0 : 0.0);
    qc_json_set_some(r->record, "free_changes", t.list);
    return ok && (!ample || !tried || qc_candidate_settle(c, st));
}
