// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/statistics.h"
#include "calib_case.h"

static const char sha_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char sha_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
static const char model_sha[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

enum { SAMPLES = 60 };

struct setting {
    struct qc_graph *g;
    struct qc_dataset *data;
    struct qc_named_values seen;
    bool extremes; /* of every sample too */
    bool channels; /* statistics of channels */
    int axes[64];
    qc_id values[64];
    const char *names[64];
};

static void open_setting(struct setting *s)
{
    s->g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    s->data = case_open(s->g, QC_TEST_SOURCE "/datasets/digits_calib.h5", false);
    s->seen = (struct qc_named_values){.ids = s->values, .names = s->names};
    s->extremes = s->channels = false;
    for (qc_id v = 1; v <= s->g->value_count; v++) {
        if (s->g->values[v].type.dtype != QC_F32 || qc_constant_of(s->g, v)) continue;
        s->values[s->seen.count] = v;
        s->axes[s->seen.count] = s->g->values[v].type.shape.rank > 1 ? 1 : -1;
        s->names[s->seen.count++] = s->g->values[v].name;
    }
    cr_assert_gt(s->seen.count, 4);
}

static void close_setting(struct setting *s)
{
    qc_dataset_free(s->data);
    qc_graph_free(s->g);
}

static struct qc_settings settings;

static struct qc_collect_options options_of(const char *data_sha, unsigned workers)
{
    settings = (struct qc_settings){.workers = workers};
    return (struct qc_collect_options)FIELDS(.model_sha256 = model_sha, .data_sha256 = data_sha,
                                             .inputs = "input: input\n", .need = QC_NEED_HISTOGRAM,
                                             .settings = &settings);
}

static struct qc_collection *collect(const struct setting *s, size_t shard, size_t shards, unsigned workers)
{
    struct qc_collection *c = NULL;
    struct qc_collect_options o = options_of(sha_a, workers);
    struct qc_selection some = {.samples = SAMPLES, .shard = shard, .shards = shards};
    o.extremes = s->extremes;
    if (s->channels) o.channel_axes = s->axes;
    MUST(qc_dataset_select(s->data, &some, ST));
    MUST(qc_collect(&c, NULL, s->g, &s->seen, s->data, &o, ST));
    return c;
}

struct bytes {
    void *data;
    size_t size;
};

static struct bytes encode(const struct qc_collection *c)
{
    struct bytes b;
    MUST(qc_statistics_encode(&b.data, &b.size, c, ST));
    return b;
}

static struct qc_collection *decode(const struct bytes *b)
{
    struct qc_collection *c = NULL;
    MUST(qc_statistics_decode(&c, b->data, b->size, ST));
    return c;
}

static void expect_bytes(const struct qc_collection *c, const struct bytes *whole, const char *what)
{
    struct bytes b = encode(c);
    cr_expect(b.size == whole->size && memcmp(b.data, whole->data, b.size) == 0, "%s: the bytes differ", what);
    free(b.data);
}

static void check_partitions(bool channels)
{
    struct setting s;
    uint64_t random = 3;
    open_setting(&s);
    s.extremes = true;
    s.channels = channels;
    struct qc_collection *one = collect(&s, 0, 0, 1);
    struct bytes whole = encode(one);
    cr_expect_eq(qc_collection_samples(one), SAMPLES);
    for (int round = 0; round < 12 / (int)test_one_of(2, 4); round++) {
        struct qc_collection *parts[SAMPLES];
        size_t n = 1 + (size_t)(test_random(&random) % 9);
        for (size_t k = 0; k < n; k++) {
            parts[k] = collect(&s, k, n, 1 + (unsigned)(test_random(&random) % 3));
            if (test_random(&random) & 1) { /* through a file */
                struct bytes b = encode(parts[k]);
                qc_collection_free(parts[k]);
                parts[k] = decode(&b);
                free(b.data);
            }
        }
        while (n > 1) { /* two at random become one */
            size_t i = (size_t)(test_random(&random) % n), k = (size_t)(test_random(&random) % (n - 1));
            if (k >= i) k++;
            MUST(qc_collection_merge(parts[i], parts[k], ST));
            qc_collection_free(parts[k]);
            parts[k] = parts[--n];
        }
        expect_bytes(parts[0], &whole, "merged");
        SHOULD(qc_collection_check_whole(parts[0], ST));
        qc_collection_free(parts[0]);
    }
    qc_collection_free(one);
    free(whole.data);
    close_setting(&s);
}

Test(collection, any_shards_and_merge_tree_give_the_bytes_of_one_run)
{
    check_partitions(false);
}

Test(collection, channels_in_any_shards_and_merge_tree_give_the_bytes_of_one_run)
{
    check_partitions(true);
}

/* Each channel's numbers are those of the values, and only with all of them does the file say so. */
Test(collection, channels_add_up_to_the_tensor)
{
    struct setting s;
    open_setting(&s);
    s.channels = true;
    struct qc_collection *c = collect(&s, 0, 0, 2);
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_channel_histogram *h = c->values[i].channels;
        const struct qc_tally *t = &c->values[i].histogram->tally;
        uint64_t count = 0, zeros = 0, binned = 0;
        float min = INFINITY, max = -INFINITY;
        cr_assert(h && h->axis == 1, "%s", c->values[i].name);
        for (size_t k = 0; k < h->channels; k++) {
            count += h->tallies[k].count;
            zeros += h->tallies[k].zeros;
            min = fminf(min, h->tallies[k].min);
            max = fmaxf(max, h->tallies[k].max);
            cr_expect_eq(h->tallies[k].count, t->count / h->channels);
        }
        for (size_t k = 0; k < h->channels * 2 * QC_CHANNEL_WINDOW_BINS; k++) binned += h->counts[k];
        cr_expect(count == t->count && zeros == t->zeros && min == t->min && max == t->max && binned == count - zeros,
                  "%s", c->values[i].name);
    }
    s.channels = false;
    struct qc_collection *without = collect(&s, 0, 0, 1);
    cr_expect(!qc_collection_merge(c, without, ST) && failure.code == QC_BAD_INPUT &&
                  strstr(failure.message, "statistics of channels"),
              "%s", failure.message);
    qc_collection_free(without);
    qc_collection_free(c);
    close_setting(&s);
}

