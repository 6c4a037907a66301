// SPDX-License-Identifier: Apache-2.0
#include "datasets/stream/image_axes.h"

#include <string.h>

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
