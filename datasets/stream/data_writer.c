// SPDX-License-Identifier: Apache-2.0
#include "datasets/stream/data_writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/scope.h"
#include "datasets/hdf5/chunk_codec.h"
#include "datasets/hdf5/hdf5_io.h"
#include "graph/types/number_format.h"

/* An attribute of HDF5, such as the name of a data set, has less than 64 KiB. */
enum { LONGEST_NAME = 64000 };

/* A unit to be written: its rows in their stored form. */
struct parcel {
    struct parcel *next;
    size_t unit, rows;
    unsigned rank;
    int64_t dims[QC_DATA_RANK_MAX];
    struct row {
        const void *data; /* NULL: no elements */
        size_t size;
        void *owned; /* NULL: the caller's, of a unit that is written at once */
    } row[];
};

struct output {
    const char *name, *path;
    enum qc_dtype dtype; /* stored type: float32 for floats of at most 8 bits, which HDF5 lacks */
    enum qc_dtype given;
    struct qc_preprocess preprocess;
    bool shaped;    /* dims are known: from the first unit written or, if batch > 1, the first that arrived */
    bool cut;       /* a unit is `batch` rows, else one row */
    bool scattered; /* one data set per unit, since shapes differ; those dims are -1 */
    unsigned rank;
    int64_t dims[QC_DATA_RANK_MAX];
    struct qc_h5_sink sink;
    struct parcel *waiting; /* ascending by unit */
};

struct qc_writer {
    struct qc_arena *arena;
    const char *path;
    struct qc_output *file;
    struct qc_h5_file *h5;
    int64_t batch;
    bool compressed;
    struct output *outputs;
    size_t count;
    size_t unit, turn; /* whose turn it is: unit 0 of each output, then unit 1, ..., so that the file's bytes are
                          deterministic */
    pthread_mutex_t lock;
    struct codecs {
        struct codecs *next;
        struct qc_chunk_codec *codec;
    } * idle; /* codecs that are not in use */
};

static void parcel_free(struct parcel *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->rows; i++) free(p->row[i].owned);
    free(p);
}

/* ---- Paths ---- */

/* Returns true if a is b or a group on the path of b. */
static bool leads_to(const char *a, const char *b)
{
    size_t n = strlen(a);
    return strncmp(a, b, n) == 0 && (b[n] == '\0' || b[n] == '/');
}

static bool is_taken(const struct qc_writer *w, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (leads_to(w->outputs[i].path, path) || leads_to(path, w->outputs[i].path)) return true;
    return false;
}

/* Returns true if no component is empty or "."; a leading '/' has been removed. */
static bool is_plain(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.')) return false;
        p += n;
        if (!*p) return true;
    }
}

/* Escapes '/', '.' and '%' as %2F, %2E and %25, which gives one component. */
static char *escape(struct qc_arena *a, const char *name, struct qc_status *st)
{
    size_t bytes;
    char *s = qc_mul_size(&bytes, strlen(name), 3) ? qc_arena_get(a, bytes + 2, 1, st) : NULL;
    if (!s) return NULL;
    char *p = s;
    for (; *name; name++) {
        const char *code = *name == '/' ? "%2F" : *name == '.' ? "%2E" : *name == '%' ? "%25" : NULL;
        if (code)
            memcpy(p, code, 3);
        else
            *p = *name;
        p += code ? 3 : 1;
    }
    if (p == s) *p = '%'; /* the empty name */
    return s;
}

static const char *path_for(struct qc_writer *w, size_t k, struct qc_status *st)
{
    const char *name = w->outputs[k].name, *path = name[0] == '/' ? name + 1 : name;
    if (is_plain(path) && !is_taken(w, k, path)) return path;
    path = escape(w->arena, name, st);
    while (path && is_taken(w, k, path)) path = qc_arena_printf(w->arena, st, "%s%%", path);
    return path;
}

const char *qc_writer_path(const struct qc_writer *w, size_t output)
{
    return w->outputs[output].path;
}

/* ---- Open ---- */

