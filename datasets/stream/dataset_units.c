// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/scope.h"
#include "datasets/hdf5/chunk_codec.h"
#include "datasets/samples/dataset.h"
#include "datasets/stream/dataset_impl.h"

struct qc_dataset_scratch {
    struct qc_chunk_codec *codec;
    struct qc_packet packet;
    void *turned; /* values in the tensor's order of axes */
    size_t turned_capacity;
    bool passes; /* units read with it are not cached */
};

void qc_dataset_free(struct qc_dataset *ds)
{
    if (!ds) return;
    qc_read_ahead_stop(ds->read_ahead);
    qc_memo_free(ds->kept);
    qc_reader_close(ds->reader);
    qc_memory_data_free(ds->own);
    free(ds->chosen);
    free(ds->runs);
    for (size_t i = 0; ds->bindings && i < ds->binding_count; i++) free(ds->bindings[i].initial);
    qc_scratch_file_free(ds->recording);
    qc_arena_free(ds->arena); /* holds *ds */
}

const char *qc_dataset_file(const struct qc_dataset *ds)
{
    return ds->file;
}

const char *qc_dataset_unwritten(const struct qc_dataset *ds)
{
    return ds->unwritten;
}

bool qc_dataset_is_unchanged(const struct qc_dataset *ds, struct qc_status *st)
{
    return !qc_file_has_changed(&ds->state, ds->file) ||
           qc_fail(st, QC_BAD_INPUT, "%s: it has changed while it was read; run again when nothing writes to it",
                   ds->file);
}

const struct qc_preprocess *qc_dataset_preprocess(const struct qc_dataset *ds, const char *input)
{
    for (size_t i = 0; i < ds->input_count; i++)
        if (strcmp(ds->bindings[i].input, input) == 0) return &ds->bindings[i].conversion.preprocess;
    return NULL;
}

unsigned qc_dataset_dims(const int64_t **dims, const struct qc_dataset *ds, size_t input)
{
    *dims = ds->bindings[input].dims;
    return ds->bindings[input].rank;
}

size_t qc_dataset_elements(const struct qc_dataset *ds, size_t input)
{
    return ds->bindings[input].elements;
}

size_t qc_dataset_bytes(const struct qc_dataset *ds, size_t input)
{
    return ds->bindings[input].bytes;
}

int64_t qc_dataset_batch(const struct qc_dataset *ds)
{
    return ds->batch;
}

/* ---- Choice ---- */

size_t qc_dataset_unit_samples(const struct qc_dataset *ds)
{
    return ds->batch ? (size_t)ds->batch : 1;
}

size_t qc_dataset_units(const struct qc_dataset *ds)
{
    return ds->units;
}

size_t qc_dataset_samples(const struct qc_dataset *ds)
{
    return ds->units * qc_dataset_unit_samples(ds);
}

size_t qc_dataset_planned(const struct qc_dataset *ds)
{
    return ds->planned * qc_dataset_unit_samples(ds);
}

size_t qc_dataset_dropped(const struct qc_dataset *ds)
{
    return ds->dropped;
}

size_t qc_dataset_total(const struct qc_dataset *ds)
{
    return ds->total;
}

size_t qc_dataset_first_sample(const struct qc_dataset *ds, size_t unit)
{
    return qc_unit_in_file(ds, unit) * qc_dataset_unit_samples(ds);
}

size_t qc_dataset_others(const struct qc_dataset *ds)
{
    const bool fixed = !ds->sequence_count && !(ds->own && qc_memory_data_is_unsure(ds->own));
    return fixed && ds->chosen && ds->units == ds->planned ? (ds->all_units - ds->units) * qc_dataset_unit_samples(ds)
                                                           : 0;
}

/* Returns the number of units from which a selection chooses. */
static size_t offered_units(const struct qc_dataset *ds, const struct qc_selection *selection)
{
    return selection->others ? ds->all_units - ds->units : ds->all_units;
}

/* Returns the number of units of all shards. */
static size_t planned_units(const struct qc_dataset *ds, const struct qc_selection *selection)
{
    const size_t offered = offered_units(ds, selection);
    size_t n = selection->samples ? selection->samples / qc_dataset_unit_samples(ds) : offered;
    if (n == 0) n = 1;
    return n < offered ? n : offered;
}

