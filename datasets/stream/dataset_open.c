// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/scope.h"
#include "base/words.h"
#include "datasets/arrays/data_readers.h"
#include "datasets/samples/dataset.h"
#include "datasets/stream/dataset_impl.h"

/* Advice for data that do not fit. */

/* Returns true if these dimensions fit the input; free axes fit always. */
static bool shape_fits(const struct qc_input_spec *input, const int64_t *dims, unsigned rank)
{
    if (rank != input->rank && rank != input->rank + 1) return false;
    const unsigned skip = rank - input->rank;
    for (unsigned i = skip ? 0 : 1; i < input->rank; i++)
        if (input->dims[i] >= 0 && input->dims[i] != dims[i + skip]) return false;
    return true;
}

/* Advises about data of this shape: channels on the wrong axis, a sample without its batch axis, else the available
   options. Returns buf. */
static const char *qc_advise_shape(char *buf, unsigned size, const struct qc_input_spec *input, const char *dataset,
                                   const int64_t *dims, unsigned rank)
{
    static const char *const names[] = {[QC_AXES_LAST] = "nhwc", [QC_AXES_FIRST] = "nchw"},
                             *const where[] = {[QC_AXES_LAST] = "last", [QC_AXES_FIRST] = "first"};
    int64_t turned[QC_DATA_RANK_MAX], one[QC_DATA_RANK_MAX + 1] = {1};
    for (enum qc_image_axes a = QC_AXES_LAST; rank >= 4 && a <= QC_AXES_FIRST; a++) {
        memcpy(turned, dims, rank * sizeof *dims);
        qc_axes_turn(turned, rank, a);
        if (!shape_fits(input, turned, rank)) continue;
        return qc_text(buf, size, "its channels are %s: read it with --input %s=%s:%s", where[a], input->name, dataset,
                       names[a]);
    }
    memcpy(one + 1, dims, rank * sizeof *dims);
    if (rank + 1 == input->rank && shape_fits(input, one, rank + 1))
        return qc_text(buf, size, "it is a single sample without a sample axis: add the axis (x[None])");
    return qc_text(buf, size, "give other data or name another data set with --input %s=DATASET", input->name);
}

/* ---- The file ---- */

bool qc_dataset_split(const char **file, const char **name, const char *text, struct qc_arena *a, struct qc_status *st)
{
    struct stat info;
    *name = NULL;
    *file = qc_arena_strdup(a, text, st);
    if (!*file) return false;
    if (stat(text, &info) == 0) return true;
    for (const char *p = strchr(text, ':'); p; p = strchr(p + 1, ':')) {
        char *front = qc_arena_strndup(a, text, (size_t)(p - text), st);
        if (!front) return false;
        if (p == text || stat(front, &info)) continue;
        *file = front;
        *name = p + 1;
        return p[1] != '\0' || qc_fail(st, QC_USAGE, "%s: the name of a data set is missing after the ':'", text);
    }
    return true; /* opening it reports the error */
}

/* ---- Names ---- */

static const char *bare(const char *name)
{
    return name[0] == '/' ? name + 1 : name;
}

static const struct qc_data_entry *find_path(const struct qc_data_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(bare(l->entries[i].name), bare(name)) == 0) return &l->entries[i];
    return NULL;
}

/* Finds a data set by the attribute that data_writer.h writes. */
static const struct qc_data_entry *find_title(const struct qc_data_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->entries[i].attribute_count; k++) {
            const struct qc_data_attribute *t = &l->entries[i].attributes[k];
            if (strcmp(t->name, "name") == 0 && strcmp(t->text, name) == 0) return &l->entries[i];
        }
    return NULL;
}

/* A name given by the user is a path first; an input's name is a title first. */
static const struct qc_data_entry *find_entry(const struct qc_data_list *l, const char *given, const char *input)
{
    const struct qc_data_entry *e = given ? find_path(l, given) : find_title(l, input);
    if (e) return e;
    return given ? find_title(l, given) : find_path(l, input);
}

