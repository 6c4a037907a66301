// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

_Thread_local struct qc_status failure = {.code = QC_OK};
