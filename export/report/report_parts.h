// SPDX-License-Identifier: Apache-2.0
/* Sections of report.html, and the keys of report.json that belong to them. */
#pragma once

#include <stdio.h>

#include "export/report/report.h"

/* Writes the first screen: what was done, the losses and the savings; a line each for the best advice and the largest
 * source of error. */
void qc_html_summary(FILE *f, const struct qc_report *r);

/* Writes the screen of the graph: a drawing in which repeated blocks are one box each, a drawing of all ops, and the
   reasons why ops stay in float. There is at least one node. Fails if memory runs out. */
bool qc_html_graph(FILE *f, const struct qc_report *r, struct qc_status *st);

/* Writes the choice of --size, and the keys "size" and "frontier" of report.json. Writes nothing without r->size. */
void qc_json_size_choice(struct qc_json *o, const struct qc_report_size *s);

/* Writes the results of --benchmark: a tile of the summary; the plot of placements and the changes that were tried.
   Writes nothing without r->latency. Fails if memory runs out. */
void qc_html_latency_tile(FILE *f, const struct qc_report *r);
struct qc_json *qc_json_latency(const struct qc_report_latency *l);

/* Writes the table of layers, a row for each; the JavaScript of the page sorts and filters it. */
void qc_html_layer_table(FILE *f, const struct qc_report *r);

/* Writes a <details> with numbers and plots for each of `count` layers. */
void qc_html_layer_details(FILE *f, const struct qc_report *r, size_t first, size_t count);

/* Writes the changes that help, the operators that add most error, and the effect of each layer alone. Fails if memory
   runs out. */
bool qc_html_advice(FILE *f, const struct qc_report *r, struct qc_status *st);

/* Writes a sentence that says why there is no advice. */
void qc_html_no_advice(FILE *f, const struct qc_report *r);

/* Writes the name of a node as a link to its layer; QC_NO_INDEX: without a link. */
void qc_html_layer_link(FILE *f, const char *node, size_t layer);

/* Writes the screen of layers, sorted by their effect on the outputs. */
bool qc_html_ranking(FILE *f, const struct qc_report *r, struct qc_status *st);

/* Returns the number of the suggestion about a layer, from 1; 0 if there is none. */
int qc_report_suggested(const struct qc_report *r, size_t layer);