/* Finds a group whose data sets are listed one by one: its name is valid too. */
static const struct qc_data_entry *find_group(const struct qc_dataset *ds, const struct qc_data_list *l,
                                              const char *name, struct qc_status *st)
{
    const size_t n = strlen(bare(name));
    for (size_t i = 0; n && i < l->count; i++) {
        const char *path = bare(l->entries[i].name);
        if (strncmp(path, bare(name), n) != 0 || path[n] != '/') continue;
        struct qc_data_entry *group = QC_NEW(ds->arena, struct qc_data_entry, st);
        if (group && (group->name = qc_arena_strdup(ds->arena, bare(name), st))) return group;
        return NULL;
    }
    return NULL;
}

static const char *shape_text(char *buf, size_t size, const int64_t *dims, unsigned rank)
{
    size_t at = (size_t)snprintf(buf, size, "[");
    for (unsigned i = 0; i < rank && at < size; i++)
        at += (size_t)(dims[i] < 0 ? snprintf(buf + at, size - at, "%s?", i ? "," : "")
                                   : snprintf(buf + at, size - at, "%s%" PRId64, i ? "," : "", dims[i]));
    if (at < size) snprintf(buf + at, size - at, "]");
    return buf;
}

/* "input uint8 [512,3,32,32], labels int64 [512]" */
static const char *content_text(char *buf, size_t size, const struct qc_data_list *l)
{
    size_t at = (size_t)snprintf(buf, size, "%s", l->count ? "" : "no data set");
    for (size_t i = 0; i < l->count && at < size; i++) {
        char shape[200];
        const struct qc_data_entry *e = &l->entries[i];
        at += (size_t)snprintf(buf + at, size - at, "%s%.100s %s %s", i ? ", " : "", e->name, e->type,
                               shape_text(shape, sizeof shape, e->dims, e->rank));
    }
    return buf;
}

struct opening {
    struct qc_dataset *ds;
    struct qc_data_list list;
    const char *only; /* FILE:DATASET */
    const struct qc_input_spec *inputs;
    size_t count, own; /* own: of the inputs that cannot be made */
    const struct qc_dataset_options *options;
};

/* Chooses the data set of an input; *axes: from the suffix of the given name. */
static const struct qc_data_entry *choose_entry(enum qc_image_axes *axes, const struct opening *o,
                                                const struct qc_input_spec *input, struct qc_status *st)
{
    char text[600], state[400] = "";
    const char *wanted = NULL;
    size_t length;
    *axes = QC_AXES_AS_THEY_ARE;
    for (size_t i = 0; i < o->options->map_count; i++)
        if (strcmp(o->options->maps[i].input, input->name) == 0) wanted = o->options->maps[i].dataset;
    if (!wanted && o->own == 1) wanted = o->only;
    const struct qc_data_entry *e = find_entry(&o->list, wanted, input->name);
    if (e) return e;
    if (wanted && (*axes = qc_axes_of(&length, wanted)) != QC_AXES_AS_THEY_ARE) {
        const char *name = qc_arena_strndup(o->ds->arena, wanted, length, st);
        if (!name || (e = find_entry(&o->list, name, input->name))) return e;
    }
    if (wanted && ((e = find_group(o->ds, &o->list, wanted, st)) || st->code != QC_OK)) return e;
    if (input->looks_like)
        qc_text(state, sizeof state, "; or, if it is the state '%s' of the step before, give --state %s=%s",
                input->looks_like, input->name, input->looks_like);
    content_text(text, sizeof text, &o->list);
    struct qc_status ignored = QC_STATUS_INIT;
    const char **names = QC_NEW_ARRAY(o->ds->arena, const char *, o->list.count, &ignored);
    for (size_t i = 0; names && i < o->list.count; i++) names[i] = bare(o->list.entries[i].name);
    const char *close = QC_MEANT("", qc_closest(bare(wanted ? wanted : input->name), names, names ? o->list.count : 0));
    if (wanted) {
        qc_fail(st, QC_BAD_INPUT, "there is no data set '%s' (for input '%s')%s; the file has: %s", wanted, input->name,
                close, text);
        return NULL;
    }
    size_t candidates = 0;
    for (size_t i = 0; i < o->list.count; i++) {
        const char *name = o->list.entries[i].name;
        if (strcmp(name, "labels") == 0 || strcmp(name, "target") == 0 ||
            (o->own < o->count && strcmp(name, "lengths") == 0))
            continue;
        e = &o->list.entries[i];
        candidates++;
    }
    if (o->own == 1 && candidates == 1) return e;
    if ((e = find_group(o->ds, &o->list, input->name, st)) || st->code != QC_OK) return e;
    qc_fail(st, QC_BAD_INPUT, "no data set %s input '%s'%s; the file has: %s; name one with --input %s=DATASET%s",
            o->own == 1 && candidates > 1 ? "is clearly that of" : "has the name of", input->name, close, text,
            input->name, state);
    return NULL;
}

