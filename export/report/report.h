// SPDX-License-Identifier: Apache-2.0
/* The report of a quantization is a record, a JSON tree (report.schema.json), which the job builds
   (quantize/report/record.h). Here it gets its verdict, and is written as report.json, layers.csv and report.html. */
#pragma once

#include "base/json.h"

/* Returns {"grade": "good", "usable", "poor" or "unknown", "text": sentences without the last stop}, from the other
 * members of the record.
 */
struct qc_json *qc_verdict_json(const struct qc_json *record);

/* Writes FOLDER/report.json, FOLDER/layers.csv and FOLDER/report.html, which is the viewer with this record
   (export/report/page.h): either all of them or none, each complete. Creates the folder, and removes it after an
   error. */
bool qc_report_write(const struct qc_json *record, const char *folder, struct qc_status *st);
