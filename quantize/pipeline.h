// SPDX-License-Identifier: Apache-2.0
/* The pipeline of quantize: one table of stages, each from what the earlier ones left to one more thing. After every stage the graph is
   verified, heavy ops are counted, and --dump prints it. */
#ifndef QC_CLI_PIPELINE_H
#define QC_CLI_PIPELINE_H

#include "calib/calibrate.h"
#include "calib/accuracy.h"
#include "calib/measure.h"
#include "calib/reweigh.h"
#include "quantize/model.h"
#include "cli/progress.h"
#include "export/exporter.h"
#include "observers/plugin.h"
#include "rewrite/equalize.h"
#include "rewrite/simulate.h"

struct qc_pipeline {
    const struct qc_cli_options *options;
    struct qc_arena *arena;
    struct qc_warnings *warnings;
    struct qc_progress *progress;

    struct qc_plugins *plugins;
    struct qc_rules *rules, *fold_rules;
    struct qc_partition_options scheme;
    struct qc_calibration_options calibration_options;
    struct qc_plan_options how;     /* accumulators of the produced graph */

    struct qc_model model;          /* import */
    struct qc_dataset *data;        /* NULL without --data */
    struct qc_dataset *eval;        /* with its truth; NULL without --eval */
    struct qc_collection *seen;     /* of --stats, or collected by calibrate */
    struct qc_collect_cost cost;    /* of collecting, and its time */
    double collect_seconds;
    struct qc_gram *gram;           /* of qc_pipeline_again, while it runs: second moments for its simulated graph */
    struct qc_graph *normalised, *equalized, *joined, *simulated, *reweighed, *expanded, *folded, *produced;
    const struct qc_graph *real;    /* the float graph that is quantized: normalised, or equalized where that was asked for */
    struct qc_equalized equalization;
    struct qc_partition *partition;
    struct qc_calibration *calibration; /* calibrate: simulated is bound from here on */
    struct qc_reweigher *reweigher; /* calibrate, with --propagate: layers that are solved already */
    struct qc_reweighing *reweighing; /* round: NULL when weights are rounded to nearest and biases left alone */
    size_t lowered_count;           /* export: one per format, in the order of the options */
    const struct qc_exporter **exporters;
    struct qc_graph **lowered;

    bool memory_planned;
    size_t warnings_from, warnings_to; /* of the stages that qc_pipeline_again repeats */
    double import_seconds, export_seconds;
};

struct qc_stage {
    const char *name, *summary;
    bool (*run)(struct qc_pipeline *p, struct qc_status *st);
    const struct qc_graph *(*graph)(const struct qc_pipeline *p); /* what --dump prints; NULL: text of its own */
};

size_t qc_stage_count(void);
const struct qc_stage *qc_stage_at(size_t i);

/* Checks the options and reads the rules, before anything else happens. */
bool qc_pipeline_begin(struct qc_pipeline *p, const struct qc_cli_options *o, struct qc_status *st);
/* Runs all stages. Errors name the stage where it is not plain from the message. */
bool qc_pipeline_run(struct qc_pipeline *p, struct qc_status *st);
/* From the stage 'functions' on once more, after a change of p->scheme or by other means than before; the statistics that were collected serve again where
   they have what is needed, else the data are run again. After an error the graphs of those stages are NULL. Errors: as qc_pipeline_run; where several
   processes share the work data cannot be run again (QC_UNSUPPORTED). */
bool qc_pipeline_again(struct qc_pipeline *p, struct qc_status *st);
/* Prints what --dump asks for of these stages. */
bool qc_pipeline_dump_again(const struct qc_pipeline *p, struct qc_status *st);
/* The first stages, as far as 'qcalib collect' needs them: model, data, rules and the normalised graph. Instead of begin and run. */
bool qc_pipeline_normalise(struct qc_pipeline *p, const struct qc_cli_options *o, struct qc_status *st);
void qc_pipeline_end(struct qc_pipeline *p); /* NULL-safe members; a zeroed pipeline is fine */

#endif
