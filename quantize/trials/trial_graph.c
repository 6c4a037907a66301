// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/trial_graph.h"

#include "quantize/collect/collecting.h"

enum { SHARE = 3, UNITS_MIN = 16, UNITS_MAX = 256 };

bool qc_trial_graph(struct qc_graph **out, const struct qc_pipeline *p, const struct qc_graph *bound,
                    struct qc_status *st)
{
    struct qc_graph *expanded = NULL, *folded = NULL;
    const bool ok = qc_propagate_qdq(&expanded, bound, p->from->rules, p->scheme.one_scale_joins, st) &&
                    qc_fold(&folded, expanded, p->from->fold_rules, st) &&
                    qc_to_integer_shared(out, p->shared, folded, qc_evaluate, st);
    qc_graph_free(folded);
    qc_graph_free(expanded);
    return ok;
}

bool qc_trial_of_pair(void *pair, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_trial_pair *b = pair;
    return qc_trial_graph(out, b->p, b->graphs[k], st);
}

void qc_forget_integers(const struct qc_pipeline *p)
{
    if (p->shared && p->options->memory_limit) qc_folded_constants_trim(p->shared, 0);
}

size_t qc_trial_units(const struct qc_pipeline *p)
{
    const size_t share = qc_dataset_units(p->from->data) / SHARE;
    return share < UNITS_MIN ? UNITS_MIN : share > UNITS_MAX ? UNITS_MAX : share;
}

struct qc_trial_options qc_trial_options_of(const struct qc_pipeline *p)
{
    return (struct qc_trial_options){.keys = p->from->keys,
                                     .known = qc_outputs_known(p),
                                     .how = {.rounding =
                                                 QC_CONTRACT_ONNX}, /* what is written does not depend on --rounding */
                                     .workers = (unsigned)p->options->threads,
                                     .memory_limit = (size_t)p->options->memory_limit,
                                     .progress = qc_progress_step,
                                     .progress_user = p->progress};
}