/* The samples of two files: tallies say which holds an extreme, whatever is merged into which. */
Test(collection, extremes_know_their_sample)
{
    struct setting s;
    open_setting(&s);
    struct qc_collection *parts[2][2], *fresh[2];
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < 2; k++) {
            struct qc_collect_options o = options_of(k ? sha_a : sha_b, 2); /* the second one comes first */
            MUST(qc_dataset_select(s.data, &(struct qc_selection){.samples = k ? 7 : 31}, ST));
            MUST(qc_collect(&parts[turn][k], NULL, s.g, &s.seen, s.data, &o, ST));
        }
    for (int turn = 0; turn < 2; turn++) {
        fresh[turn] = parts[turn][turn];
        MUST(qc_collection_merge(fresh[turn], parts[turn][!turn], ST));
    }
    struct bytes first = encode(fresh[0]);
    expect_bytes(fresh[1], &first, "the other way round");
    free(first.data);
    cr_assert_eq(fresh[0]->part_count, 2);
    cr_expect_str_eq(fresh[0]->parts[0].sha256, sha_a);

    /* Against a look at every sample. */
    struct qc_dataset_scratch *scratch = NULL;
    const size_t n = qc_dataset_elements(s.data, 0);
    float *x = malloc(n * sizeof *x), max = -INFINITY;
    uint64_t where = QC_NO_SAMPLE;
    cr_assert(x && qc_dataset_scratch_new(&scratch, ST));
    for (size_t part = 0; part < 2; part++) {
        MUST(qc_dataset_select(s.data, &(struct qc_selection){.samples = part ? 31 : 7}, ST));
        for (size_t u = 0; u < qc_dataset_units(s.data); u++) {
            MUST(qc_dataset_read(x, s.data, 0, u, scratch, ST));
            for (size_t i = 0; i < n; i++)
                if (x[i] > max) {
                    max = x[i];
                    where = QC_SAMPLE_ID(part, qc_dataset_first_sample(s.data, u));
                }
        }
    }
    const struct qc_histogram *h = qc_collection_find(fresh[0], s.g->inputs[0].name);
    cr_assert(h);
    HOLD(h->tally.max == max, h->tally.max_sample == where);
    free(x);
    qc_dataset_scratch_free(scratch);
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < 2; k++) qc_collection_free(parts[turn][k]);
    close_setting(&s);
}

struct saved {
    size_t count, stop;
    struct bytes bytes[SAMPLES + 1];
};

