// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: tables that rows are taken of (embeddings). */
#ifndef QC_REWRITE_PASSES_PARTITION_TABLES_H
#define QC_REWRITE_PASSES_PARTITION_TABLES_H

#include "rewrite/passes/partition.h"

/* Takes the match at a node back: it stays as it is. */
void qc_partition_drop(struct qc_partition *p, qc_id node);

/* Is there room for a table whose rows have the size 1, beside the one that the model has? Under a limit of memory only
   for one of an eighth of it. The reason is noted where not. */
bool qc_tables_fit(struct qc_partition *p, const struct qc_match *m);

/* Of patterns that quantize a table alone those go whose result is stored as it is: the table is stored so then, and no
   float op reads it. p->requested has what patterns ask for. */
bool qc_tables_drop_stored(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st);

/* Tables that stay in float: p->reason says why, and how large they are. */
bool qc_tables_note_float(struct qc_partition *p, struct qc_status *st);

#endif
