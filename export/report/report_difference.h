// SPDX-License-Identifier: Apache-2.0
/* A comparison of two reports of the same model: options, figures and layers that differ. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"

struct qc_report_source {
    const char *file;
    const struct qc_json *report;
};

enum { QC_FIGURES_MAX = 12, QC_NOTES_MAX = 6 };

enum qc_figure_unit {
    QC_FIGURE_PERCENT,
    QC_FIGURE_DB,
    QC_FIGURE_NATS,
    QC_FIGURE_BYTES,
    QC_FIGURE_MS,
    QC_FIGURE_COUNT,
    QC_FIGURE_NUMBER /* in a unit of the user's own */
};

/* A figure of the whole job; NaN if a report does not have it. */
struct qc_figure {
    const char *name;
    enum qc_figure_unit unit; /* QC_FIGURE_PERCENT: values are shares of 1 */
    int better;               /* 1: higher is better, -1: lower is better, 0: neither */
    double value[2];
};

/* JSON text of both values; "" if a report does not have the option. */
struct qc_differing_option {
    const char *name, *value[2];
};

/* A layer that differs between the reports. */
struct qc_differing_layer {
    const char *name, *op, *kind;
    const char *type[2], *method[2];
    double db[2]; /* SQNR of the tensor, or of its own rounding if only that was measured; NaN: not measured */
    double low[2], high[2];                                                  /* the chosen range; NaN: not known */
    bool type_changed, method_changed, parameters_changed, rounding_changed; /* none: only its inputs changed */
};

/* A layer that only one report has. */
struct qc_single_layer {
    const char *name, *op, *kind, *type;
};

/* Strings belong to the arena or the reports. */
struct qc_report_difference {
    struct qc_report_source from[2];
    const char *version[2], *model, *verdict;
    size_t figure_count, option_count, note_count, layer_count, differing_count, single_count[2];
    struct qc_figure figures[QC_FIGURES_MAX];
    const struct qc_differing_option *options;
    const char *notes[QC_NOTES_MAX];            /* why figures may not be comparable */
    const struct qc_differing_layer *differing; /* of layer_count in both; sorted by change of SQNR, largest first */
    const struct qc_single_layer *single[2];
};

/* Fails (QC_BAD_INPUT) if a compared member is missing, as in reports of older versions, or if the reports are of
   different models. The reports must outlive *out. */
bool qc_report_difference(struct qc_report_difference *out, const struct qc_report_source from[2], struct qc_arena *a,
                          struct qc_status *st);

/* Returns the value, or the change with its sign, as text with its unit: "+0.33 points", "−12.0 %" of bytes; "–" if not
   known. minus: "-" or the typographic sign. buf has QC_CHANGE_TEXT bytes. */
enum { QC_CHANGE_TEXT = 48 };
const char *qc_figure_text(char buf[QC_CHANGE_TEXT], enum qc_figure_unit unit, double value);
const char *qc_figure_change(char buf[QC_CHANGE_TEXT], const struct qc_figure *f, const char *minus);

/* Returns the changes of a layer in words: "type uint8 -> uint16, range". arrow: " -> " or the sign. In the arena; NULL
   if memory is out. */
const char *qc_layer_change(struct qc_arena *a, const struct qc_differing_layer *l, const char *arrow,
                            struct qc_status *st);

struct qc_json *qc_report_difference_json(const struct qc_report_difference *d);

/* Returns the difference with both reports ("records") as the record of a page (export/report/page.h). */
struct qc_json *qc_report_difference_record(const struct qc_report_difference *d, const char *command,
                                            const char *version);
