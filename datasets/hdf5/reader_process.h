// SPDX-License-Identifier: Apache-2.0
/* A separate process in which a library reads an untrusted file (HDF5 or an image), so that its crash is only an error
   here; private to datasets/. It is a fork of this process and has its functions and its memory as of the fork.
   docs/decisions/0025-hdf5-reads-in-a-process-of-its-own.md */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct qc_process;

/* Bytes of an answer. data is grown (realloc), or is `fixed` with room for `capacity` bytes. */
struct qc_reply {
    void *data;
    size_t size, capacity;
    bool fixed;
    struct qc_reply *larger; /* NULL: data is owned. Else data is borrowed, and this reply is used if data is too
                                small */
};
/* Returns room for more bytes after the existing ones, or NULL with a status. */
void *qc_reply_add(struct qc_reply *r, size_t bytes, struct qc_status *st);

/* A request, run in the reading process; *state is kept from one request to the next, NULL at first. */
typedef bool qc_work(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st);

/* What reads in a process: `name` in messages, as in "the HDF5 library". */
struct qc_process_kind {
    const char *name;
    bool plugins; /* may load libraries from HDF5's folders of plugins, if there are any */
};
extern const struct qc_process_kind qc_process_hdf5, qc_process_images;

/* Fails with QC_MACHINE if no process can be started. */
bool qc_process_start(struct qc_process **out, const struct qc_process_kind *kind, struct qc_status *st);
void qc_process_end(struct qc_process *p); /* NULL-safe */

/* Runs a request there and waits. Returns its status; fails with QC_BAD_INPUT if the process dies or takes longer than
   is plausible for `bytes` bytes of values. Sets out->size. Thread safe. */
bool qc_process_ask(struct qc_reply *out, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                    size_t bytes, struct qc_status *st);

/* Returns true if the process has died or was ended: it answers no more. Thread safe. */
bool qc_process_has_ended(struct qc_process *p);

/* A request in the background. Zeroed at first. It must not move, and its reply is valid only after qc_process_wait. */
struct qc_later {
    struct qc_reply reply;
    size_t bytes; /* private */
    bool done;    /* private */
};
/* Begins a request like qc_process_ask without waiting. Returns false if the process has ended or has another request
   in the background. Thread safe. */
bool qc_process_begin(struct qc_later *l, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                      size_t bytes);
/* Waits for the request. If it failed, returns false; ask again with qc_process_ask for the error. Thread safe. */
bool qc_process_wait(struct qc_later *l, struct qc_process *p);
