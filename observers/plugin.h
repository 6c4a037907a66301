// SPDX-License-Identifier: Apache-2.0
/* Observers from shared objects (include/qcalib/qcalib_observer.h), and their states: one per sample, merged in a tree
   that the order of the samples alone decides (docs/decisions/0009-states-of-plugins.md). */
#pragma once

#include "include/qcalib/qcalib_observer.h"
#include "observers/observer.h"

struct qc_plugins;

bool qc_plugins_new(struct qc_plugins **out, struct qc_status *st);
/* Observers and states must not be used any more. NULL-safe. */
void qc_plugins_free(struct qc_plugins *p);

/* Loads a file. A path without '/' is one of the current folder. Errors (QC_BAD_INPUT) name the file and what is wrong:
   not a shared object, no qcalib_observer_entry, another ABI, a missing function, a name or option that is not fit or
   taken already. */
bool qc_plugins_load(struct qc_plugins *p, const char *file, struct qc_status *st);

/* In the order of loading; valid as long as p is. */
size_t qc_plugins_count(const struct qc_plugins *p); /* 0 for NULL */
const struct qc_observer *qc_plugins_at(const struct qc_plugins *p, size_t i);

/* A state of an observer that has a plugin. */
struct qc_plugin_state {
    const struct qc_observer *observer;
    void *state;
};

/* Begins a state and scans the finite ones of n values. Errors: memory; QC_BAD_INPUT when the plugin fails. */
bool qc_plugin_scan(struct qc_plugin_state *out, const struct qc_observer *observer,
                    const struct qc_observer_values *values, const float *x, size_t n, struct qc_status *st);
/* Merges a later state into an earlier one and ends the later one, whatever comes. An empty one (state NULL) adds
 * nothing. */
bool qc_plugin_merge(struct qc_plugin_state *into, struct qc_plugin_state *later, struct qc_status *st);
void qc_plugin_end(struct qc_plugin_state *s); /* empty after it; NULL-safe, empty-safe */
