// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages/stage_list.h"

#include "calib/ranges/quantizer_channels.h"
#include "calib/weights/channel_imbalance.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/passes/functions.h"

bool qc_stage_functions(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_join_functions(&p->joined, p->real, p->from->rules, &p->scheme, st);
}

/* True if everything that could be quantized stays in float for speed. */
static bool is_all_faster(const struct qc_partition *p)
{
    return p->cost_count && p->options.prefer == QC_PREFER_SPEED && !p->matches.count && !p->weight_only_count;
}

bool qc_stage_partition(struct qc_pipeline *p, struct qc_status *st)
{
    p->scheme.part = p->joined->depth || p->of_body;
    if (!qc_partition_new(&p->partition, p->joined, p->from->rules, &p->scheme, st)) return false;
    if (is_all_faster(p->partition) && !p->scheme.part) {
        qc_warn(p->warnings, "ONNX Runtime computes all of this model faster in float; weights are stored in 8 bits "
                             "only to save space (--prefer size)");
        qc_partition_free(p->partition);
        p->partition = NULL;
        p->scheme.prefer = QC_PREFER_SIZE;
        if (!qc_partition_new(&p->partition, p->joined, p->from->rules, &p->scheme, st)) return false;
    }
    for (size_t i = 0; i < p->partition->warnings.count; i++)
        qc_warn(p->warnings, "%s", p->partition->warnings.lines[i]);
    if (p->partition->matches.count || p->partition->weight_only_count || p->partition->cache_count) return true;
    if (p->joined->depth && p->quantize_body) return true; /* there are bodies */
    if (p->may_be_float) return true;
    if (qc_is_quantized(p->from->model.graph))
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s is quantized already; give the float model it was made from ('qcalib convert' brings one "
                       "quantized form into another, 'qcalib run' and 'qcalib compare' take it as it is)",
                       p->from->model.path);
    const bool fewer = p->scheme.only_count || p->scheme.skip_count || p->scheme.weight.dtype == QC_NONE ||
                       p->scheme.activation.dtype == QC_NONE;
    return qc_fail(st, QC_UNSUPPORTED, "nothing to quantize: no pattern of 'qcalib list rules' matches%s%s",
                   fewer ? " what --only, --skip and types of none leave" : "",
                   p->from->model.graph->carried ? " before the operators that are not handled" : "");
}

/* Warns if one scale per weight is too coarse for channels of very different magnitudes. Not after equalization: there
   such channels are small in the layers that read them, too. */
static bool warn_spread(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_channel_imbalance s;
    char label[QC_LABEL];
    if (p->equalized) return true;
    if (!qc_weight_imbalance(&s, p->simulated, st) || !s.layers) return st->code == QC_OK;
    const struct qc_node *n = &p->simulated->nodes[s.worst];
    qc_warn(p->warnings,
            "one scale per weight is too coarse for %zu layer%s: in '%s' %zu of %zu output channels stay below 1/100 "
            "of the largest weight; use --equalize on, or --per-channel",
            s.layers, s.layers == 1 ? "" : "s", qc_node_label(label, p->simulated, n), s.small, s.channels);
    return true;
}

static bool is_kept(const struct qc_graph *g, const struct qc_given *given)
{
    for (qc_id id = 1; id <= g->qparams_count; id++)
        if (g->qparams_of[id].given && qc_given_same(g->qparams_of[id].given, given)) return true;
    return false;
}

/* For a partly quantized model: fails if nothing is left to quantize, warns if given parameters are lost. */
static bool check_given(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->simulated;
    size_t lost = 0, first = 0;
    p->kept = p->quantizers = 0;
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        p->quantizers += g->qparams_of[id].kind == QC_QPARAMS_QUANTIZER;
        p->kept += g->qparams_of[id].given != NULL;
    }
    if (!p->from->given.count) return true;
    if (p->kept == p->quantizers)
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s is quantized already, all %zu quantizers of it; 'qcalib convert' brings it into another "
                       "quantized form, 'qcalib run' and 'qcalib compare' take it as it is",
                       p->from->model.path, p->kept);
    for (size_t i = 0; i < p->from->given.count; i++)
        if (!is_kept(g, &p->from->given.of[i].parameters) && !lost++) first = i;
    if (lost)
        qc_warn(p->warnings,
                "parameters of %zu of %zu quantized tensors of the model are not kept ('%s' first): these tensors are "
                "no longer stored in integers",
                lost, p->from->given.count, p->from->given.of[first].name);
    return true;
}

bool qc_stage_simulate(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_calibration_options *c = &p->calibration_options;
    if (!qc_simulate(&p->simulated, p->partition, st) || !check_given(p, st)) return false;
    const bool channels = qc_quantizers_have_channels(p->simulated);
    c->channels = channels || c->activation->of_output;
    if (channels && (c->activation->need == QC_NEED_SERIES || c->activation->need == QC_NEED_VALUES))
        return qc_fail(st, QC_USAGE,
                       "--method %s needs whole tensors, not channels; give another method, or leave out "
                       "--per-channel=activations",
                       c->activation->name);
    return warn_spread(p, st);
}
