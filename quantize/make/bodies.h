// SPDX-License-Identifier: Apache-2.0
/* Quantized bodies of If, Loop and Scan. A body is a model of its own: it has a setup, evidence and a network. Its
   samples are its inputs over all iterations, and its inputs and outputs stay float. */
#pragma once

#include "calib/metrics/measure.h"
#include "export/formats/exporter.h"
#include "quantize/make/network.h"

struct qc_memory_data;

struct qc_body {
    const struct qc_graph *graph; /* float, of the network around */
    const char *name;             /* "loop/body" */
    uint64_t runs;                /* number of runs on the samples of the model */
    const char *reason;           /* why it stays in float; NULL if it is quantized */
    /* NULL if it stays in float: */
    struct qc_network *network;
    struct qc_measurement *measurement;
    /* What the network is made of: */
    struct qc_setup *setup;
    struct qc_evidence *evidence;
    struct qc_listener listener;
    struct qc_options options;
    struct qc_job_inputs in;
    struct qc_model_info info;
    struct qc_model_at_hand at_hand;
    struct qc_graph *model; /* `graph` as a model */
    struct qc_graph
        *sharing; /* of a body in float: it reads weights that other bodies have stored. NULL: it has none */
    struct qc_memory_data *memory; /* its samples, while it is quantized */
};

struct qc_body_set {
    size_t holders; /* evidences that share them */
    struct qc_arena *arena;
    size_t count;
    struct qc_body *of;
};

/* Makes *out, g with the quantized bodies; NULL if there is none. bodies may be NULL. */
bool qc_body_set_apply(struct qc_graph **out, const struct qc_body_set *bodies, const struct qc_graph *g,
                       struct qc_status *st);
/* Lowers the bodies of a lowered graph; *io is replaced if it has any. bodies: those of the graph before lowering; NULL
   if it has no quantized body. */
bool qc_body_set_lower(struct qc_graph **io, const struct qc_body_set *bodies, const struct qc_exporter *e,
                       const struct qc_lower_options *options, struct qc_status *st);
