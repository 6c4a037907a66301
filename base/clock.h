// SPDX-License-Identifier: Apache-2.0
#pragma once

/* Seconds of a monotonic clock. */
double qc_seconds(void);
