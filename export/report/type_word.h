// SPDX-License-Identifier: Apache-2.0
#pragma once

/* Returns the name of a type as options spell it: "uint8" for "u8"; `type` itself if it is unknown. */
const char *qc_type_word(const char *type);
