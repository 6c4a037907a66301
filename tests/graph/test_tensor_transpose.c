// SPDX-License-Identifier: Apache-2.0
#include "graph/types/tensor.h"
#include "tests/check.h"

/* Larger than a tile in both directions, of 1 to 8 bytes an element. */
Test(tensor_transpose, there_and_back)
{
    static const enum qc_dtype types[] = {QC_U8, QC_I16, QC_F32, QC_I64};
    static char bytes[8 * 70 * 41];
    const struct qc_shape shape = QC_SHAPE(70, 41);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 256);
    for (size_t t = 0; t < 4; t++) {
        const size_t size = qc_dtype_size(types[t]);
        OWN(qc_tensor) *a = qc_tensor_of(types[t], &shape, bytes, ST), *b = qc_tensor_transposed(a, ST);
        cr_assert(a && b && b->shape.dim[0] == 41 && b->shape.dim[1] == 70);
        for (size_t r = 0; r < 70; r++)
            for (size_t c = 0; c < 41; c++)
                cr_assert_arr_eq((char *)b->data + (c * 70 + r) * size, bytes + (r * 41 + c) * size, size);
        cr_expect(qc_tensor_is_transposed(a, b) && qc_tensor_is_transposed(b, a) && !qc_tensor_is_transposed(a, a));
        ((char *)b->data)[b->bytes - 1] ^= 1;
        cr_expect_not(qc_tensor_is_transposed(a, b), "the last element differs");
    }
}

/* Only matrices of one type have a transpose. */
Test(tensor_transpose, others_have_none)
{
    static const float x[8] = {0};
    const struct qc_shape wide = QC_SHAPE(2, 4), high = QC_SHAPE(4, 2), deep = QC_SHAPE(4, 2, 1);
    OWN(qc_tensor) *matrix = qc_tensor_of(QC_F32, &wide, x, ST), *integers = qc_tensor_of(QC_I32, &high, x, ST),
                   *cube = qc_tensor_of(QC_F32, &deep, x, ST);
    cr_expect_not(qc_tensor_is_transposed(matrix, integers));
    cr_expect_not(qc_tensor_is_transposed(matrix, cube));
}
