// SPDX-License-Identifier: Apache-2.0
/* What the stages of quantize leave to each other (quantize/stages/stages.h). */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/measure.h"
#include "calib/ranges/calibrate.h"
#include "calib/trials/input_steps.h"
#include "calib/trials/output_means.h"
#include "calib/weights/round_weights.h"
#include "export/formats/exporter.h"
#include "observers/plugin.h"
#include "quantize/interface/progress.h"
#include "quantize/opening/model.h"
#include "rewrite/passes/equalize.h"
#include "rewrite/passes/folded_constants.h"
#include "rewrite/passes/simulate.h"

struct qc_auto_method;
struct qc_channel_scaling;
struct qc_plain;
struct qc_stage;
struct qc_body_job;
struct qc_body_samples;

/* What came of rounding again (quantize/trials/cross_rounding.h). */
struct qc_crossed_rounding {
    bool all; /* layers of many levels as well */
    bool tried, kept;
    double gain_db; /* of the outputs, on samples */
};

/* What all attempts of a job work on: begin, import and normalise make it, and nothing of it changes afterwards but
   which samples of `data` are chosen, and what is found in them. Freed with the last pipeline that holds it. */
struct qc_prepared {
    size_t holders; /* pipelines */
    struct qc_arena *arena;
    struct qc_rules *rules, *fold_rules;
    size_t lowered_count; /* one per format, in the order of the options */
    const struct qc_exporter **exporters;
    struct qc_model model;
    struct qc_dataset *data; /* NULL without --data */
    struct qc_dataset *eval; /* with its truth; NULL without --eval, or where accuracy cannot be measured */
    struct qc_graph *plain;  /* NULL, or the model without the quantization that it has already, which is in `given` */
    struct qc_given_values given;
    struct qc_graph *normalised;
    uint64_t *keys; /* [units of data]: of those that collecting has run, so that trials need not read all again; NULL:
                       nobody will ask */
    struct qc_input_steps *steps; /* [inputs]: found in the data; NULL: nobody has asked */
    double import_seconds;
};

/* One attempt: graphs, decisions and warnings of its own, made of what is prepared. Of statistics, known outputs and
   the equalized graph it holds a reference; weights in integers, rounded layers and bodies are those of the attempt
   that it was branched off, which outlives it (qc_pipeline_branch). */
struct qc_pipeline {
    const struct qc_options *options;
    const struct qc_job_inputs *in;
    struct qc_arena *arena; /* the attempt's own */
    struct qc_warnings *warnings;
    struct qc_progress *progress; /* borrowed; NULL: nobody listens */
    /* Told after each stage that has run, with its graph at hand. NULL: nobody listens. */
    bool (*stage_done)(void *user, const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st);
    void *stage_user;
    struct qc_prepared *from;
    bool is_branch;

    struct qc_plugins *plugins;
    struct qc_partition_options scheme;
    struct qc_calibration_options calibration_options;
    struct qc_plan_options how; /* accumulators of the produced graph */

    struct qc_collection *seen;  /* of --stats, or collected by calibrate */
    struct qc_collect_cost cost; /* of collecting, and its time */
    double collect_seconds;
    struct qc_known_outputs *known;  /* outputs of known_of, for trials and advice; NULL: they are run again */
    const struct qc_graph *known_of; /* `real` before channels are scaled */
    struct qc_second_moments *gram;  /* of qc_pipeline_again, while it runs: second moments for its simulated graph */
    size_t kept, quantizers;         /* quantizers with parameters of the model; all */
    struct qc_graph *equalized, *joined, *simulated, *rounded, *expanded, *folded, *produced;
    struct qc_graph *scaled; /* calibrate: the float graph with scaled channels; NULL: none is */
    /* the float graph that is quantized: normalised, equalized where that was asked for, or scaled */
    const struct qc_graph *real;
    struct qc_equalized equalization;
    struct qc_channel_scaling *scaling; /* calibrate: what could be scaled; NULL: it was not looked for */
    struct qc_partition *partition;
    struct qc_auto_method *auto_method;       /* calibrate, with --method auto and data; else NULL */
    struct qc_plain *unpropagated;            /* calibrate, with --propagate: the job without; else NULL */
    struct qc_calibration *calibration;       /* calibrate: simulated is bound from here on */
    struct qc_weight_rounder *weight_rounder; /* calibrate, with --propagate: layers that are solved already */
    struct qc_weight_rounding
        *weight_rounding;               /* round: NULL when weights are rounded to nearest and biases left alone */
    struct qc_crossed_rounding crossed; /* round: weights that make good what the quantized network reads */
    struct qc_graph
        *uncorrected; /* round: `rounded` before that; NULL: the same. What one layer alone does is seen in it */
    struct qc_output_correction output_bias; /* round: those of the layers that make the outputs */
    /* bodies: quantizes body i; NULL: bodies stay as they are (quantize/body_job.h) */
    bool (*quantize_body)(struct qc_body_job *job, struct qc_pipeline *around, struct qc_body_samples *samples,
                          size_t i, struct qc_status *st);
    bool of_body; /* this pipeline is a body's */
    size_t body_count;
    struct qc_body_job *bodies;   /* of nodes of `real`; NULL until the stage has run */
    struct qc_graph *with_bodies; /* what was rounded, with quantized bodies; NULL: there are none */
    struct qc_graph *dynamic;     /* that with products of inputs that are quantized as they come; NULL: none */
    struct qc_graph *narrowed;    /* export: what is produced in the float types of the model; NULL: they are float32 */
    struct qc_graph **lowered;    /* export: [formats] */

    struct qc_folded_constants *shared; /* weights in integers, made once for all trials, branches and what is produced;
                                           NULL: they are made each time */
    size_t shared_before;               /* of a branch: what there was before it */
    struct qc_rounded_file *rounded_file; /* with --checkpoint: layers that are rounded, for a job that is stopped */
    struct qc_rounded_layers *rounded_layers; /* for advice: what branches need not solve again; else NULL */
    bool sized;                               /* with --size: bits are chosen, what follows is the file */
    bool may_be_float;                        /* with --benchmark: nothing at all has to be quantized */
    bool memory_planned, moments_dropped;     /* moments: those that were seen are used, and gone */
    size_t warnings_from, warnings_to;        /* of the stages that qc_pipeline_again repeats */
    double export_seconds;
};
