// SPDX-License-Identifier: Apache-2.0
/* Shapes of samples that differ in size. */
#include <string.h>

#include "datasets/stream/dataset_impl.h"

/* ---- While data are opened ---- */

bool qc_drop_batch_axis(struct qc_h5_set *s, struct qc_arena *a, struct qc_status *st)
{
    const unsigned rank = s->rank - 1; /* of an entry */
    const size_t count = (size_t)s->dims[0];
    memmove(s->dims + 1, s->dims + 2, (rank - 1) * sizeof *s->dims);
    s->rank--;
    if (!s->sizes) return true;
    int64_t *sizes = QC_NEW_ARRAY(a, int64_t, count * (rank - 1), st);
    for (size_t i = 0; sizes && i < count; i++)
        memcpy(sizes + i * (rank - 1), s->sizes + i * rank + 1, (rank - 1) * sizeof *sizes);
    s->sizes = sizes;
    return sizes != NULL;
}

bool qc_turn_sizes(struct qc_h5_set *s, enum qc_image_axes axes, struct qc_arena *a, struct qc_status *st)
{
    const unsigned rank = s->rank - 1;
    const size_t count = (size_t)s->dims[0];
    if (!s->sizes) return true;
    int64_t *sizes = QC_NEW_ARRAY(a, int64_t, count * rank, st), dims[QC_DATA_RANK_MAX] = {1};
    for (size_t i = 0; sizes && i < count; i++) {
        memcpy(dims + 1, s->sizes + i * rank, rank * sizeof *dims);
        qc_axes_turn(dims, s->rank, axes);
        memcpy(sizes + i * rank, dims + 1, rank * sizeof *dims);
    }
    s->sizes = sizes;
    return sizes != NULL;
}

bool qc_check_sizes(const struct qc_h5_set *s, struct qc_status *st)
{
    for (int64_t i = 0; s->sizes && i < s->dims[0]; i++)
        if (qc_h5_entry_bytes(s, i) == 0) return qc_fail(st, QC_BAD_INPUT, "sample %lld has no elements", (long long)i);
    return true;
}

bool qc_first_unfit(size_t *entry, const struct qc_h5_set *s, const struct qc_input_spec *input, unsigned skip)
{
    const unsigned rank = s->rank - 1;
    for (size_t i = 0; s->sizes && i < (size_t)s->dims[0]; i++)
        for (unsigned d = skip ? 0 : 1; d < input->rank; d++) {
            const int64_t n = s->sizes[i * rank + d + skip - 1];
            if (input->dims[d] < 0 || input->dims[d] == n) continue;
            *entry = i;
            return true;
        }
    return false;
}

/* ---- Of units ---- */

void qc_binding_dims(int64_t *dims, const struct qc_binding *b, size_t unit)
{
    const unsigned rank = b->set.rank - 1;
    memcpy(dims, b->dims, b->rank * sizeof *dims);
    if (b->set.sizes) memcpy(dims + (b->whole ? 0 : 1), b->set.sizes + unit * rank, rank * sizeof *dims);
}

struct qc_conversion qc_binding_conversion(const struct qc_binding *b, const int64_t *dims)
{
    struct qc_conversion c = b->conversion;
    c.outer = c.channels = c.inner = 1;
    for (unsigned i = 0; i < b->rank; i++) {
        const bool channel = b->last ? i == b->rank - 1 : b->rank > 1 && i == 1;
        size_t *part = channel ? &c.channels : b->last || (i == 0 && b->rank > 1) ? &c.outer : &c.inner;
        *part *= (size_t)dims[i];
    }
    return c;
}

bool qc_dataset_varies(const struct qc_dataset *ds)
{
    for (size_t i = 0; i < ds->input_count; i++)
        if (ds->bindings[i].set.sizes) return true;
    return false;
}

size_t qc_dataset_scratch_bytes(const struct qc_dataset *ds)
{
    size_t most = 0;
    for (size_t i = 0; i < ds->binding_count; i++) {
        const struct qc_binding *b = &ds->bindings[i];
        const size_t bytes = b->set.sizes ? b->file_bytes * (b->axes == QC_AXES_AS_THEY_ARE ? 1 : 2) : 0;
        most = bytes > most ? bytes : most;
    }
    for (size_t i = 0; i < ds->input_count; i++) /* those of two networks that run in sequence */
        most += ds->bindings[i].made == QC_MADE_STATE ? 2 * ds->bindings[i].bytes : 0;
    return most;
}