static bool choose_units(struct qc_dataset *ds, const struct qc_selection *selection, struct qc_status *st)
{
    const size_t planned = planned_units(ds, selection), shards = selection->shards ? selection->shards : 1;
    size_t n = planned;
    uint64_t *chosen = NULL;
    if (ds->sequence_count) return qc_choose_steps(ds, planned, selection, st);
    if (n < ds->all_units || shards > 1) {
        size_t bytes, kept = 0;
        if (!qc_mul_size(&bytes, n, sizeof *chosen) || !(chosen = malloc(bytes))) return qc_fail_memory(st, n);
        if (n == ds->all_units) {
            for (size_t i = 0; i < n; i++) chosen[i] = i;
        } else if (!qc_select_units(chosen, n, offered_units(ds, selection), selection, st)) {
            free(chosen);
            return false;
        }
        /* Numbers among the units outside of the present choice, ascending, become unit numbers. */
        for (size_t i = 0, before = 0; selection->others && i < n; i++) {
            while (before < ds->units && ds->chosen[before] <= chosen[i] + before) before++;
            chosen[i] += before;
        }
        for (size_t i = shards > 1 ? selection->shard : 0; i < n; i += shards) chosen[kept++] = chosen[i];
        n = kept;
    }
    free(ds->chosen);
    ds->chosen = chosen;
    ds->units = n;
    ds->planned = planned;
    return true;
}

/* Checks the chosen rows; *gone: how many cannot be read and were removed. */
static bool look(size_t *gone, struct qc_dataset *ds, struct qc_status *st)
{
    /* If all units are chosen, also check the samples left over: they may move up. */
    const size_t each = qc_dataset_unit_samples(ds), count = ds->chosen ? ds->units * each : ds->total;
    QC_FREED uint64_t *rows = calloc(count ? count : 1, sizeof *rows);
    if (!rows) return qc_fail_memory(st, count * sizeof *rows);
    for (size_t i = 0; i < count; i++) rows[i] = qc_unit_in_file(ds, i / each) * each + i % each;
    if (!qc_memory_data_check(gone, ds->own, rows, count, st)) return false;
    if (*gone == 0) return true;
    for (size_t i = 0; i < ds->binding_count; i++) ds->bindings[i].set.dims[0] -= (int64_t)*gone;
    if (ds->label_count) ds->labels.dims[0] -= (int64_t)*gone;
    if (!qc_dataset_count(ds, st)) return false;
    return ds->all_units > 0 ||
           qc_fail(st, QC_BAD_INPUT, "%s: %zu samples can be read, fewer than the model's batch of %zu", ds->file,
                   ds->total, each);
}

/* Returns the bytes with which the reading process reads ahead; 0: it does not. */
static size_t ahead_bytes(const struct qc_dataset *ds)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ds->binding_count && ds->reader; i++) {
        if (ds->bindings[i].made != QC_MADE_NOT) continue;
        const size_t each = qc_reader_ahead_bytes(ds->reader, &ds->bindings[i].set, ds->bindings[i].rows);
        if (!each) return 0;
        bytes += each;
    }
    return bytes;
}

bool qc_dataset_choose(struct qc_dataset *ds, const struct qc_selection *selection, struct qc_status *st)
{
    const bool unsure = ds->own && qc_memory_data_is_unsure(ds->own);
    /* All shards must leave out the same rows. */
    struct qc_selection all = *selection;
    all.shard = all.shards = 0;
    size_t gone = 0;
    /* The read-ahead thread uses the old choice. */
    qc_read_ahead_stop(ds->read_ahead);
    ds->read_ahead = NULL;
    do {
        gone = 0;
        if (!choose_units(ds, unsure ? &all : selection, st) || (unsure && !look(&gone, ds, st))) return false;
    } while (gone);
    if (unsure && selection->shards > 1 && !choose_units(ds, selection, st)) return false;
    /* Units that are read in order need no thread if the process reads ahead. */
    return !ds->ahead || (!ds->chosen && ahead_bytes(ds)) || qc_read_ahead_start(&ds->read_ahead, ds, st);
}

