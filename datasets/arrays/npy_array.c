// SPDX-License-Identifier: Apache-2.0
#include "datasets/arrays/byte_source.h"

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

/* Parses the value of a key. Returns its end, or NULL with a status. */
typedef const char *read_value(struct qc_npy *n, const char *p, struct qc_status *st);

static const char *no(struct qc_status *st, const char *what)
{
    broken(st, what);
    return NULL;
}

/* Returns the position after a word, or NULL if the word does not stand there alone. */
static const char *behind_word(const char *p, const char *word)
{
    const size_t size = strlen(word);
    return strncmp(p, word, size) == 0 && strchr(" ,}", p[size]) ? p + size : NULL;
}

static const char *read_order(struct qc_npy *n, const char *p, struct qc_status *st)
{
    const char *yes = behind_word(p, "True"), *end = yes ? yes : behind_word(p, "False");
    n->fortran = yes != NULL;
    return end ? end : no(st, "fortran_order is neither True nor False");
}

/* Returns the position after the ']' of a list of fields, which are not read. */
static const char *skip_list(const char *p, struct qc_status *st)
{
    char quote = 0;
    for (unsigned depth = 0; *p; p++) {
        if (quote)
            quote = *p == quote ? 0 : quote;
        else if (*p == '\'' || *p == '"')
            quote = *p;
        else if (*p == '[' || *p == '(')
            depth++;
        else if ((*p == ']' || *p == ')') && --depth == 0)
            return p + 1;
    }
    return no(st, "no end of its fields");
}

static const char *read_type(struct qc_npy *n, const char *p, struct qc_status *st)
{
    static const struct {
        const char *text;
        enum qc_dtype dtype;
    } types[] = {{"b1", QC_BOOL}, {"i1", QC_I8},  {"i2", QC_I16}, {"i4", QC_I32}, {"i8", QC_I64}, {"u1", QC_U8},
                 {"u2", QC_U16},  {"u4", QC_U32}, {"u8", QC_U64}, {"f2", QC_F16}, {"f4", QC_F32}, {"f8", QC_F64}};
    const uint16_t one = 1;
    const bool little = *(const unsigned char *)&one == 1;
    if (*p == '[') { /* named fields */
        qc_text(n->type, sizeof n->type, "records");
        return skip_list(p, st);
    }
    const char *end = *p == '\'' || *p == '"' ? strchr(p + 1, *p) : NULL;
    if (!end || end - p < 3 || end - p >= QC_NPY_TYPE) return no(st, "no type of elements");
    qc_text(n->type, sizeof n->type, "%.*s", (int)(end - p - 1), p + 1);
    n->swap = n->type[0] == (little ? '>' : '<');
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(n->type + 1, types[i].text) == 0) n->dtype = types[i].dtype;
    if (n->dtype != QC_NONE && !strchr("<>=|", n->type[0])) return no(st, "no order of bytes");
    return end + 1;
}

static const char *read_shape(struct qc_npy *n, const char *p, struct qc_status *st)
{
    bool comma = true;
    if (*p != '(') return no(st, "no shape");
    for (p += 1 + strspn(p + 1, " "); *p != ')'; p += strspn(p, " ")) {
        int64_t d = 0;
        const char *digits = p;
        if (!comma) return no(st, "a shape that is not numbers with commas between");
        for (; *p >= '0' && *p <= '9'; p++)
            if (!qc_mul_i64(&d, d, 10) || !qc_add_i64(&d, d, *p - '0')) return no(st, "a shape larger than any memory");
        if (p == digits) return no(st, "a shape that is not numbers");
        if (*p == 'L') p++; /* Python 2 */
        if (n->rank == QC_DATA_RANK_MAX) {
            qc_fail(st, QC_UNSUPPORTED, "it has more than %d axes", (int)QC_DATA_RANK_MAX);
            return NULL;
        }
        n->dims[n->rank++] = d;
        p += strspn(p, " ");
        if ((comma = *p == ',')) p++;
    }
    return p + 1;
}

/* Reads all three keys, each exactly once, and nothing else, as NumPy requires. */
static bool read_header(struct qc_npy *n, const char *p, size_t length, struct qc_status *st)
{
    static const struct {
        const char *key;
        read_value *read;
    } keys[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
    enum { KEYS = sizeof keys / sizeof *keys };
    const char *const end = p + length;
    bool seen[KEYS] = {false}, comma = true;
    p += strspn(p, " \n");
    if (*p++ != '{') return broken(st, "no list of keys");
    for (p += strspn(p, " "); *p != '}'; p += strspn(p, " ")) {
        const char quote = *p;
        size_t k = 0;
        if (!comma || (quote != '\'' && quote != '"')) return broken(st, "keys without quotes or commas between");
        for (p++; k < KEYS; k++)
            if (strncmp(p, keys[k].key, strlen(keys[k].key)) == 0 && p[strlen(keys[k].key)] == quote) break;
        if (k == KEYS || seen[k]) return broken(st, "a key twice, or one that is unknown");
        seen[k] = true;
        p += strlen(keys[k].key) + 1;
        p += strspn(p, " ");
        if (*p++ != ':') return broken(st, "a key without a value");
        if (!(p = keys[k].read(n, p + strspn(p, " "), st))) return false;
        p += strspn(p, " ");
        if ((comma = *p == ',')) p++;
    }
    for (size_t k = 0; k < KEYS; k++)
        if (!seen[k]) return broken(st, "a key is missing");
    p += 1 + strspn(p + 1, " \n\r\t");
    return p == end || broken(st, "there is text after it");
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
    if (!qc_npy_is(head, sizeof head)) return qc_fail(st, QC_BAD_INPUT, "it is not a numpy array");
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
        n.values = from + length; /* b, and so `size`, has the whole header */
        ok = read_header(&n, header, length, st) && check_sizes(&n, size, st);
        if (n.rank < 2) n.fortran = false;
    }
    free(header);
    if (ok) *out = n;
    return ok;
}

/* ---- Values ---- */

bool qc_npy_rows(void *out, const struct qc_npy *n, const struct qc_bytes *b, size_t first, size_t count,
                 struct qc_status *st)
{
    const size_t size = qc_dtype_size(n->dtype); /* all products are parts of the whole, which was checked */
    if (!qc_bytes_read(out, b, n->values + first * n->row_bytes, count * n->row_bytes, st)) return false;
    if (n->swap && size > 1) {
        char *p = out;
        for (size_t i = 0; i < (count * n->row_elements); i++, p += size)
            for (size_t a = 0, z = size - 1; a < z; a++, z--) {
                const char t = p[a];
                p[a] = p[z];
                p[z] = t;
            }
    }
    return true;
}

/* Returns the position, in a row in C order, of element k in Fortran order. */
static size_t place_in_row(const struct qc_npy *n, size_t k)
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

/* Fortran order stores, for each element of a row, that element of all rows. Converts as many rows at a time as fit in
   a block. */
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
                const size_t at = place_in_row(n, k);
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
