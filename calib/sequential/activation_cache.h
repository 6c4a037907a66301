// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: values of a simulated graph for every unit of data, kept between runs of its parts. What is quantized
   already is kept as its integers, which is exact; the rest in float32. In memory, or spilled to a temporary file. */
#pragma once

#include "datasets/hdf5/spill.h"
#include "graph/core/graph.h"
#include "simq/core/view.h"

struct qc_activation_cache;

/* How a value is kept. */
struct qc_kept_form {
    qc_id qparams; /* the bound qparams whose integers are kept; QC_REAL: float32 */
    struct qc_shape shape;
    enum qc_layout layout; /* order of the elements */
};

/* reuse: memory that is given up is kept for what comes, which spares the system the work of handing out pages again
   and again. Beyond `most` bytes it is a temporary file (base/scratch_file.h) that is written to, as long as there is
   room for it. */
bool qc_activation_cache_new(struct qc_activation_cache **out, const struct qc_graph *g, size_t units, bool reuse,
                             size_t most, struct qc_status *st);
void qc_activation_cache_free(struct qc_activation_cache *f); /* NULL-safe */

/* Makes room for a value, or for another form of one that is there: until qc_activation_cache_commit reading gives the
   old one. spilled: in a file in `folder` (spill.h). The first unit decides shape and layout. */
bool qc_activation_cache_prepare(struct qc_activation_cache *f, qc_id value, qc_id qparams, bool spilled,
                                 const char *folder, struct qc_status *st);

/* Keeps a unit of a prepared value: of a real form the value itself, of integers the value of `qparams`, centred. Any
 * thread, each unit once. */
bool qc_activation_cache_put(struct qc_activation_cache *f, qc_id value, size_t unit, const struct qc_view *v,
                             struct qc_status *st);
void qc_activation_cache_commit(struct qc_activation_cache *f, qc_id value);
void qc_activation_cache_drop(struct qc_activation_cache *f, qc_id value);

bool qc_activation_cache_has(const struct qc_activation_cache *f, qc_id value);
const struct qc_kept_form *qc_activation_cache_form(const struct qc_activation_cache *f, qc_id value);

/* The real value of a unit, in the order of its form. last: nobody reads this unit again in the present form, and its
 * memory is given back. */
bool qc_activation_cache_get(float *out, struct qc_activation_cache *f, qc_id value, size_t unit, bool last,
                             struct qc_status *st);

/* Bytes of a unit of `elements` numbers in a form. */
size_t qc_activation_cache_bytes(const struct qc_graph *g, qc_id qparams, size_t elements);
