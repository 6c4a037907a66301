// SPDX-License-Identifier: Apache-2.0
/* What a job found: the record (quantize/report/record.h) and its layers. */
#pragma once

#include "base/index.h"
#include "base/json.h"
#include "calib/metrics/measure.h"
#include "graph/core/parameters.h"
#include "observers/outline.h"
#include "quantize/make/network.h"

#define QC_NO_INDEX SIZE_MAX

/* One quantized value: an activation or a weight. What is known of it is in the record; here are numbers that JSON has
   no room for. Strings and pointers are borrowed from the network. */
struct qc_layer {
    struct qc_json *record;  /* its member of "layers" */
    const char *name, *node; /* node: the op that computes it, or that reads a weight; NULL: a graph input */
    bool is_weight;
    struct qc_parameters stored; /* type, scales and zero points */
    double sqnr_db, alone_db;    /* of its error, and of rounding it alone; NaN: not known */
    size_t channel_count; /* channels of a weight, also if they share a scale; [channel_count] minima and maxima: */
    const float *channel_low, *channel_high;
};

struct qc_report {
    struct qc_json *record;        /* what is known so far; the owner is the job */
    struct qc_json *timing, *list; /* its members "timing" and "layers" */
    size_t layer_count;
    const struct qc_layer *layers;
    struct qc_texts layers_by_name; /* numbers of layers of the model, from 1 on */
};

/* Puts in the layers in the order of the network. m may be NULL. */
bool qc_fill_layers(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                    struct qc_status *st);

/* Adds the layers of all bodies to those of the model, with names such as "loop/body/conv". in: what these begin with
   ("" for the model). */
bool qc_body_layers(struct qc_report *r, const struct qc_network *n, const char *in, struct qc_status *st);

/* Returns the scales or zero points as a number, a list or, if there are very many, their number and extremes. */
struct qc_json *qc_parameters_json(const struct qc_parameters *p, bool zero_point);

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
