// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: values of a simulated graph for every unit of data, kept between runs of its parts. Quantized values
   are kept as the integers or the floats of few bits that they are, which is exact, others in float32. Values are in
   memory or in a temporary file. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/view.h"

struct qc_activation_cache;

/* The form in which a value is kept. */
struct qc_kept_form {
    /* Bound qparams of the kept integers: of the value, or of the Quantize of a real value; QC_REAL: float32. */
    qc_id qparams;
    struct qc_shape shape;
    enum qc_layout layout; /* order of the elements */
};

/* Makes an empty cache. reuse: freed memory is reused, which saves the system from mapping pages again. Beyond `most`
   bytes, values then go to a temporary file (base/file_map.h) while it has room. */
bool qc_activation_cache_new(struct qc_activation_cache **out, const struct qc_graph *g, size_t units, bool reuse,
                             size_t most, struct qc_status *st);
void qc_activation_cache_free(struct qc_activation_cache *f); /* NULL-safe */

/* Prepares a new value, or another form of a kept one; until qc_activation_cache_commit reading gives the old form.
   spilled: to a file in `folder` (base/file_map.h). The first unit decides shape and layout. */
bool qc_activation_cache_prepare(struct qc_activation_cache *f, qc_id value, qc_id qparams, bool spilled,
                                 const char *folder, struct qc_status *st);

/* Keeps a unit of a prepared value: the value itself for float32, the centred integers of `qparams` otherwise. Thread
   safe; each unit once. */
bool qc_activation_cache_put(struct qc_activation_cache *f, qc_id value, size_t unit, const struct qc_view *v,
                             struct qc_status *st);
void qc_activation_cache_commit(struct qc_activation_cache *f, qc_id value);
void qc_activation_cache_drop(struct qc_activation_cache *f, qc_id value);

bool qc_activation_cache_has(const struct qc_activation_cache *f, qc_id value);
const struct qc_kept_form *qc_activation_cache_form(const struct qc_activation_cache *f, qc_id value);

/* Reads the real value of a unit, in the order of its form. last: frees the unit's memory; it must not be read again in
   this form. */
bool qc_activation_cache_get(float *out, struct qc_activation_cache *f, qc_id value, size_t unit, bool last,
                             struct qc_status *st);

/* Returns the bytes of a unit of `elements` numbers in a form. */
size_t qc_activation_cache_bytes(const struct qc_graph *g, qc_id qparams, size_t elements);
