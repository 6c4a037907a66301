// SPDX-License-Identifier: Apache-2.0
/* The searches, in the order in which a job calls them: first those that complete one network (qc_decide), then those
   that compare networks of changed options (quantize/job.c). Each is described at the top of its file. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
#include "quantize/make/bodies.h"
#include "quantize/report/quantize_suggest.h"
#include "quantize/search/candidate.h"

/* The numbers of the searches, as constants: limits.def has their units and reasons. */
#define QC_WHOLE(name, value, unit, rule, reason) enum { name = (value) };
#define QC_DECIMAL(name, value, unit, rule, reason) static const double name = value;
#include "quantize/search/limits.def"

struct qc_centred_input {
    const char *name; /* of the value */
    size_t channels, layers;
    double error; /* squared error of the outputs relative to that without */
};

struct qc_channel_centring {
    size_t count;
    struct qc_centred_input *of;
};

/* Makes the graph with centred inputs and simulates the network again, if there are any. Needs second moments; without
   them nothing is centred. If the target quantizes an Add that gives a MatMul its bias, the product in front of it has
   no statistics: such products are left as they are. Errors: those of the passes. */
bool qc_centre_channels(struct qc_network *net, struct qc_status *st);

/* Puts the centred inputs into the record of the job. */
void qc_record_centred(struct qc_json *record, const struct qc_network *net);

/* Sets net->auto_method, and with it the methods of the scheme. net->simulated is unbound before and after. Needs data
   and their statistics. Errors: those of observers, rounding and runs. */
bool qc_auto_method_find(struct qc_network *net, struct qc_status *st);

/* Rounds the layers again, one after the other (calib/sequential/sequential.h), and compares both networks on samples.
   The better one becomes p->rounded and p->weight_rounding; p->crossed has the result. Does nothing unless weights are
   compensated and have few bits (or are alone, or --method auto found a low SQNR), all samples have one size, and
   memory is not limited. Errors: those of runs. */
bool qc_round_crossed(struct qc_network *p, struct qc_status *st);

/* Runs the samples of a network, keeps the inputs of its bodies, and quantizes each body with `maker`, as a job does. A
   body that cannot be quantized stays in float, with a reason. Fails if memory is out, the samples cannot run, or the
   job is interrupted. */
bool qc_quantize_bodies(struct qc_body_set **out, const struct qc_network *net, qc_network_maker *maker,
                        struct qc_status *st);

struct qc_shared_weights;

/* g: the graph whose bodies share weights; borrowed. */
bool qc_shared_weights_new(struct qc_shared_weights **out, const struct qc_graph *g, struct qc_status *st);
void qc_shared_weights_free(struct qc_shared_weights *s); /* NULL-safe */

/* Returns true if the body has weights that another graph has too. Its channels must keep their sizes then. */
bool qc_shared_weights_in(const struct qc_shared_weights *s, const struct qc_graph *body);

/* Adds the weights of a body's graph that its network has stored in integers of 4 or 8 bits. */
bool qc_shared_weights_add(struct qc_shared_weights *s, const struct qc_graph *body, const struct qc_network *net,
                           struct qc_status *st);

/* PRODUCTS: only weights that all readers take as the weight of a product, and none in blocks, with which no integers
   are multiplied. */
enum qc_shared_readers { QC_SHARED_ALL, QC_SHARED_PRODUCTS };

/* *out: the body with these weights as DequantizeLinear of the stored integers; NULL if it has none of them. */
bool qc_shared_weights_put(struct qc_graph **out, const struct qc_shared_weights *s, const struct qc_graph *body,
                           enum qc_shared_readers readers, struct qc_status *st);

/* Returns true if the job looks for free changes: with samples, without --effort low, and if there is memory for a
   second network. */
bool qc_looks_for_free(const struct qc_candidate *c);
/* Returns true if the trials of observers showed outputs with QC_FREE_GOOD_DB: fewer changes are then worth their time.
 */
bool qc_outputs_are_good(const struct qc_network *net);
/* c has its first network. Ideas that gain are kept: then c has their schemes. An option that is given is not
   overruled. Warns if --memory-limit leaves no room for them. Puts the ideas that were tried into r. *changed: c has
   another network. Errors: those of making and of runs. */
bool qc_take_free_ideas(struct qc_report *r, bool *changed, struct qc_candidate *c, struct qc_status *st);

enum { QC_FLOAT_OPERATORS = 8 };

struct qc_float_operators {
    size_t count;
    bool must_save;                        /* latency, and no bytes more */
    const char *globs[QC_FLOAT_OPERATORS]; /* for --skip; in the arena of the candidate; most noise per latency first */
};

