// SPDX-License-Identifier: Apache-2.0
#ifndef QC_CLI_OPTIONS_AGREE_H
#define QC_CLI_OPTIONS_AGREE_H

#include "quantize/options.h"

/* Options of 'quantize' that are right one by one but not together, with what to do. Errors: QC_USAGE. */
bool qc_options_agree(const struct qc_cli_options *o, struct qc_status *st);

#endif
