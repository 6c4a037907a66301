// SPDX-License-Identifier: Apache-2.0
/* Attempts: networks of changed schemes, made one after the other in the job's candidate. Searches propose the changes.
   Here each is made and measured, compared with the best so far, and kept or dropped.

   A network has a price: its estimated latency and bytes (quantize/search/cost.h) relative to the float model. If the
   user demands something, the cheapest network that meets the demand is the best one. Else noise of the outputs has a
   price, and no network may be larger or slower than the float model. */
#pragma once

#include "quantize/search/cost.h"
#include "quantize/search/demand.h"

struct qc_attempted {
    size_t layers;                  /* number of worst layers that get `type`; 0: the base */
    const char *type;               /* "8 bits", "16 bits", "float"; NULL: the types of the options */
    double value, drop, int8_share; /* accuracy; its loss in points or dB; share of the multiply-adds. NaN: it failed */
    double sqnr_db, nll;            /* of the worst output; in nats. NaN: not measured */
    struct qc_cost cost;            /* 0 bytes: it failed */
    const char *reason;             /* why the attempt failed, or NULL */
    bool met;
};

struct qc_attempts {
    struct qc_candidate *c;
    struct qc_demand *demand;
    bool demanded;         /* by the user */
    bool halves;           /* a network is better if it has half of the noise, whatever its price */
    struct qc_scheme base; /* changes are relative to it */
    size_t count;
    struct qc_attempted *steps; /* [count]; step 0 is the base */
    size_t best, at;            /* steps; at: whose network the candidate has, or QC_NO_INDEX */
    struct qc_change change;    /* of the best step ... */
    struct qc_standing has;     /* ... and its results */
    struct qc_cost most;        /* what costs more is refused; 0 bytes: no limit */
};

/* Starts from the network of d->c, which has the results *has. d must outlive t. */
bool qc_attempts_begin(struct qc_attempts *t, struct qc_demand *d, const struct qc_standing *has, bool demanded,
                       struct qc_status *st);
/* Makes and measures the base with a change that concerns so many layers; type: what they get. (*step)->reason is set
   if that is not possible. Errors: those of making and of runs. */
bool qc_attempt(struct qc_attempted **step, struct qc_attempts *t, const struct qc_change *change, size_t layers,
                const char *type, struct qc_status *st);
/* Returns true if a change of the same kind that concerns more layers cannot be better than the best one. */
bool qc_attempts_over(const struct qc_attempts *t, const struct qc_attempted *step);
/* Brings the candidate to the best step, whose results go to *has. *out: "fallback" of the record, with the steps and
   the command of the best one; owned by the caller. */
bool qc_attempts_end(struct qc_json **out, struct qc_standing *has, struct qc_attempts *t, struct qc_status *st);
