// SPDX-License-Identifier: Apache-2.0
/* SIGINT and SIGTERM: the first asks the running work to stop (it polls), which ends with code 130 and no file left behind. A second
   signal, or a second without an answer, removes unfinished files and exits from the handler. SIGPIPE is ignored. */
#ifndef QC_CLI_INTERRUPT_H
#define QC_CLI_INTERRUPT_H

#include "base/status.h"

void qc_interrupt_install(void);
bool qc_interrupted(void);

/* From now on the first signal waits for an answer as long as it takes: there is work to be saved. */
void qc_interrupt_wait(void);

/* QC_INTERRUPTED when a signal has come: for phases that have no progress callback. */
bool qc_interrupt_check(struct qc_status *st);

#endif
