/* SPDX-License-Identifier: Apache-2.0 */
/* qcalib: calibration and quantization of neural networks, as a library.

   This header is the reference. docs/c-library.md has a whole program; its core is:

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

   Conventions of all calls
   - Errors: a function that can fail returns an int, QCALIB_OK (0) or another enum qcalib_code; these are the exit
     codes of the command line. Its last parameter is the caller's error object, or NULL. After every such call it
     holds the code and, if that is not 0, a message.
   - Outputs are the first parameters. They are set only if a function returns QCALIB_OK, with one exception
     described at qcalib_quantize.
   - Ownership: objects are opaque. The caller owns what a function returns through an output and frees it with the
     qcalib_..._free of its kind, which accepts NULL and never fails. A const pointer that a function returns
     belongs to the object and is valid as long as the object.
   - Structs begin with their size: set `.size = sizeof` it and leave unused members 0. So programs compiled with an
     older header continue to work.
   - Texts are UTF-8 and end with 0. Numbers in them have a decimal point, whatever the program's locale; callbacks
     in the caller's thread are called in the C locale. Shapes are in elements, the first axis first; arrays are
     row-major and in native byte order.
   - Files: no call writes a file that its object was made from: a model, its weights, samples, statistics, rules. It
     fails with QCALIB_USAGE instead, also if the path is a link to such a file or another spelling.
   - Side effects: the library never prints, exits or aborts, installs no signal handler, and keeps nothing between
     calls. Progress and warnings go through the callbacks of struct qcalib_job.
   - Threads: calls on different objects may run at the same time, as may any number of jobs. Several threads may
     read one object at once (const parameters); changing or freeing it needs exclusive access. Results do not
     depend on the number of threads.
   - Memory: if memory is out, a call returns QCALIB_MACHINE. No failure leaks memory that the caller cannot free.

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

/* The version of this header. While the major number is 0, a change of the minor number may change the binary
   interface, and the soname with it. */
#define QCALIB_VERSION_MAJOR 0
#define QCALIB_VERSION_MINOR 1
#define QCALIB_VERSION_PATCH 0

/* Returns the version of the loaded library, "0.1.0". Never NULL; thread safe. */
QCALIB_API const char *qcalib_version(void);

/* ---- Errors ---- */

/* Exit codes of the command line. */
enum qcalib_code {
    QCALIB_OK = 0,
    QCALIB_DEMAND = 1,    /* a requirement of the options is not met: require-integer, max-drop, min-sqnr, max-nll,
                             size */
    QCALIB_USAGE = 2,     /* wrong options or arguments */
    QCALIB_BAD_INPUT = 3, /* a damaged, hostile or inconsistent model, data or statistics */
    QCALIB_UNSUPPORTED =
        4,              /* operators, types or an opset that qcalib does not support; the message names all of them */
    QCALIB_MACHINE = 5, /* memory, disk, file permissions */
    QCALIB_INTERRUPTED = 130 /* the progress callback stopped the job */
};

/* One line that tells what is wrong, with which file, node, tensor or sample, and what can be done. Longer texts are
   cut at the end. */
struct qcalib_error {
    int code; /* enum qcalib_code */
    char message[2048];
};

/* ---- Options ---- */

/* The options of the command line, --NAME=VALUE, from the same table (`qcalib help quantize` lists it). The files of
   --data, --eval and --stats are objects here (struct qcalib_job). Options for printed, drawn or written output do not
   exist here. */
typedef struct qcalib_options qcalib_options;

/* All options at their defaults. Errors: QCALIB_MACHINE. */
QCALIB_API int qcalib_options_new(qcalib_options **out, struct qcalib_error *error);
QCALIB_API void qcalib_options_free(qcalib_options *options);

/* name: without dashes, "method"; value: as on the command line, "percentile:p=99.9"; NULL for an option without a
   value. Both are copied. Setting an option again replaces its value, or extends it if the option is a list. Errors:
   QCALIB_USAGE with the command line's message, for an unknown name, an invalid value, or an option that does not exist
   in the library. A job checks at its beginning whether it takes an option. */
QCALIB_API int qcalib_options_set(qcalib_options *options, const char *name, const char *value,
                                  struct qcalib_error *error);

/* The same from the text of a JSON object, as in --config: {"method": "kl", "per-tensor": true}. size in bytes. A job
   ignores those of its options that it does not take. Errors: QCALIB_USAGE, QCALIB_BAD_INPUT (not JSON). */
QCALIB_API int qcalib_options_set_json(qcalib_options *options, const char *json, size_t size,
                                       struct qcalib_error *error);

