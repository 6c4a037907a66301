// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/archive.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/file_map.h"
#include "base/scope.h"
#include "datasets/hdf5/chunk_codec.h"
#include "datasets/hdf5/data_reader.h"
#include "datasets/hdf5/hdf5_lib.h"
#include "datasets/hdf5/reader_process.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "chunks are stored and read as they are in memory");

enum {
    CHUNK_ROWS = 1 << 16,
    TEXT_MAX = 1 << 20,
    TEXTS_BYTES_MAX = 1 << 28,
    DEFLATE_MAX = 1032 /* bytes from one byte: RFC 1951 */
};

struct qc_archive {
    hid_t file;                 /* open here while it is made, in the reading process while it is read */
    size_t size;                /* of the image */
    struct qc_process *process; /* the reading process; NULL: the archive is being made */
    void *image;                /* of a file that is made: [capacity], in `map` if it is large */
    size_t capacity;
    struct qc_file_map *map;
    bool saving; /* the image outlives the library's file */
};

/* A larger image lies in a temporary file, and grows to twice its size. */
enum { IMAGE_IN_MEMORY = 16 << 20 };

static void drop_image(struct qc_archive *a)
{
    if (a->map)
        qc_file_map_unref(a->map);
    else
        free(a->image);
    a->map = NULL;
    a->image = NULL;
    a->capacity = 0;
}

/* Callbacks of the library for the memory of a file. */
static void *resize_image(void *image, size_t size, H5FD_file_image_op_t why, void *user)
{
    struct qc_archive *a = user;
    struct qc_file_map *map = NULL;
    struct qc_status no_room = QC_STATUS_INIT; /* then it stays in memory */
    void *larger;
    if (a->image && size <= a->capacity) return a->image;
    size_t capacity = size + size / 2;
    if (size >= IMAGE_IN_MEMORY && qc_file_map_scratch(&map, capacity, &no_room))
        larger = qc_file_map_room(map);
    else if (!(larger = malloc(capacity = size)))
        return NULL;
    if (a->image) memcpy(larger, a->image, a->capacity);
    drop_image(a);
    a->map = map;
    a->image = larger;
    a->capacity = capacity;
    return larger;
}

static herr_t free_image(void *image, H5FD_file_image_op_t why, void *user)
{
    struct qc_archive *a = user;
    if (!a->saving) drop_image(a);
    return 0;
}

static void *same_user(void *user)
{
    return user;
}

static herr_t keep_user(void *user)
{
    return 0;
}

/* No times in the file, and object headers of version 2, which tracking attribute order implies. They have checksums;
   the library reads damaged headers of version 1 beyond their end. */
static bool plain_objects(hid_t creation)
{
    return H5Pset_obj_track_times(creation, false) >= 0 &&
           H5Pset_attr_creation_order(creation, H5P_CRT_ORDER_TRACKED) >= 0;
}

/* Access to a file in memory: an image to read, or a new file. */
static hid_t memory_access(const void *image, size_t size, struct qc_archive *a)
{
    H5FD_file_image_callbacks_t own = {.image_realloc = resize_image,
                                       .image_free = free_image,
                                       .udata_copy = same_user,
                                       .udata_free = keep_user,
                                       .udata = a};
    hid_t p = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(p, H5F_CLOSE_STRONG);
    if (H5Pset_fapl_core(p, 1 << 20, false) < 0 || (!image && H5Pset_file_image_callbacks(p, &own) < 0) ||
        (image && H5Pset_file_image(p, (void *)(uintptr_t)image, size) < 0)) {
        H5Pclose(p);
        return -1;
    }
    return p;
}

