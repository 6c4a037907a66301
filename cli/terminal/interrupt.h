// SPDX-License-Identifier: Apache-2.0
/* SIGINT, SIGTERM and SIGHUP: the first asks the running work to stop. The work polls for it and ends with code 130
   without leaving files behind. A second signal, or 1 s without a poll, removes unfinished files and exits from the
   handler. Signals that the parent ignores (nohup, background jobs of scripts) stay ignored. SIGPIPE is ignored: see
   cli/terminal/screen.h. SIGBUS (another process truncated a mapped file) and SIGXCPU end the program with QC_MACHINE
   and a message. SIGXFSZ is ignored: a write beyond the file size limit fails with EFBIG. */
#pragma once

#include "base/status.h"

void qc_interrupt_install(void);

/* Returns false with QC_INTERRUPTED after a signal; for phases without a progress callback. */
bool qc_interrupt_check(struct qc_status *st);