static bool check_maps(const struct opening *o, struct qc_status *st)
{
    for (size_t i = 0; i < o->options->map_count; i++) {
        char text[600] = "";
        size_t at = 0, k = 0;
        const char *given = o->options->maps[i].input;
        const char **names = QC_NEW_ARRAY(o->ds->arena, const char *, o->count, st);
        if (!names) return false;
        for (size_t n = 0; n < o->count; n++) names[n] = o->inputs[n].name;
        for (; k < o->count && strcmp(o->inputs[k].name, given) != 0; k++)
            if (at < sizeof text)
                at += (size_t)snprintf(text + at, sizeof text - at, "%s'%s'", k ? ", " : "", o->inputs[k].name);
        if (k == o->count)
            return qc_fail(st, QC_USAGE, "--input: the model has no input '%s'%s; it has %s", given,
                           QC_MEANT("", qc_closest(given, names, o->count)), text);
    }
    if (o->only && o->own > 1)
        return qc_fail(st, QC_USAGE,
                       "FILE:DATASET is for models with one input, this one has %zu; use --input NAME=DATASET", o->own);
    return true;
}

/* ---- Shapes and values ---- */

static bool numbers(const float **out, size_t *count, struct qc_reader *r, const struct qc_h5_set *s, const char *name,
                    struct qc_arena *a, struct qc_status *st)
{
    QC_FREED long double *v = NULL;
    size_t n;
    float *f = qc_reader_numbers(&v, &n, r, s, name, st) ? QC_NEW_ARRAY(a, float, n, st) : NULL;
    if (!f) return false;
    for (size_t i = 0; i < n; i++) {
        f[i] = (float)v[i];
        if (!isfinite(f[i]) || (f[i] == 0.0f && strcmp(name, "std") == 0))
            return qc_fail(st, QC_BAD_INPUT, "its attribute '%s' has the value %Lg; correct it or use --preprocess",
                           name, v[i]);
    }
    *out = f;
    *count = n;
    return true;
}

bool qc_open_set(struct qc_h5_set *out, const struct qc_memory_array **array, struct qc_dataset *ds, const char *name,
                 struct qc_status *st)
{
    if (!ds->memory) {
        if (!qc_reader_set(out, ds->reader, name, st)) return false;
        /* States that begin with zeros may be unwritten as a whole; a missing part is an error. */
        if (out->first_unwritten < 0 || out->written >= out->pieces) return true;
        if (out->written)
            return qc_fail(st, QC_BAD_INPUT,
                           "%zu of its %zu %s were never written, the first with sample %" PRId64
                           "; write them, or make the data set shorter",
                           out->pieces - out->written, out->pieces, out->grouped ? "data sets" : "chunks",
                           out->first_unwritten);
        ds->unwritten = name;
        return true;
    }
    *array = qc_memory_array_find(ds->memory, name);
    qc_memory_array_shape(out, *array);
    return qc_memory_array_begin(*array, st);
}

/* True if a text states the formula of the attributes `scale`, `mean` and `std`, in any spacing. */
static bool is_formula(const char *text)
{
    static const char *const formulas[] = {"(x*scale-mean)/std", "(x*scale-mean)/stdperchannel",
                                           "(x*scale-mean)/stdperchannel(axis1)"};
    char bare_text[64];
    size_t n = 0;
    for (; *text; text++)
        if (*text != ' ' && n < sizeof bare_text - 1) bare_text[n++] = *text;
    bare_text[n] = '\0';
    const char *right = strncmp(bare_text, "y=", 2) == 0 ? bare_text + 2 : bare_text;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (strcmp(right, formulas[i]) == 0) return true;
    return false;
}