/* Finds operators of the candidate's network that add noise to the outputs, and whose estimated latency in float is at
   most QC_FREE_LATENCY above that in integers, or lower if it must save. None if integers are demanded, if the estimate
   is not for the target, or if the outputs could gain less than twice QC_FREE_GAIN_DB. Selects the samples of --data
   that the options ask for. Errors: those of runs. */
bool qc_find_float_operators(struct qc_float_operators *out, const struct qc_candidate *c, struct qc_status *st);

/* Returns true if a network costs neither latency nor bytes beyond QC_FREE_LATENCY and QC_FREE_BYTES of another one.
   must_save: if it takes less by QC_FREE_LATENCY, and no more bytes. */
bool qc_costs_nothing(bool *out, const struct qc_network *is, const struct qc_network *was, bool must_save,
                      struct qc_status *st);

/* Sets *out to the scheme that --size begins with: all weights have 4 bits, also tables, which have at least 8 bits by
   default. from: the scheme of the options. */
bool qc_size_first(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s, struct qc_arena *a,
                   struct qc_status *st);

/* The network of c has the scheme above. Networks with 8 bits and, if weights have blocks, with 2 are made. The error
   of each layer's weights follows from the second moments in closed form. One measurement of each single layer scales
   it to the noise of the outputs. The least sum of noise within the size is chosen and made; if the file is larger than
   estimated, the choice is repeated. Afterwards c has the chosen widths, and the record "size" and "frontier". Errors:
   those of making; QC_DEMAND with the least possible size if no file fits. */
bool qc_fit_size(struct qc_report *r, struct qc_candidate *c, struct qc_status *st);

/* Runs the command once on the model file, if there is one, so that it fails before any work begins. */
bool qc_placement_check(const struct qc_setup *s, struct qc_arena *a, struct qc_status *st);

/* Afterwards c has the fastest placement, with --prefer integers and a --skip for each operator in float; if nothing is
   faster, they are unchanged. *out: "timing.benchmark" of the record, owned by the caller. Errors: those of the command
   (below), of the stages, of temporary files. job_seconds: of the job before, which bound the time
   of the search (QC_PLACEMENT_BUDGET). */
bool qc_place_by_latency(struct qc_json **out, struct qc_candidate *c, double job_seconds, struct qc_status *st);

/* Measures the latency and the error of c again, after it has changed, and puts them into *to. */
bool qc_placement_measure_again(struct qc_json *to, struct qc_candidate *c, struct qc_status *st);

/* db: SQNR of the worst output on samples that calibrated. Sets *out to "fallback" of the record, owned by the caller,
   or to NULL. If it is met, c has the wider types afterwards, else its scheme is unchanged. *changed: the network was
   made again, so everything that borrows from its graphs must be made again, too. Errors: those of making and of runs.
 */
bool qc_mend(struct qc_json **out, bool *changed, struct qc_candidate *c, double db, struct qc_status *st);

/* Warns if an output has less than 10 dB. The warning names the layer that loses most, and a remedy: a command of the
   advice, one that follows from the cause of error (ideas), or a demand. */
bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                     const struct qc_measurement *m, struct qc_status *st);

/* Puts the ranking of layers, the suggestions and the advice into the record. effects: of the layers of c; if NULL,
   they are measured here on a few samples. Ideas are added to `ideas`, those that cannot be tried are left out. Selects
   the samples of --data that the options ask for. Fails if samples cannot be read, or with QC_INTERRUPTED. */
bool qc_fill_advice(struct qc_report *r, struct qc_ideas *ideas, struct qc_candidate *c, const struct qc_measurement *m,
                    const struct qc_sensitivity *effects, struct qc_status *st);

/* --scale-channels: scales channels between operators if that lowers the rounding error. The scales come from second
   moments of the float network, so the search follows the stage "collect". It changes constants of the float graph, so
   the stages since "functions" run again. */

struct qc_channel_scaling {
    size_t group_count;                   /* groups that could be scaled */
    const struct qc_scaled_group *groups; /* [group_count] */
};

/* Searches once for a float form, when the network has statistics and its simulated graph is unbound. If a group gains,
   the network is simulated again from the scaled graph, and its statistics are collected again if ranges changed. */
bool qc_scale_channels(struct qc_network *net, struct qc_status *st);

/* Sets *db to what factors of channels, behind operators other than clamps, could gain at most: how much less noise the
   layers would read with a step for each channel, by its mean square. 0 without second moments. */
bool qc_scale_hope(double *db, struct qc_network *net, struct qc_status *st);

struct qc_json;
/* Puts the groups into the record of the job. */
void qc_record_scaled(struct qc_json *record, const struct qc_network *net);

