/* SPDX-License-Identifier: Apache-2.0 */
/* qcalib: calibration and quantization of neural networks, as a library.

   This header is its own manual. A whole program is in docs/c-library.md; the heart of it:

     struct qcalib_error error;
     qcalib_model *model = NULL;
     qcalib_data *data = NULL;
     qcalib_options *options = NULL;
     qcalib_result *result = NULL;
     struct qcalib_array images = {.size = sizeof images, .name = "input", .type = QCALIB_FLOAT32,
                                   .rank = 4, .shape = shape, .values = pixels};
     int bad = qcalib_model_open(&model, "model.onnx", &error) || qcalib_data_new(&data, "pixels", &error) ||
               qcalib_data_add(data, &images, &error) || qcalib_options_new(&options, &error) ||
               qcalib_options_set(options, "method", "kl", &error);
     struct qcalib_job job = {.size = sizeof job, .options = options, .data = data};
     bad = bad || qcalib_quantize(&result, model, &job, &error) ||
           qcalib_result_write_model(result, 0, "model.int8.onnx", &error);
     if (bad) fprintf(stderr, "%s\n", error.message);
     qcalib_result_free(result);
     qcalib_options_free(options);
     qcalib_data_free(data);
     qcalib_model_free(model);

   The law of calls
   - A function that can fail returns an int: QCALIB_OK, which is 0, or one of enum qcalib_code, which are the exit
     codes of the command line. Its last parameter is an error object of the caller's, or NULL; after every such call
     it holds the code and, where that is not 0, a message.
   - Outputs are the first parameters. They are set only where a function says OK, but for one case that
     qcalib_quantize names.
   - Objects are opaque. What a function gives through an output is the caller's, who frees it with the one
     qcalib_..._free of its kind, which takes NULL too and never fails. What a function returns as a const pointer
     belongs to the object, and lives as long as it does.
   - A struct of options begins with its size: set `.size = sizeof` it and leave what you do not need at 0. So
     programs that were compiled with an older header go on working.
   - Texts are UTF-8 and end with 0. Numbers in them have a point, whatever the program's locale; callbacks in the
   caller's thread are called in the C locale. Shapes are in elements, the first axis first; arrays are row-major and in
   the machine's byte order.
   - The library never prints, exits or aborts, installs no signal handler, and keeps nothing between calls: what it
     has to say goes through the callbacks of struct qcalib_job.
   - Threads: calls on different objects may run at the same time, and so may any number of jobs. One object may be
     read by several threads at once (parameters that are const); whoever changes or frees it must be alone with it.
     Results do not depend on the number of threads.
   - Memory: where memory gives out a call returns QCALIB_MACHINE; whatever fails, nothing is leaked that the caller
     cannot free.

   Link with `pkg-config --cflags --libs qcalib`, or in CMake find_package(qcalib) and the target qcalib::qcalib. */
#ifndef QCALIB_H
#define QCALIB_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define QCALIB_API __attribute__((visibility("default")))
#else
#define QCALIB_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ---- */

/* Of this header. While the first number is 0 a change of the second may change the library's binary interface, and
   its soname with it. */
#define QCALIB_VERSION_MAJOR 0
#define QCALIB_VERSION_MINOR 1
#define QCALIB_VERSION_PATCH 0

/* Version of the library that runs, "0.1.0". Never NULL; thread-safe. */
QCALIB_API const char *qcalib_version(void);

/* ---- Errors ---- */

/* Exit codes of the command line. */
enum qcalib_code {
    QCALIB_OK = 0,
    QCALIB_DEMAND = 1,    /* a demand of the options was not met: require-integer, max-drop, min-sqnr, max-nll, size */
    QCALIB_USAGE = 2,     /* wrong options or arguments */
    QCALIB_BAD_INPUT = 3, /* a damaged, hostile or inconsistent model, data or statistics */
    QCALIB_UNSUPPORTED =
        4,              /* operators, types or an opset that qcalib does not handle; the message names all of them */
    QCALIB_MACHINE = 5, /* memory, disk, file permissions */
    QCALIB_INTERRUPTED = 130 /* the progress callback said stop */
};

