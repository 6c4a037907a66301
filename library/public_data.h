// SPDX-License-Identifier: Apache-2.0
/* qcalib_data, qcalib_model and qcalib_options inside; private to library/. */
#ifndef QC_LIBRARY_PUBLIC_DATA_H
#define QC_LIBRARY_PUBLIC_DATA_H

#include "datasets/arrays/memory_data.h"
#include "graph/core/graph.h"
#include "library/public.h"
#include "onnx/read/import.h"

struct qcalib_data {
    char *file;                    /* FILE[:DATASET]; NULL: in memory */
    struct qc_memory_data *memory; /* NULL: of a file */
    size_t waiting;                /* arrays whose rows are to be drawn */
    struct qc_array *arrays;       /* [waiting]; their texts and shapes are owned */
};

struct qcalib_model {
    char *name;
    struct qc_graph *graph;
    struct qc_model_info info;
    size_t bytes;   /* of the file */
    bool from_file; /* its name is the path that it was read from */
    char sha256[65];
};

#endif
