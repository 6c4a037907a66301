// SPDX-License-Identifier: Apache-2.0
/* A quantized network: what one scheme makes of a setup and its evidence. Const after qc_network_finish, but for its
   listener and options.

   make.h runs the passes. Searches (quantize/search) decide in between what a scheme leaves open. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/trials/trials.h"
#include "calib/weights/round_weights.h"
#include "quantize/setup/scheme.h"
#include "rewrite/passes/simulate.h"

struct qc_body_set;
struct qc_channel_centring;
struct qc_channel_scaling;
struct qc_evidence;
struct qc_plain;

/* The float network that is quantized: the normalised one, or one that computes the same with equalized, scaled or
   centred channels. Shared by networks. */
struct qc_float_form {
    size_t holders;
    struct qc_arena *arena;
    struct qc_graph *equalized, *scaled, *centred; /* each made from the one before it; NULL: not done */
    const struct qc_graph *graph;                  /* the last of these, or the normalised graph */
    struct qc_channel_scaling *scaling;            /* the groups that could be scaled; NULL if there was no search */
    struct qc_channel_centring *centring;          /* the centred inputs; NULL if they were not looked for */
};
struct qc_float_form *qc_float_form_ref(struct qc_float_form *f); /* NULL-safe */
/* Makes the form before channels were scaled or centred. */
bool qc_float_form_unscaled(struct qc_float_form **out, const struct qc_float_form *f, const struct qc_setup *s,
                            struct qc_status *st);
void qc_float_form_free(struct qc_float_form *f); /* NULL-safe; frees with the last holder */
/* Set the result of a search while the first network of the form is made. The graphs are taken; NULL: nothing gained.
   A second call of qc_float_form_centre replaces the first. */
void qc_float_form_scale(struct qc_float_form *f, struct qc_channel_scaling *scaling, struct qc_graph *scaled);
void qc_float_form_centre(struct qc_float_form *f, struct qc_channel_centring *centring, struct qc_graph *centred,
                          const struct qc_setup *s);

/* A method that --method auto tried. */
struct qc_report_trial {
    const char *method;
    double sqnr_db;  /* SQNR of the outputs from their mean noise-to-signal ratio; infinity without noise */
    double gain_db;  /* over the first trial, on the same samples */
    double error_db; /* standard error of the gain; infinite: not known */
    double worth_db; /* the gain minus its uncertainty; the method with the largest is chosen */
    size_t samples;  /* number of samples of this trial */
    bool chosen;
};

/* How --method auto chose the observer of a tensor. */
struct qc_report_choice {
    const struct qc_report_trial *trial; /* the chosen trial; NULL: chosen by `steps` */
    bool steps;                          /* an input whose values are multiples of its scale */
};

/* Result of --method auto (quantize/search/auto_method.c). */
struct qc_auto_method {
    struct qc_arena *arena;
    size_t trial_count;
    struct qc_report_trial *trials;      /* mse first, without observers whose ranges equal those of an earlier one */
    const struct qc_method **methods;    /* [qparams_count + 1], for struct qc_calibration_options */
    struct qc_report_choice *choices;    /* [qparams_count + 1], of the quantizers that have a method */
    struct qc_weight_rounding *rounding; /* with the ranges of mse; NULL: rounded to nearest, or taken over */
    struct qc_graph *rounded; /* with the ranges of mse and weights in integers; NULL: no trials, or taken over */
    double seconds;           /* without rounding */
    double rounding_seconds;  /* of rounding that was not taken over (network_take_rounded) */
};
/* Returns the trial that was chosen; NULL if there were none. NULL-safe. */
const struct qc_report_trial *qc_auto_method_chosen(const struct qc_auto_method *m);

/* Result of the second rounding (quantize/search/cross_rounding.c). */
struct qc_crossed_rounding {
    bool all; /* 8-bit layers were refined, too */
    bool tried, kept;
    double gain_db; /* gain of the outputs on samples */
};

struct qc_network {
    const struct qc_setup *setup;
    struct qc_scheme scheme;      /* a copy; passes complete it */
    struct qc_evidence *evidence; /* borrowed, like the next one */
    const struct qc_listener *listener;
    struct qc_arena *arena;
    size_t warnings_from; /* the first one of this network among those of the listener */
    struct qc_float_form *form;
    const struct qc_graph *real;                   /* form->graph */
    struct qc_graph *joined, *simulated, *rounded; /* rounded: with weights in integers */
    struct qc_graph *uncorrected; /* `rounded` before refine and correct, on which single layers are measured; NULL:
                                     the same */
    struct qc_partition *partition;
    struct qc_second_moments *moments;  /* while it is made: second moments for its simulated graph, if those of the
                                           statistics are for another one; else NULL */
    struct qc_auto_method *auto_method; /* choose, with --method auto and data; else NULL */
    struct qc_plain *unpropagated;      /* bind, with --propagate: the network without it; else NULL */
    struct qc_calibration *calibration; /* bind: `simulated` is bound from here on */
    struct qc_weight_rounder *weight_rounder;   /* bind, with --propagate: holds the layers solved so far */
    struct qc_weight_rounding *weight_rounding; /* round: NULL if weights are rounded to nearest and biases not
                                                   corrected */
    struct qc_crossed_rounding crossed;         /* refine */
    struct qc_output_correction output_bias;    /* correct */
    const struct qc_body_set *bodies;           /* those of the evidence */
    struct qc_graph *with_bodies;               /* the rounded graph with quantized bodies, or NULL */
    struct qc_graph *dynamic; /* the graph with products that quantize their input at run time, or NULL */
    struct qc_graph *expanded, *folded, *produced;
    struct qc_graph *narrowed; /* `produced` with the outputs and the float types of the model; NULL: the same */
    struct qc_graph **lowered; /* [formats] */
    double export_seconds;
};

void qc_network_free(struct qc_network *n); /* NULL-safe */

/* Returns the graph after a pass; NULL for "partition". */
const struct qc_graph *qc_network_graph(const struct qc_network *n, enum qc_pass pass);
/* Return the graph with rounded weights and quantized bodies, and the produced graph with the float types of the model,
   for exporters. */
const struct qc_graph *qc_network_with_bodies(const struct qc_network *n);
const struct qc_graph *qc_network_written(const struct qc_network *n);

/* Returns true if only weights are quantized: no activation has a quantizer, not even at run time. */
bool qc_network_weights_alone(const struct qc_network *n);
/* Returns the second moments for n->simulated, or NULL. */
const struct qc_second_moments *qc_network_moments(const struct qc_network *n);
/* How weights are rounded and biases corrected, and how results are compared with the float network. */
struct qc_round_weights_options qc_network_rounding(const struct qc_network *n);