static bool save(void *user, const struct qc_collection *c, struct qc_status *st)
{
    struct saved *s = user;
    cr_assert_leq(s->count, SAMPLES);
    s->bytes[s->count++] = encode(c);
    return true;
}

static bool until(void *user, size_t done, size_t count)
{
    const struct saved *s = user;
    return done < s->stop;
}

static void check_checkpoints(bool channels)
{
    struct setting s;
    struct saved saved = {.stop = SIZE_MAX};
    open_setting(&s);
    s.channels = channels;
    struct qc_collection *one = collect(&s, 0, 0, 2), *c = NULL;
    struct bytes whole = encode(one);
    struct qc_collect_options o = options_of(sha_a, 2);
    o.channel_axes = channels ? s.axes : NULL;
    o.save = save;
    o.save_user = &saved;
    settings.progress = until;
    settings.progress_user = &saved;
    MUST(qc_collect(&c, NULL, s.g, &s.seen, s.data, &o, ST));
    expect_bytes(c, &whole, "saved after every sample");
    qc_collection_free(c);
    cr_assert_geq(saved.count, SAMPLES / 3);
    for (size_t i = 0; i < saved.count; i += 7 * test_one_of(2, 8)) {
        struct saved later = {.stop = 45};
        o = options_of(sha_a, 1);
        o.channel_axes = channels ? s.axes : NULL;
        o.so_far = decode(&saved.bytes[i]);
        uint64_t before = qc_collection_samples(o.so_far);
        cr_expect(qc_collection_check_whole(o.so_far, ST) == (before == SAMPLES));
        o.channel_axes = channels ? s.axes : NULL;
        o.save = save;
        o.save_user = &later;
        o.save_seconds = 1e9;
        settings.progress = until;
        settings.progress_user = &later;
        c = NULL;
        if (!qc_collect(&c, NULL, s.g, &s.seen, s.data, &o, ST)) { /* stopped once more */
            cr_assert_eq(failure.code, QC_INTERRUPTED, "%s", failure.message);
            cr_assert_eq(later.count, 1);
            o = options_of(sha_a, 3);
            o.channel_axes = channels ? s.axes : NULL;
            o.so_far = decode(&later.bytes[0]);
            cr_expect_eq(qc_collection_samples(o.so_far), before < 45 ? 45 : before + 1);
            MUST(qc_collect(&c, NULL, s.g, &s.seen, s.data, &o, ST));
        } else {
            cr_expect_eq(before, SAMPLES);
        }
        expect_bytes(c, &whole, "after two interrupts");
        qc_collection_free(c);
        for (size_t k = 0; k < later.count; k++) free(later.bytes[k].data);
    }
    for (size_t i = 0; i < saved.count; i++) free(saved.bytes[i].data);
    struct saved seldom = {.stop = SIZE_MAX};
    o = options_of(sha_a, 2);
    o.channel_axes = channels ? s.axes : NULL;
    o.save = save;
    o.save_user = &seldom;
    o.save_times = 1e12;
    MUST(qc_collect(&c, NULL, s.g, &s.seen, s.data, &o, ST));
    cr_expect_eq(seldom.count, 2, "saved %zu times after one that took long", seldom.count);
    expect_bytes(c, &whole, "saved at the first sample and at the end");
    qc_collection_free(c);
    for (size_t i = 0; i < seldom.count; i++) free(seldom.bytes[i].data);
    qc_collection_free(one);
    free(whole.data);
    close_setting(&s);
}

Test(collection, a_run_goes_on_from_any_checkpoint)
{
    check_checkpoints(false);
    check_checkpoints(true);
}