/* HDF5 tells files in memory apart by name, so each gets its own; the name is not stored in the file. */
static bool start(struct qc_archive **out, const void *image, size_t size, struct qc_status *st)
{
    struct qc_archive *a = malloc(sizeof *a);
    char name[64];
    if (!a) return qc_fail_memory(st, sizeof *a);
    *a = (struct qc_archive){.size = size};
    qc_text(name, sizeof name, "archive %p", (void *)a);
    QC_H5_LOCKED;
    QC_H5_OWN access = memory_access(image, size, a), creation = H5Pcreate(H5P_FILE_CREATE);
    const bool made = plain_objects(creation);
    a->file = access < 0 || !made ? -1
              : image             ? H5Fopen(name, H5F_ACC_RDONLY, access)
                                  : H5Fcreate(name, H5F_ACC_TRUNC, creation, access);
    if (a->file < 0 && image)
        qc_h5_fail(st, QC_BAD_INPUT, "this is not an HDF5 file, or it is truncated or damaged; make or copy it again");
    if (a->file < 0 && !image) qc_h5_fail(st, QC_MACHINE, "cannot make an HDF5 file in memory");
    if (a->file < 0) {
        free(a);
        return false;
    }
    *out = a;
    return true;
}

bool qc_archive_new(struct qc_archive **out, struct qc_status *st)
{
    return start(out, NULL, 0, st);
}

void qc_archive_free(struct qc_archive *a)
{
    if (!a) return;
    qc_process_end(a->process);
    qc_h5_enter();
    if (a->file >= 0) H5Fclose(a->file);
    qc_h5_leave();
    drop_image(a);
    free(a);
}

/* ---- Writing ---- */

static bool put_attribute(struct qc_archive *a, const char *name, hid_t type, const void *data, struct qc_status *st)
{
    QC_H5_OWN space = H5Screate(H5S_SCALAR),
              attribute = H5Acreate2(a->file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    return (attribute >= 0 && H5Awrite(attribute, type, data) >= 0) ||
           qc_h5_fail(st, QC_MACHINE, "cannot make the attribute") || qc_where(st, "attribute '%s'", name);
}

bool qc_archive_put_text(struct qc_archive *a, const char *name, const char *text, struct qc_status *st)
{
    QC_H5_LOCKED;
    QC_H5_OWN type = qc_h5_text_type(strlen(text));
    return put_attribute(a, name, type, text, st);
}

bool qc_archive_put_number(struct qc_archive *a, const char *name, uint64_t number, struct qc_status *st)
{
    QC_H5_LOCKED;
    return put_attribute(a, name, H5T_STD_U64LE, &number, st);
}

/* Creates the groups of a path, without times. */
static bool make_groups(struct qc_archive *a, const char *path)
{
    const char *slash = strchr(path, '/');
    char name[64];
    if (!slash) return true;
    qc_text(name, sizeof name, "%.*s", (int)(slash - path), path);
    if (H5Lexists(a->file, name, H5P_DEFAULT) > 0) return true;
    QC_H5_OWN creation = H5Pcreate(H5P_GROUP_CREATE);
    QC_H5_OWN group = plain_objects(creation) ? H5Gcreate2(a->file, name, H5P_DEFAULT, creation, H5P_DEFAULT) : -1;
    return group >= 0;
}

/* The rows of a data set: `data`, or computed by `next` if that is NULL. */
struct row_source {
    const void *data;
    qc_archive_next *next;
    void *user;
};

/* Writes chunk by chunk. */
static bool write_computed(hid_t set, hid_t type, hid_t space, size_t rows, size_t columns,
                           const struct row_source *from, struct qc_status *st)
{
    const size_t most = rows < CHUNK_ROWS ? rows : CHUNK_ROWS, row = H5Tget_size(type) * (columns ? columns : 1);
    QC_FREED void *part = malloc(most * row);
    if (!part) return qc_fail_memory(st, most * row);
    for (size_t r = 0; r < rows; r += most) {
        const hsize_t at[2] = {r, 0}, count[2] = {rows - r < most ? rows - r : most, columns};
        if (!from->next(from->user, part, (size_t)count[0], st)) return false;
        QC_H5_OWN here = H5Screate_simple(columns ? 2 : 1, count, NULL);
        if (here < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL) < 0 ||
            H5Dwrite(set, type, here, space, H5P_DEFAULT, part) < 0)
            return false;
    }
    return true;
}

