// SPDX-License-Identifier: Apache-2.0
/* Inside calib/metrics: values that wait until another graph has made theirs, as small as they can be. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/view.h"

/* Memory that grows: how large a value is may depend on data. */
struct qc_room {
    void *data;
    size_t bytes;
};

bool qc_room_make(struct qc_room *r, size_t bytes, struct qc_status *st);

struct qc_kept_value {
    struct qc_view view; /* in its order of memory; its type is that of the graph */
    bool as_bytes;       /* float32 of at most 256 levels: each less the lowest one */
    struct qc_room room;
};

/* Can a byte hold the levels of these parameters? lowest: what 0 stands for, the zero point taken off. */
bool qc_fits_byte(float *lowest, const struct qc_qparams *s);

/* Copies a value of these parameters (NULL: of none) to its room. */
bool qc_keep_value(struct qc_kept_value *k, const struct qc_view *v, const struct qc_qparams *s, struct qc_status *st);

/* It as float32, levels less their zero point: in `to`, where it is not so already. */
struct qc_view qc_kept_levels(float *to, const struct qc_kept_value *k, const struct qc_qparams *s);

/* The same of elements [first, first + n) of one that is kept as bytes, in the order of its memory. */
void qc_kept_part(float *to, const struct qc_kept_value *k, const struct qc_qparams *s, size_t first, size_t n);

/* Copies a value to `to`, keeping its order in memory where it is dense. */
struct qc_view qc_view_kept(void *to, const struct qc_view *v);

/* What stored levels are less in float32: the zero point; nothing where there are several, which
 * qc_quantizer_channels_real knows. */
int32_t qc_zero_of(const struct qc_qparams *s);

/* Stored integers less their zero point as float32 in `to`, in their order of memory where it is dense; float32 as it
 * is. */
struct qc_view qc_view_centred(float *to, const struct qc_view *v, int32_t zero_point);
