// SPDX-License-Identifier: Apache-2.0
/* A regular file in memory as it lies on the disk: its pages come when they are read, and the system takes them back
   when it needs room, so that they count little. */
#pragma once

#include <stddef.h>

#include "base/status.h"

/* Reference counted, from any thread. Behind the end of the file at least 64 bytes can be read. */
struct qc_file_map;

/* The first `size` bytes of an open file, which may be closed afterwards. *out is owned; NULL where this file cannot be
   mapped (then it has to be read). Whoever makes the file shorter meanwhile ends the process (SIGBUS). QC_MACHINE:
   memory is out. */
bool qc_file_map_new(struct qc_file_map **out, int fd, size_t size, struct qc_status *st);
/* Bytes that come to lie in a file without a name in TMPDIR or /tmp, so that the system need not hold them in memory:
   those of a single model may be more than the machine has. *out is owned. QC_MACHINE: there is no room, naming the
   folder. */
bool qc_file_map_spill(struct qc_file_map **out, const void *data, size_t bytes, struct qc_status *st);
/* As many zeros in such a file, to be written to: what is forgotten stays in the file. */
bool qc_file_map_scratch(struct qc_file_map **out, size_t bytes, struct qc_status *st);
const void *qc_file_map_data(const struct qc_file_map *m);
void *qc_file_map_room(struct qc_file_map *m); /* of qc_file_map_scratch */
struct qc_file_map *qc_file_map_ref(struct qc_file_map *m);
void qc_file_map_unref(struct qc_file_map *m); /* NULL-safe */

/* Gives pages that lie wholly inside of these bytes of a map back to the system; they are read again when needed. */
void qc_file_map_forget(const void *data, size_t bytes);