/* The least and the largest element of each channel of some values in the float network, for each of a few units. The
   range always includes zero. */

struct qc_channel_extremes {
    qc_id value;
    int axis;
    size_t channels, units;
    float *lo, *hi; /* [units][channels] */
};

/* Channel scales that lower the rounding error of the layers that read the channels.

   If the producer of a channel divides it by s, and the weights that read it are multiplied by s, the float network
   does not change, but the rounding error of these weights counts s times less (Lin et al. 2023, "AWQ"). With the
   second moments H of a layer's input the mean squared error of an output is d' H d, d = w - Q(w s) / s: no sample
   runs. An input that is rounded to steps of D adds D^2 / 12 times the squares of the scaled weights. D follows from
   the extremes of the scaled channels on a few samples (Xiao et al. 2023, "SmoothQuant").

   The search tries s = r^a / m^b: m is the root mean square of the channel's weights, r that of the channel, or its
   largest value if the input is rounded. The error is that of the job's own rounding, with block scales and
   compensation, on held-out samples (calib/weights/round_weights.h). */

/* A layer with quantized weights that reads a channel group. */
struct qc_scaled_reader {
    const char *name;
    qc_id node, simulated;                  /* of the real and of the simulated graph */
    double steps;                           /* largest minus least integer of its input; 0: the input is real */
    bool dynamic;                           /* the input is quantized for each sample by itself */
    const struct qc_channel_extremes *seen; /* of its input if that is rounded, else NULL */
    double *squares; /* [channels of the input]: sum of the squared weights, mean over the outputs */
};

/* The layers that read one channel group; the weights of all of them are scaled. */
struct qc_scaled_group {
    qc_id group; /* of the channels */
    size_t channels;
    const char *name; /* of the first value of the group */
    const char *kind; /* "awq" or "smooth"; NULL: not scaled */
    bool few;         /* all weights have few bits: "awq" */
    bool seen;        /* the statistics have ranges of its values */
    size_t reader_count;
    struct qc_scaled_reader *readers;      /* [reader_count] */
    double *best;                          /* [channels]: the best scales so far */
    double activation_power, weight_power; /* their a and b */
    /* Mean over the readers of the ratio of the error with the best scales to the error without; 1 at first. */
    double error;
};

/* The groups of operators that a measured placement (quantize/search/placement.c) changes in one step. */

/* An operator that a pattern matches, with the operators matched with it. */
struct qc_placed_op {
    const char *name; /* of the node, or of its result */
    size_t skip_count;
    const char **skip; /* globs that leave it in float */
};

struct qc_placement_group {
    const char *what; /* "Conv 1x1", "Conv 32x16x1x1", "connected: Conv 1x1, Add" */
    size_t op_count;
    bool *has;     /* [op_count of the placement] */
    uint64_t work; /* multiply-adds, as far as known */
};

struct qc_placement_groups {
    size_t op_count, group_count;
    struct qc_placed_op *ops;
    struct qc_placement_group *groups;
};

/* Finds the groups of p, which has run with as much as possible in integers. Groups are, in this order: kinds of layers
   (operator, window of a convolution, grouped or not); operators connected in integers, equal structures together;
   layers of equal weight shapes. Each sort is ordered by work, the most first. No two groups are equal. Memory from a.
 */
bool qc_placement_groups_find(struct qc_placement_groups *out, const struct qc_network *p, struct qc_arena *a,
                              struct qc_status *st);

/* Sets *in_float ([op_count], from a): which of these operators another pipeline, which has run, leaves in float. */
bool qc_placement_of(bool **in_float, const struct qc_placement_groups *g, const struct qc_network *p,
                     struct qc_arena *a, struct qc_status *st);

/* --size: minimizes the error for a number of bytes. Each unit has a few points of bytes and error; errors add up.
   Steps go along the lower convex hull of each unit, in the order of the gain per byte (the path of a Lagrange
   multiplier from infinity to 0). */

enum { QC_SIZE_POINTS = 4 };

struct qc_size_point {
    size_t bytes;
    double error; /* not negative; finite */
};

struct qc_size_unit {
    size_t count; /* of points, at least 1, in any order */
    struct qc_size_point points[QC_SIZE_POINTS];
};

/* A unit goes from its previous point to this one. bytes, error: sums over all units after the step. */
struct qc_size_step {
    size_t unit, point;
    size_t bytes;
    double error;
};

struct qc_size_frontier {
    size_t unit_count;
    const struct qc_size_unit *units; /* borrowed */
    size_t *first;                    /* [unit_count]: the point with fewest bytes */
    size_t least_bytes;               /* sum of bytes of these points; least_error: sum of their errors */
    double least_error;
    size_t step_count;
    struct qc_size_step *steps; /* sorted by gain per byte, most first; of equal ones the earlier unit */
};

