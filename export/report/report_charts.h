// SPDX-License-Identifier: Apache-2.0
/* The plots of report.html, as SVG in units of a pixel. They draw only what was measured. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "export/report/report.h"

/* A value along the network. SQNRs in dB: NaN unknown; infinity (equal) is drawn at the upper edge. */
struct qc_network_point {
    size_t number; /* of the layer, from 1: the link leads to #L<number> */
    const char *name, *op;
    double sqnr_db;     /* accumulated; not NaN */
    double rounding_db; /* of this value's own rounding */
    double isolated_db; /* of the outputs, with only this layer quantized */
    double cosine;
    double apart[3]; /* of two graphs: shares of the elements that are 1, 2, 3 steps or more apart; NaN: no steps */
    int mark;        /* number to write beside it; 0: none */
};

/* SQNR (dB) and 1 - cosine of the points, for wide and for narrow windows. Nothing without points. */
void qc_chart_network(FILE *f, const struct qc_network_point *points, size_t count);
/* Shares of elements apart, on a logarithmic scale. count > 0. */
void qc_chart_steps(FILE *f, const struct qc_network_point *points, size_t count, double width, const char *css);
/* What the lines of qc_chart_network are: those that have a point. */
void qc_chart_network_legend(FILE *f, const struct qc_network_point *points, size_t count);

/* Float and int8 accuracy with their 95 % intervals; writes nothing without intervals. */
void qc_chart_interval(FILE *f, const struct qc_report *r);

/* Bars with logarithmic height, the chosen range behind them. l->histogram must not be NULL. */
void qc_chart_histogram(FILE *f, const struct qc_layer *l);

/* Whether there is a curve to be drawn: objectives of two thresholds or more. */
bool qc_chart_has_curve(const struct qc_layer *l);
/* Whether a part of it is of ranges that were not admitted. */
bool qc_chart_has_refused(const struct qc_layer *l);
/* The solver's objective over the threshold, its choice and the runner-up; only where there is a curve. */
void qc_chart_curve(FILE *f, const struct qc_layer *l);

/* The extremes of every channel of a weight; channel_count > 0. */
void qc_chart_channels(FILE *f, const struct qc_layer *l);

/* A placement of --benchmark. */
struct qc_placement_point {
    double ms, sqnr_db;      /* infinite ones (no error, no number) are drawn at the edges */
    const char *css, *shape; /* of its mark: a class, and a path from its middle; NULL: one of many */
};
/* SQNR of the outputs over the latency. The line joins placements that none beats in both. Points that are not NaN; at
   least one finite SQNR. */
void qc_chart_placements(FILE *f, const struct qc_placement_point *points, size_t count);

/* Bits of an accumulator, proved and seen, against the limit. */
void qc_chart_accumulator(FILE *f, const struct qc_layer *l, unsigned limit);
