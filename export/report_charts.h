// SPDX-License-Identifier: Apache-2.0
/* The plots of report.html, as SVG in units of a pixel. They draw only what was measured. */
#ifndef QC_EXPORT_REPORT_CHARTS_H
#define QC_EXPORT_REPORT_CHARTS_H

#include <stdio.h>

#include "export/report.h"

/* SQNR (dB) and 1 - cosine of the measured layers along the network, at least `width` wide; css: class of the SVG. Returns the number drawn. */
size_t qc_chart_network(FILE *f, const struct qc_report *r, double width, const char *css);

/* Float and int8 accuracy with their 95 % intervals; writes nothing without intervals. */
void qc_chart_interval(FILE *f, const struct qc_report *r);

/* Bars with logarithmic height, the chosen range behind them. l->histogram must not be NULL. */
void qc_chart_histogram(FILE *f, const struct qc_layer *l);

/* The solver's objective over the threshold, its choice and the runner-up; nothing without a curve. */
void qc_chart_curve(FILE *f, const struct qc_layer *l);

/* The extremes of every channel of a weight; channel_count > 0. */
void qc_chart_channels(FILE *f, const struct qc_layer *l);

/* Bits of an accumulator, proved and seen, against the limit. */
void qc_chart_accumulator(FILE *f, const struct qc_layer *l, unsigned limit);

/* The graph as it was partitioned; false: a status (memory). */
bool qc_chart_graph(FILE *f, const struct qc_report *r, struct qc_status *st);

#endif
