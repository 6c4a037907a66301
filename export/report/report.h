// SPDX-License-Identifier: Apache-2.0
/* The report of a quantization is a record, a JSON tree (report.schema.json), which the job builds
   (quantize/report/record.h). Here it gets its verdict, and is written as report.json, layers.csv and report.html. */
#pragma once

#include "base/arena.h"
#include "base/json.h"

/* Returns {"grade": "good", "usable", "poor" or "unknown", "text": sentences without the last stop}, from the other
   members of the record. */
struct qc_json *qc_verdict_json(const struct qc_json *record);

/* Writes FOLDER/report.json, FOLDER/layers.csv and FOLDER/report.html, which is the viewer with this record
   (qc_page): either all of them or none, each complete. Creates the folder, and removes it after an
   error. */
bool qc_report_write(const struct qc_json *record, const char *folder, struct qc_status *st);

/* ---- The viewer (export/report/viewer) with a record in it: a page without links to other files ---- */

/* Returns the page of a record: a report, a comparison of models ("kind": "comparison") or of two reports ("kind":
   "difference"). Of a report's "timing" only "benchmark" is in the page, so the same inputs and options give the same
   bytes. The caller frees it. Returns NULL with a status if memory runs out. */
char *qc_page(size_t *size, const struct qc_json *record, struct qc_status *st);

/* ---- A comparison of two reports of the same model: options, figures and layers that differ ---- */

struct qc_report_source {
    const char *file;
    const struct qc_json *report;
};

/* *out: owned by the caller. "reports" (file, version), "model", "verdict" (a sentence), "figures" of the whole job
   (name, unit, values, change; "better": 1 if higher is better, -1 if lower is, 0 if neither), "options" that differ,
   "notes" why figures may not be comparable, "layers" that differ of "layers_in_both", the largest change of
   noise at the outputs first, and "only_in_first", "only_in_second" (names). Values are pairs; null: a report does not
   have it. Fails (QC_BAD_INPUT) if a compared member is missing, as in reports of older versions, or if the reports are
   of different models. */
bool qc_report_difference(struct qc_json **out, const struct qc_report_source from[2], struct qc_arena *a,
                          struct qc_status *st);

/* Makes the difference the record of a page (qc_page): with both reports as "records". */
void qc_report_difference_record(struct qc_json *difference, const struct qc_report_source from[2], const char *command,
                                 const char *version);

/* Returns the k-th value (0, 1), or the change with its sign, of a figure as text with its unit: "+0.33 points",
   "−12.0 %" of bytes; "–" if not known. minus: "-" or the typographic sign. buf has QC_CHANGE_TEXT bytes. */
enum { QC_CHANGE_TEXT = 48 };
const char *qc_figure_text(char buf[QC_CHANGE_TEXT], const struct qc_json *figure, size_t k);
const char *qc_figure_change(char buf[QC_CHANGE_TEXT], const struct qc_json *figure, const char *minus);

/* Returns the changes of a layer in words: "type uint8 -> uint16, scale or zero point". In the arena; NULL if memory is
   out. */
const char *qc_layer_change(struct qc_arena *a, const struct qc_json *layer, struct qc_status *st);
