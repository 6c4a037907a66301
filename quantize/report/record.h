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

/* What the samples and their outputs look like: ranges, classes, outputs that do not change. */

/* Puts the ranges of the inputs in at most 64 units, and the classes of the labels, into the data and the accuracy of
   the record: of the calibration samples only of inputs that are no layers. count: classes of the labels, or 0. Fails
   if a unit cannot be read. */
bool qc_record_sample_facts(struct qc_report *r, const struct qc_setup *s, size_t count, struct qc_status *st);

/* Warns if no output changes noticeably from sample to sample, which samples that are not prepared as for training
   cause, and notes it in the record. Compares outputs of the float network that are known already: with --method auto
   and without --memory-limit. */
void qc_check_constant_outputs(struct qc_report *r, const struct qc_network *net);

/* The layers and the operators in float of a finished network. */

/* Fills the layers in the order of the network. m may be NULL. */
bool qc_fill_layers(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                    struct qc_status *st);

/* Adds the layers of all bodies to those of the model, with names such as "loop/body/conv". */
bool qc_body_layers(struct qc_report *r, const struct qc_network *n, struct qc_status *st);

/* Returns the index of the first layer with the name of a quantizer, or QC_NO_INDEX. */
size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams);

/* Computes the loss of a float weight t. stored: its integers; s: bound; axis: that of the integers. */
void qc_weight_loss(struct qc_loss *out, const struct qc_tensor *t, const struct qc_tensor *stored,
                    const struct qc_qparams *s, int axis);

/* Adds the name, op and reason of the float ops of the produced graph and of its bodies to a list, and the number of
   quantized ops to *quantized. in: the body that p is of, or NULL. */
bool qc_float_ops(struct qc_json *list, size_t *quantized, const struct qc_network *p, const char *in,
                  struct qc_status *st);

/* Returns the node of p->folded that computes a stored value, looking through quantize and requantize; 0 if there is
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
