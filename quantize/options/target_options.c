// SPDX-License-Identifier: Apache-2.0
/* --target: the options of a target, which hold unless given. */
#include <string.h>

#include "graph/types/number_format.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* The options that a target may set. */
static const enum qc_option settable[] = {QC_OPTION_ACTIVATION_TYPE, QC_OPTION_WEIGHT_TYPE,    QC_OPTION_PER_CHANNEL,
                                          QC_OPTION_SYMMETRIC,       QC_OPTION_RANGE,          QC_OPTION_OVERFLOW_FIX,
                                          QC_OPTION_ROUNDING,        QC_OPTION_ACCUMULATOR,    QC_OPTION_BIAS,
                                          QC_OPTION_FORMAT,          QC_OPTION_PREFER,         QC_OPTION_WEIGHT_BLOCK,
                                          QC_OPTION_EQUALIZE,        QC_OPTION_BIAS_CORRECTION};
enum { SETTABLE = sizeof settable / sizeof *settable, VALUES = QC_TARGET_OPTIONS + 5 };

struct value {
    enum qc_option option;
    const char *text;
};

static struct value *add(struct value *list, size_t *n, enum qc_option option, const char *text)
{
    list[*n] = (struct value){.option = option, .text = text};
    return &list[(*n)++];
}

/* Returns "activations,weights", one of both, or "none". */
static const char *sides(bool activations, bool weights)
{
    return activations ? weights ? "activations,weights" : "activations" : weights ? "weights" : "none";
}

static const char *type_text(const struct qc_scheme_clause *c)
{
    return qc_dtype_long_name(c->dtype);
}

/* Adds the clauses `scheme` as options. If only one clause sets a property, the other has the default. */
static void values_of_schemes(struct value *list, size_t *n, const struct qc_target *t)
{
    const struct qc_scheme_clause *a = &t->activation, *w = &t->weight;
    if (a->dtype != QC_NONE) add(list, n, QC_OPTION_ACTIVATION_TYPE, type_text(a));
    if (w->dtype != QC_NONE) add(list, n, QC_OPTION_WEIGHT_TYPE, type_text(w));
    if (a->symmetry_given || w->symmetry_given)
        add(list, n, QC_OPTION_SYMMETRIC,
            sides(a->symmetry_given && a->symmetry == QC_SYMMETRIC, !w->symmetry_given || w->symmetry == QC_SYMMETRIC));
    if (a->per_channel_given || w->per_channel_given)
        add(list, n, QC_OPTION_PER_CHANNEL,
            sides(a->per_channel_given && a->per_channel, !w->per_channel_given || w->per_channel));
    if (w->restricted_given) add(list, n, QC_OPTION_RANGE, w->restricted ? "restricted" : "full");
}

static bool option_named(enum qc_option *out, const struct qc_target *t, const char *name, struct qc_status *st)
{
    for (size_t i = 0; i < SETTABLE; i++)
        if (strcmp(qc_option_info(settable[i])->name, name) == 0) {
            *out = settable[i];
            return true;
        }
    return qc_fail(st, QC_BAD_INPUT, "target '%s': 'option %s' is none that a target decides", t->name, name);
}

static bool values_of(struct value list[VALUES], size_t *n, const struct qc_target *t, struct qc_status *st)
{
    *n = 0;
    values_of_schemes(list, n, t);
    for (unsigned i = 0; i < t->option_count; i++) {
        enum qc_option option;
        if (!option_named(&option, t, t->options[i].name, st)) return false;
        add(list, n, option, t->options[i].value);
    }
    return true;
}

/* Returns true if the option is given. A type given only by name leaves the type of other nodes to the target. */
static bool is_given(const struct qc_options *o, enum qc_option option)
{
    if (qc_option_info(option)->kind == QC_KIND_BY_NAME) return o->given[option] && o->own_base[option];
    return o->given[option] || (option == QC_OPTION_PER_CHANNEL && o->given[QC_OPTION_PER_TENSOR]);
}

/* Sets an option of the earlier target back to its default. */
static bool forget(struct qc_options *o, enum qc_option option, qc_option_set_fn *set_one, struct qc_status *st)
{
    const struct qc_option_info *i = qc_option_info(option);
    o->by_target[option] = false;
    if (is_given(o, option)) return true;
    if (qc_option_has_default(i)) return set_one(o, option, i->preset, st);
    *(const char **)((char *)o + i->field) = NULL;
    return true;
}

bool qc_options_take_target(struct qc_options *o, qc_option_set_fn *set_one, struct qc_status *st)
{
    struct value list[VALUES];
    size_t n;
    if (!qc_target_load(&o->runs_on, o->target, o->arena, st) || !values_of(list, &n, o->runs_on, st)) return false;
    for (size_t i = 0; i < SETTABLE; i++)
        if (o->by_target[settable[i]] && !forget(o, settable[i], set_one, st)) return false;
    for (size_t i = 0; i < n; i++) {
        if (is_given(o, list[i].option)) continue;
        if (!set_one(o, list[i].option, list[i].text, st)) return qc_where(st, "target '%s'", o->runs_on->name);
        o->by_target[list[i].option] = true;
    }
    return true;
}

/* Returns the value of an option as text; for QC_KIND_BY_NAME entry 0. */
static const char *text_of(const struct qc_options *o, enum qc_option option, struct qc_status *st)
{
    const struct qc_option_info *i = qc_option_info(option);
    const void *field = (const char *)o + i->field;
    const struct qc_text_list *list = field;
    const char *text = "";
    if (i->kind == QC_KIND_BY_NAME) return list->items[0];
    if (i->kind != QC_KIND_CHOICES) return *(const char *const *)field ? *(const char *const *)field : "";
    for (size_t k = 0; text && k < list->count; k++)
        text = qc_arena_printf(o->arena, st, "%s%s%s", text, k ? "," : "", list->items[k]);
    return text;
}

bool qc_warn_target_options(const struct qc_options *o, struct qc_warnings *w, struct qc_status *st)
{
    struct value list[VALUES];
    size_t n;
    if (!values_of(list, &n, o->runs_on, st)) return false;
    for (size_t i = 0; i < n; i++) {
        const char *text = text_of(o, list[i].option, st);
        if (!text) return false;
        if (is_given(o, list[i].option) && strcmp(text, list[i].text) != 0)
            qc_warn(w, "--%s %s holds, though target '%s' has %s", qc_option_info(list[i].option)->name, text,
                    o->runs_on->name, list[i].text);
    }
    const char *type = o->weight_types.items[0];
    const struct qc_number_format *format = qc_number_format_named(type);
    if (o->runs_on->onnxruntime && (format ? format->dtype : qc_dtype_from_name(type)) == QC_F4E2M1)
        qc_warn(w,
                "--weight-type %s: ONNX Runtime's CPU kernels do not read FLOAT4E2M1, so it does not load the file; "
                "OpenVINO "
                "2026 does",
                type);
    return true;
}
