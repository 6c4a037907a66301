// SPDX-License-Identifier: Apache-2.0
/* Inputs and outputs of a produced graph as integers (--io-type). */
#pragma once

#include "graph/core/graph.h"

/* Preprocessing of an image's bytes that the file computes: (x * step[0] - step[1]) / step[2] in float32. A step has no
   number (it is left out), one, or one per channel. */
struct qc_port_pixels {
    struct {
        const float *of;
        size_t count;
    } step[3];
    const char *text; /* as in --preprocess */
};

/* What is asked of an input or output. */
struct qc_port_choice {
    bool integer, image;                 /* image: bytes, for inputs alone */
    enum qc_dtype dtype;                 /* of integers; QC_NONE: the type of its quantizer */
    const struct qc_port_pixels *pixels; /* of an image */
};

/* *out: the produced graph g with integers at the chosen float ports; their qc_port has scale and zero point. An input
   is dequantized before its readers, and an output is quantized behind its maker; a quantizer with the same parameters
   then reads or makes the integers themselves. A type of the same width but another sign has the same levels, with
   another zero point. An image becomes bytes [.., H, W, C]: a DequantizeLinear reads them if the quantizer maps each
   preprocessed byte to itself, else Cast and the steps of preprocessing. done: [inputs, then outputs] receives which
   ports have integers, integers of the model included. */
bool qc_integer_ports(struct qc_graph **out, bool *done, const struct qc_graph *g, const struct qc_port_choice *inputs,
                      const struct qc_port_choice *outputs, struct qc_status *st);

/* *out: a model with real numbers at integer ports, so that it compares with a float model. inputs: [input_count] scale
   and zero point of the integer inputs to be converted; scale 0: it stays. An output converts if `outputs` is set and a
   QuantizeLinear with one constant scale makes it. */
bool qc_real_ports(struct qc_graph **out, const struct qc_graph *g, const struct qc_affine *inputs, const bool *outputs,
                   struct qc_status *st);

/* *out: a graph whose images have the layout and numbers of the model: input i loses the first `chain[i]` operators
   that read it, a Transpose and steps of preprocessing. NULL if a chain is not there. */
bool qc_ports_without_pixels(struct qc_graph **out, const struct qc_graph *g, const size_t *chain,
                             struct qc_status *st);
