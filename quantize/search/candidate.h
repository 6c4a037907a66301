// SPDX-License-Identifier: Apache-2.0
/* A scheme with its network and the evidence that it rests on: the job's own, or one that is compared with it. A search
   keeps a candidate by making it again in the job's one or by taking it over, and drops it by freeing it. */
#pragma once

#include "quantize/make/make.h"

/* Makes a network, and decides by measurement what its scheme leaves open (quantize/search/decide.c). All arguments but
   out are borrowed, and must outlive the network. Fails if a pass or a run fails. */
bool qc_decide(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
               struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st);

struct qc_candidate {
    const struct qc_setup *setup; /* borrowed */
    struct qc_arena *arena;       /* of texts in schemes and reports; lives as long as the candidate */
    struct qc_warnings *warnings;
    size_t warnings_from, warnings_to; /* those of the network */
    struct qc_listener quiet;          /* hears warnings, but no passes */
    struct qc_evidence *evidence;      /* of the job: made by qc_evidence_new, after its setup was opened */
    struct qc_float_form *form;        /* of the network; later networks start from it */
    struct qc_scheme scheme;
    struct qc_network *network; /* NULL before qc_candidate_make, and after it has failed */
};

/* Makes the job's candidate, without a network. warnings: taken. */
bool qc_candidate_new(struct qc_candidate **out, const struct qc_setup *s, struct qc_warnings *warnings,
                      struct qc_status *st);
/* Makes the network of a scheme. An earlier network is freed first, since memory may not suffice for two. The scheme's
   arrays must live as long as c->arena. listener: NULL, or who hears of the passes. Errors: as qc_decide; then
   c->network is NULL. */
bool qc_candidate_make(struct qc_candidate *c, const struct qc_scheme *scheme, const struct qc_listener *listener,
                       struct qc_status *st);
/* The same with changed options. */
bool qc_candidate_change(struct qc_candidate *c, const struct qc_scheme *base, const struct qc_change *change,
                         struct qc_status *st);
/* Decides about a scheme that could not be made or measured. Returns true and sets *reason (may be NULL) if that
   concerns the scheme alone: model or target do not support it, options disagree, or --memory-limit has no room for it.
   Else fails as `why`. */
bool qc_candidate_refused(const char **reason, const struct qc_candidate *c, const struct qc_status *why,
                          struct qc_status *st);

/* What a derived candidate has in common with the one that it comes from. SAME_FORM: float network and statistics;
   ANOTHER_FORM: the samples only, so they run again; SCALED_FORM: the same, but the statistics serve until its channels
   are scaled; FEW_SAMPLES: as ANOTHER_FORM, but a part of the samples is selected; RIVAL: nothing. Only a rival has
   details for a report and may take the place of the other one. */
enum qc_derivation { QC_SAME_FORM, QC_ANOTHER_FORM, QC_SCALED_FORM, QC_FEW_SAMPLES, QC_RIVAL };

/* Makes a candidate with changed options, for a comparison. `from` has a network and must outlive it. Errors: as
   qc_decide. */
bool qc_candidate_derive(struct qc_candidate **out, const struct qc_candidate *from, const struct qc_change *change,
                         enum qc_derivation how, struct qc_status *st);
/* Replaces scheme, network, evidence and warnings of c by those of its rival, which is empty afterwards. */
void qc_candidate_adopt(struct qc_candidate *c, struct qc_candidate *rival);
/* Ends the search for free changes: commands that are made from the scheme have --effort low, so that they repeat
   this network without a search. */
bool qc_candidate_settle(struct qc_candidate *c, struct qc_status *st);
/* Adds --effort low to a change that left a network with quantized weights alone: the job of its command would search
   their ranges (quantize/search/free_ideas.c), and make another network. */
bool qc_change_settle(struct qc_change *change, const struct qc_network *made, struct qc_arena *a,
                      struct qc_status *st);
void qc_candidate_free(struct qc_candidate *c); /* NULL-safe */