/* The caller holds the lock. */
static bool put_set(struct qc_archive *a, const char *path, hid_t type, size_t rows, size_t columns,
                    const struct row_source *from, struct qc_status *st)
{
    hsize_t dims[2] = {rows, columns}, chunk[2] = {rows < CHUNK_ROWS ? rows : CHUNK_ROWS, columns};
    int rank = columns ? 2 : 1;
    hid_t set = -1;
    QC_H5_OWN space = H5Screate_simple(rank, dims, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    bool ok = make_groups(a, path) && plain_objects(creation);
    /* Mandatory filters. H5Pset_shuffle and H5Pset_deflate make them optional: a filter that fails, for example without
       memory, is skipped silently. Our reader refuses chunks stored in any other way. */
    if (ok && rows)
        ok = H5Pset_chunk(creation, rank, chunk) >= 0 &&
             H5Pset_filter(creation, H5Z_FILTER_SHUFFLE, H5Z_FLAG_MANDATORY, 0, NULL) >= 0 &&
             H5Pset_filter(creation, H5Z_FILTER_DEFLATE, H5Z_FLAG_MANDATORY, 1, &(unsigned){4}) >= 0;
    ok = ok && (set = H5Dcreate2(a->file, path, type, space, H5P_DEFAULT, creation, H5P_DEFAULT)) >= 0 &&
         (!rows || (from->data ? H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, from->data) >= 0
                               : write_computed(set, type, space, rows, columns, from, st)));
    if (set >= 0 && H5Dclose(set) < 0) ok = false; /* filters run here, when chunks leave the library's cache */
    return ok || qc_h5_fail(st, QC_MACHINE, "cannot make the data set") || qc_where(st, "data set '%s'", path);
}

bool qc_archive_put(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                    const void *data, struct qc_status *st)
{
    QC_H5_LOCKED;
    QC_H5_OWN type = qc_h5_type_for_file(dtype);
    return put_set(a, path, type, rows, columns, &(struct row_source){.data = data}, st);
}

bool qc_archive_put_from(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                         qc_archive_next *next, void *user, struct qc_status *st)
{
    QC_H5_LOCKED;
    QC_H5_OWN type = qc_h5_type_for_file(dtype);
    return put_set(a, path, type, rows, columns, &(struct row_source){.next = next, .user = user}, st);
}

bool qc_archive_put_texts(struct qc_archive *a, const char *path, size_t count, const char *const *texts,
                          struct qc_status *st)
{
    size_t longest = 1, bytes;
    for (size_t i = 0; i < count; i++) longest = strlen(texts[i]) > longest ? strlen(texts[i]) : longest;
    if (!qc_mul_size(&bytes, count ? count : 1, longest) || bytes > TEXTS_BYTES_MAX) {
        qc_fail(
            st, QC_UNSUPPORTED,
            "%zu names, the longest of %zu bytes, exceed the limit of readers (%d MB); give the model shorter names",
            count, longest, (int)(TEXTS_BYTES_MAX >> 20));
        return qc_where(st, "data set '%s'", path);
    }
    QC_FREED char *all = calloc(bytes, 1);
    if (!all) return qc_fail_memory(st, bytes);
    for (size_t i = 0; i < count; i++) memcpy(all + i * longest, texts[i], strlen(texts[i]));
    QC_H5_LOCKED;
    QC_H5_OWN type = qc_h5_text_type(longest);
    return put_set(a, path, type, count, 0, &(struct row_source){.data = all}, st);
}