/* ---- Types and shapes ---- */

/* Element types, with ONNX's numbers (TensorProto.DataType). */
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
    QCALIB_UINT4 = 21, /* one element per byte */
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

/* A model, float or quantized, as read. Jobs do not change it. */
typedef struct qcalib_model qcalib_model;

/* path: an ONNX file; tensors in external files are found beside it. Reads the whole file and computes its SHA-256.
   Errors: QCALIB_BAD_INPUT, QCALIB_UNSUPPORTED, QCALIB_MACHINE. */
QCALIB_API int qcalib_model_open(qcalib_model **out, const char *path, struct qcalib_error *error);

/* The same from the bytes of such a file, which must hold all tensors. bytes may be freed afterwards. name: used in
   messages and reports in place of the path; NULL: "model". */
QCALIB_API int qcalib_model_from_memory(qcalib_model **out, const void *bytes, size_t size, const char *name,
                                        struct qcalib_error *error);
QCALIB_API void qcalib_model_free(qcalib_model *model);

/* Inputs and outputs of a model; arrays of data are named after the inputs. i counts from 0; *out begins with its size.
   Errors: QCALIB_USAGE if there is no number i. */
QCALIB_API size_t qcalib_model_input_count(const qcalib_model *model);
QCALIB_API int qcalib_model_input(struct qcalib_tensor *out, const qcalib_model *model, size_t i,
                                  struct qcalib_error *error);
QCALIB_API size_t qcalib_model_output_count(const qcalib_model *model);
QCALIB_API int qcalib_model_output(struct qcalib_tensor *out, const qcalib_model *model, size_t i,
                                   struct qcalib_error *error);

/* ---- Data ---- */

/* Samples: one array per input of a model, named as the input. For a model with one input, a single array may have any
   name but `labels` and `target`. The first axis is the sample. An array of the input's rank is cut into batches along
   it; with one rank more, it holds a whole input per sample. A remainder that does not fill a batch is left out with a
   warning. Every type is converted to the input's. `labels` (integers, one per sample) give accuracy, `target` (shaped
   like the output) gives PSNR. Shapes are checked against a model when a job begins, so one object may serve several
   models. */
typedef struct qcalib_data qcalib_data;

/* file: "FILE" or "FILE:DATASET", of any kind that --data accepts. The job opens the file. Errors: QCALIB_MACHINE. */
QCALIB_API int qcalib_data_open(qcalib_data **out, const char *file, struct qcalib_error *error);

/* Samples of the program, added as arrays below. name: used in messages and reports in place of a path; copied; NULL:
   "memory". */
QCALIB_API int qcalib_data_new(qcalib_data **out, const char *name, struct qcalib_error *error);
QCALIB_API void qcalib_data_free(qcalib_data *data);

struct qcalib_array {
    size_t size;          /* sizeof(struct qcalib_array) */
    const char *name;     /* copied, as are shape and preprocess */
    int type;             /* enum qcalib_type, without the 4-bit types */
    int rank;             /* 1 to 32, including the sample axis */
    const int64_t *shape; /* [rank]; shape[0]: number of samples */
    /* Row-major; borrowed: must stay unchanged until qcalib_data_free. NULL: rows come from qcalib_data_draw. */
    const void *values;
    /* As --preprocess: "scale=1/255 mean=.485,.456,.406 std=.229,.224,.225"; NULL: none. */
    const char *preprocess;
    /* For `target`: the largest possible value, for PSNR; 0: 255 for uint8 without preprocess, else 1. */
    double peak;
};

/* Adds an array. Errors: QCALIB_USAGE: the data are a file's, the name is taken, or samples cannot have the type or
   shape. */
QCALIB_API int qcalib_data_add(qcalib_data *data, const struct qcalib_array *array, struct qcalib_error *error);

/* Returns the next sample: fills rows[k] with one entry of array k, counting the arrays that were added without values,
   in order of addition. Returns 1; 0 if there are no more samples; a negative number to give up. */
typedef int qcalib_next_fn(void *user, void *const *rows);

/* Reads all samples from `next`: one call for each and one for the end, in this thread, before this function returns.
   It is never called again, even if a job reads the samples several times. shape[0] of these arrays is ignored. At most
   keep_bytes of samples stay in memory (0: 64 MiB); the rest goes to an unnamed file in TMPDIR. Errors: QCALIB_USAGE:
   no array is without values; QCALIB_BAD_INPUT: next gave up; QCALIB_MACHINE: no room. After the last two the object
   can only be freed. */
