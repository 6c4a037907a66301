// SPDX-License-Identifier: Apache-2.0
/* What is quantized and where: matches of the patterns, and the quantizers that their templates ask for.

   Values that KEEP, BOUND and JOIN ops of the allow-list connect form a class with one quantizer: parameters pass
   through such ops, so a quantize may be pushed up to the op that computes the class (docs/architecture.md,
   "Quantizers"). An input of a BOUND or JOIN op belongs to the class of the result only if nothing else uses it, and
   not where a join only leads to outputs and its inputs are of very different sizes (rewrite/passes/joins.h). The
   quantizer is decided by the values that are not covered by others of the class: inputs of KEEP ops rather than
   results, results of BOUND ops rather than inputs (what relu cuts off needs no levels), results of JOIN ops.

   A pattern may have a quantization scheme of its own (scheme ..., docs/rules.md). Where several patterns share a
   quantizer and their schemes differ, the first one in topological order decides - the pattern that makes a value
   before those that read it - and there is a warning. A type that the options give to nodes by name is a scheme too,
   and stronger than the pattern's. */
#pragma once

#include "rewrite/language/rewriter.h"
#include "rewrite/passes/given.h"

struct qc_scheme {
    enum qc_dtype dtype;
    enum qc_symmetry symmetry;
    bool restricted, per_channel;
    unsigned bits;                         /* of the levels; 0: all of the type */
    const struct qc_number_format *format; /* of weights in blocks that have the type; NULL: none */
};

/* --activation-type T:GLOB: a type for the nodes that a glob names. */
struct qc_type_choice {
    enum qc_dtype dtype; /* QC_NONE: not quantized */
    unsigned bits;       /* of its levels; 0: all of the type */
    bool dynamic;        /* QC_NONE: products take their inputs as integers all the same (rewrite/passes/dynamic.h) */
    const char *glob;    /* as those of options.skip */
};

/* How weights are kept from saturating the 16 bits in which x86 without VNNI adds two products
   (graph/core/pair_order.h): by a limit on pairs, by levels of 7 bits, not at all. */
enum qc_overflow_fix { QC_OVERFLOW_FIX_OFF, QC_OVERFLOW_FIX_PAIRS, QC_OVERFLOW_FIX_REDUCE_RANGE };

/* What is gained: what the target computes faster in float stays so (rewrite/passes/costs.h), but where its weights
 * take room; as much as possible is of integers. */
enum qc_prefer { QC_PREFER_SPEED, QC_PREFER_SIZE, QC_PREFER_INTEGERS };

struct qc_partition_options {
    struct qc_scheme activation,
        weight;   /* .dtype QC_NONE: not quantized. No activations: weights alone, around float ops */
    bool dynamic; /* no activations, but products take theirs as integers (rewrite/passes/dynamic.h) */
    size_t activation_type_count, weight_type_count;
    const struct qc_type_choice *activation_types,
        *weight_types;    /* over schemes of patterns; of several that fit a node the last holds */
    bool one_scale_joins; /* integers matter more than small inputs of a join that only leads to outputs
                             (rewrite/passes/joins.h) */
    size_t only_count, skip_count;
    const char *const *only;             /* names of patterns; none given: all */
    const char *const *skip;             /* node names, op names or globs of node names */
    const struct qc_given_values *given; /* NULL, or parameters that the model has already */
    int64_t weight_block;   /* weights of products have a scale for so many elements along the axis that is summed over;
                               0: per channel */
    bool blocks_restricted; /* as weight.restricted, of weights in blocks */
    bool few_have_zeros; /* weights in blocks of fewer than 8 bits are not symmetric, whatever weight.symmetry says */
    bool dynamic_recurrent; /* so does an LSTM: a form of the file has an operator that does */
    enum qc_overflow_fix overflow_fix;
    bool pads_channels; /* kernels of the target begin pairs anew at each position of a Conv */
    bool float_results; /* its kernels give results of integers in float as well, so that nothing has to be stored for
                           them: `result quantized` of a pattern does not hold */
    bool power_of_two;  /* scales are powers of two */
    enum qc_prefer prefer;
    bool part; /* the graph is a part of a model: names may be those of nodes in other parts */
};
#define QC_PARTITION_INIT                                                                                              \
    ((struct qc_partition_options){                                                                                    \
        .activation = {.dtype = QC_U8, .symmetry = QC_ASYMMETRIC},                                                     \
        .weight = {.dtype = QC_I8, .symmetry = QC_SYMMETRIC, .restricted = true, .per_channel = true}})

