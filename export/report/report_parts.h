// SPDX-License-Identifier: Apache-2.0
/* Sections of report.html, and the keys of report.json that belong to them. */
#pragma once

#include <stdio.h>

#include "export/report/report.h"

/* The first screen: what was done, what it cost and what it saved; what would help and where error enters, in a line
 * each. */
void qc_html_summary(FILE *f, const struct qc_report *r);

/* The graph: a drawing with every op, before it one where blocks that come again and again are one box each, and why
   ops stay in float. There are nodes. False: a status (memory). */
bool qc_html_graph(FILE *f, const struct qc_report *r, struct qc_status *st);

/* What --size chose, also the keys "size" and "frontier" of report.json. Nothing without r->size. */
void qc_html_size(FILE *f, const struct qc_report *r);
void qc_json_size_choice(struct qc_json *o, const struct qc_report_size *s);

/* What --benchmark measured: a tile of the summary; the plot of placements, and the changes that were tried. Nothing
   without r->latency. False: a status (memory). */
void qc_html_latency_tile(FILE *f, const struct qc_report *r);
bool qc_html_latency(FILE *f, const struct qc_report *r, struct qc_status *st);
struct qc_json *qc_json_latency(const struct qc_report_latency *l);

/* The table of layers: a row for each; the JavaScript of the page sorts and filters it. */
void qc_html_layer_table(FILE *f, const struct qc_report *r);

/* A <details> for each of `count` layers: numbers and plots. */
void qc_html_layer_details(FILE *f, const struct qc_report *r, size_t first, size_t count);

/* Advice: what was tried and helps, where error enters, what each layer alone does. False: a status (memory). */
bool qc_html_advice(FILE *f, const struct qc_report *r, struct qc_status *st);

/* Why there is no advice: a sentence. */
void qc_html_no_advice(FILE *f, const struct qc_report *r);

/* The name of a node, as a link to its layer; QC_NO_INDEX: without. */
void qc_html_layer_link(FILE *f, const char *node, size_t layer);

/* The screen of layers by their effect on the outputs. */
bool qc_html_ranking(FILE *f, const struct qc_report *r, struct qc_status *st);

/* The quantized activation that a node makes, else a weight that it reads; QC_NO_INDEX: neither. */
size_t qc_report_layer_of(const struct qc_report *r, const char *node);

/* The path of --max-drop: each attempt, and the command that gives the same. Nothing without one. */
void qc_html_fallback(FILE *f, const struct qc_report *r);

/* The layers that alone do the most to the outputs. Nothing when they were not measured. */
void qc_html_effects(FILE *f, const struct qc_report *r);

/* What accumulators of few bits cost in scales and channels, and how often they overflowed, layer by layer. Nothing
 * with 32 bits. */
void qc_html_accumulators(FILE *f, const struct qc_report *r);
