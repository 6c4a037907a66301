// SPDX-License-Identifier: Apache-2.0
/* The record of a job: a JSON tree as in export/report/report.schema.json. The job puts each fact into it where it is
   known; the functions here put in what a network, a measurement and searches have. With the same inputs and options
   only members of "timing" differ. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/sensitivity.h"
#include "quantize/report/job_report.h"

/* Begins the record of r with all members that every record has, in the order of the file. Fails if memory is out. */
bool qc_record_begin(struct qc_report *r, struct qc_status *st);

/* Puts in the accuracy of the float and the quantized network on a file. */
void qc_record_accuracy(struct qc_json *record, const struct qc_metric *real, const struct qc_metric *now,
                        const char *file);
/* Puts in the effects of single layers, in their order. */
void qc_record_sensitivity(struct qc_report *r, const struct qc_sensitivity *s);
/* Puts in accumulators of fewer than 32 bits, with the overflows (NULL: not counted) on `samples` samples of a file.
   Does nothing with 32 bits. */
void qc_record_accumulator(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                           const char *file, size_t samples);

/* Puts in how the network was made, what it is made of, and the errors of its outputs. sized: its produced graph with
   the shapes of a sample, or the same graph. m may be NULL. */
void qc_record_network(struct qc_report *r, const struct qc_network *net, const struct qc_graph *sized,
                       const struct qc_measurement *m);
/* Puts in the name of the network, r->layers and the graph. overflows: as above. */
bool qc_record_results(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                       struct qc_status *st);

/* Parts of these: */
bool qc_record_layers(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                      struct qc_status *st);
/* The nodes of the produced graph as the viewer draws them. Call after qc_layers_fill. */
bool qc_record_graph(struct qc_report *r, const struct qc_network *net, struct qc_status *st);
/* The fused group of each multiply-accumulate op and, if it breaks, at which node and why. */
bool qc_record_groups(struct qc_report *r, const struct qc_network *net, struct qc_status *st);
/* Outputs, and inputs and outputs that --io-type made integers. Warns if parts of an output that share a scale have
   very different errors. */
void qc_record_outputs(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m);
