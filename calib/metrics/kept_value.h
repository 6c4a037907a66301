// SPDX-License-Identifier: Apache-2.0
/* Inside calib/metrics: values of one graph, kept compactly until the other graph has computed its own. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/view.h"

/* A buffer that grows: sizes of values may depend on data. */
struct qc_room {
    void *data;
    size_t bytes;
};

bool qc_room_make(struct qc_room *r, size_t bytes, struct qc_status *st);

struct qc_kept_value {
    struct qc_view view; /* in memory order; its type is that of the graph */
    bool as_bytes;       /* float32 of at most 256 levels, stored as level minus the lowest level */
    struct qc_room room;
};

/* Returns true if a byte can hold the levels of these parameters. lowest: the level that byte 0 stands for, minus the
   zero point. */
bool qc_fits_byte(float *lowest, const struct qc_qparams *s);

/* Copies a value with these parameters (NULL: none) to its buffer. Fails if memory is out. */
bool qc_keep_value(struct qc_kept_value *k, const struct qc_view *v, const struct qc_qparams *s, struct qc_status *st);

/* Returns the kept value as float32, levels minus the zero point; `to` is used unless it has that form already. */
struct qc_view qc_kept_levels(float *to, const struct qc_kept_value *k, const struct qc_qparams *s);

/* The same for elements [first, first + n), in memory order, of a value kept as bytes. */
void qc_kept_part(float *to, const struct qc_kept_value *k, const struct qc_qparams *s, size_t first, size_t n);

/* Copies a value to `to`, in its memory order if it is dense. */
struct qc_view qc_view_kept(void *to, const struct qc_view *v);

/* Returns the zero point to subtract from stored levels. Returns 0 with several zero points, which
   qc_quantizer_channels_real handles. */
int32_t qc_zero_of(const struct qc_qparams *s);

/* Returns stored integers minus the zero point as float32 in `to`, in memory order if dense; float32 unchanged. */
struct qc_view qc_view_centred(float *to, const struct qc_view *v, int32_t zero_point);