bool qc_dataset_select(struct qc_dataset *ds, const struct qc_selection *selection, struct qc_status *st)
{
    /* The file must store bytes for so many units. A single input may be all 0 without storage. */
    const size_t units = planned_units(ds, selection), each = qc_dataset_unit_samples(ds);
    size_t bytes = 0, stored = 0;
    for (size_t i = 0; i < ds->input_count; i++) {
        const struct qc_binding *b = &ds->bindings[i];
        bytes = qc_sum_at_most(bytes, b->file_bytes / each);
        stored = qc_sum_at_most(stored, b->set.stored);
    }
    if (!qc_check_stored(units * each, bytes, stored, ", or take some of the samples with --samples N", st))
        return qc_where(st, "%s", ds->file);
    return qc_dataset_choose(ds, selection, st);
}

unsigned qc_dataset_ahead(size_t *bytes_each, const struct qc_dataset *ds)
{
    *bytes_each = ahead_bytes(ds);
    if (!ds->read_ahead && *bytes_each) return 1;
    *bytes_each = 0;
    for (size_t b = 0; b < ds->binding_count; b++) *bytes_each += 2 * ds->bindings[b].file_bytes; /* two slots each */
    return ds->read_ahead ? qc_read_ahead_units(ds->read_ahead) : 0;
}

void qc_dataset_read_less_ahead(const struct qc_dataset *ds, unsigned units)
{
    if (ds->read_ahead)
        qc_read_ahead_limit(ds->read_ahead, units);
    else if (!units && ds->reader)
        qc_reader_no_ahead(ds->reader);
}

const char *qc_dataset_inputs(const struct qc_dataset *ds, struct qc_arena *a, struct qc_status *st)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        qc_fail_memory(st, 1);
        return NULL;
    }
    for (size_t i = 0; i < ds->input_count; i++) {
        const struct qc_binding *b = &ds->bindings[i];
        static const char *const axes[] = {"", ":nhwc", ":nchw"};
        const bool own_name = !b->array || !b->array->named_by_file; /* parts are files of other names */
        fprintf(f, "%s: %s%s", b->input, own_name ? b->name : "", axes[b->axes]);
        qc_preprocess_print(f, &b->conversion.preprocess);
        fputc('\n', f);
    }
    const char *kept = fclose(f) == 0 ? qc_arena_strdup(a, text, st) : NULL;
    if (!kept) qc_fail_memory(st, 1);
    free(text);
    return kept;
}

/* ---- Reading ---- */

bool qc_dataset_scratch_new(struct qc_dataset_scratch **out, struct qc_status *st)
{
    struct qc_dataset_scratch *s = calloc(1, sizeof *s);
    if (!s || !(s->codec = qc_chunk_codec_new())) {
        free(s);
        return qc_fail_memory(st, sizeof *s);
    }
    *out = s;
    return true;
}

void qc_dataset_scratch_passes(struct qc_dataset_scratch *s)
{
    s->passes = true;
}

void qc_dataset_scratch_free(struct qc_dataset_scratch *s)
{
    if (!s) return;
    qc_chunk_codec_free(s->codec);
    qc_packet_clear(&s->packet);
    free(s->turned);
    free(s);
}

void qc_packet_clear(struct qc_packet *p)
{
    free(p->data);
    free(p->rows);
    *p = (struct qc_packet){.data = NULL};
}

static bool reserve_packet(struct qc_packet *p, size_t bytes, size_t rows, struct qc_status *st)
{
    if (p->capacity < bytes || !p->data) {
        free(p->data);
        p->capacity = bytes;
        if (!(p->data = malloc(bytes ? bytes : 1))) {
            p->capacity = 0;
            return qc_fail_memory(st, bytes);
        }
    }
    if (p->row_capacity < rows) {
        size_t wanted;
        free(p->rows);
        p->row_capacity = rows;
        if (!qc_mul_size(&wanted, rows, sizeof *p->rows) || !(p->rows = malloc(wanted))) {
            p->rows = NULL;
            p->row_capacity = 0;
            return qc_fail_memory(st, rows);
        }
    }
    return true;
}

static bool where(struct qc_status *st, const struct qc_dataset *ds, const struct qc_binding *b, size_t row)
{
    return qc_where(st, "%s: data set '%s', sample %zu", ds->file, b->name, row);
}

bool qc_read_rows(void *out, const struct qc_dataset *ds, const struct qc_h5_set *set,
                  const struct qc_memory_array *array, size_t first, size_t count, struct qc_status *st)
{
    return array ? qc_memory_array_read(out, array, (int64_t)first, (int64_t)count, st)
                 : qc_reader_rows(out, ds->reader, set, (int64_t)first, (int64_t)count, st);
}

