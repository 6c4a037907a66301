// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/interface/warnings.h"

/* Prints "qcalib: warning: TEXT (17 times)" to standard error, at most 20 lines; all if verbose. */
enum qc_warnings_length { QC_WARNINGS_SOME, QC_WARNINGS_ALL };
/* Prints one warning about the command line alone. */
void qc_warning_print(const char *text);
void qc_warnings_print(const struct qc_warnings *w, enum qc_warnings_length length);