bool qc_archive_bytes(void **out, size_t *size, struct qc_archive *a, struct qc_status *st)
{
    QC_H5_LOCKED;
    ssize_t n = H5Fflush(a->file, H5F_SCOPE_GLOBAL) >= 0 ? H5Fget_file_image(a->file, NULL, 0) : -1;
    void *bytes = n > 0 ? malloc((size_t)n) : NULL;
    bool ok = bytes && H5Fget_file_image(a->file, bytes, (size_t)n) == n;
    if (!ok) {
        free(bytes);
        return qc_h5_fail(st, QC_MACHINE, "cannot finish the HDF5 file in memory");
    }
    *out = bytes;
    *size = (size_t)n;
    return true;
}

bool qc_archive_save(const char *path, struct qc_archive *a, struct qc_status *st)
{
    qc_h5_enter();
    const ssize_t n = H5Fflush(a->file, H5F_SCOPE_GLOBAL) >= 0 ? H5Fget_file_image(a->file, NULL, 0) : -1;
    const hid_t file = a->file;
    a->saving = true;
    a->file = -1;
    /* Closing clears the mark of an open file. */
    const bool ok = (H5Fclose(file) >= 0 && n > 0 && (size_t)n <= a->capacity) ||
                    qc_h5_fail(st, QC_MACHINE, "cannot finish the HDF5 file in memory");
    qc_h5_leave();
    return ok && qc_file_write(path, a->image, (size_t)n, st);
}

/* ---- Reading, in the other process ---- */

/* Opens a scalar attribute of a class. Returns false if there is none; the caller closes both in any case. */
static bool open_attribute(hid_t *attribute, hid_t *type, const struct qc_archive *f, const char *name,
                           H5T_class_t class)
{
    *attribute = H5Aexists(f->file, name) > 0 ? H5Aopen(f->file, name, H5P_DEFAULT) : -1;
    if (*attribute < 0) return false;
    QC_H5_OWN space = H5Aget_space(*attribute);
    *type = H5Aget_type(*attribute);
    return space >= 0 && *type >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Tget_class(*type) == class &&
           (class != H5T_STRING || (H5Tis_variable_str(*type) == 0 && H5Tget_size(*type) <= TEXT_MAX));
}

static bool missing(const char *name, struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "attribute '%s' is missing or damaged; make or copy the file again", name);
}

static bool work_text(struct qc_reply *out, void **state, const void *name, size_t name_size, struct qc_status *st)
{
    QC_H5_LOCKED;
    QC_H5_OWN attribute = -1, type = -1;
    const bool there = open_attribute(&attribute, &type, *state, name, H5T_STRING);
    void *text = there ? qc_reply_add(out, H5Tget_size(type), st) : NULL;
    return (text && H5Aread(attribute, type, text) >= 0) || missing(name, st);
}

static bool work_number(struct qc_reply *out, void **state, const void *name, size_t name_size, struct qc_status *st)
{
    void *number = qc_reply_add(out, sizeof(uint64_t), st);
    if (!number) return false;
    QC_H5_LOCKED;
    QC_H5_OWN attribute = -1, type = -1;
    return (open_attribute(&attribute, &type, *state, name, H5T_INTEGER) &&
            H5Aread(attribute, H5T_NATIVE_UINT64, number) >= 0) ||
           missing(name, st);
}

struct opened {
    hid_t set, type;
    size_t rows, chunk_rows;
};

static void close_set(struct opened *s)
{
    if (s->type >= 0) H5Tclose(s->type);
    if (s->set >= 0) H5Dclose(s->set);
}

/* Returns true for the layout that put_set writes. */
static bool is_ours(hid_t creation, const hsize_t *dims, int rank)
{
    hsize_t chunk[2] = {0, 0};
    size_t none[2] = {0, 0};
    unsigned flags, config;
    return dims[0] == 0 ||
           (H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, rank, chunk) == rank &&
            chunk[0] == (dims[0] < CHUNK_ROWS ? dims[0] : CHUNK_ROWS) && chunk[1] == dims[1] &&
            H5Pget_nfilters(creation) == 2 &&
            H5Pget_filter2(creation, 0, &flags, &none[0], NULL, 0, NULL, &config) == H5Z_FILTER_SHUFFLE &&
            H5Pget_filter2(creation, 1, &flags, &none[1], NULL, 0, NULL, &config) == H5Z_FILTER_DEFLATE);
}

