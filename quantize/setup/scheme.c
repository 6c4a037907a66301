// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/scheme.h"

#include "quantize/options/changes.h"
#include "quantize/options/option_value.h"
#include "quantize/options/partition_options.h"

bool qc_scheme_of(struct qc_scheme *out, const struct qc_setup *s, const struct qc_options *o, struct qc_warnings *w,
                  struct qc_arena *a, struct qc_status *st)
{
    struct qc_settings *settings = QC_NEW(a, struct qc_settings, st);
    if (!settings || !qc_settings_of(settings, o, s->progress, st)) return false;
    *out = (struct qc_scheme){.options = o, .settings = settings, .calibration = {.settings = settings}};
    struct qc_calibration_options *c = &out->calibration;
    if (!qc_observer_parse_among(&c->activation, &c->activation_values,
                                 o->method.observer ? o->method.observer : "auto", s->plugins, st))
        return qc_where(st, "--method");
    if (!qc_observer_parse_among(&c->weight, &c->weight_values,
                                 o->method.weight_method ? o->method.weight_method : "minmax", s->plugins, st))
        return qc_where(st, "--weight-method");
    if (c->weight->of_network)
        return qc_fail(st, QC_USAGE,
                       "--weight-method auto: ranges of weights are not chosen by runs of the network; give minmax, "
                       "mse or output");
    c->blocks_by_error = !o->given[QC_OPTION_WEIGHT_METHOD];
    c->moments = c->weight->of_output || qc_rounds_weights(c->settings) || qc_options_scale(o);
    if (!qc_partition_options_of(&out->partition, o, qc_setup_given(s), a, st) ||
        (s->normalised && !s->of_body && !qc_partition_stores_ports(&out->partition, o, s->normalised, a, st)) ||
        (s->normalised && !qc_partition_keeps_calls(&out->partition, o, s->normalised, a, st)))
        return false;
    out->partition.part = s->of_body;
    out->partition.model = s->model_ops;
    out->partition.asked_skips = s->options->graph.skip.count;
    if (w && o->types.weight_block && !qc_options_take_blocks(o))
        qc_warn(w,
                "--weight-block is ignored and weights have a scale per channel: --target %s is for hardware whose "
                "integer sums have no blocks",
                o->graph.runs_on->name);
    return !w || qc_warn_target_options(o, w, st);
}

bool qc_scheme_change(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s,
                      const struct qc_change *change, struct qc_arena *a, struct qc_status *st)
{
    struct qc_options *o = QC_NEW(a, struct qc_options, st);
    if (!o || !qc_options_change(o, from->options, change, a, st) || !qc_scheme_of(out, s, o, NULL, a, st))
        return false;
    out->form = from->form;
    out->sized = from->sized;
    out->may_be_float = from->may_be_float;
    out->bare = from->bare;
    out->sketch = from->sketch;
    return true;
}
