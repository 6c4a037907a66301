// SPDX-License-Identifier: Apache-2.0
/* One of ONNX's backend node tests on disk: FOLDER/model.onnx and FOLDER/test_data_set_0/{input,output}_N.pb. */
#pragma once

#include "graph/types/tensor.h"

enum { NODE_CASE_PORTS = 64, NODE_CASE_OPS = 256 };

struct node_case {
    size_t model_size;
    unsigned char *model; /* model.onnx, changed: see node_case.c */
    size_t op_count, input_count, output_count;
    char *ops[NODE_CASE_OPS]; /* "Add", or "domain:Name" outside the default domain */
    char *input_names[NODE_CASE_PORTS];
    bool bound[NODE_CASE_PORTS]; /* input made an initializer */
    bool readable;               /* all inputs and outputs are tensors of types that we have */
    struct qc_tensor *inputs[NODE_CASE_PORTS], *outputs[NODE_CASE_PORTS]; /* NULL: an optional one left out */
};

/* AS_IS: nothing is bound, and the model is that of the file. */
enum node_case_form { NODE_CASE_BOUND, NODE_CASE_AS_IS };

/* Owned (node_case_free). Errors: files that are missing or damaged. */
bool node_case_read(struct node_case **out, const char *folder, enum node_case_form form, struct qc_status *st);
void node_case_free(struct node_case *c);

/* Relative; 0: the usual one. The expected outputs of some tests have few digits, those of windows know four digits of
   pi less than their models. */
double node_case_tolerance(const char *name);

/* Why a test is out of scope (conformance_out.def); NULL when it is not. */
const char *node_case_out_of_scope(const char *name);

/* The tensor with the type that the model declares: ONNX 1.12 stored bfloat16 as uint16. */
struct qc_tensor node_case_as(const struct qc_tensor *stored, enum qc_dtype declared);