/* One line that says what is wrong, with which file, node, tensor or sample, and what can be done. Longer texts are
   cut at the end. */
struct qcalib_error {
    int code; /* enum qcalib_code */
    char message[2048];
};

/* ---- Options ---- */

/* What the command line calls --NAME=VALUE, by the same table: `qcalib help quantize` lists it. Files that stand on
   the command line as --data, --eval and --stats are objects here (struct qcalib_job); what is printed, drawn or
   written there is not an option here. */
typedef struct qcalib_options qcalib_options;

/* All at their defaults. Errors: QCALIB_MACHINE. */
QCALIB_API int qcalib_options_new(qcalib_options **out, struct qcalib_error *error);
QCALIB_API void qcalib_options_free(qcalib_options *options);

/* name: without dashes, "method"; value: as on the command line, "percentile:p=99.9"; NULL for an option that takes
   none. Both are copied. What is set twice counts the second time, except for options that are lists. Errors:
   QCALIB_USAGE with the command line's message, for an unknown name, a value that is none, an option that has no
   place in a library. Whether an option belongs to a job is checked when the job begins. */
QCALIB_API int qcalib_options_set(qcalib_options *options, const char *name, const char *value,
                                  struct qcalib_error *error);

/* The same from the text of a JSON object, as --config has it: {"method": "kl", "per-tensor": true}. size in bytes.
   Options of it that do not belong to a job are left alone there. Errors: QCALIB_USAGE, QCALIB_BAD_INPUT (not JSON). */
QCALIB_API int qcalib_options_set_json(qcalib_options *options, const char *json, size_t size,
                                       struct qcalib_error *error);

/* ---- Types and shapes ---- */

/* Element types, with the numbers that ONNX gives them (TensorProto.DataType). */
enum qcalib_type {
    QCALIB_FLOAT32 = 1,
    QCALIB_UINT8 = 2,
    QCALIB_INT8 = 3,
    QCALIB_UINT16 = 4,
    QCALIB_INT16 = 5,
    QCALIB_INT32 = 6,
    QCALIB_INT64 = 7,
    QCALIB_BOOL = 9,
    QCALIB_FLOAT16 = 10,
    QCALIB_FLOAT64 = 11,
    QCALIB_UINT32 = 12,
    QCALIB_UINT64 = 13,
    QCALIB_BFLOAT16 = 16,
    QCALIB_UINT4 = 21, /* one element in each byte */
    QCALIB_INT4 = 22
};

enum { QCALIB_RANK_MAX = 8 };

/* An input or output of a model. */
struct qcalib_tensor {
    size_t size;                    /* sizeof(struct qcalib_tensor) */
    const char *name;               /* belongs to the model */
    int type;                       /* enum qcalib_type; 0: unknown */
    int rank;                       /* 0: a scalar; -1: unknown */
    int64_t shape[QCALIB_RANK_MAX]; /* -1: any size */
};

/* ---- Models ---- */

/* A model, float or quantized, as it was read. Jobs only read it. */
typedef struct qcalib_model qcalib_model;

/* path: an ONNX file; tensors that it keeps in files beside it are found there. It is read whole, and its SHA-256
   taken, before this returns. Errors: QCALIB_BAD_INPUT, QCALIB_UNSUPPORTED, QCALIB_MACHINE. */
QCALIB_API int qcalib_model_open(qcalib_model **out, const char *path, struct qcalib_error *error);

/* The same from the bytes of such a file, which must hold all tensors. bytes are not needed any more when this
   returns. name: what messages and reports call the model where a file has its path; NULL: "model". */
QCALIB_API int qcalib_model_from_memory(qcalib_model **out, const void *bytes, size_t size, const char *name,
                                        struct qcalib_error *error);
QCALIB_API void qcalib_model_free(qcalib_model *model);

/* Inputs are what data have to be named after. Number i of them, from 0; *out begins with its size. Errors:
   QCALIB_USAGE where there is no such. */
