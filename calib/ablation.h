// SPDX-License-Identifier: Apache-2.0
/* Names of default rules that scripts/ablation switches off one by one. A build with -DQC_ABLATION=ON reads the rules
   to switch off, separated by commas, from QC_ABLATE ("all": every rule), and appends each rule that is queried to the
   file QC_ABLATION_LOG: a rule that is never queried has no effect. In any other build every rule is on. */
#pragma once

#include <stdbool.h>

#ifdef QC_ABLATION
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool qc_ablated(const char *rule)
{
    const char *off = getenv("QC_ABLATE"), *log = getenv("QC_ABLATION_LOG");
    const size_t length = strlen(rule);
    FILE *f = log ? fopen(log, "a") : NULL;
    if (f) {
        fprintf(f, "%s\n", rule);
        fclose(f);
    }
    for (const char *at = off; at && *at; at += strcspn(at, ",") + (strchr(at, ',') != NULL))
        if (strcspn(at, ",") == length && strncmp(at, rule, length) == 0) return true;
    return off && strcmp(off, "all") == 0;
}
#else
static inline bool qc_ablated(const char *rule)
{
    return false;
}
#endif