Test(collection, what_does_not_belong_together_is_refused)
{
    struct setting s;
    open_setting(&s);
    static const struct {
        const char *model, *data, *inputs, *says;
        size_t samples, shard, shards, count;
        enum qc_need need;
    } cases[] = {
        {model_sha, sha_a, "input: input\n", "seen already", SAMPLES, 1, 2, 4, QC_NEED_HISTOGRAM},
        {sha_b, sha_b, "input: input\n", "another model", SAMPLES, 0, 2, 4, QC_NEED_HISTOGRAM},
        {model_sha, sha_b, "input: input scale=2\n", "another preprocessing", SAMPLES, 0, 2, 4, QC_NEED_HISTOGRAM},
        {model_sha, sha_b, "input: input\n", "other tensors", SAMPLES, 0, 2, 3, QC_NEED_HISTOGRAM},
        {model_sha, sha_b, "input: input\n", "histograms", SAMPLES, 0, 2, 4, QC_NEED_EXTREMES},
        {model_sha, sha_a, "input: input\n", "--samples", 9, 1, 2, 4, QC_NEED_HISTOGRAM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_collection *c[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++) {
            struct qc_collect_options o = options_of(k ? cases[i].data : sha_a, 1);
            struct qc_selection some = {.samples = SAMPLES, .shard = 1, .shards = 2};
            if (k) {
                o.model_sha256 = cases[i].model;
                o.inputs = cases[i].inputs;
                o.need = cases[i].need;
                some = (struct qc_selection)FIELDS(.samples = cases[i].samples, .shard = cases[i].shard,
                                                   .shards = cases[i].shards);
            }
            MUST(qc_dataset_select(s.data, &some, ST));
            s.seen.count = k ? cases[i].count : 4;
            MUST(qc_collect(&c[k], NULL, s.g, &s.seen, s.data, &o, ST));
        }
        REFUSES(qc_collection_merge(c[0], c[1], ST), QC_BAD_INPUT, cases[i].says);
        for (int k = 0; k < 2; k++) qc_collection_free(c[k]);
    }
    close_setting(&s);
}

/* Ranges of samples: joined where they touch, refused where they overlap, at either end. */
Test(collection, ranges_touch_but_do_not_overlap)
{
    OWN(qc_collection) *c = NULL;
    size_t part;
    struct qc_part of = {.samples = 100, .chosen = 100};
    memcpy(of.sha256, sha_a, sizeof of.sha256);
    cr_assert(qc_collection_new(&c, 0, NULL, QC_NEED_HISTOGRAM, ST) && qc_collection_add_part(&part, c, &of, ST));
    static const struct qc_sample_range good[] = {{0, 20, 10}, {0, 40, 10}, {0, 30, 10}, {0, 10, 10}, {0, 60, 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) MUST(qc_collection_add_range(c, good[i], ST));
    cr_assert_eq(c->range_count, 2);
    cr_expect(c->ranges[0].first == 10 && c->ranges[0].count == 40 && c->ranges[1].first == 60 &&
              c->ranges[1].count == 1);
    static const struct qc_sample_range bad[] = {{0, 49, 2}, {0, 5, 6}, {0, 55, 6}, {0, 60, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct qc_status no = QC_STATUS_INIT;
        cr_expect(!qc_collection_add_range(c, bad[i], &no) && no.code == QC_BAD_INPUT, "range %zu was taken", i);
    }
    cr_expect_eq(qc_collection_samples(c), 41);
}

/* Whatever a file holds: an error, or what was written. */
static void check_damage(bool channels)
{
    struct setting s;
    uint64_t random = 11;
    size_t refused = 0;
    const int files = 300 / (int)test_one_of(3, 12);
    open_setting(&s);
    s.extremes = true;
    s.channels = channels;
    struct qc_collection *one = collect(&s, 1, 20, 1);
    struct bytes whole = encode(one);
    char *copy = malloc(whole.size);
    cr_assert(copy);
    for (int i = 0; i < files; i++) {
        OWN(qc_collection) *c = NULL;
        size_t size = whole.size;
        memcpy(copy, whole.data, size);
        if (i % 3 == 0)
            size = (size_t)(test_random(&random) % size);
        else
            for (int k = 0; k < i % 3; k++) copy[test_random(&random) % size] ^= (char)(1 << test_random(&random) % 8);
        if (qc_statistics_decode(&c, copy, size, ST)) {
            cr_expect_eq(size, whole.size, "accepted cut to %zu bytes", size);
            expect_bytes(c, &whole, "accepted");
        } else {
            refused++;
            cr_expect(failure.code == QC_BAD_INPUT || failure.code == QC_UNSUPPORTED || failure.code == QC_MACHINE,
                      "%s", failure.message);
            cr_expect(*failure.message);
        }
    }
    cr_expect_gt(refused, (size_t)files * 2 / 5);
    free(copy);
    free(whole.data);
    qc_collection_free(one);
    close_setting(&s);
}

Test(collection, damaged_files_are_refused)
{
    check_damage(false);
    check_damage(true);
}
