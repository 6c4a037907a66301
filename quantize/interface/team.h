// SPDX-License-Identifier: Apache-2.0
/* Processes that share one job, each with a part of the samples. The transport is elsewhere (cli/main_mpi.c). */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct qc_team {
    unsigned rank, size; /* 0 <= rank < size; rank 0 continues with the statistics of all */
    /* Every other rank sends once, rank 0 receives from each. *bytes are owned by the caller (free). */
    bool (*send)(const void *bytes, size_t size, struct qc_status *st);
    bool (*receive)(void **bytes, size_t *size, unsigned from, struct qc_status *st);
};