bool qc_writer_open(struct qc_writer **out, const char *path, const struct qc_writer_output *outputs,
                    size_t output_count, int64_t batch, bool compressed, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, sizeof **out);
    struct qc_writer *w = QC_NEW(a, struct qc_writer, st);
    if (!w) {
        qc_arena_free(a);
        return false;
    }
    w->arena = a;
    w->batch = batch;
    w->compressed = compressed;
    w->path = qc_arena_strdup(a, path, st);
    pthread_mutex_init(&w->lock, NULL);
    w->outputs = QC_NEW_ARRAY(a, struct output, output_count, st);
    bool ok = w->outputs && w->path;
    for (size_t k = 0; ok && k < output_count; k++) {
        struct output *o = &w->outputs[k];
        const size_t length = strlen(outputs[k].name);
        if (length > LONGEST_NAME) {
            ok = qc_fail(st, QC_BAD_INPUT,
                         "%s: output '%.100s...' has a name of %zu bytes, and HDF5 files hold %d at most", path,
                         outputs[k].name, length, (int)LONGEST_NAME);
            break;
        }
        o->given = outputs[k].dtype;
        o->dtype = qc_is_small_float(o->given) ? QC_F32 : o->given;
        o->name = qc_arena_strdup(a, outputs[k].name, st);
        o->path = o->name ? path_for(w, k, st) : NULL;
        ok = o->path != NULL;
        if (ok && qc_dtype_size(o->dtype) == 0)
            ok = qc_fail(st, QC_UNSUPPORTED, "output '%s' has an element type that cannot be written", o->name);
    }
    if (w->outputs) w->count = output_count;
    ok = ok && qc_output_open(&w->file, path, st) &&
         (qc_h5_create(&w->h5, qc_output_path(w->file), st) || qc_where(st, "%s", path));
    return QC_HAND_OVER(ok, out, w, qc_writer_free);
}

bool qc_writer_preprocess(struct qc_writer *w, size_t output, const struct qc_preprocess *p, struct qc_status *st)
{
    return qc_preprocess_copy(&w->outputs[output].preprocess, p, w->arena, st);
}

/* ---- Units ---- */

static struct codecs *take_codec(struct qc_writer *w, struct qc_status *st)
{
    pthread_mutex_lock(&w->lock);
    struct codecs *c = w->idle;
    if (c) w->idle = c->next;
    pthread_mutex_unlock(&w->lock);
    if (c) return c;
    c = calloc(1, sizeof *c);
    if (c && (c->codec = qc_chunk_codec_new())) return c;
    free(c);
    qc_fail_memory(st, sizeof *c);
    return NULL;
}

static bool same_shape(const struct output *o, const int64_t *dims, unsigned rank)
{
    return rank == o->rank && (rank == 0 || memcmp(dims, o->dims, rank * sizeof *dims) == 0);
}

static void fix_shape(const struct qc_writer *w, struct output *o, const int64_t *dims, unsigned rank)
{
    if (rank) memcpy(o->dims, dims, rank * sizeof *dims);
    o->rank = rank;
    o->cut = w->batch > 0 && rank > 0 && dims[0] == w->batch;
    o->shaped = true;
}

static bool other_shape(const struct output *o, struct qc_status *st)
{
    return qc_fail(st, QC_UNSUPPORTED,
                   "output '%s': its shape changes from sample to sample; it cannot be one data set", o->name);
}

/* If batch > 1, the first unit that arrives fixes the shape of all. The caller holds the lock. */
static bool check_shape(struct qc_writer *w, struct output *o, const int64_t *dims, unsigned rank, struct qc_status *st)
{
    if (rank >= QC_DATA_RANK_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "output '%s': rank %u is too large", o->name, rank);
    if (w->batch < 2) return true;
    if (!o->shaped) fix_shape(w, o, dims, rank);
    return same_shape(o, dims, rank) || other_shape(o, st);
}

static bool row_size(size_t *bytes, const struct qc_writer *w, const struct output *o, const int64_t *dims,
                     unsigned rank, struct qc_status *st)
{
    *bytes = qc_dtype_size(o->dtype);
    for (unsigned i = w->batch > 0 && rank > 0 && dims[0] == w->batch ? 1 : 0; i < rank; i++)
        if (!qc_mul_size(bytes, *bytes, (size_t)dims[i]))
            return qc_fail(st, QC_UNSUPPORTED, "output '%s' is too large", o->name);
    return *bytes <= UINT32_MAX ||
           qc_fail(st, QC_UNSUPPORTED, "output '%s': %zu bytes per sample, HDF5 takes less than 4 GiB", o->name,
                   *bytes);
}