bool qc_dataset_fetch(struct qc_packet *p, const struct qc_dataset *ds, size_t binding, size_t unit,
                      struct qc_status *st)
{
    const struct qc_binding *b = &ds->bindings[binding];
    size_t first = qc_unit_in_file(ds, unit) * b->rows;
    p->decoded = true;
    if (b->made != QC_MADE_NOT) return true;
    p->decoded = !b->set.raw;
    if (!p->decoded) {
        if (!reserve_packet(p, 1, b->rows, st)) return where(st, ds, b, first);
        bool ok = qc_reader_chunks(&p->data, &p->capacity, p->rows, ds->reader, &b->set, (int64_t)first, b->rows, st);
        if (!ok && b->rows > 1) *st = QC_STATUS_INIT; /* find the failing one */
        for (size_t i = 0; !ok && i < b->rows; i++)
            if (b->rows == 1 ||
                !qc_reader_chunks(&p->data, &p->capacity, p->rows, ds->reader, &b->set, (int64_t)(first + i), 1, st))
                return where(st, ds, b, first + i);
        if (!ok)
            return qc_fail(st, QC_BAD_INPUT, "%s: data set '%s' cannot be read; the file is damaged", ds->file,
                           b->name);
        for (size_t i = 0; i < b->rows; i++)
            p->decoded = p->decoded || p->rows[i].size == 0; /* never written: HDF5 gives the fill value */
    }
    if (!p->decoded) return true;
    const size_t bytes = b->set.sizes ? qc_h5_entry_bytes(&b->set, (int64_t)first) : b->file_bytes;
    return (reserve_packet(p, bytes, 0, st) && qc_read_rows(p->data, ds, &b->set, b->array, first, b->rows, st)) ||
           where(st, ds, b, first);
}

static bool turn(struct qc_dataset_scratch *s, const struct qc_binding *b, size_t unit, const void *plain,
                 struct qc_status *st)
{
    const unsigned rank = b->set.rank;
    int64_t dims[QC_DATA_RANK_MAX];
    size_t elements = b->elements;
    memcpy(dims, b->set.dims, rank * sizeof *dims);
    if (b->set.sizes) {
        memcpy(dims + 1, b->set.sizes + unit * (rank - 1), (rank - 1) * sizeof *dims);
        elements = qc_entry_elements(dims + 1, rank - 1);
    }
    if (s->turned_capacity < b->file_bytes) {
        free(s->turned);
        s->turned_capacity = 0;
        if (!(s->turned = malloc(b->file_bytes))) return qc_fail_memory(st, b->file_bytes);
        s->turned_capacity = b->file_bytes;
    }
    qc_axes_values(s->turned, plain, elements, b->set.element, dims, rank, b->axes);
    return true;
}

/* Reads a unit as elements of the file's type. *plain is `out` if no conversion is needed, else borrowed until the next
   use of the scratch. */
static bool read_plain(const void **plain, void *out, const struct qc_dataset *ds, size_t binding, size_t unit,
                       struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct qc_binding *b = &ds->bindings[binding];
    struct qc_packet *p = &scratch->packet;
    const bool there = ds->read_ahead && qc_read_ahead_take(p, ds->read_ahead, binding, unit);
    if (!there && !qc_dataset_fetch(p, ds, binding, unit, st)) return false;
    *plain = p->data;
    if (!p->decoded) {
        const bool same = qc_conversion_is_copy(&b->conversion) && b->axes == QC_AXES_AS_THEY_ARE;
        void *to = same ? out : qc_chunk_buffer(scratch->codec, b->file_bytes, st);
        if (!to) return where(st, ds, b, qc_dataset_first_sample(ds, unit));
        const struct qc_h5_set *s = &b->set;
        for (size_t i = 0; i < b->rows; i++) {
            const struct qc_h5_chunk *r = &scratch->packet.rows[i];
            struct qc_chunk_filters filters = {
                .shuffle = s->shuffle >= 0 && s->shuffle < 32 && !(r->mask >> s->shuffle & 1u),
                .deflate = s->deflate >= 0 && s->deflate < 32 && !(r->mask >> s->deflate & 1u),
            };
            if (!qc_chunk_decode((char *)to + i * s->row_bytes, s->row_bytes, s->element,
                                 (const char *)scratch->packet.data + r->at, r->size, filters, scratch->codec, st))
                return where(st, ds, b, qc_unit_in_file(ds, unit) * b->rows + i);
        }
        *plain = to;
    }
    return true;
}