QCALIB_API int qcalib_data_draw(qcalib_data *data, qcalib_next_fn *next, void *user, size_t keep_bytes,
                                struct qcalib_error *error);

/* Returns the next sample if samples differ in size: sets values[k] to that of array k, row-major, and shapes[k] to its
   shape [rank - 1]; both must stay valid until the next call. Returns like qcalib_next_fn. */
typedef int qcalib_next_sized_fn(void *user, const void **values, const int64_t **shapes);

/* As qcalib_data_draw. Axes of -1 in the shape of these arrays may differ from sample to sample if the model leaves
   them free (docs/my-arrays.md). Also fails with QCALIB_BAD_INPUT if a sample does not fit the shape of its array. */
QCALIB_API int qcalib_data_draw_sized(qcalib_data *data, qcalib_next_sized_fn *next, void *user, size_t keep_bytes,
                                      struct qcalib_error *error);

/* ---- Jobs ---- */

/* Statistics of a network: a histogram of each tensor and whatever else observers need; sums of integers, exact in any
   order (docs/statistics-file.md). */
typedef struct qcalib_statistics qcalib_statistics;

/* Progress of a job. phase: "calibrating" and such, "" between phases; valid during the call. done of total steps;
   total is 0 when a phase begins or ends. Returns 0 to go on, anything else to stop: the job ends with
   QCALIB_INTERRUPTED after the step. Called often, from one thread at a time, not necessarily the caller's. */
typedef int qcalib_progress_fn(void *user, const char *phase, size_t done, size_t total);

/* A warning, without a line end; text is valid during the call. Called in the caller's thread before the job returns,
   once for each text. */
typedef void qcalib_message_fn(void *user, const char *text);

/* The inputs of a job. All pointers are borrowed for the call. */
struct qcalib_job {
    size_t size;                         /* sizeof(struct qcalib_job) */
    const qcalib_options *options;       /* NULL: all defaults */
    const qcalib_data *data;             /* --data */
    const qcalib_data *eval;             /* --eval: with labels or target. Only for quantize */
    const qcalib_statistics *statistics; /* --stats, instead of data or with it. Only for quantize */
    qcalib_progress_fn *progress;        /* NULL: none */
    qcalib_message_fn *message;          /* NULL: none */
    void *user;                          /* for both */
    /* Files that the program will write when the job has ended, [output_count]. The job fails at its beginning if one
       of them is an input (QCALIB_USAGE) or cannot be written (QCALIB_MACHINE). */
    const char *const *outputs;
    size_t output_count;
};

/* ---- Quantize ---- */

/* The result of quantization: a model for each of --format, the report, and warnings. It does not need the model or the
   data any more. */
typedef struct qcalib_result qcalib_result;

/* The job of `qcalib quantize`. model: float. Without data, statistics are required. Errors: all codes. QCALIB_DEMAND:
   the model does not meet --max-drop, --min-sqnr or --max-nll. Then *out is still a result with the report, but without
   models if --max-drop is missed. If --require-integer or --size is missed, *out is NULL, since nothing was
   measured. */
QCALIB_API int qcalib_quantize(qcalib_result **out, const qcalib_model *model, const struct qcalib_job *job,
                               struct qcalib_error *error);
QCALIB_API void qcalib_result_free(qcalib_result *result);

/* Models, one for each of --format, in order. qcalib_result_format returns the name of a format, "qdq", or NULL if
   there is no model i. */
QCALIB_API size_t qcalib_result_model_count(const qcalib_result *result);
QCALIB_API const char *qcalib_result_format(const qcalib_result *result, size_t i);

/* Returns the bytes of model i, which the caller frees with qcalib_bytes_free. Errors: QCALIB_USAGE: there is no model
   i; QCALIB_UNSUPPORTED: more than 2 GB, which ONNX cannot hold in one piece (use qcalib_result_write_model);
   QCALIB_MACHINE. */
QCALIB_API int qcalib_result_model(void **bytes, size_t *size, const qcalib_result *result, size_t i,
                                   struct qcalib_error *error);
QCALIB_API void qcalib_bytes_free(void *bytes);

/* Writes model i to a file, which appears only when complete; above 1.9 GB its tensors go to PATH.data. A report
   written later names each file once, however often it was written. Errors: QCALIB_USAGE, QCALIB_MACHINE. */
QCALIB_API int qcalib_result_write_model(qcalib_result *result, size_t i, const char *path, struct qcalib_error *error);

