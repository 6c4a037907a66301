// SPDX-License-Identifier: Apache-2.0
/* A job makes quantized models and a report from a float model and samples, or statistics of samples. It prints
   nothing, and writes only the files that are asked for. A job is used by one thread at a time; jobs share no state. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "quantize/report/job_report.h"
#include "quantize/setup/job_files.h"

struct qc_job;

/* Callbacks of a job; all members may be NULL. */
struct qc_job_listener {
    struct qc_progress *progress;
    /* As `done` of struct qc_listener (quantize/setup/passes.h). After the search for a demand, --size or --benchmark
       it is called once more for each pass from "functions" on. */
    bool (*pass_done)(void *user, enum qc_pass pass, const struct qc_graph *g, const struct qc_partition *partition,
                      struct qc_status *st);
    void *user;
};

/* Checks options, inputs and outputs against each other and reads rules and observers, but no model. o->command is
   QC_COMMAND_quantize or QC_COMMAND_collect. The job works on `in`; --data, --eval and --stats of `o` only appear in
   the report. o, everything that `in` points to and the listener's progress are borrowed until qc_job_free. Fails with
   QC_USAGE, or if rules or observers cannot be read. */
bool qc_job_new(struct qc_job **out, const struct qc_options *o, const struct qc_job_inputs *in,
                const struct qc_job_listener *listener, struct qc_status *st);
void qc_job_free(struct qc_job *j); /* NULL-safe */

/* Returns the inputs that o->data, o->eval, o->stats and model_file name. */
struct qc_job_inputs qc_job_inputs_of(const struct qc_options *o, const char *model_file);

/* Returns the warnings so far, also if the job has failed. */
const struct qc_warnings *qc_job_warnings(const struct qc_job *j);

/* ---- quantize ---- */

/* Runs the job: stages, accuracy, wider types for a demand, comparison of layers, report. Call once per job. Errors:
   those of the stages; QC_DEMAND for --require-integer; QC_INTERRUPTED. In a team (qc_job_inputs) ranks other than 0
   get false without an error. */
bool qc_job_run(struct qc_job *j, struct qc_status *st);

/* After qc_job_run: fails with QC_DEMAND if --max-drop, --min-sqnr or --max-nll is not met; the report has the
 *attempts. models: models should be written, which is false if --max-drop is not met. */
bool qc_job_check_demand(bool *models, const struct qc_job *j, struct qc_status *st);

/* Writes the model in one format; the file appears only when complete. The report names it once, however often it is
   written. Errors: as qc_export_file; QC_USAGE if the file is an input of the job. */
bool qc_job_write(struct qc_job *j, size_t format, const char *path, struct qc_status *st);
/* Writes the report to a folder; json: of qc_job_record. Errors: as qc_report_write; QC_USAGE as above. */
bool qc_job_write_report(struct qc_job *j, const struct qc_json *json, const char *folder, struct qc_status *st);
/* Adds the files that the job reads to a list, with absolute paths. */
bool qc_job_list_inputs(struct qc_file_list *to, const struct qc_job *j, struct qc_status *st);

/* Return what the job found, valid as long as the job, and the whole record with the files written so far, which the
   caller owns. */
const struct qc_report *qc_job_report(const struct qc_job *j);
bool qc_job_record(struct qc_json **out, const struct qc_job *j, struct qc_status *st);

/* Return the network to be written (NULL before qc_job_run), and what it is made from. */
const struct qc_network *qc_job_network(const struct qc_job *j);
const struct qc_setup *qc_job_setup(const struct qc_job *j);

/* Removes the files of --checkpoint. Call when the results are written. */
void qc_job_done(const struct qc_job *j);

/* ---- collect ---- */

/* Instead of qc_job_run: collects statistics of the samples. The caller owns out->statistics (qc_collection_free). */
struct qc_collect_result {
    struct qc_collection *statistics;
    size_t tensors;
    unsigned workers;
    double seconds;
};
bool qc_job_collect(struct qc_collect_result *out, struct qc_job *j, struct qc_status *st);