/* Reads the attributes of a data set: `scale`, `mean` and `std`; `preprocess` is their formula or like the option. */
static bool own_preprocess(struct qc_preprocess *p, const struct qc_binding *b, struct qc_reader *r, struct qc_arena *a,
                           struct qc_status *st)
{
    const char *text;
    struct qc_status why = QC_STATUS_INIT;
    if (b->array) {
        *p = b->array->preprocess;
        return true;
    }
    if (!numbers(&p->scale, &p->scale_count, r, &b->set, "scale", a, st) ||
        !numbers(&p->mean, &p->mean_count, r, &b->set, "mean", a, st) ||
        !numbers(&p->std, &p->std_count, r, &b->set, "std", a, st) ||
        !qc_reader_text(&text, r, &b->set, "preprocess", a, st))
        return false;
    if (!text || is_formula(text)) return true;
    if (!qc_preprocess_is_none(p))
        return qc_fail(st, QC_BAD_INPUT,
                       "its attribute 'preprocess' is not 'y=(x*scale-mean)/std', but it has 'scale', 'mean' or 'std'; "
                       "remove one of them or use --preprocess");
    return qc_preprocess_parse(p, text, a, &why) ||
           qc_fail(st, QC_BAD_INPUT, "its attribute 'preprocess': %s; correct it or use --preprocess", why.message);
}

static bool check_channels(size_t count, const char *name, const struct qc_binding *b,
                           const struct qc_preprocess *given, struct qc_status *st)
{
    if (count <= 1 || (b->rank > 1 && count == b->conversion.channels)) return true;
    char text[200];
    shape_text(text, sizeof text, b->dims, b->rank);
    if (given)
        return qc_fail(st, QC_USAGE, "--preprocess gives %zu values of %s; expected 1 or as many as axis 1 of %s has",
                       count, name, text);
    return qc_fail(st, QC_BAD_INPUT,
                   "its attribute '%s' has %zu values; expected 1 or as many as axis 1 of %s has; correct it or use "
                   "--preprocess",
                   name, count, text);
}

/* Fills sizes and conversion from set, dims and the tensor's type. */
static bool finish(struct qc_binding *b, struct qc_reader *r, enum qc_dtype to, const struct qc_preprocess *given,
                   struct qc_arena *a, struct qc_status *st)
{
    struct qc_conversion *c = &b->conversion;
    if (b->set.way == QC_H5_WIDE && (to == QC_F64 || !qc_dtype_info(to)->is_float))
        return qc_fail(st, QC_UNSUPPORTED, "it holds long double numbers for an input of type %s; store them as that",
                       qc_dtype_info(to)->name);
    *c = (struct qc_conversion){.from = b->set.dtype, .to = to};
    b->elements = b->set.sizes ? b->set.row_elements : 1;
    for (unsigned i = 0; i < b->rank && !b->set.sizes; i++)
        if (!qc_mul_size(&b->elements, b->elements, (size_t)b->dims[i]))
            return qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
    if (!qc_mul_size(&b->bytes, b->elements, qc_dtype_size(to)) ||
        !qc_mul_size(&b->file_bytes, b->elements, b->set.element))
        return qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
    if (!b->may_be_empty && !qc_check_sizes(&b->set, st)) return false;
    if (b->elements == 0 && !b->input) return qc_fail(st, QC_BAD_INPUT, "its samples have no elements"); /* a target */
    struct qc_preprocess *p = &c->preprocess;
    if (given)
        *p = *given;
    else if (!own_preprocess(p, b, r, a, st))
        return false;
    size_t most = p->scale_count;
    if (p->mean_count > most) most = p->mean_count;
    if (p->std_count > most) most = p->std_count;
    /* Channels are the last axis if there are three values, and only the last axis has three. */
    b->last = most == 3 && b->rank >= 3 && b->dims[1] != 3 && b->dims[b->rank - 1] == 3;
    *c =
        qc_binding_conversion(b, b->dims); /* factors of the product above; if sizes differ, recomputed for each unit */
    return check_channels(p->scale_count, "scale", b, given, st) &&
           check_channels(p->mean_count, "mean", b, given, st) && check_channels(p->std_count, "std", b, given, st);
}