/* At most 16 MiB of units, as elements in the file's type: trials, the report and advice read some hundred samples
   repeatedly. */
enum { KEPT_BYTES = 16 << 20 };

bool qc_dataset_keep(struct qc_dataset *ds, struct qc_memo_budget *budget, struct qc_status *st)
{
    const struct qc_memo_options o = {.most = KEPT_BYTES, .budget = budget, .free = free};
    return ds->kept || (!ds->reader && !ds->own) || qc_memo_new(&ds->kept, &o, st);
}

void qc_dataset_let_go(const struct qc_dataset *ds)
{
    qc_memo_clear(ds->kept);
}

/* Fails if the file was written meanwhile: it may be a mixture of two, and behind the end of a file that was cut HDF5
   reads zeros. */
static bool read_unchanged(const void **plain, void *out, const struct qc_dataset *ds, size_t binding, size_t unit,
                           struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct qc_status changed = QC_STATUS_INIT;
    const bool ok = read_plain(plain, out, ds, binding, unit, scratch, st);
    if (qc_dataset_is_unchanged(ds, &changed)) return ok;
    *st = changed; /* the reason of any other error */
    return false;
}

static bool read_binding(void *out, const struct qc_dataset *ds, size_t binding, size_t unit,
                         struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct qc_binding *b = &ds->bindings[binding];
    if (unit >= ds->units)
        return qc_fail(st, QC_BAD_INPUT, "%s: data set '%s': unit %zu is asked for, there are %zu", ds->file, b->name,
                       unit, ds->units);
    const size_t in_file = qc_unit_in_file(ds, unit);
    if (b->made == QC_MADE_STATE) return qc_read_state(out, ds, binding, in_file, st);
    if (b->made != QC_MADE_NOT) return qc_make_input(out, b, in_file, st);
    const size_t key[2] = {binding, in_file};
    const void *plain = qc_memo_find(ds->kept, key, sizeof key);
    if (!plain) {
        if (!read_unchanged(&plain, out, ds, binding, unit, scratch, st)) return false;
        const bool again = b->array && qc_memory_array_copies(b->array); /* reading costs no more than copying */
        const size_t bytes = b->file_bytes;
        const bool keeps = ds->kept && !b->set.sizes && !again && !scratch->passes && qc_memo_has_room(ds->kept, bytes);
        void *copy = keeps ? malloc(bytes + 1) : NULL;
        if (copy) qc_memo_keep(ds->kept, key, sizeof key, memcpy(copy, plain, bytes), bytes);
    }
    if (plain == out) return true;
    if (b->axes != QC_AXES_AS_THEY_ARE) {
        if (!turn(scratch, b, in_file, plain, st)) return where(st, ds, b, qc_dataset_first_sample(ds, unit));
        plain = scratch->turned;
    }
    struct qc_conversion c = b->conversion;
    if (b->set.sizes) {
        int64_t dims[QC_DATA_RANK_MAX];
        qc_binding_dims(dims, b, in_file);
        c = qc_binding_conversion(b, dims);
    }
    if (qc_convert_sample(out, plain, &c, st)) return true;
    qc_where(st, b->input ? "for input '%s'" : "%s", b->input ? b->input : "as target");
    return where(st, ds, b, in_file * b->rows);
}

bool qc_dataset_read(void *out, const struct qc_dataset *ds, size_t input, size_t unit,
                     struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    return read_binding(out, ds, input, unit, scratch, st);
}

/* ---- Ground truth ---- */