unsigned qc_dataset_unit_dims(int64_t *dims, const struct qc_dataset *ds, size_t input, size_t unit)
{
    qc_binding_dims(dims, &ds->bindings[input], qc_unit_in_file(ds, unit));
    return ds->bindings[input].rank;
}

static size_t binding_elements(const struct qc_dataset *ds, const struct qc_binding *b, size_t unit)
{
    if (!b->set.sizes) return b->elements;
    return qc_h5_entry_bytes(&b->set, (int64_t)qc_unit_in_file(ds, unit)) / b->set.element;
}

size_t qc_dataset_unit_elements(const struct qc_dataset *ds, size_t input, size_t unit)
{
    return binding_elements(ds, &ds->bindings[input], unit);
}

size_t qc_dataset_unit_bytes(const struct qc_dataset *ds, size_t input, size_t unit)
{
    const struct qc_binding *b = &ds->bindings[input];
    return binding_elements(ds, b, unit) * qc_dtype_size(b->conversion.to);
}

/* ---- Ground truth ---- */

size_t qc_dataset_label_count(const struct qc_dataset *ds)
{
    return ds->label_count;
}

size_t qc_dataset_unit_label_count(const struct qc_dataset *ds, size_t unit)
{
    const struct qc_h5_set *s = &ds->labels;
    return s->sizes ? qc_h5_entry_bytes(s, (int64_t)qc_unit_in_file(ds, unit)) / s->element : ds->label_count;
}

unsigned qc_dataset_label_dims(const int64_t **dims, const struct qc_dataset *ds, size_t unit)
{
    const struct qc_h5_set *s = &ds->labels;
    *dims = s->dims + 1;
    if (!ds->label_positions) return 0;
    if (s->sizes) *dims = s->sizes + qc_unit_in_file(ds, unit) * (s->rank - 1);
    return s->rank - 1;
}

size_t qc_dataset_target_elements(const struct qc_dataset *ds)
{
    return ds->binding_count > ds->input_count ? ds->bindings[ds->input_count].elements : 0;
}

size_t qc_dataset_unit_target_elements(const struct qc_dataset *ds, size_t unit)
{
    return ds->binding_count > ds->input_count ? binding_elements(ds, &ds->bindings[ds->input_count], unit) : 0;
}

enum { SUFFIX = 5 };

enum qc_image_axes qc_axes_of(size_t *length, const char *dataset)
{
    const size_t n = strlen(dataset);
    if (n <= SUFFIX) return QC_AXES_AS_THEY_ARE;
    *length = n - SUFFIX;
    if (strcmp(dataset + n - SUFFIX, ":nhwc") == 0) return QC_AXES_LAST;
    return strcmp(dataset + n - SUFFIX, ":nchw") == 0 ? QC_AXES_FIRST : QC_AXES_AS_THEY_ARE;
}

void qc_axes_turn(int64_t *dims, unsigned rank, enum qc_image_axes axes)
{
    int64_t *d = dims + rank - 3;
    const int64_t a = d[0], b = d[1], c = d[2];
    if (axes == QC_AXES_LAST) {
        d[0] = c;
        d[1] = a;
        d[2] = b;
    } else if (axes == QC_AXES_FIRST) {
        d[0] = b;
        d[1] = c;
        d[2] = a;
    }
}

void qc_axes_values(void *out, const void *in, size_t elements, size_t size, const int64_t *dims, unsigned rank,
                    enum qc_image_axes axes)
{
    const size_t x = (size_t)dims[rank - 3], y = (size_t)dims[rank - 2], z = (size_t)dims[rank - 1];
    /* Each image is a transposed matrix; rows and columns are those of the result. */
    const size_t rows = axes == QC_AXES_LAST ? x : x * y, columns = axes == QC_AXES_LAST ? y * z : z;
    const char *from = in;
    char *to = out;
    for (size_t image = 0; image < elements / (rows * columns); image++, from += rows * columns * size)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++, to += size) memcpy(to, from + (c * rows + r) * size, size);
}
