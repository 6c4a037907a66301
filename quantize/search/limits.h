// SPDX-License-Identifier: Apache-2.0
/* The numbers of the searches, as constants: limits.def has their units and reasons. */
#pragma once

#define QC_WHOLE(name, value, unit, rule, reason) enum { name = (value) };
#define QC_DECIMAL(name, value, unit, rule, reason) static const double name = value;
#include "quantize/search/limits.def"
