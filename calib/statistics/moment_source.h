// SPDX-License-Identifier: Apache-2.0
/* The two large columns of a statistics file, second moments and kept rows, computed piece by piece: both together
   could be as large as everything else in memory. */
#pragma once

#include "calib/moments/second_moments.h"

enum qc_moment_column { QC_MOMENT_NONE, QC_MOMENT_PRODUCTS, QC_MOMENT_ENTRIES };

/* Returns which of them a data set is (calib/statistics/statistics.def). */
enum qc_moment_column qc_moment_column_of(const char *path);

/* A column in the order of the file. Holds one class of one layer at a time. */
struct qc_moment_source {
    const struct qc_second_moments *m; /* NULL: none */
    enum qc_moment_column column;
    size_t layer, part;
    int32_t next_class; /* the next class of this part is that many after the lowest */
    void *values;       /* of the current class */
    size_t count, at;   /* its elements, and those already read */
};

struct qc_moment_source qc_moment_source_of(const struct qc_second_moments *m, enum qc_moment_column column);
/* Reads the next `count` elements, int64_t or int16_t; there must be so many. user: struct qc_moment_source. Fails if
   memory is out. */
bool qc_moment_source_next(void *user, void *to, size_t count, struct qc_status *st);
void qc_moment_source_end(struct qc_moment_source *s);

/* Returns the bytes that writing a file needs at most besides the second moments themselves. */
size_t qc_moment_source_bytes(const struct qc_second_moments *m);

/* Returns the sums of class c of a part of a layer; NULL if there are none. */
const struct qc_second_moments_sums *qc_moment_sums_of(const struct qc_second_moments_moments *m, int32_t c);
/* Returns the number of products of one class in the file: a triangle for each group and block. */
size_t qc_moment_packed_count(const struct qc_second_moments_layer *l);
/* Lists the steps of the kept rows of a class (qc_second_moments_list_rows). */
bool qc_moment_steps(uint8_t *steps, const struct qc_second_moments_layer *l, const struct qc_second_moments_sums *s,
                     struct qc_status *st);