/* Returns the report as the text of report.json; it names no files, since none are written yet. */
QCALIB_API const char *qcalib_result_report(const qcalib_result *result);

/* Writes the report for people: report.html, report.json and layers.csv in a folder, which is created. Errors:
   QCALIB_USAGE, QCALIB_MACHINE. */
QCALIB_API int qcalib_result_write_report(qcalib_result *result, const char *folder, struct qcalib_error *error);

/* A quantized tensor: real = scale * (q - zero_point). Pointers belong to the result. */
struct qcalib_layer {
    size_t size;               /* sizeof(struct qcalib_layer) */
    const char *name;          /* of the tensor */
    const char *op;            /* the op that computes it; for a weight, the op that reads it */
    int type;                  /* enum qcalib_type */
    int axis;                  /* channel axis; -1: one scale for all */
    size_t count;              /* of scales and zero points: 1, or the channels */
    const float *scale;        /* [count] */
    const int32_t *zero_point; /* [count] */
    double sqnr_db;            /* signal to quantization noise, in dB; NaN if not measured */
};
QCALIB_API size_t qcalib_result_layer_count(const qcalib_result *result);
/* Returns number i, from 0, in the order of the network; *out begins with its size. Errors: QCALIB_USAGE if there is no
   number i. */
QCALIB_API int qcalib_result_layer(struct qcalib_layer *out, const qcalib_result *result, size_t i,
                                   struct qcalib_error *error);

/* Warnings of the job, which also went to job->message. Returns NULL if there is no number i. */
QCALIB_API size_t qcalib_result_warning_count(const qcalib_result *result);
QCALIB_API const char *qcalib_result_warning(const qcalib_result *result, size_t i);

/* ---- Statistics ---- */

/* `qcalib collect`: runs job->data through the float model. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_collect(qcalib_statistics **out, const qcalib_model *model, const struct qcalib_job *job,
                              struct qcalib_error *error);
QCALIB_API void qcalib_statistics_free(qcalib_statistics *statistics);

/* Adds `more` to `into`: exact, in any order and any tree. Errors: QCALIB_BAD_INPUT: another model, other inputs, or
   samples that are in both; then into can only be freed. */
QCALIB_API int qcalib_statistics_merge(qcalib_statistics *into, const qcalib_statistics *more,
                                       struct qcalib_error *error);

/* Saves to or loads from the file of docs/statistics-file.md; a saved file appears only when complete. Statistics are
   not saved to a file that they, or a part of them, were loaded from (QCALIB_USAGE). */
QCALIB_API int qcalib_statistics_save(const qcalib_statistics *statistics, const char *path,
                                      struct qcalib_error *error);
QCALIB_API int qcalib_statistics_load(qcalib_statistics **out, const char *path, struct qcalib_error *error);

/* Return the number of samples, and of observed tensors. */
QCALIB_API uint64_t qcalib_statistics_samples(const qcalib_statistics *statistics);
QCALIB_API size_t qcalib_statistics_tensors(const qcalib_statistics *statistics);

/* ---- Run, evaluate, compare ---- */

/* An output of a model for one unit of data: a batch, or one sample. */
struct qcalib_output {
    const char *name;
    int type; /* enum qcalib_type */
    int rank;
    int64_t shape[QCALIB_RANK_MAX];
    const void *values; /* row-major, valid during the call */
};

/* Receives all outputs of the unit whose first sample has this index in the data (from 0). Called by one thread at a
   time, for units in any order. Returns 0 to go on, anything else to stop (QCALIB_INTERRUPTED). */
typedef int qcalib_output_fn(void *user, uint64_t sample, const struct qcalib_output *outputs, size_t count);

/* `qcalib run`: runs job->data through the model, float or quantized. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_run(const qcalib_model *model, const struct qcalib_job *job, qcalib_output_fn *output, void *user,
                          struct qcalib_error *error);

/* A metric of a model on labelled data. */
struct qcalib_metric {
    size_t size;      /* sizeof(struct qcalib_metric) */
    const char *name; /* "top1" or "psnr"; not to be freed */
    double value;     /* top1: 0 to 1; psnr: dB, infinity if all is equal */
    double low, high; /* 95 % interval of top1; NaN otherwise */
    double top5;      /* NaN with fewer than 6 classes, and for psnr */
    double mse;       /* of psnr; NaN otherwise */
    uint64_t samples;
    double seconds; /* of the run */
};

/* `qcalib eval`: measures the model on job->data, which have labels or a target. *out begins with its size. Errors: all
   codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_evaluate(struct qcalib_metric *out, const qcalib_model *model, const struct qcalib_job *job,
                               struct qcalib_error *error);

/* The error of one model against another, by output and by layer. Both models must outlive it. */
typedef struct qcalib_comparison qcalib_comparison;

