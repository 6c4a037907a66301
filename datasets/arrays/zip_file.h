// SPDX-License-Identifier: Apache-2.0
/* Members of a ZIP archive (APPNOTE.TXT 6.3: stored and deflated, zip64); private to datasets/. */
#pragma once

#include "base/arena.h"
#include "datasets/arrays/byte_source.h"

struct qc_zip_member {
    const char *name;
    unsigned method;       /* 0: stored; 8: deflated */
    uint32_t crc;          /* CRC-32 of what it unpacks to */
    uint64_t packed, size; /* bytes in the archive, and unpacked */
    uint64_t header, at;   /* first byte of its own header, and of what is packed behind that */
};

bool qc_zip_is(const void *head, size_t size);

/* Members in the archive's order; they live in the arena. QC_BAD_INPUT: truncated, damaged, members that share
   their bytes; QC_UNSUPPORTED: encrypted, in several volumes, packed in another way (named). */
bool qc_zip_list(struct qc_zip_member **out, size_t *count, const struct qc_bytes *b, struct qc_arena *a,
                 struct qc_status *st);

/* The first `size` bytes of a member or all of them: a part of b where it is stored, else unpacked. All of it is
   compared with the CRC, stored or not. */
bool qc_zip_unpack(struct qc_bytes *out, const struct qc_bytes *b, const struct qc_zip_member *m, uint64_t size,
                   struct qc_status *st);
