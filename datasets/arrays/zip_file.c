// SPDX-License-Identifier: Apache-2.0
#include "base/scope.h"
#include "datasets/arrays/byte_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 30, ENTRY = 46, END = 22, END64 = 56, LOCATOR = 20, COMMENT_MAX = 65535, MEMBERS_MAX = 1 << 16 };
enum { DIRECTORY_MAX = 64 << 20, PIECE = 1 << 16 };
static const uint64_t wide = 0xffffffffu;

static uint64_t zip_number(const unsigned char *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = bytes; i-- > 0;) v = v << 8 | p[i];
    return v;
}

bool qc_zip_is(const void *head, size_t size)
{
    return size >= 4 && (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0);
}

static bool damaged_zip(struct qc_status *st, const char *what)
{
    return qc_fail(st, QC_BAD_INPUT, "it is a damaged archive: %s; save it again", what);
}

/* Position of the central directory. */
struct directory {
    uint64_t at, bytes, count;
};

static bool find_directory(struct directory *d, const struct qc_bytes *b, struct qc_status *st)
{
    unsigned char locator[LOCATOR], end64[END64];
    if (b->size < END) return damaged_zip(st, "it is truncated");
    /* The end record; only a comment may follow it. */
    const size_t size = b->size < END + COMMENT_MAX ? (size_t)b->size : END + COMMENT_MAX;
    QC_FREED unsigned char *tail = malloc(size);
    if (!tail) return qc_fail_memory(st, size);
    if (!qc_bytes_read(tail, b, b->size - size, size, st)) return false;
    size_t i = size - END + 1;
    bool found = false;
    while (!found && i-- > 0)
        found = memcmp(tail + i, "PK\5\6", 4) == 0 && i + END + zip_number(tail + i + 20, 2) <= size;
    if (!found) return damaged_zip(st, "its list of members is missing; it may be truncated");
    const unsigned char *end = tail + i;
    const uint64_t at = b->size - size + i;
    *d = (struct directory){.count = zip_number(end + 10, 2),
                            .bytes = zip_number(end + 12, 4),
                            .at = zip_number(end + 16, 4)};
    if (at >= LOCATOR && qc_bytes_read(locator, b, at - LOCATOR, LOCATOR, st) && memcmp(locator, "PK\6\7", 4) == 0) {
        if (!qc_bytes_read(end64, b, zip_number(locator + 8, 8), END64, st)) return false;
        if (memcmp(end64, "PK\6\6", 4) != 0) return damaged_zip(st, "its last record is missing");
        *d = (struct directory){.count = zip_number(end64 + 32, 8),
                                .bytes = zip_number(end64 + 40, 8),
                                .at = zip_number(end64 + 48, 8)};
    }
    if (st->code != QC_OK) return false;
    if (d->count > MEMBERS_MAX || d->bytes > DIRECTORY_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "it has %" PRIu64 " members; at most %d are read", d->count,
                       (int)MEMBERS_MAX);
    if (d->at > b->size || d->bytes > b->size - d->at)
        return damaged_zip(st, "its list of members lies outside the file");
    /* Before memory in proportion to the count is requested. */
    return d->count <= d->bytes / ENTRY || damaged_zip(st, "a member's entry is missing");
}

/* Reads the zip64 extra field: the sizes that need more than 32 bits, in this order. */
static bool read_wide(struct qc_zip_member *m, uint64_t *header, const unsigned char *extra, size_t size,
                      struct qc_status *st)
{
    uint64_t *wanted[3] = {&m->size, &m->packed, header};
    while (size >= 4) {
        const size_t kind = zip_number(extra, 2), bytes = zip_number(extra + 2, 2);
        if (bytes > size - 4) break;
        const unsigned char *p = extra + 4;
        size_t left = bytes;
        for (size_t i = 0; kind == 1 && i < 3; i++) {
            if (*wanted[i] != wide) continue;
            if (left < 8) return damaged_zip(st, "the size of a member is missing");
            *wanted[i] = zip_number(p, 8);
            p += 8;
            left -= 8;
        }
        extra += 4 + bytes;
        size -= 4 + bytes;
    }
    return true;
}

