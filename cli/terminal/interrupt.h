// SPDX-License-Identifier: Apache-2.0
/* SIGINT, SIGTERM and SIGHUP: the first asks the running work to stop (it polls), which ends with code 130 and no
   file left behind. A second signal, or a second without an answer, removes unfinished files and exits from the
   handler. What the parent ignores (nohup, background jobs of scripts) stays ignored. SIGPIPE is ignored: see
   cli/terminal/screen.h. SIGBUS, which a mapped file gives that somebody makes shorter, ends the program with
   QC_MACHINE and says so; so does SIGXCPU. SIGXFSZ is ignored: a write beyond the limit of a file fails with EFBIG. */
#pragma once

#include "base/status.h"

void qc_interrupt_install(void);
bool qc_interrupted(void);

/* From now on the first signal waits for an answer as long as it takes: there is work to be saved. */
void qc_interrupt_wait(void);

/* QC_INTERRUPTED when a signal has come: for phases that have no progress callback. */
bool qc_interrupt_check(struct qc_status *st);