QCALIB_API size_t qcalib_model_input_count(const qcalib_model *model);
QCALIB_API int qcalib_model_input(struct qcalib_tensor *out, const qcalib_model *model, size_t i,
                                  struct qcalib_error *error);
QCALIB_API size_t qcalib_model_output_count(const qcalib_model *model);
QCALIB_API int qcalib_model_output(struct qcalib_tensor *out, const qcalib_model *model, size_t i,
                                   struct qcalib_error *error);

/* ---- Data ---- */

/* Samples: an array for each input of a model, named as the input (for a model with one input any name but `labels`
   and `target` does where there is only one). The first axis is the sample. An array of the input's own rank is cut
   into batches along it, one of a rank more holds a whole input per sample; what does not fill a batch is left out
   with a warning. Any type is converted to the input's. `labels` (integers, one per sample) give accuracy, `target`
   (shaped like the output) PSNR. Shapes are held against a model only when a job begins, so one object may serve
   several models. */
typedef struct qcalib_data qcalib_data;

/* file: "FILE" or "FILE:DATASET", of any kind that --data takes. The file is opened by the job. Errors:
   QCALIB_MACHINE. */
QCALIB_API int qcalib_data_open(qcalib_data **out, const char *file, struct qcalib_error *error);

/* Samples of the program's own; arrays are added below. name: what messages and reports call them where a file has
   its path; NULL: "memory". Copied. */
QCALIB_API int qcalib_data_new(qcalib_data **out, const char *name, struct qcalib_error *error);
QCALIB_API void qcalib_data_free(qcalib_data *data);

struct qcalib_array {
    size_t size;          /* sizeof(struct qcalib_array) */
    const char *name;     /* copied, as are shape and preprocess */
    int type;             /* enum qcalib_type, but not of 4 bits */
    int rank;             /* 1 to 32, with the axis of samples */
    const int64_t *shape; /* [rank]; shape[0]: number of samples */
    /* Row-major; not copied: they have to stay as they are until qcalib_data_free. NULL: rows come from
       qcalib_data_draw. */
    const void *values;
    /* As --preprocess: "scale=1/255 mean=.485,.456,.406 std=.229,.224,.225"; NULL: none. */
    const char *preprocess;
    /* Of `target`: the largest value there can be, for PSNR; 0: 255 for uint8 without preprocess, else 1. */
    double peak;
};

/* Errors: QCALIB_USAGE: data of a file; a name that is taken; a type or shape that samples cannot have. */
QCALIB_API int qcalib_data_add(qcalib_data *data, const struct qcalib_array *array, struct qcalib_error *error);

/* Gives the next sample: fills rows[k] with one entry of array k of those that were added without values, in the
   order in which they were added. Returns 1; 0 when there are no more; anything below 0 to give up. */
typedef int qcalib_next_fn(void *user, void *const *rows);

/* Takes all samples from `next`: one call for each and one for the end, in this thread, before this returns; never
   again, though a job may read the samples several times. shape[0] of these arrays is not looked at. Of the samples
   at most keep_bytes stay in memory (0: 64 MiB), the rest goes to a file without a name in TMPDIR. Errors:
   QCALIB_USAGE: no array without values, or all have theirs already; QCALIB_BAD_INPUT: next gave up; QCALIB_MACHINE:
   no room. */
QCALIB_API int qcalib_data_draw(qcalib_data *data, qcalib_next_fn *next, void *user, size_t keep_bytes,
                                struct qcalib_error *error);

/* Gives the next sample where samples differ in size: sets values[k] to the one of array k, row-major, and shapes[k] to
   its shape [rank - 1]; both stay as they are until the next call. Returns as qcalib_next_fn. */
typedef int qcalib_next_sized_fn(void *user, const void **values, const int64_t **shapes);

/* As qcalib_data_draw. Axes of these arrays whose shape is -1 may differ from sample to sample, where the model leaves
   them free (docs/my-arrays.md). QCALIB_BAD_INPUT: a sample of another shape than said, too. */
QCALIB_API int qcalib_data_draw_sized(qcalib_data *data, qcalib_next_sized_fn *next, void *user, size_t keep_bytes,
                                      struct qcalib_error *error);