/* Opens a data set of [rows] or [rows, columns]. The caller holds the lock. */
static bool open_archived(struct opened *out, const struct qc_archive *f, const char *path, size_t columns, size_t most,
                          struct qc_status *st)
{
    hsize_t dims[2] = {0, 0};
    const int rank = columns ? 2 : 1;
    struct opened s = {.set = H5Dopen2(f->file, path, H5P_DEFAULT), .type = -1};
    QC_H5_OWN space = -1, creation = -1;
    bool ok = s.set >= 0 && (s.type = H5Dget_type(s.set)) >= 0 && (space = H5Dget_space(s.set)) >= 0 &&
              (creation = H5Dget_create_plist(s.set)) >= 0;
    if (!ok) qc_h5_fail(st, QC_BAD_INPUT, "is missing or damaged; make or copy the file again");
    if (ok && (H5Sget_simple_extent_ndims(space) != rank || H5Sget_simple_extent_dims(space, dims, NULL) < 0 ||
               dims[1] != columns || dims[0] > most))
        ok = qc_fail(st, QC_BAD_INPUT, "has another shape than expected, %llu rows; at most %zu are",
                     (unsigned long long)dims[0], most);
    if (ok && dims[0] > 0 && dims[0] > SIZE_MAX / (rank == 2 ? columns : 1) / H5Tget_size(s.type))
        ok = qc_fail(st, QC_BAD_INPUT, "is too large");
    if (ok && dims[0] * (rank == 2 ? columns : 1) * H5Tget_size(s.type) / DEFLATE_MAX > f->size)
        ok = qc_fail(st, QC_BAD_INPUT,
                     "says it has %llu rows, more than a file of %zu bytes can hold; make or copy it again",
                     (unsigned long long)dims[0], f->size);
    if (ok && !is_ours(creation, dims, rank))
        ok = qc_fail(st, QC_BAD_INPUT, "is not stored in the layout of this program; use the original file");
    s.rows = (size_t)dims[0];
    s.chunk_rows = s.rows < CHUNK_ROWS ? s.rows : CHUNK_ROWS;
    return QC_HAND_OVER_VALUE(ok, out, s, close_set);
}

/* Reads all rows. We undo the filters ourselves: HDF5 reads beyond a chunk whose stream is too short. The caller holds
   the lock. */
static bool read_set(void *out, const struct opened *s, const struct qc_archive *f, size_t columns, size_t element,
                     struct qc_status *st)
{
    const size_t row = element * (columns ? columns : 1), chunk = s->chunk_rows * row;
    struct qc_chunk_codec *codec = qc_chunk_codec_new();
    QC_FREED char *plain = malloc(chunk ? chunk : 1);
    QC_FREED void *raw = NULL;
    bool ok = (codec && plain) || qc_fail_memory(st, chunk);
    for (size_t r = 0; ok && r < s->rows; r += s->chunk_rows) {
        hsize_t start[2] = {r, 0}, size = 0;
        uint32_t mask = 0;
        size_t rows = s->rows - r < s->chunk_rows ? s->rows - r : s->chunk_rows;
        if (H5Dget_chunk_storage_size(s->set, start, &size) < 0 || !size || size > f->size)
            ok = qc_fail(st, QC_BAD_INPUT, "is damaged; make or copy the file again");
        void *more = ok ? realloc(raw, (size_t)size) : NULL;
        if (ok && !more) ok = qc_fail_memory(st, size);
        if (!ok) break;
        raw = more;
        if (H5Dread_chunk(s->set, H5P_DEFAULT, start, &mask, raw) < 0 || mask)
            ok = qc_h5_fail(st, QC_BAD_INPUT, "is damaged; make or copy the file again");
        ok = ok && qc_chunk_decode(plain, chunk, element, raw, (size_t)size,
                                   (struct qc_chunk_filters){.shuffle = element > 1, .deflate = true}, codec, st);
        if (ok) memcpy((char *)out + r * row, plain, rows * row);
    }
    qc_chunk_codec_free(codec);
    return ok;
}

