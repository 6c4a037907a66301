// SPDX-License-Identifier: Apache-2.0
/* Inputs of a decoder that are made from its tokens because the data do not have them. */
#include <stdlib.h>

#include "base/checked.h"
#include "datasets/stream/dataset_impl.h"

bool qc_bind_made(struct qc_dataset *ds, size_t k, const struct qc_input_spec *inputs, struct qc_status *st)
{
    static const char *const names[] = {
        [QC_MADE_EMPTY] = "(empty)", [QC_MADE_ONES] = "(ones)", [QC_MADE_POSITIONS] = "(positions)"};
    const struct qc_input_spec *input = &inputs[k];
    /* The tokens: the first data set [N,T] of integers that feeds an input of the same rank. */
    const struct qc_binding *tokens = NULL;
    for (size_t i = 0; i < ds->input_count && !tokens; i++)
        if (ds->bindings[i].name && inputs[i].rank == 2 && !qc_dtype_info(inputs[i].dtype)->is_float)
            tokens = &ds->bindings[i];
    if (!tokens || tokens->dims[0] < 0)
        return qc_fail(st, QC_BAD_INPUT,
                       "no data set has the name of input '%s', and no tokens [N,T] are there to make it from",
                       input->name);
    struct qc_binding *b = &ds->bindings[k];
    *b = *tokens;
    b->made = input->made;
    b->name = names[input->made];
    b->axes = QC_AXES_AS_THEY_ARE;
    b->input = qc_arena_strdup(ds->arena, input->name, st);
    b->conversion = (struct qc_conversion){.from = QC_I64, .to = input->dtype, .outer = 1, .channels = 1};
    b->set.raw = false;
    if (!b->input) return false;
    if (b->made == QC_MADE_EMPTY || input->rank == 0) {
        if (!(b->dims = QC_NEW_ARRAY(ds->arena, int64_t, input->rank + 1, st))) return false;
        for (unsigned d = 0; d < input->rank; d++)
            b->dims[d] = d == 0 ? tokens->dims[0] : input->dims[d] < 0 ? 0 : input->dims[d];
        b->rank = input->rank;
        b->set.sizes = NULL;
        b->set.stored = b->file_bytes = 0;
        b->elements = input->rank == 0;
    }
    return qc_mul_size(&b->bytes, b->elements, qc_dtype_size(input->dtype)) || qc_fail_memory(st, b->elements);
}

size_t qc_dataset_made(const struct qc_dataset *ds)
{
    size_t count = 0;
    for (size_t i = 0; i < ds->input_count; i++)
        count += ds->bindings[i].made != QC_MADE_NOT && ds->bindings[i].made != QC_MADE_STATE;
    return count;
}

bool qc_make_input(void *out, const struct qc_binding *b, size_t unit_in_file, struct qc_status *st)
{
    int64_t dims[QC_DATA_RANK_MAX];
    if (b->made == QC_MADE_EMPTY) return true;
    qc_binding_dims(dims, b, unit_in_file);
    struct qc_conversion c = b->conversion;
    const int64_t length = b->rank ? dims[b->rank - 1] : 1;
    c.inner = 1;
    for (unsigned d = 0; d < b->rank; d++) c.inner *= (size_t)dims[d];
    int64_t *numbers = calloc(c.inner ? c.inner : 1, sizeof *numbers);
    if (!numbers) return qc_fail_memory(st, c.inner * sizeof *numbers);
    for (size_t i = 0; i < c.inner; i++) numbers[i] = b->made == QC_MADE_ONES ? 1 : (int64_t)i % length;
    const bool ok = qc_convert_sample(out, numbers, &c, st);
    free(numbers);
    return ok;
}
