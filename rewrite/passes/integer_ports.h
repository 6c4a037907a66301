// SPDX-License-Identifier: Apache-2.0
/* Inputs and outputs of a produced graph as integers (--io-type). */
#pragma once

#include "graph/core/graph.h"

/* What is asked of an input or output. */
struct qc_port_choice {
    bool integer;
    enum qc_dtype dtype; /* QC_NONE: the type of its quantizer */
};

/* *out: the produced graph g with integers at the chosen float ports; their qc_port has scale and zero point. An input
   is dequantized before its readers, and an output is quantized behind its maker; a quantizer with the same parameters
   then reads or makes the integers themselves. A type of the same width but another sign has the same levels, with
   another zero point. done: [inputs, then outputs] receives which ports have integers, integers of the model
   included. */
bool qc_integer_ports(struct qc_graph **out, bool *done, const struct qc_graph *g, const struct qc_port_choice *inputs,
                      const struct qc_port_choice *outputs, struct qc_status *st);

/* *out: a model with real numbers at integer ports, so that it compares with a float model. inputs: [input_count] scale
   and zero point of the integer inputs to be converted; scale 0: it stays. An output converts if `outputs` is set and a
   QuantizeLinear with one constant scale makes it. */
struct qc_port_levels {
    float scale;
    int32_t zero_point;
};
bool qc_real_ports(struct qc_graph **out, const struct qc_graph *g, const struct qc_port_levels *inputs,
                   const bool *outputs, struct qc_status *st);
