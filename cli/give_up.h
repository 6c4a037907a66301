// SPDX-License-Identifier: Apache-2.0
/* The end of the program where a library leaves no way back: an allocation that failed, exit or abort called inside it.
 */
#pragma once

/* Removes unfinished files, writes "qcalib: REASON" to standard error and ends with QC_MACHINE. Allocates nothing and
   runs nothing that is left to do at exit; safe in any thread and signal handler. The first of several threads is the
   one that is heard. */
_Noreturn void qc_give_up(const char *reason);