/* What decides how the quantizer of a class, or a weight, is quantized. */
struct qc_scheme_source {
    const struct qc_rule *rule; /* the pattern */
    const char *node;           /* the node with a type of its own, or NULL: the pattern's scheme */
    struct qc_scheme_clause activation, weight;
};

struct qc_partition {
    struct qc_arena *arena;
    const struct qc_graph *graph; /* borrowed */
    struct qc_partition_options options;
    struct qc_matches matches;
    qc_id *class_of;                           /* [value_count + 1]: representative of the value's class */
    const struct qc_given **given;             /* [value_count + 1] by class: the parameters that its quantizer has */
    bool *requested;                           /* [value_count + 1]: this value is quantized where it is made */
    const char **reason;                       /* [node_count + 1]: why the node is in no match, or NULL */
    const struct qc_scheme_source **scheme_of; /* [value_count + 1]: what holds for the quantizer of this class (its
                                                  representative), or of this weight; NULL: the options hold */
    int *channel_axis; /* [value_count + 1]: the value's quantizer has a scale for each channel, along this axis; -1: it
                          has one */
    const char **one_scale; /* [value_count + 1] by class: why its quantizer has one scale though one per channel was
                               asked for; NULL */
    qc_id *weight_of;       /* [node_count + 1]: the weight that alone is quantized of a node, else 0 ... */
    int *weight_axis;       /* ... and the axis of its output channels */
    const struct qc_type_choice **weight_type; /* [value_count + 1]: the type that such a weight has by the name of its
                                                  node; NULL: none */
    size_t weight_only_count;
    size_t cost_count;  /* nodes that are left in float for speed (rewrite/passes/costs.h) */
    bool *weights_only; /* [node_count + 1]: the match at this node quantizes its weights alone */
    int *block_axis; /* [value_count + 1]: 1 + the axis along which this weight is quantized in blocks; 0: it is not */
    size_t slight;   /* weights of products of no more elements have 8 bits beside larger ones in blocks of fewer */
    size_t slight_table; /* tables of no more elements have 16 bits beside products of 8 in blocks */
    bool *real_product;  /* [node_count + 1]: the match at this node computes its product from real numbers, since no
                            accumulator holds what blocks of a weight give */
    bool *dynamic;       /* [node_count + 1]: of the node only the weight is quantized, but its input as it comes */
    size_t warning_count, warning_capacity;
    const char **warnings; /* patterns that want different things of one quantizer */
};

/* Is s the node's op, or a glob of its name or of its result's? */
bool qc_node_fits(const char *s, const struct qc_graph *g, const struct qc_node *n);

/* The glob that fits this name alone, in the arena; NULL: no memory. */
const char *qc_glob_of_name(const char *name, struct qc_arena *a, struct qc_status *st);

/* Is the node left out by options.skip? used (may be NULL): [skip_count], set where an entry fits. */
bool qc_partition_skips(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_node *n,
                        bool *used);

/* Which quantizers have a scale per channel: --per-channel=activations, scheme activation per_channel. Inside rewrite/.
 */
bool qc_partition_channels(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st);

/* Errors: --only names no pattern, --skip or a type's glob fits no node (QC_USAGE). */
bool qc_partition_new(struct qc_partition **out, const struct qc_graph *g, const struct qc_rules *rules,
                      const struct qc_partition_options *options, struct qc_status *st);
void qc_partition_free(struct qc_partition *p);

/* The value whose quantizer the result of a match is stored in too, where the template says so - dq(q(... q(x : X) ...)
 * : X) or dq(F(q(x : X), ...) : X) -, or 0. */
qc_id qc_partition_stored_as(const struct qc_match *m);

/* Of the first form the result covers that value: it is a clamp of it. Of the second both decide the range, with
 * constants that are stored so too. */
bool qc_partition_covers(const struct qc_match *m);

/* The scheme of a quantizer (class: a representative) or of a weight: of the options, overridden by the pattern that
 * decides. */
struct qc_scheme qc_partition_scheme(const struct qc_partition *p, qc_id class_or_weight, bool weight);

/* "match NAME: node, node ..." and "quantizer ..." lines, for --dump partition; owned by the caller (free). */
char *qc_partition_print(const struct qc_partition *p, struct qc_status *st);