/* ---- Jobs ---- */

/* What one sees of a network: for each tensor a histogram and what else methods need; sums of integers, exact in any
   order (docs/statistics-file.md). */
typedef struct qcalib_statistics qcalib_statistics;

/* How far a job is. phase: "calibrating" and such, "" between two; valid in the call. done of total steps of it, total
   0 where it begins or is over. Returns 0 to go on, anything else to stop: the job ends with QCALIB_INTERRUPTED after
   the step. Called often, from one thread at a time, which need not be the caller's. */
typedef int qcalib_progress_fn(void *user, const char *phase, size_t done, size_t total);

/* A warning, without a line end; text is valid in the call. Called in the caller's thread, before the job returns, once
   for each text. */
typedef void qcalib_message_fn(void *user, const char *text);

/* What a job works with. All pointers are borrowed for the call. */
struct qcalib_job {
    size_t size;                         /* sizeof(struct qcalib_job) */
    const qcalib_options *options;       /* NULL: all defaults */
    const qcalib_data *data;             /* --data */
    const qcalib_data *eval;             /* --eval: with labels or target. Of quantize only */
    const qcalib_statistics *statistics; /* --stats, instead of data or beside it. Of quantize only */
    qcalib_progress_fn *progress;        /* NULL: none */
    qcalib_message_fn *message;          /* NULL: none */
    void *user;                          /* for both */
};

/* ---- Quantize ---- */

/* What quantization made: a model for each of --format, the report, warnings. It needs neither model nor data any
   more. */
typedef struct qcalib_result qcalib_result;

/* The whole job: `qcalib quantize`. model: float. Without data there have to be statistics. Errors: all codes.
   QCALIB_DEMAND: the model is not what --max-drop, --min-sqnr or --max-nll asks for; *out is then a result all the
   same, with the report, but where --max-drop is missed without models (NULL where the demand was --require-integer or
   --size: then nothing was measured). */
QCALIB_API int qcalib_quantize(qcalib_result **out, const qcalib_model *model, const struct qcalib_job *job,
                               struct qcalib_error *error);
QCALIB_API void qcalib_result_free(qcalib_result *result);

/* Models, one for each of --format in its order. The name of a format, "qdq"; NULL where there is no model i. */
QCALIB_API size_t qcalib_result_model_count(const qcalib_result *result);
QCALIB_API const char *qcalib_result_format(const qcalib_result *result, size_t i);

/* The bytes of model i; the caller's, freed with qcalib_bytes_free. Errors: QCALIB_USAGE: there is no model i;
   QCALIB_UNSUPPORTED: more than 2 GB, which ONNX cannot hold in one piece: write it; QCALIB_MACHINE. */
QCALIB_API int qcalib_result_model(void **bytes, size_t *size, const qcalib_result *result, size_t i,
                                   struct qcalib_error *error);
QCALIB_API void qcalib_bytes_free(void *bytes);

/* Writes model i to a file, which appears only when complete; beyond 1.9 GB its tensors go to PATH.data. A report that
   is written later names the file. Errors: QCALIB_USAGE, QCALIB_MACHINE. */
QCALIB_API int qcalib_result_write_model(qcalib_result *result, size_t i, const char *path, struct qcalib_error *error);

/* The report as the text of report.json, without files: none was written then. */
QCALIB_API const char *qcalib_result_report(const qcalib_result *result);

/* The same for people: report.html, report.json and layers.csv in a folder, which is made. Errors: QCALIB_MACHINE. */
QCALIB_API int qcalib_result_write_report(qcalib_result *result, const char *folder, struct qcalib_error *error);

