// SPDX-License-Identifier: Apache-2.0
/* Attempts: networks of changed schemes, made one after the other in the job's candidate. Searches propose the changes.
   Here each is made and measured, compared with the best so far, and kept or dropped.

   A network has a price: its estimated latency and bytes (quantize/search/cost.h) relative to the float model. If the
   user demands something, the cheapest network that meets the demand is the best one. Else noise of the outputs has a
   price, and no network may be larger or slower than the float model. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/sensitivity.h"
#include "calib/trials/trials.h"
#include "quantize/search/candidate.h"
#include "quantize/search/cost.h"

/* The demands on the result (--max-drop, --min-sqnr, --max-nll), and their measurement. */

struct qc_demand {
    double max_drop, min_sqnr, max_nll; /* NaN: not asked for */
    struct qc_candidate *c;
    struct qc_dataset *data;  /* the samples that outputs are compared on */
    bool outputs_alone;       /* accuracy on --eval is not measured */
    struct qc_metric fp32;    /* of the float network on --eval */
    struct qc_trials *trials; /* with min_sqnr, else NULL */
    struct qc_trial_options how;
    struct qc_error *errors; /* [units * outputs] */
    const char *file;        /* of the samples */
};

/* The measured results of a produced graph. */
struct qc_standing {
    struct qc_metric metric; /* on --eval; else empty */
    struct qc_overflows overflows;
    double sqnr_db;     /* with min_sqnr: of the worst output; else NaN */
    const char *output; /* its name */
};

/* Draws samples for --min-sqnr: all of --eval, or without it at most 256 units of --data. c is borrowed until
   qc_demand_end. Fails if samples cannot be read. */
bool qc_demand_begin(struct qc_demand *d, struct qc_candidate *c, struct qc_status *st);
/* Demands outputs of at least min_sqnr dB on at most 32 units of --data, whatever the options demand. Accuracy is not
   measured. */
bool qc_demand_begin_outputs(struct qc_demand *d, struct qc_candidate *c, double min_sqnr, struct qc_status *st);
void qc_demand_end(struct qc_demand *d);

/* Measures the network of the candidate. */
bool qc_demand_measure(struct qc_standing *out, struct qc_demand *d, struct qc_status *st);
/* Measures the SQNR alone; the rest of *s stays. */
bool qc_demand_measure_outputs(struct qc_standing *s, struct qc_demand *d, struct qc_status *st);
bool qc_demand_met(const struct qc_demand *d, const struct qc_standing *s);

/* Fails with QC_DEMAND if a demand is not met. *drop: --max-drop is not met. */
bool qc_demand_check(bool *drop, const struct qc_demand *d, const struct qc_standing *s, struct qc_status *st);

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
    struct qc_scheme base; /* changes are relative to it; a sketch: only the best network is made in full */
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
/* Brings the candidate to the best step, whose results go to *has, which has those of step 0. *out: "fallback" of the
   record, with the steps and the command of the best one; owned by the caller. */
bool qc_attempts_end(struct qc_json **out, struct qc_standing *has, struct qc_attempts *t, struct qc_status *st);

/* Wider types for layers, the worst first: for --max-drop, --min-sqnr and --max-nll, and for noisy outputs (mend.c). */

/* Measures the effect of the layers of a network, on at most `batches` batches of --data, or without it of eval
   (labelled data, or NULL). which: NULL (all layers), or which ones; its settings are ignored. With --sensitivity the
   accuracy of each layer on all of eval is measured too. The selection of samples is restored. Fails with QC_USAGE if
   there are no samples. */
bool qc_measure_sensitivity(struct qc_sensitivity **out, const struct qc_network *net, struct qc_dataset *eval,
                            size_t batches, const struct qc_sensitivity_options *which, struct qc_status *st);

/* Adds the options that widen the weights or the activations of layers from .. end - 1 of s, whichever lose more, or
   leave them in float; none if there are none. net: the network that s is of. The texts are in the arena. */
bool qc_layer_remedies(struct qc_change *to, const struct qc_network *net, const struct qc_sensitivity *s, size_t from,
                       size_t end, bool in_float, struct qc_arena *a, struct qc_status *st);

/* Proposes wider types for the first n layers of s (16 bits for the activations or the weights, whichever lose more),
   and float for them. n is doubled while that can be better, then the interval is halved. The changes are those of
   --activation-type, --weight-type and --skip. */
bool qc_widen_layers(struct qc_attempts *t, const struct qc_sensitivity *s, struct qc_status *st);

/* Widens layers of d->c, whose network misses the demand with the results *has. Afterwards d->c is in the best state
   that meets the demand, else in its first state; *has are the results of that state. *out: as qc_attempts_end. Errors:
   those of making and of the evaluation. */
bool qc_fall_back(struct qc_json **out, struct qc_standing *has, struct qc_demand *d, const struct qc_sensitivity *s,
                  struct qc_status *st);