static bool read_zip_member(struct qc_zip_member *m, const unsigned char *p, size_t size, size_t *used,
                            const struct qc_bytes *b, struct qc_arena *a, struct qc_status *st)
{
    unsigned char local[LOCAL];
    if (size < ENTRY || memcmp(p, "PK\1\2", 4) != 0) return damaged_zip(st, "a member's entry is missing");
    const size_t name = zip_number(p + 28, 2), extra = zip_number(p + 30, 2), comment = zip_number(p + 32, 2);
    if (name + extra + comment > size - ENTRY) return damaged_zip(st, "a member's entry is too long");
    uint64_t header = zip_number(p + 42, 4);
    *m = (struct qc_zip_member){.method = (unsigned)zip_number(p + 10, 2),
                                .crc = (uint32_t)zip_number(p + 16, 4),
                                .packed = zip_number(p + 20, 4),
                                .size = zip_number(p + 24, 4),
                                .name = qc_arena_strndup(a, (const char *)p + ENTRY, name, st)};
    if (m->name && strlen(m->name) != name) return damaged_zip(st, "the name of a member has a zero byte");
    if (!m->name || !read_wide(m, &header, p + ENTRY + name, extra, st)) return false;
    if (zip_number(p + 8, 2) & 1) return qc_fail(st, QC_UNSUPPORTED, "member '%s' is encrypted", m->name);
    if (m->method != 0 && m->method != 8)
        return qc_fail(st, QC_UNSUPPORTED, "member '%s' is packed by method %u; stored and deflated ones are read",
                       m->name, m->method);
    if (!qc_bytes_read(local, b, header, LOCAL, st)) return qc_where(st, "member '%s'", m->name);
    if (memcmp(local, "PK\3\4", 4) != 0) return damaged_zip(st, "a member is not where its entry says");
    m->header = header;
    m->at = header + LOCAL + zip_number(local + 26, 2) + zip_number(local + 28, 2); /* header is inside the file */
    if (m->at > b->size || m->packed > b->size - m->at || (m->method == 0 && m->packed != m->size))
        return damaged_zip(st, "the bytes of a member lie outside the file");
    *used = ENTRY + name + extra + comment;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct qc_zip_member *x = *(const struct qc_zip_member *const *)a,
                               *y = *(const struct qc_zip_member *const *)b;
    return (x->header > y->header) - (x->header < y->header);
}

/* Rejects members that share bytes: such archives can unpack to any size (zip bomb). */
static bool check_overlaps(const struct qc_zip_member *members, size_t count, struct qc_status *st)
{
    const struct qc_zip_member **sorted = calloc(count + 1, sizeof(const struct qc_zip_member *));
    if (!sorted) return qc_fail_memory(st, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) sorted[i] = &members[i];
    qsort(sorted, count, sizeof *sorted, by_place);
    bool ok = true;
    for (size_t i = 1; ok && i < count; i++)
        ok =
            sorted[i - 1]->at + sorted[i - 1]->packed <= sorted[i]->header ||
            qc_fail(st, QC_BAD_INPUT, "it is a damaged archive: members '%s' and '%s' share their bytes; save it again",
                    sorted[i - 1]->name, sorted[i]->name);
    free(sorted);
    return ok;
}

bool qc_zip_list(struct qc_zip_member **out, size_t *count, const struct qc_bytes *b, struct qc_arena *a,
                 struct qc_status *st)
{
    struct directory d;
    if (!find_directory(&d, b, st)) return false;
    unsigned char *bytes = malloc(d.bytes ? (size_t)d.bytes : 1);
    if (!bytes) return qc_fail_memory(st, d.bytes);
    struct qc_zip_member *members = QC_NEW_ARRAY(a, struct qc_zip_member, (size_t)d.count + 1, st);
    bool ok = members && qc_bytes_read(bytes, b, d.at, (size_t)d.bytes, st);
    size_t at = 0, used = 0;
    for (size_t i = 0; ok && i < d.count; i++, at += used)
        ok = read_zip_member(&members[i], bytes + at, (size_t)d.bytes - at, &used, b, a, st);
    free(bytes);
    if (!ok || !check_overlaps(members, (size_t)d.count, st)) return false;
    *out = members;
    *count = (size_t)d.count;
    return true;
}