/* Makes the stored form of a row of `size` bytes. codec: NULL: not compressed. keep: data outlives the parcel. */
static bool encode(struct row *to, const void *data, size_t size, size_t element, struct qc_chunk_codec *codec,
                   bool keep, struct qc_status *st)
{
    *to = (struct row){.data = data, .size = size};
    if (keep && !codec) return true;
    if (codec) {
        if (!qc_chunk_encode(&to->owned, &to->size, data, size, element, codec, st)) return false;
    } else {
        if (!(to->owned = malloc(size))) return qc_fail_memory(st, size);
        memcpy(to->owned, data, size);
    }
    to->data = to->owned;
    return true;
}

/* at_once: the parcel is written and freed before the caller's data changes. */
static struct parcel *pack_parcel(struct qc_writer *w, const struct output *o, size_t unit, const void *data,
                                  const int64_t *dims, unsigned rank, bool at_once, struct qc_status *st)
{
    size_t rows = w->batch > 1 && o->cut ? (size_t)w->batch : 1, bytes, each;
    struct parcel *p = NULL;
    if (!row_size(&each, w, o, dims, rank, st)) return NULL;
    if (!qc_mul_size(&bytes, rows, sizeof p->row[0]) || !(p = calloc(1, sizeof *p + bytes))) {
        qc_fail_memory(st, rows);
        return NULL;
    }
    p->unit = unit;
    p->rows = rows;
    p->rank = rank;
    if (rank) memcpy(p->dims, dims, rank * sizeof *dims);
    struct codecs *c = each && w->compressed ? take_codec(w, st) : NULL;
    float *wide = NULL; /* floats of at most 8 bits as float32 */
    if (each && o->given != o->dtype) {
        const size_t n = rows * each / sizeof *wide;
        if (!(wide = malloc(n * sizeof *wide + 1))) qc_fail_memory(st, n);
        for (size_t i = 0; wide && i < n; i++) wide[i] = qc_small_to_float(o->given, ((const uint8_t *)data)[i]);
    }
    bool ok = !each || ((c || !w->compressed) && (wide || o->given == o->dtype));
    if (wide) data = wide;
    for (size_t i = 0; ok && each && i < rows; i++)
        ok = encode(&p->row[i], (const char *)data + i * each, each, qc_dtype_size(o->dtype), c ? c->codec : NULL,
                    at_once && !wide, st);
    if (c) {
        pthread_mutex_lock(&w->lock);
        c->next = w->idle;
        w->idle = c;
        pthread_mutex_unlock(&w->lock);
    }
    free(wide);
    if (ok) return p;
    parcel_free(p);
    return NULL;
}

static bool open_sink(struct qc_writer *w, struct output *o, const int64_t *dims, unsigned rank, struct qc_status *st)
{
    const struct qc_preprocess *p = &o->preprocess;
    const struct qc_h5_sink_form form = {
        .path = o->path, .title = o->name, .dtype = o->dtype, .rank = rank, .dims = dims, .compressed = w->compressed};
    return qc_h5_sink_open(&o->sink, w->h5, &form, st) &&
           qc_h5_sink_numbers(&o->sink, "scale", p->scale, p->scale_count, st) &&
           qc_h5_sink_numbers(&o->sink, "mean", p->mean, p->mean_count, st) &&
           qc_h5_sink_numbers(&o->sink, "std", p->std, p->std_count, st);
}

/* Changes the output to one data set per unit, because this unit has another shape than those before. */
static bool scatter(struct qc_writer *w, struct output *o, const struct parcel *p, struct qc_status *st)
{
    if (w->batch > 1 || p->rank != o->rank || p->rank == 0) return other_shape(o, st);
    if (!qc_h5_scatter(&o->sink, w->h5, o->path, (int64_t)p->unit, o->dims, o->rank, st)) return false;
    o->scattered = true;
    o->cut = false;
    return true;
}

struct qc_shape qc_writer_shape(const struct qc_writer *w, size_t output)
{
    const struct output *o = &w->outputs[output];
    int64_t dims[QC_DATA_RANK_MAX + 1] = {(int64_t)w->unit * (o->cut ? w->batch : 1)};
    const unsigned skip = o->cut ? 1 : 0, rank = 1 + o->rank - skip;
    for (unsigned i = skip; i < o->rank; i++) dims[1 + i - skip] = o->dims[i];
    return qc_shape_of(rank < QC_RANK_MAX ? (int)rank : QC_RANK_MAX, dims);
}

