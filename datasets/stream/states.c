// SPDX-License-Identifier: Apache-2.0
/* Inputs that are states: outputs of the step before. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file_map.h"
#include "base/scope.h"
#include "datasets/stream/dataset_impl.h"

/* Returns the size of the first free axis of an input that the data have; 1 if no such input has one. */
static int64_t batch_of(const struct qc_dataset *ds, const struct qc_input_spec *inputs)
{
    for (size_t i = 0; i < ds->input_count; i++) {
        const struct qc_binding *b = &ds->bindings[i];
        for (unsigned d = 0; b->name && b->made == QC_MADE_NOT && d < inputs[i].rank; d++)
            if (inputs[i].dims[d] < 0) return b->dims[d] > 0 ? b->dims[d] : 1;
    }
    return 1;
}

bool qc_bind_state(struct qc_dataset *ds, size_t k, const struct qc_input_spec *inputs, struct qc_status *st)
{
    const struct qc_input_spec *input = &inputs[k];
    struct qc_binding *b = &ds->bindings[k];
    bool batch = false;
    *b = (struct qc_binding){.name = "(zero)", .rows = 1, .rank = input->rank, .made = QC_MADE_STATE, .elements = 1};
    b->input = qc_arena_strdup(ds->arena, input->name, st);
    b->dims = QC_NEW_ARRAY(ds->arena, int64_t, input->rank + 1, st);
    if (!b->input || !b->dims) return false;
    for (unsigned d = 0; d < input->rank; d++) {
        b->dims[d] = input->dims[d] < 0 && input->first ? input->first[d] : input->dims[d];
        if (b->dims[d] < 0 && batch)
            return qc_fail(
                st, QC_BAD_INPUT,
                "axes %u and an earlier one of the state '%s' are free in the model; give its first state as "
                "a data set of this name",
                d, input->name);
        if (b->dims[d] < 0) {
            b->dims[d] = batch_of(ds, inputs);
            batch = true;
        }
        if (!qc_mul_size(&b->elements, b->elements, (size_t)b->dims[d])) return qc_fail_memory(st, SIZE_MAX);
    }
    b->conversion = (struct qc_conversion){.to = input->dtype};
    return qc_mul_size(&b->bytes, b->elements, qc_dtype_size(input->dtype)) || qc_fail_memory(st, b->elements);
}

bool qc_dataset_set_state_sizes(struct qc_dataset *ds, size_t input, const int64_t *sizes, struct qc_status *st)
{
    struct qc_binding *b = &ds->bindings[input];
    size_t count, most;
    bool same;
    if (!qc_mul_size(&count, ds->all_units, b->rank)) return qc_fail_memory(st, SIZE_MAX);
    int64_t *own = qc_arena_dup(ds->arena, sizes, count, sizeof *own, st);
    if (!own) return false;
    if (!qc_entry_sizes(b->dims, &most, &same, own, ds->all_units, b->rank) ||
        !qc_mul_size(&b->bytes, most, qc_dtype_size(b->conversion.to)))
        return qc_fail(st, QC_BAD_INPUT, "the state '%s' grows beyond all memory", b->input);
    b->elements = most;
    b->whole = true;
    b->set = (struct qc_h5_set){.rank = b->rank + 1, .sizes = own, .element = 1};
    return true;
}

/* Returns the bytes of a state of a unit of the file. */
static size_t state_bytes(const struct qc_binding *b, size_t unit_in_file)
{
    return b->set.sizes ? qc_h5_entry_bytes(&b->set, (int64_t)unit_in_file) * qc_dtype_size(b->conversion.to)
                        : b->bytes;
}

