// SPDX-License-Identifier: Apache-2.0
/* What a command writes is none of what it reads, and no two of its outputs are one file: known before anything is
   computed. */
#pragma once

#include "base/file.h"
#include "cli/options/command_line.h"

/* In the arena of the options. */
struct qc_outputs {
    size_t count;
    struct qc_named_file *files;
};

/* paths: of the results; report: the folder, NULL for none; what --dump, --checkpoint and --html name is added.
   Checks them against the operands and every file that an option names. QC_USAGE. Those of the model are known when
   it has been read: quantize/opening/model.h. */
bool qc_outputs_apart(struct qc_outputs *out, const char *const *paths, size_t count, const char *report,
                      const struct qc_cli_options *o, struct qc_status *st);
