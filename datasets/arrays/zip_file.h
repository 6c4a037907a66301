// SPDX-License-Identifier: Apache-2.0
/* Members of a ZIP archive (APPNOTE.TXT 6.3: stored and deflated, zip64); private to datasets/. */
#pragma once

#include "base/arena.h"
#include "datasets/arrays/byte_source.h"

struct qc_zip_member {
    const char *name;
    unsigned method;       /* 0: stored; 8: deflated */
    uint32_t crc;          /* CRC-32 of the unpacked bytes */
    uint64_t packed, size; /* bytes in the archive and unpacked */
    uint64_t header, at;   /* offsets of its local header and of its packed bytes */
};

bool qc_zip_is(const void *head, size_t size);

/* Lists the members in the archive's order, in the arena. Fails with QC_BAD_INPUT if the archive is truncated or
   damaged or members share bytes; with QC_UNSUPPORTED if it is encrypted, in several volumes or packed by another
   method (named). */
bool qc_zip_list(struct qc_zip_member **out, size_t *count, const struct qc_bytes *b, struct qc_arena *a,
                 struct qc_status *st);

/* Returns the first `size` bytes of a member: a part of b if it is stored, else unpacked. The whole member is checked
   against its CRC. */
bool qc_zip_unpack(struct qc_bytes *out, const struct qc_bytes *b, const struct qc_zip_member *m, uint64_t size,
                   struct qc_status *st);