/* Arrays from the arena. */
bool qc_size_frontier(struct qc_size_frontier *out, const struct qc_size_unit *units, size_t count, struct qc_arena *a,
                      struct qc_status *st);

/* Chooses points [unit_count] for at most `bytes` bytes and sets *sum to their sums. Takes the steps in order and
   passes over those that do not fit. Returns false if least_bytes exceeds `bytes`. */
bool qc_size_choose(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes);

/* Improves a choice that fits: the steps leave bytes unused if a large one does not fit. Adds up units one by one and
   keeps, of all sums of their points that fit, those with the least error for their bytes, thinned out to
   QC_SIZE_SUMS. With few units the result is the best possible. */
enum { QC_SIZE_SUMS = 1024 };
bool qc_size_improve(size_t *points, struct qc_size_point *sum, const struct qc_size_frontier *f, size_t bytes,
                     struct qc_status *st);

/* The latency of model files, as the user's command measures it (--benchmark), or ONNX Runtime in Python. */

struct qc_latency {
    const struct qc_setup *setup;
    const char **words; /* of the command */
    size_t word_count;
    bool together;             /* the command measures all files in one process (python/qcalib/benchmark.py) */
    const char *file, *so_far; /* with --checkpoint: "CHECKPOINT.benchmark", and what it holds; else NULL */
};

struct qc_milliseconds {
    double least, second; /* of the rounds */
};

/* Splits the command, and reads the latencies that an interrupted job has measured. Fails with QC_USAGE if the command
   is malformed, with QC_BAD_INPUT if the file has another format. */
bool qc_latency_begin(struct qc_latency *l, const struct qc_setup *s, struct qc_arena *a, struct qc_status *st);

/* Runs the command once. */
bool qc_latency_try(const struct qc_latency *l, const char *file, struct qc_status *st);

/* Measures each file in turn, for three rounds. With `race`, files that are 10 % slower than the first are not measured
   again. Latencies in the checkpoint are not measured again. Errors: those of the command (base/command.h); QC_MACHINE
   if it prints no number above 0; QC_INTERRUPTED. */
bool qc_latency_measure(struct qc_milliseconds *out, struct qc_latency *l, const char *const *files, size_t count,
                        bool race, struct qc_status *st);

/* Returns true if a is less than b by more than 2 %, and by more than the two fastest rounds of either file differ. */
bool qc_latency_less(const struct qc_milliseconds *a, const struct qc_milliseconds *b);

/* Removes the file of the checkpoint. */
void qc_latency_forget(const struct qc_options *o);

/* What networks are worth: the error of their outputs against the float network, on the same samples. */

/* ---- The error of one network ---- */

/* Returns a choice of so many batches of the samples that calibrate: the same for any order of these, if all of the
   file calibrate and collecting has run them; else evenly spaced. */
struct qc_selection qc_few_samples(const struct qc_network *net, size_t batches);

/* Returns a selection of QC_MEASURED_BATCHES batches. */
struct qc_selection qc_measured_samples(const struct qc_dataset *data);

#define QC_CHECKED_EVAL "evaluation"
#define QC_CHECKED_REST "not calibrated"
#define QC_CHECKED_KNOWN "calibration"

/* The samples of the report. */
struct qc_checked {
    struct qc_dataset *data; /* borrowed; NULL: there are none */
    struct qc_selection some;
    const char *on; /* QC_CHECKED_*, for the record */
};

/* Returns QC_MEASURED_BATCHES batches of --eval; without it, of the samples that --samples left out, which statistics
   of --stats may have seen; and if there are fewer, of those that calibrated. */
struct qc_checked qc_checked_samples(const struct qc_setup *s);

/* Compares the outputs of n->produced with those of the float network on some samples of data, which is --data or
   --eval; the selection of the job is restored afterwards. The produced graph computes the same bits as the simulated
   one, and faster. sums: [outputs]. *keys: NULL, or from an earlier call with the same samples for another network of
   the setup. */
bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_network *n, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st);
/* Returns the SQNR of the mean over the outputs of noise to signal, dB. Infinity without noise. */
double qc_outputs_sqnr_db(const struct qc_error *sums, size_t outputs);
/* Returns the SQNR of the worst float32 output, dB, and its index; infinity and QC_NO_INDEX if there is none. m: NULL
   or of the network. */
double qc_worst_output(size_t *worst, const struct qc_network *net, const struct qc_measurement *m);

/* Options of trials (calib/trials/trials.h) for graphs as the file has them. */
struct qc_trial_options qc_trial_options_of(const struct qc_network *n);
