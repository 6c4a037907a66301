// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: values of a simulated graph for every unit of data, kept between runs of its parts. What is quantized already is kept as its integers,
   which is exact; the rest in float32. In memory, or spilled to a temporary file. */
#ifndef QC_CALIB_SEQUENTIAL_FRONTIER_H
#define QC_CALIB_SEQUENTIAL_FRONTIER_H

#include "datasets/hdf5/spill.h"
#include "graph/core/graph.h"
#include "simq/core/view.h"

struct qc_frontier;

/* How a value is kept. */
struct qc_kept_form {
    qc_id space; /* the bound space whose integers are kept; QC_REAL: float32 */
    struct qc_shape shape;
    enum qc_layout layout; /* order of the elements */
};

/* reuse: memory that is given up is kept for what comes, which spares the system the work of handing out pages again and again. */
bool qc_frontier_new(struct qc_frontier **out, const struct qc_graph *g, size_t units, bool reuse, struct qc_status *st);
void qc_frontier_free(struct qc_frontier *f); /* NULL-safe */

/* Makes room for a value, or for another form of one that is there: until qc_frontier_commit reading gives the old one. spilled: in a file in `folder` (spill.h).
   The first unit decides shape and layout. */
bool qc_frontier_prepare(struct qc_frontier *f, qc_id value, qc_id space, bool spilled, const char *folder, struct qc_status *st);

/* Keeps a unit of a prepared value: of a real form the value itself, of integers the value of `space`, centred. Any thread, each unit once. */
bool qc_frontier_put(struct qc_frontier *f, qc_id value, size_t unit, const struct qc_view *v, struct qc_status *st);
void qc_frontier_commit(struct qc_frontier *f, qc_id value);
void qc_frontier_drop(struct qc_frontier *f, qc_id value);

bool qc_frontier_has(const struct qc_frontier *f, qc_id value);
const struct qc_kept_form *qc_frontier_form(const struct qc_frontier *f, qc_id value);

/* The real value of a unit, in the order of its form. last: nobody reads this unit again in the present form, and its memory is given back. */
bool qc_frontier_get(float *out, struct qc_frontier *f, qc_id value, size_t unit, bool last, struct qc_status *st);

/* Bytes of a unit of `elements` numbers in a form. */
size_t qc_frontier_bytes(const struct qc_graph *g, qc_id space, size_t elements);

#endif
