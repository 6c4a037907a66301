// SPDX-License-Identifier: Apache-2.0
/* The state that the stages of quantize share (quantize/stages/stages.h). */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/measure.h"
#include "calib/ranges/calibrate.h"
#include "calib/trials/input_steps.h"
#include "calib/trials/output_means.h"
#include "calib/weights/round_weights.h"
#include "export/formats/exporter.h"
#include "observers/plugin.h"
#include "quantize/interface/inputs.h"
#include "quantize/opening/model.h"
#include "rewrite/passes/channels.h"
#include "rewrite/passes/folded_constants.h"
#include "rewrite/passes/simulate.h"

struct qc_auto_method;
struct qc_channel_centring;
struct qc_channel_scaling;
struct qc_plain;
struct qc_stage;
struct qc_body_job;
struct qc_body_samples;

/* Result of the second rounding (quantize/trials/cross_rounding.h). */
struct qc_crossed_rounding {
    bool all; /* 8-bit layers were refined, too */
    bool tried, kept;
    double gain_db; /* gain of the outputs on samples */
};

/* Shared by all branches of a job. Made by qc_pipeline_begin, import and normalise; afterwards only the selection of
   samples, `keys` and `steps` change. Freed with the last pipeline that holds it. */
struct qc_prepared {
    size_t holders; /* number of pipelines that hold it */
    struct qc_arena *arena;
    struct qc_rules *rules, *fold_rules;
    size_t lowered_count; /* one per format, in the order of the options */
    const struct qc_exporter **exporters;
    struct qc_model model;
    struct qc_dataset *data; /* NULL without --data */
    struct qc_dataset *eval; /* with labels or targets; NULL without --eval, or if accuracy cannot be measured */
    struct qc_graph *plain;  /* NULL, or the model without its own quantization, which is in `given` */
    struct qc_given_values given;
    struct qc_graph *normalised;
    uint64_t *keys; /* [units of data]: keys of the units that collecting has run, so that trials need not read all
                       again; NULL without trials */
    struct qc_input_steps *steps; /* [inputs]: steps found in the data; NULL until needed */
    double import_seconds;
};

/* A pipeline: the job itself, or a branch of it with other options (qc_pipeline_branch). It has graphs, decisions and
   warnings of its own. It holds references to statistics, known outputs and the equalized graph. A branch borrows
   integer weights, rounded layers and bodies from the pipeline that it was made from. */
struct qc_pipeline {
    const struct qc_options *options;
    const struct qc_job_inputs *in;
    struct qc_arena *arena; /* own */
    struct qc_warnings *warnings;
    struct qc_progress *progress; /* borrowed; may be NULL */
    /* Called after each stage with its graph; may be NULL. */
    bool (*stage_done)(void *user, const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st);
    void *stage_user;
    struct qc_prepared *from;
    bool is_branch;

    struct qc_plugins *plugins;
    struct qc_partition_options scheme;
    struct qc_calibration_options calibration_options;
    struct qc_plan_options how; /* accumulators of the produced graph */

    struct qc_collection *seen;  /* statistics: of --stats, or from stage "collect" */
    struct qc_collect_cost cost; /* cost of collecting */
    double collect_seconds;
    struct qc_known_outputs *known;  /* outputs of known_of, for trials and advice; NULL: it runs again */
    const struct qc_graph *known_of; /* `real` before channels are scaled */
    struct qc_second_moments
        *second_moments;     /* while repeated stages run: second moments for their simulated graph; else NULL */
    size_t kept, quantizers; /* number of quantizers with parameters of the model, and of all quantizers */
    struct qc_graph *equalized, *joined, *simulated, *rounded, *expanded, *folded, *produced;
    struct qc_graph *scaled;  /* scale: the float graph with scaled channels, or NULL */
    struct qc_graph *centred; /* scale: the float graph with centred inputs of products, or NULL */
    /* the float graph that is quantized: normalised, equalized, scaled or centred */
    const struct qc_graph *real;
    struct qc_equalized equalization;
    struct qc_channel_scaling *scaling;   /* scale: the groups that could be scaled; NULL if there was no search */
    struct qc_channel_centring *centring; /* scale: the centred inputs; NULL if they were not looked for */
    struct qc_partition *partition;
    struct qc_auto_method *auto_method;       /* choose, with --method auto and data; else NULL */
    struct qc_plain *unpropagated;            /* bind, with --propagate: the job without it; else NULL */
    struct qc_calibration *calibration;       /* bind: `simulated` is bound from here on */
    struct qc_weight_rounder *weight_rounder; /* bind, with --propagate: holds the layers solved so far */
    struct qc_weight_rounding
        *weight_rounding;               /* round: NULL if weights are rounded to nearest and biases not corrected */
    struct qc_crossed_rounding crossed; /* refine */
    struct qc_graph
        *uncorrected; /* `rounded` before refine and correct, on which single layers are measured; NULL: the same */
    struct qc_output_correction output_bias; /* correct */
    /* bodies: quantizes body i; NULL: bodies stay in float (quantize/body_job.h) */
    bool (*quantize_body)(struct qc_body_job *job, struct qc_pipeline *around, struct qc_body_samples *samples,
                          size_t i, struct qc_status *st);
    bool of_body; /* the pipeline quantizes a body */
    size_t body_count;
    struct qc_body_job *bodies;   /* of nodes of `real`; NULL until the stage has run */
    struct qc_graph *with_bodies; /* bodies: the rounded graph with quantized bodies, or NULL */
    struct qc_graph *dynamic;     /* dynamic: the graph with products that quantize their input at run time, or NULL */
    struct qc_graph *narrowed;    /* export: `produced` in the float types of the model; NULL if these are float32 */
    struct qc_graph **lowered;    /* export: [formats] */

    struct qc_folded_constants *shared;   /* integer weights, made once for trials, branches and `produced`; NULL: made
                                             each time */
    size_t shared_before;                 /* of a branch: number of constants in `shared` before it */
    struct qc_rounded_file *rounded_file; /* with --checkpoint: rounded layers, for continuing an interrupted job */
    struct qc_rounded_layers *rounded_layers; /* for advice: layers that branches need not solve again; else NULL */
    bool sized;                               /* with --size: the bits are chosen, the next run makes the file */
    bool may_be_float;                        /* with --benchmark: the result may have no quantized operator */
    size_t run_bytes;                         /* of a run of a later stage with one worker; 0 without --memory-limit */
    bool memory_planned, moments_dropped;     /* second moments were used and freed */
    bool collected;                    /* once: --checkpoint has those statistics, not those of a changed graph */
    size_t warnings_from, warnings_to; /* warnings of the repeated stages */
    double export_seconds;
};
