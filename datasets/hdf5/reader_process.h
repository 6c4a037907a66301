// SPDX-License-Identifier: Apache-2.0
/* A process of its own in which HDF5 reads a file that others made, so that its crash is an error of ours; private to
   datasets/. It is a fork of this one and knows its functions and its memory as they were then.
   docs/decisions/0025-hdf5-reads-in-a-process-of-its-own.md */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct qc_process;

/* Bytes that come back. data is grown (realloc), or `fixed` and no more than capacity. */
struct qc_reply {
    void *data;
    size_t size, capacity;
    bool fixed;
    struct qc_reply *larger; /* data is borrowed, and where it is too small this one takes over; NULL: it is owned */
};
/* Room for more bytes behind those that are there; NULL and a status when there is none. */
void *qc_reply_add(struct qc_reply *r, size_t bytes, struct qc_status *st);

/* What the process does when asked; *state is its own from one piece of work to the next, NULL at first. */
typedef bool qc_work(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st);

/* QC_MACHINE: there can be no more processes. */
bool qc_process_start(struct qc_process **out, struct qc_status *st);
void qc_process_end(struct qc_process *p); /* NULL-safe */

/* Has the work done there and waits. Its own status comes back; QC_BAD_INPUT when the process dies of it or takes
   longer than is reasonable for so many bytes of values. Thread safe. out->size is set anew. */
bool qc_process_ask(struct qc_reply *out, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                    size_t bytes, struct qc_status *st);

/* Work that is done while nobody waits for it. Zeroed at first; it has to stay where it is, and its reply is to be
   looked at only after qc_process_wait. */
struct qc_later {
    struct qc_reply reply;
    size_t bytes; /* private */
    bool done;    /* private */
};
/* Begins it as qc_process_ask does; false: nothing is begun, as the process is dead or has other such work. Thread
   safe. */
bool qc_process_begin(struct qc_later *l, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                      size_t bytes);
/* Waits for what was begun; false: it failed, and whoever needs it asks for it to see why. Thread safe. */
bool qc_process_wait(struct qc_later *l, struct qc_process *p);