/* A tensor that is quantized: real = scale * (q - zero_point). Pointers belong to the result. */
struct qcalib_layer {
    size_t size;               /* sizeof(struct qcalib_layer) */
    const char *name;          /* of the tensor */
    const char *op;            /* that computes it, or, of a weight, that reads it */
    int type;                  /* enum qcalib_type */
    int axis;                  /* of the channels; -1: one scale for all */
    size_t count;              /* of scales and zero points: 1, or the channels */
    const float *scale;        /* [count] */
    const int32_t *zero_point; /* [count] */
    double sqnr_db;            /* signal to quantization noise, in dB; NaN where it was not measured */
};
QCALIB_API size_t qcalib_result_layer_count(const qcalib_result *result);
/* Number i, from 0, in the order of the network; *out begins with its size. Errors: QCALIB_USAGE: there is no such. */
QCALIB_API int qcalib_result_layer(struct qcalib_layer *out, const qcalib_result *result, size_t i,
                                   struct qcalib_error *error);

/* Warnings of the job, which went to job->message too. NULL where there is no such. */
QCALIB_API size_t qcalib_result_warning_count(const qcalib_result *result);
QCALIB_API const char *qcalib_result_warning(const qcalib_result *result, size_t i);

/* ---- Statistics ---- */

/* `qcalib collect`: runs job->data through the float model. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_collect(qcalib_statistics **out, const qcalib_model *model, const struct qcalib_job *job,
                              struct qcalib_error *error);
QCALIB_API void qcalib_statistics_free(qcalib_statistics *statistics);

/* Adds `more` to `into`: exact, in any order and any tree. Errors: QCALIB_BAD_INPUT: of another model, of other
   inputs, or samples that are in both; into is then of no more use than to be freed. */
QCALIB_API int qcalib_statistics_merge(qcalib_statistics *into, const qcalib_statistics *more,
                                       struct qcalib_error *error);

/* The file of docs/statistics-file.md; it appears only when complete. */
QCALIB_API int qcalib_statistics_save(const qcalib_statistics *statistics, const char *path,
                                      struct qcalib_error *error);
QCALIB_API int qcalib_statistics_load(qcalib_statistics **out, const char *path, struct qcalib_error *error);

/* Samples in it, and tensors that it has seen. */
QCALIB_API uint64_t qcalib_statistics_samples(const qcalib_statistics *statistics);
QCALIB_API size_t qcalib_statistics_tensors(const qcalib_statistics *statistics);

/* ---- Run, evaluate, compare ---- */

/* An output of a model for one unit of data: what the model computes at once, a batch or one sample. */
struct qcalib_output {
    const char *name;
    int type; /* enum qcalib_type */
    int rank;
    int64_t shape[QCALIB_RANK_MAX];
    const void *values; /* row-major, valid in the call */
};

/* All outputs for the unit whose first sample has this number in the data (from 0). Called by one thread at a time,
   in any order of units. Returns 0 to go on, anything else to stop (QCALIB_INTERRUPTED). */
typedef int qcalib_output_fn(void *user, uint64_t sample, const struct qcalib_output *outputs, size_t count);

/* `qcalib run`: job->data through the model, float or quantized. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_run(const qcalib_model *model, const struct qcalib_job *job, qcalib_output_fn *output, void *user,
                          struct qcalib_error *error);

/* A metric of a model on labelled data. */
struct qcalib_metric {
    size_t size;      /* sizeof(struct qcalib_metric) */
    const char *name; /* "top1" or "psnr"; needs not be freed */
    double value;     /* top1: 0 to 1; psnr: dB, infinity where all is equal */
    double low, high; /* 95 % interval of top1; NaN otherwise */
    double top5;      /* NaN with fewer than 6 classes, and for psnr */
    double mse;       /* of psnr; NaN otherwise */
    uint64_t samples;
    double seconds; /* of the run */
};

/* `qcalib eval`: job->data have labels or a target. *out begins with its size. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_evaluate(struct qcalib_metric *out, const qcalib_model *model, const struct qcalib_job *job,
                               struct qcalib_error *error);

/* Error of one model against another, output by output and layer by layer. It needs both models as long as it lives. */
typedef struct qcalib_comparison qcalib_comparison;

struct qcalib_difference {
    size_t size;      /* sizeof(struct qcalib_difference) */
    const char *name; /* of the output, or of the layer; belongs to one of the models; NULL: a layer without a name */
    double
        sqnr_db; /* of the second against the first; infinity where they are equal, NaN where the first is all zero */
    double cosine;
    double max_abs; /* largest difference, in the output's own units */
};