/* Reads the lengths of the sequences. */
static bool read_lengths(struct qc_dataset *ds, const struct qc_data_entry *lengths, struct qc_status *st)
{
    struct qc_h5_set set = {.rank = 0};
    const struct qc_memory_array *array = NULL;
    size_t bytes, all = 0;
    if (!qc_open_set(&set, &array, ds, lengths->name, st)) return false;
    const size_t count = (size_t)set.dims[0];
    const struct qc_conversion c = {.from = set.dtype, .to = QC_I64, .outer = 1, .channels = 1, .inner = count};
    if (set.rank != 1 || set.sizes || !count)
        return qc_fail(st, QC_BAD_INPUT, "expected one number for each sequence, shape [sequences]");
    QC_FREED int64_t *numbers = calloc(count, sizeof *numbers);
    QC_FREED void *data = qc_mul_size(&bytes, count, set.row_bytes) ? malloc(bytes) : NULL;
    if (!numbers || !data) return qc_fail_memory(st, count);
    if (!qc_read_rows(data, ds, &set, array, 0, count, st) || !qc_convert_sample(numbers, data, &c, st)) return false;
    if (!(ds->sequences = QC_NEW_ARRAY(ds->arena, size_t, count + 1, st))) return false;
    for (size_t s = 0; s < count; s++) {
        ds->sequences[s] = all;
        if (numbers[s] < 1 || (uint64_t)numbers[s] > ds->all_units - all)
            return qc_fail(st, QC_BAD_INPUT,
                           "sequence %zu has the length %" PRId64 "; expected lengths of at least 1 whose sum is the "
                           "number of steps, %zu",
                           s, numbers[s], ds->all_units);
        all += (size_t)numbers[s];
    }
    ds->sequences[count] = all;
    ds->sequence_count = count;
    return all == ds->all_units || qc_fail(st, QC_BAD_INPUT,
                                           "the sum of the lengths is %zu; expected the number of "
                                           "steps, %zu",
                                           all, ds->all_units);
}

/* Reads the first states of the sequences. */
static bool read_initial(struct qc_dataset *ds, struct qc_binding *b, struct qc_status *st)
{
    const size_t units = (size_t)b->set.dims[0] / b->rows, count = units == 1 ? 1 : ds->sequence_count;
    size_t bytes, all;
    if (units != 1 && units != ds->sequence_count && units != ds->all_units)
        return qc_fail(st, QC_BAD_INPUT,
                       "it has %zu states; expected one for all sequences, one for each of %zu sequences, or one for "
                       "each of %zu steps",
                       units, ds->sequence_count, ds->all_units);
    if (b->set.sizes || b->axes != QC_AXES_AS_THEY_ARE)
        return qc_fail(st, QC_BAD_INPUT, "states must have one shape and the axes of the model's input");
    QC_FREED void *data = qc_mul_size(&bytes, b->rows, b->set.row_bytes) ? malloc(bytes + 1) : NULL;
    b->initial = qc_mul_size(&all, count, b->bytes) ? calloc(all + 1, 1) : NULL;
    if (!data || !b->initial) return qc_fail_memory(st, b->bytes);
    for (size_t s = 0; s < count; s++) {
        const size_t unit = units == ds->all_units ? ds->sequences[s] : s;
        if (!qc_read_rows(data, ds, &b->set, b->array, unit * b->rows, b->rows, st) ||
            !qc_convert_sample((char *)b->initial + s * b->bytes, data, &b->conversion, st))
            return false;
    }
    b->initial_count = count;
    return true;
}

bool qc_open_states(struct qc_dataset *ds, const struct qc_data_entry *lengths, struct qc_status *st)
{
    if (lengths) {
        if (!read_lengths(ds, lengths, st)) return qc_where(st, "data set '%s'", lengths->name);
    } else {
        if (!(ds->sequences = QC_NEW_ARRAY(ds->arena, size_t, 2, st))) return false;
        ds->sequences[1] = ds->all_units;
        ds->sequence_count = 1;
    }
    for (size_t i = 0; i < ds->input_count; i++) {
        struct qc_binding *b = &ds->bindings[i];
        if (b->made != QC_MADE_STATE) continue;
        if (b->set.rank && !read_initial(ds, b, st)) return qc_where(st, "data set '%s'", b->name);
        b->set = (struct qc_h5_set){.rank = 0}; /* everything is read */
        b->first_bytes = b->bytes;
        b->file_bytes = 0;
    }
    return true;
}

