// SPDX-License-Identifier: Apache-2.0
/* The example that ships with qcalib, as a program that holds its own samples has it. A failure fails the test. */
#pragma once

#include "include/qcalib/qcalib.h"
#include "tests/check.h"

OWNED(qcalib_data, qcalib_data_free)
OWNED(qcalib_model, qcalib_model_free)
OWNED(qcalib_result, qcalib_result_free)
OWNED(qcalib_options, qcalib_options_free)
OWNED(qcalib_statistics, qcalib_statistics_free)
OWNED(qcalib_comparison, qcalib_comparison_free)

#define DIGITS_MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DIGITS_CALIB QC_TEST_SOURCE "/datasets/digits_calib.h5"
#define DIGITS_TEST QC_TEST_SOURCE "/datasets/digits_test.h5"

enum { DIGITS_SAMPLES = 300, DIGITS_PIXELS = 64 };

extern float digits_pixels[DIGITS_SAMPLES][DIGITS_PIXELS];

void digits_read(void);                  /* digits_pixels, from the file */
qcalib_model *digits_model(void);        /* opened */
qcalib_data *digits_data(int64_t count); /* the first so many of digits_pixels, read already */
/* All of them, drawn sample by sample; sized: their sizes might differ, and do not. */
qcalib_data *digits_drawn(size_t keep_bytes, bool sized);
/* NAME, VALUE, NAME, VALUE, ..., NULL */
qcalib_options *digits_options(const char *const *words);