static bool fit_binding(struct qc_binding *b, const struct qc_input_spec *input, struct qc_arena *a,
                        struct qc_status *st)
{
    const struct qc_h5_set *s = &b->set;
    bool same = s->rank == input->rank, ok = same || s->rank == input->rank + 1;
    char expected[200], got[200], advice[600];
    unsigned skip = same ? 0 : 1;
    b->whole = !same;
    b->rank = input->rank;
    b->rows = 1;
    b->dims = QC_NEW_ARRAY(a, int64_t, input->rank + 1, st);
    if (!b->dims) return false;
    for (unsigned i = 0; i < input->rank && ok; i++) {
        b->dims[i] = s->dims[i + skip];
        if (same && i == 0) {
            b->dims[0] = input->dims[0] < 0 ? 1 : input->dims[0];
            b->rows = (size_t)b->dims[0];
            ok = b->rows > 0;
        } else {
            ok = input->dims[i] < 0 || input->dims[i] == b->dims[i];
        }
    }
    if (ok && b->rows > 1 && s->sizes)
        return qc_fail(st, QC_BAD_INPUT,
                       "its samples differ in size, and input '%s' takes %zu at a time; export the model with a free "
                       "batch, or a batch of 1",
                       input->name, b->rows);
    if (ok) return true;
    size_t entry;
    if ((same || s->rank == input->rank + 1) && qc_first_unfit(&entry, s, input, skip)) {
        qc_fail(st, QC_BAD_INPUT, "sample %zu does not fit input '%s': expected %s, got %s", entry, input->name,
                shape_text(expected, sizeof expected, input->dims + 1 - skip, input->rank - 1 + skip),
                shape_text(got, sizeof got, s->sizes + entry * (s->rank - 1), s->rank - 1));
        return false;
    }
    return qc_fail(st, QC_BAD_INPUT,
                   "its shape does not fit input '%s': expected %s (or one axis more in front), got %s; %s",
                   input->name, shape_text(expected, sizeof expected, input->dims, input->rank),
                   shape_text(got, sizeof got, s->dims, s->rank),
                   qc_advise_shape(advice, sizeof advice, input, b->name, s->dims, s->rank));
}

static bool bind_input(struct opening *o, size_t k, struct qc_status *st)
{
    struct qc_dataset *ds = o->ds;
    const struct qc_input_spec *input = &o->inputs[k];
    struct qc_binding *b = &ds->bindings[k];
    const struct qc_data_entry *e = choose_entry(&b->axes, o, input, st);
    if (!e) return false;
    b->name = e->name;
    b->may_be_empty = input->made == QC_MADE_EMPTY;
    b->input = qc_arena_strdup(ds->arena, input->name, st);
    bool ok = b->input != NULL;
    if (ok && (input->dtype == QC_NONE || input->dtype >= QC_DTYPE_COUNT))
        ok = qc_fail(st, QC_UNSUPPORTED, "input '%s' has an element type that is not supported", input->name);
    ok = ok && qc_open_set(&b->set, &b->array, ds, e->name, st);
    if (ok && b->set.grouped && b->set.rank == input->rank + 1 && b->set.dims[1] == 1)
        ok = qc_drop_batch_axis(&b->set, ds->arena, st);
    if (ok && b->axes != QC_AXES_AS_THEY_ARE) {
        if (b->set.rank < 4)
            ok = qc_fail(st, QC_BAD_INPUT, "it has %u axes; images with channels first or last have at least 4",
                         b->set.rank);
        else if ((ok = qc_turn_sizes(&b->set, b->axes, ds->arena, st)))
            qc_axes_turn(b->set.dims, b->set.rank, b->axes);
    }
    ok = ok && fit_binding(b, input, ds->arena, st);
    if (ok && b->set.dims[0] == 0) ok = qc_fail(st, QC_BAD_INPUT, "it has no samples");
    if (ok && (size_t)b->set.dims[0] < b->rows)
        ok = qc_fail(st, QC_BAD_INPUT, "it has %" PRId64 " samples, fewer than the model's batch of %zu",
                     b->set.dims[0], b->rows);
    ok = ok && finish(b, ds->reader, input->dtype, o->options->preprocess, ds->arena, st);
    if (input->made == QC_MADE_STATE) b->made = QC_MADE_STATE;
    b->conversion.scale = input->scale;
    b->conversion.zero_point = input->zero_point;
    return ok || qc_where(st, "data set '%s'", b->name);
}

