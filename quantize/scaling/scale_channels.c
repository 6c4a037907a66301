// SPDX-License-Identifier: Apache-2.0
#include "quantize/scaling/scale_channels.h"

#include <string.h>

#include "calib/ablation.h"
#include "export/report/report.h"
#include "quantize/collect/memory_plan.h"
#include "quantize/scaling/scale_search.h"
#include "quantize/trials/round_options.h"

/* `auto` ignores gains below 3 %: held-out samples do not distinguish them from noise. */
static const double AUTO_GAIN = 0.03;
/* True if the options and the statistics allow a search. */
static bool wants(const struct qc_pipeline *p)
{
    const struct qc_options *o = p->options;
    return !p->scaling && strcmp(o->scale_channels, "off") != 0 && qc_moments_of(p) && !p->from->given.count &&
           !o->propagate;
}

/* Marks the values whose ranges are in the statistics: scaling would change them. */
static bool find_busy(bool **busy, const struct qc_pipeline *p, struct qc_arena *a, struct qc_status *st)
{
    size_t count = 0;
    qc_id *values;
    const char **names;
    bool *of = QC_NEW_ARRAY(a, bool, p->real->value_count + 1, st);
    if (!of || !qc_observed_values(&count, &values, &names, p->simulated, a, st)) return false;
    for (size_t i = 0; i < count; i++) {
        const qc_id v = qc_graph_find_value(p->real, names[i]);
        if (v) of[v] = true;
    }
    *busy = of;
    return true;
}

/* Marks the products of the simulated graph whose input is quantized at run time. */
static bool find_dynamic(bool **dynamic, const struct qc_pipeline *p, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *from = p->joined, *g = p->simulated;
    bool *of = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    for (qc_id id = 1; of && id <= from->node_count; id++) {
        const char *name = p->partition->dynamic[id] ? from->values[from->nodes[id].outputs].name : NULL;
        const qc_id v = name ? qc_graph_find_value(g, name) : 0;
        if (v) of[g->values[v].node] = true;
    }
    return (*dynamic = of) != NULL;
}

static unsigned kinds_of(const struct qc_options *o)
{
    if (strcmp(o->scale_channels, "awq") == 0) return QC_SCALE_FEW;
    if (strcmp(o->scale_channels, "smooth") == 0) return QC_SCALE_DYNAMIC | QC_SCALE_STATIC;
    return QC_SCALE_FEW | QC_SCALE_DYNAMIC;
}

/* Makes p->real the scaled graph. Second moments are divided by the scales and stay; the statistics are dropped if a
   range changed. */
static bool apply_scales(struct qc_pipeline *p, struct qc_channels *c, struct qc_second_moments **second_moments,
                         const struct qc_scaled_group *groups, size_t count, struct qc_status *st)
{
    struct qc_equalized info;
    bool seen = false;
    for (size_t i = 0; i < count; i++) {
        struct qc_channel_group *q = &c->groups[groups[i].group];
        if (!groups[i].kind) continue;
        seen = seen || groups[i].seen;
        memcpy(q->scale, groups[i].best, (size_t)q->count * sizeof *q->scale);
        if (!qc_scale_moments(*second_moments, c, &groups[i], groups[i].best, p->arena, st)) return false;
    }
    if (!qc_channels_apply(&p->scaled, &info, c, st)) return false;
    p->real = p->scaled;
    if (!seen) return true;
    qc_collection_free(p->seen);
    p->seen = NULL;
    qc_second_moments_free(p->second_moments);
    p->second_moments = NULL;
    return true;
}

bool qc_scale_channels(bool *again, struct qc_pipeline *p, struct qc_status *st)
{
    *again = false;
    if (!wants(p) || qc_ablated("scale_channels")) return true;
    const bool automatic = strcmp(p->options->scale_channels, "auto") == 0;
    struct qc_second_moments **second_moments = p->second_moments ? &p->second_moments : &p->seen->second_moments;
    struct qc_arena *a = qc_arena_new();
    struct qc_channels c;
    struct qc_scaled_group *groups = NULL;
    size_t count = 0, taken = 0;
    bool *busy = NULL, *dynamic = NULL;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = find_busy(&busy, p, a, st) && find_dynamic(&dynamic, p, a, st) &&
              (p->scaling = QC_NEW_ARRAY(p->arena, struct qc_channel_scaling, 1, st));
    const struct qc_scale_search search = {.kinds = kinds_of(p->options),
                                           .simulated = p->simulated,
                                           .dynamic = dynamic,
                                           .second_moments = *second_moments,
                                           .calibration = &p->calibration_options,
                                           .rounding = qc_round_weights_options_of(p),
                                           .busy = busy,
                                           .data = p->from->data,
                                           .tables_apart = !p->options->runs_on->onnxruntime,
                                           .may_collect =
                                               !automatic && p->from->data && !qc_has_statistics(p->in) && !p->in->team,
                                           .arena = p->arena,
                                           .progress = qc_progress_step,
                                           .progress_user = p->progress};
    bool hopes = ok && qc_scale_hopes(&search);
    if (hopes && automatic && !qc_memory_ample(p)) {
        qc_warn(p->warnings, "channels are not scaled: --memory-limit leaves too little memory to look for scales");
        hopes = false;
    }
    ok = ok && (!hopes || (qc_channels_find(&c, p->real, a, st) && qc_scale_groups(&groups, &count, &search, &c, st)));
    if (ok && count) {
        qc_progress_phase(p->progress, "scaling channels");
        ok = qc_scale_search(groups, count, &search, &c, st);
        qc_progress_end(p->progress);
    }
    for (size_t i = 0; ok && i < count; i++) {
        if (automatic && groups[i].error > 1 - AUTO_GAIN) groups[i].kind = NULL;
        taken += groups[i].kind != NULL;
    }
    if (ok) *p->scaling = (struct qc_channel_scaling){.group_count = count, .groups = groups};
    if (ok && taken) {
        qc_warnings_drop(p->warnings, p->warnings_from, qc_warnings_count(p->warnings));
        ok = *again = apply_scales(p, &c, second_moments, groups, count, st);
    }
    qc_arena_free(a);
    return ok;
}

bool qc_fill_scaled(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st)
{
    const size_t count = p->scaling ? p->scaling->group_count : 0;
    struct qc_report_scaled *to = QC_NEW_ARRAY(p->arena, struct qc_report_scaled, count, st);
    if (!to) return false;
    for (size_t i = 0; i < count; i++) {
        const struct qc_scaled_group *g = &p->scaling->groups[i];
        const char **nodes = QC_NEW_ARRAY(p->arena, const char *, g->reader_count, st);
        if (!nodes) return false;
        for (size_t k = 0; k < g->reader_count; k++) nodes[k] = g->readers[k].name;
        to[i] = (struct qc_report_scaled){.value = g->name,
                                          .kind = g->kind,
                                          .channels = g->channels,
                                          .layers = g->reader_count,
                                          .nodes = nodes,
                                          .activation_power = g->activation_power,
                                          .weight_power = g->weight_power,
                                          .error = g->error};
    }
    r->scaled = to;
    r->scaled_count = count;
    return true;
}
