// SPDX-License-Identifier: Apache-2.0
/* A thread that reads units before workers ask for them; private to datasets/. */
#pragma once

#include "datasets/stream/dataset_impl.h"

/* Starts the thread, which keeps at most 2 * ds->ahead units of every binding. */
bool qc_read_ahead_start(struct qc_read_ahead **out, const struct qc_dataset *ds, struct qc_status *st);
/* Units of every binding that are read ahead; qc_read_ahead_limit lowers the number and drops what was read. */
unsigned qc_read_ahead_units(struct qc_read_ahead *r);
void qc_read_ahead_limit(struct qc_read_ahead *r, unsigned units);
void qc_read_ahead_stop(struct qc_read_ahead *r); /* NULL-safe; waits for the thread */

/* Exchanges *p for the packet of a unit if it is read or being read; returns false if the caller must fetch it. Also
   tells the thread where the readers are. A unit that the thread could not read counts as missing, so that the reader
   gets the error itself. */
bool qc_read_ahead_take(struct qc_packet *p, struct qc_read_ahead *r, size_t binding, size_t unit);