static bool read_unit_labels(int64_t *out, size_t *first, const struct qc_dataset *ds, size_t unit,
                             struct qc_status *st)
{
    const struct qc_h5_set *s = &ds->labels;
    struct qc_conversion c = {.from = s->dtype, .to = QC_I64, .outer = 1, .channels = 1};
    size_t bytes;
    if (unit >= ds->units) return qc_fail(st, QC_BAD_INPUT, "unit %zu is asked for, there are %zu", unit, ds->units);
    *first = qc_unit_in_file(ds, unit) * ds->label_rows;
    c.inner = qc_dataset_unit_label_count(ds, unit);
    QC_FREED void *data = qc_mul_size(&bytes, ds->label_rows, s->row_bytes) ? malloc(bytes) : NULL;
    if (!data) return qc_fail_memory(st, ds->label_count);
    return qc_read_rows(data, ds, s, ds->label_array, *first, ds->label_rows, st) &&
           qc_convert_sample(out, data, &c, st);
}

bool qc_dataset_read_labels(int64_t *out, const struct qc_dataset *ds, size_t unit, struct qc_status *st)
{
    size_t first = 0;
    if (ds->label_count == 0) return qc_fail(st, QC_BAD_INPUT, "%s: there is no data set 'labels'", ds->file);
    return (read_unit_labels(out, &first, ds, unit, st) && qc_dataset_is_unchanged(ds, st)) ||
           qc_where(st, "%s: data set 'labels', sample %zu", ds->file, first);
}

bool qc_dataset_read_target(float *out, const struct qc_dataset *ds, size_t unit, struct qc_dataset_scratch *scratch,
                            struct qc_status *st)
{
    if (ds->binding_count == ds->input_count)
        return qc_fail(st, QC_BAD_INPUT, "%s: there is no data set 'target'", ds->file);
    return read_binding(out, ds, ds->input_count, unit, scratch, st);
}

double qc_dataset_target_peak(const struct qc_dataset *ds)
{
    return ds->peak;
}

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Returns a uniform number in 0..bound-1; values that would favour small ones are drawn again. */
static uint64_t uniform(uint64_t *state, uint64_t bound)
{
    uint64_t least = (0 - bound) % bound, x;
    do x = splitmix64(state);
    while (x < least);
    return x % bound;
}

/* Adds a unit to a table with open addressing; 0 is empty, so units are stored plus one. Returns false if it is in the
   table. */
static bool insert(uint64_t *table, uint64_t mask, uint64_t unit)
{
    uint64_t hash = unit;
    uint64_t i = splitmix64(&hash) & mask;
    for (; table[i]; i = (i + 1) & mask)
        if (table[i] == unit + 1) return false;
    table[i] = unit + 1;
    return true;
}

/* A unit and its key. */
struct keyed {
    uint64_t key, unit;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    const int order = qc_order_u64(&x->key, &y->key);
    return order ? order : qc_order_u64(&x->unit, &y->unit);
}

static bool select_least(uint64_t *out, size_t n, uint64_t total, const uint64_t *keys, struct qc_status *st)
{
    QC_FREED struct keyed *all = calloc(total, sizeof *all);
    if (!all) return qc_fail_memory(st, total * sizeof *all);
    for (uint64_t i = 0; i < total; i++) all[i] = (struct keyed){keys[i], i};
    qsort(all, total, sizeof *all, by_key);
    for (size_t i = 0; i < n; i++) out[i] = all[i].unit;
    qsort(out, n, sizeof *out, qc_order_u64);
    return true;
}

bool qc_select_units(uint64_t *out, size_t n, uint64_t total, const struct qc_selection *selection,
                     struct qc_status *st)
{
    if (n > UINT32_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "a choice of %zu samples is too large; at most %u", n, UINT32_MAX);
    if (selection->keys) return select_least(out, n, total, selection->keys, st);
    if (!selection->drawn) {
        /* floor(j * total / n) without overflow */
        for (uint64_t j = 0; j < n; j++) out[j] = j * (total / n) + j * (total % n) / n;
        return true;
    }
    uint64_t size = 16, state = selection->seed;
    while (size < 2 * (uint64_t)n) size *= 2;
    uint64_t *table = calloc(size, sizeof *table);
    if (!table) return qc_fail_memory(st, size * sizeof *table);
    /* Bentley, Floyd: Programming pearls: a sample of brilliance, CACM 30(9), 1987. */
    for (uint64_t k = 0; k < n; k++) {
        uint64_t j = total - n + k, t = uniform(&state, j + 1);
        out[k] = insert(table, size - 1, t) ? t : j;
        if (out[k] == j && t != j) insert(table, size - 1, j);
    }
    free(table);
    qsort(out, n, sizeof *out, qc_order_u64);
    return true;
}
