// SPDX-License-Identifier: Apache-2.0
/* From a finished pipeline to the report. */
#ifndef QC_QUANTIZE_REPORT_FILL_H
#define QC_QUANTIZE_REPORT_FILL_H

#include "calib/sensitivity.h"
#include "export/report.h"
#include "quantize/command_text.h"
#include "quantize/pipeline_state.h"

/* Float ops of the produced graph, each with the reason; number of matches in *quantized. Arrays from the arena. */
bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_pipeline *p, struct qc_status *st);

/* Why an op of the produced graph is a float op. */
const char *qc_float_reason(const struct qc_pipeline *p, const struct qc_node *n);

/* For each multiply-accumulate op what is computed with it in one piece and, where it breaks, at which node and why. */
bool qc_fill_groups(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);

/* The node of p->folded that a stored value comes from: of a requantize, the one whose accumulator it reads; 0: none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);

/* What only people look at: node, histogram, channels, and what the parameters lose. made, reader: nodes of p->folded, or 0; quantize: the
   node that makes the weight's integers. */
bool qc_layer_activation(struct qc_layer *l, const struct qc_pipeline *p, const struct qc_measurement *m, qc_id site, qc_id made, struct qc_status *st);
bool qc_layer_weight(struct qc_layer *l, const struct qc_pipeline *p, qc_id site, qc_id quantize, qc_id reader, struct qc_status *st);

/* The produced graph for the drawing. Behind qc_fill_layers. */
bool qc_fill_nodes(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);

/* Where error enters, worst first, and what to do about it, by the options that there are; none without a measurement (NULL). Behind everything else of r. */
bool qc_fill_suggestions(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m, struct qc_status *st);

/* Layers in the order of the network. measurement may be NULL; counted: overflows of narrow accumulators, NULL where nobody counted. Behind qc_fill_effects. */
bool qc_fill_layers(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m, const struct qc_overflows *counted, struct qc_status *st);

/* Accumulators of fewer than 32 bits, and what they did on so many samples of a file; nothing with 32 bits. */
bool qc_fill_accumulator(struct qc_report *r, const struct qc_pipeline *p, const struct qc_overflows *o, const char *file, size_t samples, struct qc_status *st);

/* What each layer alone does to the outputs. */
bool qc_fill_effects(struct qc_report *r, const struct qc_sensitivity *s, struct qc_arena *a, struct qc_status *st);

/* The command line of the job, or of one like it (change; may be NULL), in the arena of p. */
bool qc_pipeline_command(const char **out, const struct qc_pipeline *p, const struct qc_command_change *change, struct qc_status *st);

#endif
