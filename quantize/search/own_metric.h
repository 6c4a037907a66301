// SPDX-License-Identifier: Apache-2.0
/* --metric: a program of the user's own measures model files (docs/metric.md). It takes the place of accuracy. */
#pragma once

#include <string.h>

#include "calib/metrics/accuracy.h"
#include "calib/metrics/sensitivity.h"
#include "quantize/make/network.h"

/* Returns true if accuracy is measured: on --eval, or by --metric. */
static inline bool qc_measures_accuracy(const struct qc_setup *s)
{
    return s->eval || s->options->data.metric;
}

/* Returns true if the command has "{outputs}": it reads a file of outputs and truth instead of a model. */
#define QC_COMMAND_OUTPUTS "{outputs}"
static inline bool qc_own_metric_reads_outputs(const struct qc_options *o)
{
    return o->data.metric && strstr(o->data.metric, QC_COMMAND_OUTPUTS);
}

/* Runs the graph on all units of data, opened with their truth, and measures an HDF5 file of its outputs, by name, with
   `labels` and `target` if there are any. how: NULL, or the arithmetic of a quantized graph. Errors: as below, and as a
   run. */
bool qc_own_metric_of_outputs(struct qc_metric *out, const struct qc_graph *g, const struct qc_dataset *data,
                              const struct qc_plan_options *how, const struct qc_options *o,
                              const struct qc_settings *settings, struct qc_progress *progress, struct qc_status *st);

/* Measures a model file. Fails with QC_USAGE if the command has no "{}" or cannot be started; with QC_MACHINE, naming
   what it printed on standard error, if it fails or prints no number. */
bool qc_own_metric_of_file(struct qc_metric *out, const struct qc_options *o, const char *file,
                           struct qc_progress *progress, struct qc_status *st);
/* The same for a model as it was given, also in memory, and for a finished network: its outputs on --eval if the
   command reads outputs, else a temporary file in the first format. */
bool qc_own_metric_of_model(struct qc_metric *out, const struct qc_model_source *model, const struct qc_options *o,
                            struct qc_progress *progress, struct qc_status *st);
bool qc_own_metric_of_network(struct qc_metric *out, const struct qc_network *net, struct qc_status *st);

/* Measures each layer of s alone in integers, the QC_METRIC_LAYERS with most noise, and sorts all by what they lose.
   real: the metric of the float model. */
bool qc_own_metric_of_layers(struct qc_sensitivity *s, const struct qc_metric *real, const struct qc_network *net,
                             struct qc_status *st);
