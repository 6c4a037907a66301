// SPDX-License-Identifier: Apache-2.0
#ifndef QC_BASE_CLOCK_H
#define QC_BASE_CLOCK_H

/* Seconds of a monotonic clock. */
double qc_seconds(void);

#endif
