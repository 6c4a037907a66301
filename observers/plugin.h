// SPDX-License-Identifier: Apache-2.0
/* Observers from shared objects (include/qcalib/qcalib_observer.h) and their states: one per sample, merged in a tree
   that only the order of the samples decides (docs/decisions/0009-states-of-plugins.md). */
#pragma once

#include "include/qcalib/qcalib_observer.h"
#include "observers/observer.h"

struct qc_plugins;

bool qc_plugins_new(struct qc_plugins **out, struct qc_status *st);
/* No observer or state may be used afterwards. NULL-safe. */
void qc_plugins_free(struct qc_plugins *p);

/* Loads a file. A path without '/' is in the current folder. Fails with QC_BAD_INPUT, naming the file and the reason:
   not a shared object, no qcalib_observer_entry, another ABI, a missing function, an invalid or duplicate name or
   option. */
bool qc_plugins_load(struct qc_plugins *p, const char *file, struct qc_status *st);

/* In the order of loading; valid while p is. */
size_t qc_plugins_count(const struct qc_plugins *p); /* 0 for NULL */
const struct qc_observer *qc_plugins_at(const struct qc_plugins *p, size_t i);

/* The state of a plugin's observer. */
struct qc_plugin_state {
    const struct qc_observer *observer;
    void *state;
};

/* Begins a state and scans the finite ones of n values. Fails if memory is out; with QC_BAD_INPUT if the plugin
   fails. */
bool qc_plugin_scan(struct qc_plugin_state *out, const struct qc_observer *observer,
                    const struct qc_observer_values *values, const float *x, size_t n, struct qc_status *st);
/* Merges a later state into an earlier one and ends the later one in any case. An empty one (state NULL) adds
   nothing. */
bool qc_plugin_merge(struct qc_plugin_state *into, struct qc_plugin_state *later, struct qc_status *st);
void qc_plugin_end(struct qc_plugin_state *s); /* leaves it empty; NULL-safe, empty-safe */