/* A request, and the header of its answer. */
struct wanted {
    size_t columns, most;
    enum qc_dtype dtype; /* QC_NONE: texts */
    char path[68];
};
_Static_assert(sizeof(struct wanted) == 2 * sizeof(size_t) + sizeof(enum qc_dtype) + 68, "it is sent without padding");
struct found {
    size_t rows, element;
};

static bool add_set(struct qc_reply *out, const struct opened *s, const struct wanted *w, const struct qc_archive *f,
                    struct qc_status *st)
{
    const struct found found = {.rows = s->rows, .element = H5Tget_size(s->type)};
    size_t bytes;
    if (w->dtype == QC_NONE && (H5Tget_class(s->type) != H5T_STRING || H5Tis_variable_str(s->type) != 0))
        return qc_fail(st, QC_BAD_INPUT, "holds no strings of fixed length");
    QC_H5_OWN wanted = qc_h5_type_for_file(w->dtype);
    if (w->dtype != QC_NONE && H5Tequal(s->type, wanted) <= 0)
        return qc_fail(st, QC_BAD_INPUT, "is of another type than expected");
    if (!qc_mul_size(&bytes, found.rows, w->columns ? w->columns : 1) || !qc_mul_size(&bytes, bytes, found.element) ||
        (w->dtype == QC_NONE && bytes > TEXTS_BYTES_MAX))
        return qc_fail(st, QC_BAD_INPUT, "is too large");
    void *head = qc_reply_add(out, sizeof found, st);
    if (head) memcpy(head, &found, sizeof found);
    void *data = head ? qc_reply_add(out, bytes, st) : NULL;
    return data && read_set(data, s, f, w->columns, found.element, st);
}

static bool work_archive_set(struct qc_reply *out, void **state, const void *arguments, size_t size,
                             struct qc_status *st)
{
    const struct qc_archive *f = *state;
    const struct wanted *w = arguments;
    struct opened s;
    QC_H5_LOCKED;
    bool ok = open_archived(&s, f, w->path, w->columns, w->most, st);
    if (ok) {
        ok = add_set(out, &s, w, f, st);
        close_set(&s);
    }
    return ok || qc_where(st, "data set '%s'", w->path);
}

/* The image is also in the reading process: it existed before the fork. */
struct image {
    const void *bytes;
    size_t size;
};

static bool work_archive_open(struct qc_reply *out, void **state, const void *arguments, size_t size,
                              struct qc_status *st)
{
    const struct image *image = arguments;
    struct qc_archive *f = NULL;
    if (!start(&f, image->bytes, image->size, st)) return false;
    *state = f;
    return true;
}

/* ---- Reading, here ---- */

bool qc_archive_open(struct qc_archive **out, const void *bytes, size_t size, struct qc_status *st)
{
    const struct image image = {.bytes = bytes, .size = size};
    struct qc_reply none = {.fixed = true, .data = &none};
    struct qc_archive *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_archive){.file = -1, .size = size};
    if (!qc_process_start(&f->process, &qc_process_hdf5, st) ||
        !qc_process_ask(&none, f->process, work_archive_open, &image, sizeof image, size, st)) {
        qc_archive_free(f);
        return false;
    }
    *out = f;
    return true;
}

bool qc_archive_marked(bool *marked, const char *path, const char *name, struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    struct qc_reader *r = NULL;
    *marked = false;
    if (!qc_data_is_hdf5(path)) return true;
    const bool ok = qc_reader_open(&r, path, QC_FOLLOW_NOTHING, &why) && qc_reader_is_marked(marked, r, name, &why);
    qc_reader_close(r);
    return ok || qc_fail(st, why.code, "%s: %s", path, why.message);
}

