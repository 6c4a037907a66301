// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/candidate.h"

#include <stdlib.h>

#include "base/scope.h"

bool qc_candidate_new(struct qc_candidate **out, const struct qc_setup *s, struct qc_warnings *warnings,
                      struct qc_status *st)
{
    struct qc_candidate *c = calloc(1, sizeof *c);
    if (!c) {
        qc_warnings_free(warnings);
        return qc_fail_memory(st, sizeof *c);
    }
    *c = (struct qc_candidate){.setup = s, .warnings = warnings, .quiet = {.warnings = warnings}};
    const bool ok = (c->arena = qc_arena_new()) || qc_fail_memory(st, 1);
    return QC_HAND_OVER(ok, out, c, qc_candidate_free);
}

bool qc_candidate_make(struct qc_candidate *c, const struct qc_scheme *scheme, const struct qc_listener *listener,
                       struct qc_status *st)
{
    qc_network_free(c->network);
    c->network = NULL;
    qc_warnings_drop(c->warnings, c->warnings_from, c->warnings_to);
    c->warnings_from = qc_warnings_count(c->warnings);
    c->scheme = *scheme;
    const bool ok = qc_decide(&c->network, c->setup, &c->scheme, c->evidence, listener ? listener : &c->quiet, st);
    if (ok) {
        struct qc_float_form *form = qc_float_form_ref(c->network->form);
        qc_float_form_free(c->form);
        c->scheme.form = c->form = form;
        c->warnings_from = c->network->warnings_from;
    }
    c->warnings_to = qc_warnings_count(c->warnings);
    return ok;
}

bool qc_candidate_change(struct qc_candidate *c, const struct qc_scheme *base, const struct qc_change *change,
                         struct qc_status *st)
{
    struct qc_scheme scheme;
    return qc_scheme_change(&scheme, base, c->setup, change, c->arena, st) && qc_candidate_make(c, &scheme, NULL, st);
}

bool qc_candidate_refused(const char **reason, const struct qc_candidate *c, const struct qc_status *why,
                          struct qc_status *st)
{
    if (why->code != QC_UNSUPPORTED && why->code != QC_USAGE && why->code != QC_DEMAND &&
        (why->code != QC_MACHINE || !c->setup->options->run.memory_limit))
        return qc_fail(st, why->code, "%s", why->message);
    return !reason || (*reason = qc_arena_strdup(c->arena, why->message, st));
}

static bool derive(struct qc_candidate *c, const struct qc_candidate *from, const struct qc_change *change,
                   enum qc_derivation how, struct qc_status *st)
{
    const struct qc_network *net = from->network;
    const bool same = how == QC_SAME_FORM;
    struct qc_scheme scheme;
    struct qc_float_form *form = NULL;
    if (!qc_scheme_change(&scheme, &from->scheme, c->setup, change, how == QC_RIVAL ? from->arena : c->arena, st) ||
        !(how == QC_RIVAL ? qc_evidence_new(&c->evidence, c->setup, st)
          : same          ? qc_evidence_share(&c->evidence, from->evidence, st)
                 : qc_evidence_beside(&c->evidence, from->evidence, how == QC_FEW_SAMPLES, c->setup->budget, st)) ||
        (same && !qc_float_form_unscaled(&form, net->form, c->setup, st)))
        return false;
    /* both start from the normalised graph */
    if (how == QC_SCALED_FORM && net->real == c->setup->normalised) qc_evidence_lend(c->evidence, from->evidence);
    scheme.form = form;
    scheme.bare = scheme.calibration.ranges_alone = how != QC_RIVAL;
    if (how != QC_RIVAL && !from->scheme.options->method.propagate)
        scheme.calibration.solved = (struct qc_solved){.graph = net->simulated,
                                                       .seen = from->evidence->statistics,
                                                       .options = &net->scheme.calibration,
                                                       .calibration = net->calibration};
    const bool ok = qc_candidate_make(c, &scheme, NULL, st);
    qc_float_form_free(form);
    return ok;
}

bool qc_candidate_derive(struct qc_candidate **out, const struct qc_candidate *from, const struct qc_change *change,
                         enum qc_derivation how, struct qc_status *st)
{
    struct qc_warnings *warnings = NULL;
    struct qc_candidate *c = NULL;
    const bool ok = qc_warnings_new(&warnings, st) && qc_candidate_new(&c, from->setup, warnings, st) &&
                    derive(c, from, change, how, st);
    return QC_HAND_OVER(ok, out, c, qc_candidate_free);
}

void qc_candidate_adopt(struct qc_candidate *c, struct qc_candidate *rival)
{
    const struct qc_candidate old = *c;
    qc_warnings_drop(c->warnings, c->warnings_from, c->warnings_to);
    c->warnings_from = qc_warnings_count(c->warnings);
    for (size_t i = 0; i < qc_warnings_count(rival->warnings); i++)
        qc_warn(c->warnings, "%s", qc_warnings_text(rival->warnings, i));
    c->warnings_to = qc_warnings_count(c->warnings);
    c->evidence = rival->evidence;
    c->form = rival->form;
    c->scheme = rival->scheme;
    c->network = rival->network;
    c->network->listener = &c->quiet;
    c->network->warnings_from = c->warnings_from;
    rival->evidence = old.evidence;
    rival->form = old.form;
    rival->scheme = old.scheme;
    rival->network = old.network;
}

bool qc_candidate_settle(struct qc_candidate *c, struct qc_status *st)
{
    static const struct qc_option_text low = {"effort", "low"};
    struct qc_options *o = QC_NEW(c->arena, struct qc_options, st);
    if (!o || !qc_options_change(o, c->scheme.options, &(struct qc_change){.count = 1, .options = &low}, c->arena, st))
        return false;
    c->scheme.options = c->network->scheme.options = o;
    return true;
}

bool qc_change_settle(struct qc_change *change, const struct qc_network *made, struct qc_arena *a, struct qc_status *st)
{
    return !qc_network_weights_alone(made) || made->scheme.options->method.effort == QC_EFFORT_LOW ||
           qc_change_add(change, "effort", "low", a, st);
}

void qc_candidate_free(struct qc_candidate *c)
{
    if (!c) return;
    qc_network_free(c->network);
    qc_float_form_free(c->form);
    qc_evidence_free(c->evidence);
    qc_warnings_free(c->warnings);
    qc_arena_free(c->arena);
    free(c);
}