struct qcalib_difference {
    size_t size;      /* sizeof(struct qcalib_difference) */
    const char *name; /* of the output or layer; belongs to one of the models; NULL: a layer without a name */
    double sqnr_db;   /* of the second against the first; infinity if they are equal, NaN if the first is all zero */
    double cosine;
    double max_abs; /* largest difference, in the output's own units */
};

/* `qcalib compare`: runs job->data through both models. Errors: all codes but QCALIB_DEMAND. */
QCALIB_API int qcalib_compare(qcalib_comparison **out, const qcalib_model *reference, const qcalib_model *model,
                              const struct qcalib_job *job, struct qcalib_error *error);
QCALIB_API void qcalib_comparison_free(qcalib_comparison *comparison);

/* Outputs and layers, i counting from 0; *out begins with its size. Errors: QCALIB_USAGE if there is no number i. */
QCALIB_API size_t qcalib_comparison_output_count(const qcalib_comparison *comparison);
QCALIB_API int qcalib_comparison_output(struct qcalib_difference *out, const qcalib_comparison *comparison, size_t i,
                                        struct qcalib_error *error);
QCALIB_API size_t qcalib_comparison_layer_count(const qcalib_comparison *comparison);
QCALIB_API int qcalib_comparison_layer(struct qcalib_difference *out, const qcalib_comparison *comparison, size_t i,
                                       struct qcalib_error *error);

/* ---- Inspect ---- */

/* `qcalib inspect --json`: returns the text of a JSON object that describes a file: a model, data, statistics, a report
   or its folder. It ends with 0, which size does not count. The caller frees it with qcalib_bytes_free. Errors:
   QCALIB_BAD_INPUT, QCALIB_UNSUPPORTED, QCALIB_MACHINE. */
QCALIB_API int qcalib_inspect_file(char **json, size_t *size, const char *path, struct qcalib_error *error);

/* The same for an open model. Errors: QCALIB_MACHINE. */
QCALIB_API int qcalib_inspect_model(char **json, size_t *size, const qcalib_model *model, struct qcalib_error *error);

/* ---- Experimental ---- */

/* The declarations below may change or disappear in any version. Define QCALIB_EXPERIMENTAL to use them. */
#ifdef QCALIB_EXPERIMENTAL

/* Kind of an option's value, as text. */
enum qcalib_value {
    QCALIB_VALUE_NONE,    /* the option takes no value */
    QCALIB_VALUE_TEXT,    /* any nonempty text */
    QCALIB_VALUE_TEXTS,   /* the same; setting it again adds to the list */
    QCALIB_VALUE_CHOICE,  /* one of `choices` */
    QCALIB_VALUE_CHOICES, /* some of them, separated by commas */
    QCALIB_VALUE_BY_NAME, /* "CHOICE", or "CHOICE:NODE" for some nodes; setting it again adds to the list */
    QCALIB_VALUE_COUNT,   /* an integer, 1 or more */
    QCALIB_VALUE_INTEGER, /* an integer, 0 or more */
    QCALIB_VALUE_BYTES,   /* an integer, 1 or more, with an optional suffix K, M or G */
    QCALIB_VALUE_NUMBER   /* 0 or more */
};

/* Jobs that take an option: bits of qcalib_option.jobs. */
enum qcalib_job_bit {
    QCALIB_JOB_QUANTIZE = 1,
    QCALIB_JOB_COLLECT = 2,
    QCALIB_JOB_RUN = 4,
    QCALIB_JOB_EVALUATE = 8,
    QCALIB_JOB_COMPARE = 16
};

/* A row of the table of options. All texts are static. */
struct qcalib_option {
    size_t size;          /* sizeof(struct qcalib_option) */
    const char *name;     /* "method" */
    const char *argument; /* "NAME[:key=value,..]"; NULL: takes no value */
    const char *preset;   /* default value or its description; NULL: none */
    const char *choices;  /* "a|b|c"; NULL: any value */
    const char *help;     /* one line */
    int value;            /* enum qcalib_value */
    unsigned jobs;        /* jobs that take it; 0: only for the command line, or an object here (struct qcalib_job) */
};
QCALIB_API size_t qcalib_option_count(void);
QCALIB_API int qcalib_option_at(struct qcalib_option *out, size_t i, struct qcalib_error *error);

#endif

#ifdef __cplusplus
}
#endif

#endif
