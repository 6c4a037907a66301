// SPDX-License-Identifier: Apache-2.0
/* The options of the partition: what is quantized, and with which types. */
#pragma once

#include "quantize/options/options.h"
#include "rewrite/passes/integer_ports.h"
#include "rewrite/passes/partition.h"

/* Reads a checked "T" or "T:GLOB" of an option of kind QC_KIND_BY_NAME; the glob is borrowed. */
struct qc_type_choice qc_type_choice_of(const char *item, enum qc_option option);

/* Sets *out from options. given: NULL, or the parameters of a partly quantized model; then new quantizers take the one
   type of the given ones, unless an option gives another. Arrays are from the arena; texts are borrowed from o. */
bool qc_partition_options_of(struct qc_partition_options *out, const struct qc_options *o,
                             const struct qc_given_values *given, struct qc_arena *a, struct qc_status *st);

/* Returns true if weights may have blocks of scales: by the target, or in a .tflite file, which has them in dense
   layers of floats with weights of 4 bits. */
bool qc_options_take_blocks(const struct qc_options *o);
/* Reads --io-type for the input or output of this name. *named: the option names it. */
struct qc_port_choice qc_io_type_of(bool *named, const struct qc_options *o, const char *name);
/* Adds the inputs and outputs of g that --io-type gives an integer type. */
bool qc_partition_stores_ports(struct qc_partition_options *out, const struct qc_options *o, const struct qc_graph *g,
                               struct qc_arena *a, struct qc_status *st);
/* Adds the operators of g whose weights have few bits already, unless --weight-type or --require-integer is given. */
bool qc_partition_keeps_calls(struct qc_partition_options *out, const struct qc_options *o, const struct qc_graph *g,
                              struct qc_arena *a, struct qc_status *st);
