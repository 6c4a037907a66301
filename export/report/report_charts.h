// SPDX-License-Identifier: Apache-2.0
/* The plots of report.html, as SVG in units of a pixel. They draw only measured values. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "export/report/report.h"

/* A value of the network. SQNRs are in dB. NaN: unknown; infinity (equal) is drawn at the upper edge. */
struct qc_network_point {
    size_t number; /* number of the layer, from 1: the link is #L<number> */
    const char *name, *op;
    double sqnr_db;     /* accumulated; not NaN */
    double rounding_db; /* of this value's own rounding */
    double isolated_db; /* of the outputs, with only this layer quantized */
    double cosine;
    double apart[3]; /* for two graphs: shares of elements that differ by at least 1, 2, 3 steps; NaN: no steps */
    int mark;        /* number that is written beside it; 0: none */
};

/* Draws SQNR (dB) and 1 - cosine of the points, for wide and for narrow windows. Writes nothing without points. */
void qc_chart_network(FILE *f, const struct qc_network_point *points, size_t count);
/* Draws the shares of differing elements on a logarithmic scale. count > 0. */
void qc_chart_steps(FILE *f, const struct qc_network_point *points, size_t count, double width, const char *css);
/* Writes the legend of those lines of qc_chart_network that have points. */
void qc_chart_network_legend(FILE *f, const struct qc_network_point *points, size_t count);

/* Draws float and int8 accuracy with their 95 % intervals. Writes nothing without intervals. */
void qc_chart_interval(FILE *f, const struct qc_report *r);

/* Draws the histogram with logarithmic heights, and the chosen range behind it. l->histogram must not be NULL. */
void qc_chart_histogram(FILE *f, const struct qc_layer *l);

/* True if there is a curve: objectives of at least two thresholds. */
bool qc_chart_has_curve(const struct qc_layer *l);
/* True if the curve has ranges that were not admitted. */
bool qc_chart_has_refused(const struct qc_layer *l);
/* Draws the solver's objective over the threshold, its choice and the runner-up. There must be a curve. */
void qc_chart_curve(FILE *f, const struct qc_layer *l);

/* Draws minimum and maximum of every channel of a weight; channel_count > 0. */
void qc_chart_channels(FILE *f, const struct qc_layer *l);

/* A placement of --benchmark. */
struct qc_placement_point {
    double ms, sqnr_db;      /* infinite SQNRs (no error, or not a number) are drawn at the edges */
    const char *css, *shape; /* mark: its class, and a path relative to its centre; NULL: an unnamed placement */
};
/* Draws the SQNR of the outputs over the latency. The line joins the placements on the Pareto frontier. No point is
   NaN; at least one SQNR is finite. */
void qc_chart_placements(FILE *f, const struct qc_placement_point *points, size_t count);

/* Draws the bits of an accumulator, proved and measured, and the limit. */
void qc_chart_accumulator(FILE *f, const struct qc_layer *l, unsigned limit);