/* Returns true if the data set of an input is named, or has its name. */
static bool has(bool *ok, const struct opening *o, const struct qc_input_spec *input, struct qc_status *st)
{
    for (size_t i = 0; i < o->options->map_count; i++)
        if (strcmp(o->options->maps[i].input, input->name) == 0) return true;
    const bool there = find_entry(&o->list, NULL, input->name) || find_group(o->ds, &o->list, input->name, st);
    *ok = *ok && st->code == QC_OK;
    return there;
}

/* Binds the inputs that the data have, then those that are made. If the data have a cache, mask and positions are not
   made: only the data tell how long it is. */
static bool bind_inputs(struct opening *o, struct qc_status *st)
{
    bool cache = false, ok = true;
    for (size_t k = 0; k < o->count; k++)
        if (o->inputs[k].made == QC_MADE_EMPTY) cache = cache || has(&ok, o, &o->inputs[k], st);
    for (unsigned made = 0; made < 2; made++)
        for (size_t k = 0; ok && k < o->count; k++) {
            const struct qc_input_spec *input = &o->inputs[k];
            const bool state = input->made == QC_MADE_STATE;
            const bool missing =
                input->made != QC_MADE_NOT && (!cache || input->rank == 0 || state) && !has(&ok, o, input, st);
            if (!ok || missing != (made == 1)) continue;
            ok = !missing ? bind_input(o, k, st)
                 : state  ? qc_bind_state(o->ds, k, o->inputs, st)
                          : qc_bind_made(o->ds, k, o->inputs, st);
            o->ds->bindings[k].output = input->output;
        }
    return ok;
}

bool qc_dataset_count(struct qc_dataset *ds, struct qc_status *st)
{
    const struct qc_binding *lead = NULL;
    for (size_t i = 0; i < ds->input_count && (!lead || lead->whole); i++)
        if (ds->bindings[i].made != QC_MADE_STATE && (!lead || !ds->bindings[i].whole)) lead = &ds->bindings[i];
    if (!lead) return qc_fail(st, QC_BAD_INPUT, "all inputs of the model are states; one must be a data set");
    ds->total = (size_t)lead->set.dims[0];
    ds->units = ds->planned = ds->all_units = ds->total / lead->rows;
    ds->dropped = ds->total % lead->rows;
    ds->batch = lead->whole ? 0 : (int64_t)lead->rows;
    if (ds->sequence_count == 1) ds->sequences[1] = ds->all_units;
    for (size_t i = 0; i < ds->input_count; i++) {
        const struct qc_binding *b = &ds->bindings[i];
        if (b->made == QC_MADE_STATE) continue;
        size_t n = (size_t)b->set.dims[0];
        if (n / b->rows != ds->units || (b->rows == lead->rows && n != ds->total))
            return qc_fail(st, QC_BAD_INPUT, "data sets '%s' and '%s' have different numbers of samples: %zu and %zu",
                           lead->name, b->name, ds->total, n);
    }
    return true;
}

static bool refuse_sizes(const struct qc_dataset *ds, struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "its samples differ in size, and the model takes %" PRId64 " at a time",
                   ds->batch);
}

static bool bind_labels(struct qc_dataset *ds, const struct qc_data_entry *e, struct qc_status *st)
{
    struct qc_h5_set *s = &ds->labels;
    if (!qc_open_set(s, &ds->label_array, ds, e->name, st)) return false;
    if (qc_dtype_info(s->dtype)->is_float)
        return qc_fail(st, QC_BAD_INPUT, "it has the type %s; expected an integer, the number of the class", e->type);
    if (s->grouped && s->rank > 2 && s->dims[1] == 1 && !qc_drop_batch_axis(s, ds->arena, st)) return false;
    if (s->sizes && ds->batch > 1) return refuse_sizes(ds, st);
    if (!qc_check_sizes(s, st)) return false;
    size_t n = (size_t)s->dims[0], whole = ds->bindings[0].rank ? (size_t)ds->bindings[0].dims[0] : 1;
    if (n == ds->total && s->row_elements > 0) {
        ds->label_rows = qc_dataset_unit_samples(ds);
        ds->label_positions = ds->batch && (s->row_elements > 1 || s->sizes);
        return qc_mul_size(&ds->label_count, ds->label_rows, s->row_elements) ||
               qc_fail(st, QC_BAD_INPUT, "%zu labels a sample do not fit in memory", s->row_elements);
    }
    if (ds->batch == 0 && s->rank == 1 && ds->bindings[0].rank && ds->bindings[0].dims[0] > 0 && n % whole == 0 &&
        n / whole == ds->total) {
        ds->label_rows = ds->label_count = whole;
        return true;
    }
    char text[200];
    return qc_fail(st, QC_BAD_INPUT, "expected one label for each of %zu samples, got shape %s", ds->total,
                   shape_text(text, sizeof text, s->dims, s->rank));
}