/* `qcalib compare`: job->data through both. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_compare(qcalib_comparison **out, const qcalib_model *reference, const qcalib_model *model,
                              const struct qcalib_job *job, struct qcalib_error *error);
QCALIB_API void qcalib_comparison_free(qcalib_comparison *comparison);

/* Number i, from 0; *out begins with its size. Errors: QCALIB_USAGE: there is no such. */
QCALIB_API size_t qcalib_comparison_output_count(const qcalib_comparison *comparison);
QCALIB_API int qcalib_comparison_output(struct qcalib_difference *out, const qcalib_comparison *comparison, size_t i,
                                        struct qcalib_error *error);
QCALIB_API size_t qcalib_comparison_layer_count(const qcalib_comparison *comparison);
QCALIB_API int qcalib_comparison_layer(struct qcalib_difference *out, const qcalib_comparison *comparison, size_t i,
                                       struct qcalib_error *error);

/* ---- Inspect ---- */

/* `qcalib inspect --json`: the text of a JSON object that says what is in a file: a model, data, statistics, a report
   or its folder; ends with 0, size without it. The caller's, freed with qcalib_bytes_free. Errors: QCALIB_BAD_INPUT,
   QCALIB_UNSUPPORTED, QCALIB_MACHINE. */
QCALIB_API int qcalib_inspect_file(char **json, size_t *size, const char *path, struct qcalib_error *error);

/* The same of a model that was opened. Errors: QCALIB_MACHINE. */
QCALIB_API int qcalib_inspect_model(char **json, size_t *size, const qcalib_model *model, struct qcalib_error *error);

/* ---- Experimental ---- */

/* What follows may change or go with any version. Define QCALIB_EXPERIMENTAL to use it. */
#ifdef QCALIB_EXPERIMENTAL

/* What the value of an option is, as text. */
enum qcalib_value {
    QCALIB_VALUE_NONE,    /* the option stands alone */
    QCALIB_VALUE_TEXT,    /* any text but the empty one */
    QCALIB_VALUE_TEXTS,   /* the same; set again it adds to what was said */
    QCALIB_VALUE_CHOICE,  /* one of `choices` */
    QCALIB_VALUE_CHOICES, /* some of them, with commas between */
    QCALIB_VALUE_BY_NAME, /* "CHOICE", or "CHOICE:NODE" for some nodes; set again it adds to what was said */
    QCALIB_VALUE_COUNT,   /* an integer, 1 or more */
    QCALIB_VALUE_INTEGER, /* an integer, 0 or more */
    QCALIB_VALUE_BYTES,   /* an integer, 1 or more, with K, M or G behind it */
    QCALIB_VALUE_NUMBER   /* 0 or more */
};

/* Jobs that have an option: bits of qcalib_option.jobs. */
enum qcalib_job_bit {
    QCALIB_JOB_QUANTIZE = 1,
    QCALIB_JOB_COLLECT = 2,
    QCALIB_JOB_RUN = 4,
    QCALIB_JOB_EVALUATE = 8,
    QCALIB_JOB_COMPARE = 16
};

/* A row of the table of options. All texts live as long as the program. */
struct qcalib_option {
    size_t size;          /* sizeof(struct qcalib_option) */
    const char *name;     /* "method" */
    const char *argument; /* "NAME[:key=value,..]"; NULL: it takes none */
    const char *preset;   /* default, or words for a person; NULL: none */
    const char *choices;  /* "a|b|c"; NULL: any value */
    const char *help;     /* one line */
    int value;            /* enum qcalib_value */
    unsigned jobs;        /* that take it; 0: it is only for the command line, or an object here (struct qcalib_job) */
};
QCALIB_API size_t qcalib_option_count(void);
QCALIB_API int qcalib_option_at(struct qcalib_option *out, size_t i, struct qcalib_error *error);

#endif

#ifdef __cplusplus
}
#endif

#endif