/* Writes the units whose turn has come. The caller holds the lock. */
static bool flush(struct qc_writer *w, struct qc_status *st)
{
    bool ok = true;
    while (ok) {
        struct output *o = &w->outputs[w->turn];
        struct parcel *p = o->waiting;
        if (!p || p->unit != w->unit) break;
        if (p->unit == 0) {
            if (!o->shaped) fix_shape(w, o, p->dims, p->rank);
            ok = open_sink(w, o, o->dims + (o->cut ? 1 : 0), o->rank - (o->cut ? 1 : 0), st);
        }
        if (ok && !o->scattered && !same_shape(o, p->dims, p->rank)) ok = scatter(w, o, p, st);
        if (ok && o->scattered) {
            for (unsigned d = 0; d < p->rank && p->rank == o->rank; d++)
                if (o->dims[d] != p->dims[d]) o->dims[d] = -1;
            ok = p->rank == o->rank ? qc_h5_scatter_add(&o->sink, (int64_t)p->unit, p->dims, p->rank, p->row[0].data,
                                                        p->row[0].size, st)
                                    : other_shape(o, st);
        }
        for (size_t i = 0; ok && !o->scattered && i < p->rows; i++)
            ok = qc_h5_sink_append(&o->sink, (int64_t)(p->unit * p->rows + i), p->row[i].data, p->row[i].size, st);
        ok = ok || qc_where(st, "%s: output '%s'", w->path, o->name);
        o->waiting = p->next;
        parcel_free(p);
        if (++w->turn == w->count) {
            w->turn = 0;
            w->unit++;
        }
    }
    return ok;
}

bool qc_writer_put(struct qc_writer *w, size_t output, size_t unit, const void *data, const int64_t *dims,
                   unsigned rank, struct qc_status *st)
{
    struct output *o = &w->outputs[output];
    pthread_mutex_lock(&w->lock);
    bool ok = check_shape(w, o, dims, rank, st);
    const bool at_once = unit == w->unit && output == w->turn; /* and stays so until it is written */
    pthread_mutex_unlock(&w->lock);
    struct parcel *p = ok ? pack_parcel(w, o, unit, data, dims, rank, at_once, st) : NULL;
    if (!p) return false;
    pthread_mutex_lock(&w->lock);
    struct parcel **at = &o->waiting;
    while (*at && (*at)->unit < unit) at = &(*at)->next;
    bool written = unit < w->unit || (unit == w->unit && output < w->turn);
    if (written || (*at && (*at)->unit == unit)) {
        ok = qc_fail(st, QC_BAD_INPUT, "output '%s': unit %zu is given twice", o->name, unit);
        parcel_free(p);
    } else {
        p->next = *at;
        *at = p;
        ok = flush(w, st);
    }
    pthread_mutex_unlock(&w->lock);
    return ok;
}

/* ---- End ---- */

bool qc_writer_commit(struct qc_writer *w, struct qc_status *st)
{
    bool ok = true, missing = w->turn > 0;
    for (size_t k = 0; k < w->count; k++) missing = missing || w->outputs[k].waiting;
    if (missing)
        return qc_fail(st, QC_BAD_INPUT, "output '%s': unit %zu is missing", w->outputs[w->turn].name, w->unit);
    for (size_t k = 0; ok && k < w->count; k++) {
        struct output *o = &w->outputs[k];
        if (w->unit == 0) ok = open_sink(w, o, NULL, 0, st);
        ok = ok && qc_h5_sink_close(&o->sink, st);
        if (!ok) qc_where(st, "%s: output '%s'", w->path, o->name);
    }
    if (!ok) return false;
    struct qc_h5_file *f = w->h5;
    w->h5 = NULL;
    return (qc_h5_close(f, st) || qc_where(st, "%s", w->path)) && qc_output_commit(w->file, st);
}

void qc_writer_free(struct qc_writer *w)
{
    if (!w) return;
    struct qc_status ignored = QC_STATUS_INIT; /* an uncommitted file is removed */
    for (size_t k = 0; k < w->count; k++) {
        struct output *o = &w->outputs[k];
        for (struct parcel *p = o->waiting, *next; p; p = next) {
            next = p->next;
            parcel_free(p);
        }
        qc_h5_sink_close(&o->sink, &ignored);
    }
    for (struct codecs *c = w->idle, *next; c; c = next) {
        next = c->next;
        qc_chunk_codec_free(c->codec);
        free(c);
    }
    qc_h5_close(w->h5, &ignored);
    qc_output_free(w->file);
    pthread_mutex_destroy(&w->lock);
    qc_arena_free(w->arena); /* holds *w */
}
