// SPDX-License-Identifier: Apache-2.0
/* Estimated times of operators in a runtime, in float and in integers, from the work that shapes tell: a table for each
   kind of processor (operator_times_*.def). Placement (placed_by_time.h) and the cost of files (quantize/search/cost.h)
   add them up. A free batch counts as one. */
#pragma once

#include "graph/core/uses.h"
#include "rewrite/passes/partition.h"

extern const char *const qc_processor_names[QC_PROCESSORS]; /* values of --processor */

/* Nanoseconds. */
struct qc_operator_times {
    int64_t real, integer;
};

/* Counts the elements of the constants that products read, directly or converted, each once: beside them the weights
   of a product have to stay in the cache. Fails if out of memory. */
bool qc_count_weights(uint64_t *count, const struct qc_graph *g, struct qc_status *st);

/* The times of a node on real and on affine values, without conversions of inputs and results; 0 if it is computed
   once, or with another one. weights: qc_count_weights of the graph. Returns false if a shape is unknown. */
bool qc_times_of_node(struct qc_operator_times *out, enum qc_processor on, const struct qc_uses *uses, uint64_t weights,
                      qc_id node);

/* Returns what a float function takes longer, and sets *product, if the runtime computes it with the float product
   before it, and that product is in integers; else 0. */
int64_t qc_time_apart(qc_id *product, enum qc_processor on, const struct qc_uses *uses, qc_id node);

/* Returns the time of a run beside its operators: a call from Python, with its inputs and outputs. */
int64_t qc_time_of_run(enum qc_processor on, const struct qc_graph *g);

/* Returns the time of the operators that compute with shapes of g alone, none of which qc_times_of_node counts; -1 and
   a status if out of memory. */
int64_t qc_time_of_shapes(enum qc_processor on, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Returns true for a sum that ONNX Runtime (1.32) computes with the LayerNormalization that alone reads it, as
   SkipLayerNormalization, if that takes longer than both operators: for all but short rows. */
bool qc_is_slower_fused(const struct qc_uses *uses, const struct qc_node *n);

/* Returns the time that operators of a model take longer than the forms that files have for them: PRelu, the sum before
   a LayerNormalization, which the runtime joins with it, HardSwish as four operators, and convolutions whose weights
   are inputs too. uses: of the graph that rules have made of the model. */
int64_t qc_time_of_forms(enum qc_processor on, const struct qc_uses *uses, const struct qc_graph *model);

/* The times of a match of a pattern. */
bool qc_times_of_match(struct qc_operator_times *out, enum qc_processor on, const struct qc_uses *uses,
                       uint64_t weights, const struct qc_match *m);

/* Returns true if the order of channels changes with the type of a value between two nodes, each of which may be NULL:
   one of them is a convolution, and the other one does not compute element by element. */
bool qc_changes_layout(const struct qc_graph *g, qc_id value, const struct qc_node *one, const struct qc_node *other);

/* Returns the time to order channels otherwise between integer operators; integer: [node_count + 1]. ONNX Runtime
   computes integer convolutions with channels last, and operators of several inputs in the order of most of them: a
   value of float layers that joins a chain of residual blocks has all their results moved back and forth. A MaxPool
   with channels first is slow. -1 and a status if out of memory. */
int64_t qc_time_of_layout(enum qc_processor on, const struct qc_graph *g, const bool *integer, struct qc_arena *a,
                          struct qc_status *st);

/* FROM_8 is of 8 bits to float, 16 either way of 16 bits, WEIGHT of a constant to float in every run. */
enum qc_conversion { QC_CONVERT_TO_8, QC_CONVERT_FROM_8, QC_CONVERT_16, QC_CONVERT_WEIGHT };

/* Returns the time to convert a value, with changes_layout also to order its channels otherwise. */
int64_t qc_time_to_convert(enum qc_processor on, const struct qc_graph *g, qc_id value, enum qc_conversion what,
                           bool changes_layout);