static bool bind_target(struct qc_dataset *ds, const struct qc_data_entry *e, struct qc_status *st)
{
    struct qc_binding *b = &ds->bindings[ds->input_count];
    *b = (struct qc_binding){.name = e->name, .rows = qc_dataset_unit_samples(ds), .whole = ds->batch == 0};
    if (!qc_open_set(&b->set, &b->array, ds, e->name, st)) return false;
    if (b->set.sizes && b->rows > 1) return refuse_sizes(ds, st);
    ds->binding_count = ds->input_count + 1;
    if ((size_t)b->set.dims[0] != ds->total)
        return qc_fail(st, QC_BAD_INPUT, "it has %" PRId64 " samples, the inputs have %zu", b->set.dims[0], ds->total);
    unsigned skip = b->whole ? 1 : 0;
    b->rank = b->set.rank - skip;
    b->dims = QC_NEW_ARRAY(ds->arena, int64_t, b->set.rank, st);
    if (!b->dims) return false;
    for (unsigned i = 0; i < b->rank; i++) b->dims[i] = b->set.dims[i + skip];
    if (!b->whole) b->dims[0] = ds->batch;
    if (!finish(b, ds->reader, QC_F32, NULL, ds->arena, st)) return false;
    const float *peak;
    size_t n;
    ds->peak = b->set.dtype == QC_U8 && qc_preprocess_is_none(&b->conversion.preprocess) ? 255.0 : 1.0;
    if (b->array) {
        if (b->array->peak > 0) ds->peak = b->array->peak;
        return true;
    }
    if (!numbers(&peak, &n, ds->reader, &b->set, "peak", ds->arena, st)) return false;
    if (n > 1 || (n == 1 && !(peak[0] > 0.0f)))
        return qc_fail(st, QC_BAD_INPUT, "its attribute 'peak' must be one number above 0");
    if (n) ds->peak = (double)peak[0];
    return true;
}

static bool bind_truth(struct opening *o, struct qc_status *st)
{
    static const char *const names[] = {"labels", "target"};
    for (size_t i = 0; i < 2; i++) {
        const struct qc_data_entry *e = find_path(&o->list, names[i]);
        if (!e && !(e = find_group(o->ds, &o->list, names[i], st)) && st->code != QC_OK) return false;
        if (e && !(i == 0 ? bind_labels(o->ds, e, st) : bind_target(o->ds, e, st)))
            return qc_where(st, "data set '%s'", e->name);
    }
    return true;
}

/* Binds labels that only describe the samples: damaged ones are no reason to refuse the inputs, but a machine without
   memory is. */
static bool bind_classes(struct opening *o, struct qc_status *st)
{
    struct qc_status unreadable = QC_STATUS_INIT;
    const struct qc_data_entry *e = find_path(&o->list, "labels");
    if (!e) e = find_group(o->ds, &o->list, "labels", &unreadable);
    if (e && !bind_labels(o->ds, e, &unreadable)) o->ds->label_count = 0;
    return unreadable.code != QC_MACHINE || qc_fail(st, QC_MACHINE, "data set 'labels': %s", unreadable.message);
}

/* Opens the sequences if an input is a state. A data set `lengths` that feeds an input is not their lengths. */
static bool open_sequences(struct opening *o, struct qc_status *st)
{
    const struct qc_data_entry *lengths = find_path(&o->list, "lengths");
    bool states = false;
    for (size_t i = 0; i < o->count; i++) {
        const struct qc_binding *b = &o->ds->bindings[i];
        states = states || b->made == QC_MADE_STATE;
        if (lengths && strcmp(b->name, lengths->name) == 0) lengths = NULL;
    }
    return !states || qc_open_states(o->ds, lengths, st);
}

