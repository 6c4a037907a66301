// SPDX-License-Identifier: Apache-2.0
/* What is quantized and where: matches of the patterns, and the sites that their templates ask for.

   Values that KEEP, BOUND and JOIN ops of the allow-list connect form a class with one site: parameters pass through such
   ops, so a quantize may be pushed up to the op that computes the class (docs/architecture.md, "Sites"). An input of a
   BOUND or JOIN op belongs to the class of the result only if nothing else uses it. The site is decided by the
   values that are not covered by others of the class: inputs of KEEP ops rather than results, results of BOUND ops
   rather than inputs (what relu cuts off needs no levels), results of JOIN ops.

   A pattern may have a quantization scheme of its own (scheme ..., docs/rules.md). Where several patterns share a site and their
   schemes differ, the first one in topological order decides - the pattern that makes a value before those that read it - and there is
   a warning. */
#ifndef QC_REWRITE_PARTITION_H
#define QC_REWRITE_PARTITION_H

#include "rewrite/rewriter.h"

struct qc_scheme {
    enum qc_dtype dtype;
    enum qc_symmetry symmetry;
    bool restricted, per_channel;
};

struct qc_partition_options {
    struct qc_scheme activation, weight;
    size_t only_count, skip_count;
    const char *const *only; /* names of patterns; none given: all */
    const char *const *skip; /* node names, op names or globs of node names */
};
#define QC_PARTITION_INIT                                                                                              \
    ((struct qc_partition_options){.activation = {.dtype = QC_U8, .symmetry = QC_ASYMMETRIC},                          \
                                   .weight = {.dtype = QC_I8, .symmetry = QC_SYMMETRIC, .restricted = true, .per_channel = true}})

struct qc_partition {
    struct qc_arena *arena;
    const struct qc_graph *graph; /* borrowed */
    struct qc_partition_options options;
    struct qc_matches matches;
    qc_id *class_of;      /* [value_count + 1]: representative of the value's class */
    bool *requested;      /* [value_count + 1]: this value is quantized where it is made */
    const char **reason;  /* [node_count + 1]: why the node is in no match, or NULL */
    const struct qc_rule **scheme_of; /* [value_count + 1]: the pattern whose scheme holds for the site of this class (its representative), or of this
                                         weight; NULL: the options hold */
    size_t warning_count, warning_capacity;
    const char **warnings; /* patterns that want different things of one site */
};

/* Is the node left out by options.skip? used (may be NULL): [skip_count], set where an entry fits. */
bool qc_partition_skips(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_node *n, bool *used);

/* Errors: --only names no pattern, --skip fits no node (QC_USAGE). */
bool qc_partition_new(struct qc_partition **out, const struct qc_graph *g, const struct qc_rules *rules, const struct qc_partition_options *options,
                      struct qc_status *st);
void qc_partition_free(struct qc_partition *p);

/* The value whose site the result of a match is stored in too, where the template says so - dq(q(... q(x : X) ...) : X) -, or 0. */
qc_id qc_partition_stored_as(const struct qc_match *m);

/* The scheme of a site (class: a representative) or of a weight: of the options, overridden by the pattern that decides. */
struct qc_scheme qc_partition_scheme(const struct qc_partition *p, qc_id class_or_weight, bool weight);

/* "match NAME: node, node ..." and "site ..." lines, for --dump partition; owned by the caller (free). */
char *qc_partition_print(const struct qc_partition *p, struct qc_status *st);

#endif
