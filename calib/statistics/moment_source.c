// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/collection.h"

#include <stdlib.h>
#include <string.h>

#include "calib/moments/moments_parts.h"

/* Of HDF5 for one data set: a chunk, its filtered copies, and the library's cache of chunks. */
enum { WRITING = 4 << 20 };

enum qc_moment_column qc_moment_column_of(const char *path)
{
    if (strcmp(path, "moments/products") == 0) return QC_MOMENT_PRODUCTS;
    return strcmp(path, "moments/entries") == 0 ? QC_MOMENT_ENTRIES : QC_MOMENT_NONE;
}

size_t qc_moment_packed_count(const struct qc_second_moments_layer *l)
{
    const size_t last = qc_second_moments_width(l, l->blocks - 1);
    return l->groups * ((l->blocks - 1) * qc_second_moments_triangle(l->block) + qc_second_moments_triangle(last));
}

/* Copies the part of a tile that lies in the triangle. */
static void pack_tile(int64_t *packed, const int64_t *tile, size_t left, size_t right, size_t width)
{
    for (size_t k = right; k < width && k < right + QC_MOMENTS_TILE; k++)
        for (size_t j = left; j <= k && j < left + QC_MOMENTS_TILE; j++)
            packed[qc_second_moments_triangle(k) + j] = tile[(j - left) * QC_MOMENTS_TILE + k - right];
}

static void pack_products(int64_t *packed, const struct qc_second_moments_sums *s,
                          const struct qc_second_moments_layer *l)
{
    const bool products = qc_second_moments_has_products(s);
    int64_t tile[QC_MOMENTS_TILE_SIZE];
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++) {
            const size_t width = qc_second_moments_width(l, b);
            for (size_t k = 0; products && k < width; k++)
                for (size_t j = 0; j <= k; j++)
                    packed[qc_second_moments_triangle(k) + j] =
                        qc_second_moments_product(s, qc_second_moments_product_at(l, g, b, j, k));
            for (size_t k = 0; !products && k < qc_second_moments_panels(width); k++)
                for (size_t j = 0; j <= k; j++) {
                    qc_second_moments_kept_tile(tile, l, s, g, b, j, k);
                    pack_tile(packed, tile, j * QC_MOMENTS_TILE, k * QC_MOMENTS_TILE, width);
                }
            packed += qc_second_moments_triangle(width);
        }
}

const struct qc_second_moments_sums *qc_moment_sums_of(const struct qc_second_moments_moments *m, int32_t c)
{
    const struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
    return m->seen && c <= m->top && c > m->top - QC_MOMENTS_CLASSES && s->sums ? s : NULL;
}

bool qc_moment_steps(uint8_t *steps, const struct qc_second_moments_layer *l, const struct qc_second_moments_sums *s,
                     struct qc_status *st)
{
    const size_t bytes = s->row_count * qc_second_moments_row(l) * sizeof(int16_t);
    int16_t *entries = malloc(bytes + 1);
    const bool ok = entries ? qc_second_moments_list_rows(entries, steps, l, s, st) : qc_fail_memory(st, bytes);
    free(entries);
    return ok;
}

struct qc_moment_source qc_moment_source_of(const struct qc_second_moments *m, enum qc_moment_column column)
{
    return (struct qc_moment_source){.m = m, .column = column};
}

void qc_moment_source_end(struct qc_moment_source *s)
{
    free(s->values);
    s->values = NULL;
}

static size_t element_size(const struct qc_moment_source *s)
{
    return s->column == QC_MOMENT_PRODUCTS ? sizeof(int64_t) : sizeof(int16_t);
}

static bool fill_class(struct qc_moment_source *s, const struct qc_second_moments_layer *l,
                       const struct qc_second_moments_sums *of, struct qc_status *st)
{
    const size_t count = s->column == QC_MOMENT_PRODUCTS ? qc_moment_packed_count(l)
                                                         : of->row_count * qc_second_moments_row(l),
                 bytes = count * element_size(s);
    uint8_t *steps = NULL;
    bool ok = true;
    if (!(s->values = malloc(bytes + 1))) return qc_fail_memory(st, bytes);
    if (s->column == QC_MOMENT_PRODUCTS)
        pack_products(s->values, of, l);
    else
        ok = ((steps = malloc(of->row_count + 1)) || qc_fail_memory(st, of->row_count)) &&
             qc_second_moments_list_rows(s->values, steps, l, of, st);
    free(steps);
    s->count = count;
    s->at = 0;
    return ok;
}

/* Goes to the next class with elements of the column. */
static bool next_class(struct qc_moment_source *s, struct qc_status *st)
{
    qc_moment_source_end(s);
    s->count = s->at = 0;
    for (; s->layer < qc_second_moments_count(s->m); s->layer++, s->part = 0) {
        const struct qc_second_moments_layer *l = qc_second_moments_at(s->m, s->layer);
        for (; s->part < QC_MOMENTS_PARTS; s->part++, s->next_class = 0) {
            const struct qc_second_moments_moments *part = &l->parts[s->part];
            while (part->seen && s->next_class < QC_MOMENTS_CLASSES) {
                const struct qc_second_moments_sums *of =
                    qc_moment_sums_of(part, part->top - QC_MOMENTS_CLASSES + 1 + s->next_class++);
                if (of && (of->rows != NULL) == (s->column == QC_MOMENT_ENTRIES)) return fill_class(s, l, of, st);
            }
        }
    }
    return qc_fail(st, QC_MACHINE, "the second moments are fewer than counted");
}

bool qc_moment_source_next(void *user, void *to, size_t count, struct qc_status *st)
{
    struct qc_moment_source *s = user;
    const size_t size = element_size(s);
    for (size_t n, done = 0; done < count; done += n) {
        while (s->at == s->count)
            if (!next_class(s, st)) return false;
        n = s->count - s->at < count - done ? s->count - s->at : count - done;
        memcpy((char *)to + done * size, (char *)s->values + s->at * size, n * size);
        s->at += n;
    }
    return true;
}

size_t qc_moment_source_bytes(const struct qc_second_moments *m)
{
    size_t sums = 0, most = 0;
    for (size_t i = 0; i < qc_second_moments_count(m); i++) {
        const struct qc_second_moments_layer *l = qc_second_moments_at(m, i);
        const bool rows = l->rows_max && l->rows_max <= l->keep;
        const size_t row = qc_second_moments_row(l), kept = (size_t)(rows ? l->rows_max : l->keep),
                     listed = kept * (2 * row * sizeof(int16_t) + 4 * sizeof(size_t)),
                     packed = rows ? 0 : qc_moment_packed_count(l) * sizeof(int64_t);
        sums += QC_MOMENTS_PARTS * (QC_MOMENTS_CLASSES * row * sizeof(int64_t) + kept);
        most = packed > most ? packed : most;
        most = listed > most ? listed : most;
    }
    return sums + most + WRITING;
}