/* Opens file, or memory if it is not NULL. */
static bool open_any(struct qc_dataset **out, const char *file, const struct qc_memory_data *memory,
                     const struct qc_input_spec *inputs, size_t input_count, const struct qc_dataset_options *options,
                     struct qc_status *st)
{
    struct qc_dataset_options own = *options;
    struct qc_preprocess given;
    struct opening o = {.inputs = inputs, .count = input_count, .options = &own};
    for (size_t k = 0; k < input_count; k++) o.own += inputs[k].made == QC_MADE_NOT;
    struct qc_arena *a = qc_arena_new();
    bool ok = false;
    if (!a) return qc_fail_memory(st, sizeof *o.ds);
    struct qc_dataset *ds = o.ds = QC_NEW(a, struct qc_dataset, st);
    if (!ds) {
        qc_arena_free(a);
        return false;
    }
    ds->arena = a;
    ds->peak = 1.0;
    ds->ahead = memory                       ? 0
                : options->read_ahead < 1024 ? options->read_ahead
                                             : 1024; /* memory needs no reading
                                                        ahead */
    if (input_count == 0) {
        qc_fail(st, QC_BAD_INPUT, "the model has no input; there is nothing to feed");
        goto out;
    }
    if (memory ? !(ds->file = qc_arena_strdup(a, qc_memory_data_name(memory), st))
               : !qc_dataset_split(&ds->file, &o.only, file, a, st))
        goto out;
    if (!check_maps(&o, st)) goto out;
    if (!memory) {
        ds->state = qc_file_state(ds->file);
        const struct qc_data_call call = {.path = ds->file,
                                          .inputs = inputs,
                                          .input_count = input_count,
                                          .options = options};
        if (!qc_data_source_open(&ds->own, &call, st)) goto out;
        memory = ds->own;
        if (memory) ds->ahead = 0;
    }
    if (options->preprocess) {
        if (!qc_preprocess_copy(&given, options->preprocess, a, st)) goto out;
        own.preprocess = &given;
    }
    ds->bindings = QC_NEW_ARRAY(a, struct qc_binding, input_count + 1, st);
    ds->memory = memory;
    if (!ds->bindings) goto out;
    if (!memory && !qc_reader_open(&ds->reader, ds->file, own.follow, st)) {
        qc_where(st, "%s", ds->file);
        goto out;
    }
    ok = memory ? qc_memory_data_list(&o.list, memory, a, st) : qc_reader_list(&o.list, ds->reader, a, st);
    ds->input_count = ds->binding_count = input_count;
    ok = ok && bind_inputs(&o, st) && qc_dataset_count(ds, st) && open_sequences(&o, st) &&
         (!own.truth || bind_truth(&o, st));
    ok = ok && (!own.classes || own.truth || bind_classes(&o, st));
    if (!ok) qc_where(st, "%s", ds->file);
    for (size_t k = 0; ok && k < ds->binding_count; k++)
        if (ds->bindings[k].set.sizes) ds->ahead = 0; /* its slots are for units of one size */
    /* Rows that may be unreadable are checked after the first choice. */
    ok = ok && ((ds->own && qc_memory_data_is_unsure(ds->own)) ||
                qc_dataset_choose(ds, &(struct qc_selection){.samples = 0}, st));
out:
    return QC_HAND_OVER(ok, out, ds, qc_dataset_free);
}

bool qc_dataset_open(struct qc_dataset **out, const char *file, const struct qc_input_spec *inputs, size_t input_count,
                     const struct qc_dataset_options *options, struct qc_status *st)
{
    return open_any(out, file, NULL, inputs, input_count, options, st);
}

bool qc_dataset_open_memory(struct qc_dataset **out, const struct qc_memory_data *m, const struct qc_input_spec *inputs,
                            size_t input_count, const struct qc_dataset_options *options, struct qc_status *st)
{
    return open_any(out, NULL, m, inputs, input_count, options, st);
}