/* ---- Unpacking ---- */

static bool wrong_sum(struct qc_status *st)
{
    return damaged_zip(st, "the checksum of a member does not match");
}

struct inflating {
    z_stream z;
    unsigned char in[PIECE], out[PIECE];
    uint64_t taken, given; /* packed bytes read, unpacked bytes written */
    uLong crc;
};

static bool inflate_to(struct qc_bytes *room, struct inflating *f, const struct qc_bytes *b,
                       const struct qc_zip_member *m, struct qc_status *st)
{
    const uint64_t size = room->size;
    int said = Z_OK;
    while (f->given < size && said == Z_OK) {
        if (!f->z.avail_in && f->taken < m->packed) {
            const uint64_t left = m->packed - f->taken;
            const size_t n = left < PIECE ? (size_t)left : PIECE;
            if (!qc_bytes_read(f->in, b, m->at + f->taken, n, st)) return false;
            f->taken += n;
            f->z.next_in = f->in;
            f->z.avail_in = (uInt)n;
        }
        f->z.next_out = f->out;
        const size_t room_left = size - f->given < PIECE ? (size_t)(size - f->given) : PIECE;
        f->z.avail_out = (uInt)room_left;
        said = inflate(&f->z, Z_NO_FLUSH);
        const size_t n = room_left - f->z.avail_out;
        if (said != Z_OK && said != Z_STREAM_END) break;
        f->crc = crc32(f->crc, f->out, (uInt)n);
        if (!qc_bytes_write(room, f->given, f->out, n, st)) return false;
        f->given += n;
    }
    if (f->given < size) return damaged_zip(st, "the compressed data of a member are damaged");
    return size < m->size || f->crc == m->crc || wrong_sum(st);
}

/* A stored member is read in place; its checksum is checked once before that. */
static bool check_stored_member(const struct qc_bytes *b, const struct qc_zip_member *m, struct qc_status *st)
{
    char *piece = malloc(PIECE);
    if (!piece) return qc_fail_memory(st, PIECE);
    uLong crc = crc32(0, NULL, 0);
    bool ok = true;
    for (uint64_t at = 0; ok && at < m->size; at += PIECE) {
        const size_t n = m->size - at < PIECE ? (size_t)(m->size - at) : PIECE;
        if ((ok = qc_bytes_read(piece, b, m->at + at, n, st))) crc = crc32(crc, (const Bytef *)piece, (uInt)n);
    }
    free(piece);
    return ok && (crc == m->crc || wrong_sum(st));
}

bool qc_zip_unpack(struct qc_bytes *out, const struct qc_bytes *b, const struct qc_zip_member *m, uint64_t size,
                   struct qc_status *st)
{
    if (size > m->size) size = m->size;
    if (m->method == 0) {
        if (size == m->size && !check_stored_member(b, m, st)) return qc_where(st, "member '%s'", m->name);
        *out = (struct qc_bytes){.fd = b->fd, .first = b->first + m->at, .size = size};
        return true;
    }
    /* Deflate produces at most 1032 bytes from one: refuse larger claims before allocating. */
    if (m->size / 1040 > m->packed)
        return damaged_zip(st, "the size of a member is larger than its compressed data can give");
    struct qc_bytes room = {.fd = -1};
    struct inflating *f = calloc(1, sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    f->crc = crc32(0, NULL, 0);
    bool ok = inflateInit2(&f->z, -MAX_WBITS) == Z_OK || qc_fail_memory(st, sizeof *f);
    if (ok) {
        ok = qc_bytes_room(&room, size, st) && inflate_to(&room, f, b, m, st);
        inflateEnd(&f->z);
    }
    free(f);
    return QC_HAND_OVER_VALUE(ok, out, room, qc_bytes_close) || qc_where(st, "member '%s'", m->name);
}