bool qc_choose_steps(struct qc_dataset *ds, size_t units, const struct qc_selection *selection, struct qc_status *st)
{
    const size_t recorded = ds->recording ? ds->recorded : 0;
    size_t kept = 0, runs = 0;
    uint64_t *chosen = malloc((units + 1) * sizeof *chosen);
    size_t *starts = malloc((units + 1) * sizeof *starts);
    bool ok = (chosen && starts) || qc_fail_memory(st, units * sizeof *chosen);
    if (ok && units < recorded && !selection->in_order) {
        const struct qc_selection spaced = {.drawn = selection->drawn, .seed = selection->seed};
        ok = qc_select_units(chosen, units, recorded, &spaced, st);
        for (; runs < units; runs++) starts[runs] = runs;
        kept = units;
    } else if (ok) {
        /* The first units; shards take whole sequences. */
        const size_t shards = selection->shards ? selection->shards : 1;
        for (size_t s = shards > 1 ? selection->shard : 0; s < ds->sequence_count && ds->sequences[s] < units;
             s += shards) {
            starts[runs++] = kept;
            for (size_t u = ds->sequences[s]; u < ds->sequences[s + 1] && u < units; u++) chosen[kept++] = u;
        }
    }
    if (!ok) {
        free(chosen);
        free(starts);
        return false;
    }
    starts[runs] = kept;
    free(ds->chosen);
    free(ds->runs);
    ds->chosen = chosen;
    ds->runs = starts;
    ds->chosen_sequences = runs;
    ds->units = kept;
    ds->planned = units;
    return true;
}

size_t qc_dataset_sequences(const struct qc_dataset *ds)
{
    return ds->chosen_sequences;
}

size_t qc_dataset_sequence(const struct qc_dataset *ds, size_t k)
{
    return ds->runs[k];
}

size_t qc_dataset_state(const struct qc_dataset *ds, size_t input)
{
    const struct qc_binding *b = &ds->bindings[input];
    return b->made == QC_MADE_STATE ? b->output + 1 : 0;
}

const char *qc_dataset_input(const struct qc_dataset *ds, size_t input)
{
    return ds->bindings[input].input;
}

bool qc_dataset_record_begin(struct qc_dataset *ds, struct qc_status *st)
{
    const size_t units = ds->units ? (size_t)ds->chosen[ds->units - 1] + 1 : 0;
    qc_scratch_file_free(ds->recording);
    ds->recording = NULL;
    ds->recorded = units;
    bool ok = qc_scratch_file_new(&ds->recording, NULL, st);
    for (size_t i = 0; ok && i < ds->input_count; i++) {
        struct qc_binding *b = &ds->bindings[i];
        size_t bytes;
        if (b->made != QC_MADE_STATE) continue;
        if (!qc_mul_size(&bytes, units, b->bytes)) return qc_fail_memory(st, SIZE_MAX);
        ok = qc_scratch_file_grow(&b->recorded, ds->recording, bytes, st);
    }
    return ok;
}

bool qc_dataset_record(const struct qc_dataset *ds, size_t input, size_t unit, const void *data, struct qc_status *st)
{
    const struct qc_binding *b = &ds->bindings[input];
    const size_t in_file = qc_unit_in_file(ds, unit);
    return qc_scratch_file_write(ds->recording, b->recorded + (int64_t)(in_file * b->bytes), data,
                                 state_bytes(b, in_file), st);
}

bool qc_read_state(void *out, const struct qc_dataset *ds, size_t input, size_t unit_in_file, struct qc_status *st)
{
    const struct qc_binding *b = &ds->bindings[input];
    size_t sequence = 0;
    for (size_t high = ds->sequence_count; high - sequence > 1;) {
        const size_t middle = sequence + (high - sequence) / 2;
        if (ds->sequences[middle] <= unit_in_file)
            sequence = middle;
        else
            high = middle;
    }
    if (unit_in_file == ds->sequences[sequence]) {
        if (b->initial)
            memcpy(out, (char *)b->initial + (b->initial_count > 1 ? sequence : 0) * b->first_bytes, b->first_bytes);
        else
            memset(out, 0, b->first_bytes);
        return true;
    }
    if (!ds->recording)
        return qc_fail(st, QC_BAD_INPUT, "the state '%s' of sample %zu is not known before the samples ran in order",
                       b->input, unit_in_file);
    return qc_scratch_file_read(out, ds->recording, b->recorded + (int64_t)(unit_in_file * b->bytes),
                                state_bytes(b, unit_in_file), st);
}
