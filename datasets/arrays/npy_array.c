// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrays/npy_array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK_BYTES = 8 << 20 };

static const unsigned char magic[QC_NPY_MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool qc_npy_is(const void *head, size_t size)
{
    return size >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

/* ---- The header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ---- */

static bool broken(struct qc_status *st, const char *what)
{
    return qc_fail(st, QC_BAD_INPUT, "its header is damaged: %s; save the array again", what);
}

/* What stands behind 'KEY': , without blanks in front. */
static const char *behind(const char *header, const char *key)
{
    char quoted[32];
    qc_text(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(header, quoted);
    if (!p) return NULL;
    p += strlen(quoted);
    p += strspn(p, " ");
    if (*p != ':') return NULL;
    return p + 1 + strspn(p + 1, " ");
}

static bool read_type(struct qc_npy *n, const char *p, struct qc_status *st)
{
    static const struct {
        const char *text;
        enum qc_dtype dtype;
    } types[] = {{"b1", QC_BOOL}, {"i1", QC_I8},  {"i2", QC_I16}, {"i4", QC_I32}, {"i8", QC_I64}, {"u1", QC_U8},
                 {"u2", QC_U16},  {"u4", QC_U32}, {"u8", QC_U64}, {"f2", QC_F16}, {"f4", QC_F32}, {"f8", QC_F64}};
    const uint16_t one = 1;
    const bool little = *(const unsigned char *)&one == 1;
    if (p && *p == '[') { /* fields with names */
        qc_text(n->type, sizeof n->type, "records");
        return true;
    }
    const char *end = p && *p == '\'' ? strchr(p + 1, '\'') : NULL;
    if (!end || end - p < 3 || end - p >= QC_NPY_TYPE) return broken(st, "no type of elements");
    qc_text(n->type, sizeof n->type, "%.*s", (int)(end - p - 1), p + 1);
    n->swap = n->type[0] == (little ? '>' : '<');
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(n->type + 1, types[i].text) == 0) n->dtype = types[i].dtype;
    return true;
}

static bool read_shape(struct qc_npy *n, const char *p, struct qc_status *st)
{
    if (!p || *p != '(') return broken(st, "no shape");
    for (p++;;) {
        p += strspn(p, " ,");
        if (*p == ')') break;
        int64_t d = 0;
        const char *digits = p;
        for (; *p >= '0' && *p <= '9'; p++)
            if (!qc_mul_i64(&d, d, 10) || !qc_add_i64(&d, d, *p - '0'))
                return broken(st, "a shape larger than any memory");
        if (p == digits) return broken(st, "a shape that is not numbers");
        if (*p == 'L') p++; /* Python 2 */
        if (n->rank == QC_DATA_RANK_MAX)
            return qc_fail(st, QC_UNSUPPORTED, "it has more than %d axes", (int)QC_DATA_RANK_MAX);
        n->dims[n->rank++] = d;
    }
    return true;
}

static bool check_sizes(struct qc_npy *n, uint64_t size, struct qc_status *st)
{
    size_t all;
    n->row_elements = 1;
    for (unsigned i = 1; i < n->rank; i++)
        if (!qc_mul_size(&n->row_elements, n->row_elements, (size_t)n->dims[i]))
            return broken(st, "a shape larger than any memory");
    if (n->dtype == QC_NONE) return true;
    if (!qc_mul_size(&n->row_bytes, n->row_elements, qc_dtype_size(n->dtype)) ||
        !qc_mul_size(&all, n->row_bytes, n->rank ? (size_t)n->dims[0] : 1))
        return broken(st, "a shape larger than any memory");
    if (all > size - n->values)
        return qc_fail(st, QC_BAD_INPUT, "it is truncated: its shape asks for %zu bytes of values, there are %" PRIu64,
                       all, size - n->values);
    return true;
}

bool qc_npy_open(struct qc_npy *out, const struct qc_bytes *b, uint64_t size, struct qc_status *st)
{
    unsigned char head[12] = {0};
    struct qc_npy n = {.dtype = QC_NONE};
    if (b->size < 10 || !qc_bytes_read(head, b, 0, b->size < 12 ? 10 : 12, st)) return broken(st, "it is too short");
    if (!qc_npy_is(head, sizeof head)) return qc_fail(st, QC_BAD_INPUT, "it is no array of numpy");
    if (head[6] < 1 || head[6] > 3)
        return qc_fail(st, QC_UNSUPPORTED, "it is of version %d of numpy's format; 1 to 3 are read", head[6]);
    size_t length = (size_t)head[8] | (size_t)head[9] << 8, from = 10;
    if (head[6] > 1) {
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
        from = 12;
    }
    if (length > QC_NPY_HEADER_MAX - from) return broken(st, "it is too long");
    char *header = malloc(length + 1);
    if (!header) return qc_fail_memory(st, length);
    bool ok = qc_bytes_read(header, b, from, length, st);
    if (ok) {
        header[length] = '\0';
        n.values = from + length; /* of which b, and so `size`, has all */
        const char *order = behind(header, "fortran_order");
        n.fortran = order && strncmp(order, "True", 4) == 0;
        ok = (order || broken(st, "no order")) && read_type(&n, behind(header, "descr"), st) &&
             read_shape(&n, behind(header, "shape"), st) && check_sizes(&n, size, st);
        if (n.rank < 2) n.fortran = false;
    }
    free(header);
    if (ok) *out = n;
    return ok;
}

/* ---- Values ---- */

static void swap_bytes(char *p, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++, p += size)
        for (size_t a = 0, z = size - 1; a < z; a++, z--) {
            const char t = p[a];
            p[a] = p[z];
            p[z] = t;
        }
}

bool qc_npy_rows(void *out, const struct qc_npy *n, const struct qc_bytes *b, size_t first, size_t count,
                 struct qc_status *st)
{
    const size_t size = qc_dtype_size(n->dtype); /* all sizes are parts of the whole, which was checked */
    if (!qc_bytes_read(out, b, n->values + first * n->row_bytes, count * n->row_bytes, st)) return false;
    if (n->swap && size > 1) swap_bytes(out, count * n->row_elements, size);
    return true;
}

/* Place in a row of C's order of the element that is number k in Fortran's. */
static size_t place(const struct qc_npy *n, size_t k)
{
    size_t at = 0, stride = n->row_elements;
    for (unsigned i = 1; i < n->rank; i++) {
        const size_t d = (size_t)n->dims[i];
        stride /= d;
        at += k % d * stride;
        k /= d;
    }
    return at;
}

/* Fortran's order: for each element of a row, that element of all rows. So many rows at a time as a block holds. */
bool qc_npy_turn(struct qc_bytes *out, struct qc_npy *n, const struct qc_bytes *b, struct qc_status *st)
{
    const size_t rows = (size_t)n->dims[0], size = qc_dtype_size(n->dtype);
    struct qc_bytes room = {.fd = -1};
    char *block = NULL, *column = NULL;
    bool ok = qc_bytes_room(&room, (uint64_t)rows * n->row_bytes, st);
    if (ok && rows && n->row_bytes) {
        size_t some = n->row_bytes < BLOCK_BYTES ? BLOCK_BYTES / n->row_bytes : 1;
        if (some > rows) some = rows;
        block = malloc(some * n->row_bytes);
        column = malloc(some * size);
        if (!block || !column) ok = qc_fail_memory(st, some * n->row_bytes);
        for (size_t first = 0; ok && first < rows; first += some) {
            const size_t count = rows - first < some ? rows - first : some;
            for (size_t k = 0; ok && k < n->row_elements; k++) {
                const size_t at = place(n, k);
                ok = qc_bytes_read(column, b, n->values + (k * rows + first) * size, count * size, st);
                for (size_t r = 0; ok && r < count; r++)
                    memcpy(block + (r * n->row_elements + at) * size, column + r * size, size);
            }
            ok = ok && qc_bytes_write(&room, (uint64_t)first * n->row_bytes, block, count * n->row_bytes, st);
        }
    }
    free(block);
    free(column);
    if (ok) {
        n->fortran = false;
        n->values = 0;
        *out = room;
    } else {
        qc_bytes_close(&room);
    }
    return ok;
}