bool qc_archive_text(const char **out, const struct qc_archive *f, const char *name, struct qc_arena *a,
                     struct qc_status *st)
{
    struct qc_reply reply = {.data = NULL};
    const bool ok = qc_process_ask(&reply, f->process, work_text, name, strlen(name) + 1, f->size, st);
    const char *text = ok ? qc_arena_strndup(a, reply.data, strnlen(reply.data, reply.size), st) : NULL;
    free(reply.data);
    if (text) *out = text;
    return text != NULL;
}

bool qc_archive_number(uint64_t *out, const struct qc_archive *f, const char *name, struct qc_status *st)
{
    uint64_t number = 0;
    struct qc_reply reply = {.data = &number, .capacity = sizeof number, .fixed = true};
    if (!qc_process_ask(&reply, f->process, work_number, name, strlen(name) + 1, f->size, st)) return false;
    *out = number;
    return true;
}

/* Requests a data set. The caller owns the answer, which is checked to have the size that `found` gives. */
static bool ask_set(struct qc_reply *out, struct found *found, const struct qc_archive *f,
                    const struct qc_archive_set *set, struct qc_status *st)
{
    struct wanted w = {.dtype = set->dtype, .columns = set->columns, .most = set->most};
    size_t bytes;
    qc_text(w.path, sizeof w.path, "%s", set->path);
    if (!qc_process_ask(out, f->process, work_archive_set, &w, sizeof w, f->size, st)) return false;
    if (out->size >= sizeof *found) memcpy(found, out->data, sizeof *found);
    return (out->size >= sizeof *found && found->rows <= set->most &&
            (set->dtype == QC_NONE ? found->element > 0 : found->element == qc_dtype_size(set->dtype)) &&
            qc_mul_size(&bytes, found->rows, set->columns ? set->columns : 1) &&
            qc_mul_size(&bytes, bytes, found->element) && bytes == out->size - sizeof *found) ||
           qc_fail(st, QC_BAD_INPUT, "data set '%s' is inconsistent; make or copy the file again", set->path);
}

bool qc_archive_get(void **out, size_t *rows, const struct qc_archive *f, const struct qc_archive_set *set,
                    struct qc_arena *a, struct qc_status *st)
{
    struct qc_reply reply = {.data = NULL};
    struct found found;
    void *data = NULL;
    bool ok = ask_set(&reply, &found, f, set, st);
    const size_t row = qc_dtype_size(set->dtype) * (set->columns ? set->columns : 1);
    if (ok) ok = (data = qc_arena_get(a, found.rows ? found.rows : 1, row, st)) != NULL;
    if (ok) memcpy(data, (char *)reply.data + sizeof found, reply.size - sizeof found);
    free(reply.data);
    if (!ok) return false;
    *out = data;
    *rows = found.rows;
    return true;
}

bool qc_archive_get_texts(const char ***out, size_t *count, const struct qc_archive *f, const char *path, size_t most,
                          struct qc_arena *a, struct qc_status *st)
{
    struct qc_reply reply = {.data = NULL};
    struct found found;
    const char **texts = NULL;
    bool ok = ask_set(&reply, &found, f, &(struct qc_archive_set){.path = path, .dtype = QC_NONE, .most = most}, st) &&
              (texts = QC_NEW_ARRAY(a, const char *, found.rows, st));
    for (size_t i = 0; ok && i < found.rows; i++) {
        const char *text = (const char *)reply.data + sizeof found + i * found.element;
        ok = (texts[i] = qc_arena_strndup(a, text, strnlen(text, found.element), st)) != NULL;
    }
    free(reply.data);
    if (!ok) return false;
    *out = texts;
    *count = found.rows;
    return true;
}
