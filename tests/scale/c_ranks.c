/* attune/mpi.h as a C99 program sees it, one rank of a job: c_ranks <file> [<shared library of attune::common>]. What
   goes wrong is added to the file, or "all is well". */
#include "c_ranks.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int rank = 0, ranks = 1;
static int file = -1, wrong = 0;

static void print(const char* line) {
    if (write(file, line, strlen(line)) != (ssize_t)strlen(line)) exit(3);
}

void check(int truth, const char* text, const char* source, int line) {
    char said[3000];
    if (truth) return;
    ++wrong;
    snprintf(said, sizeof said, "FAILED  %s:%d  rank %d  %s  (%s)\n", source, line, rank, text, attune_error_text());
    print(said);
}

void check_said(attune_status got, attune_status expected, const char* words, const char* text, const char* source,
                int line) {
    char mine[600], first[600];
    check(got == expected, text, source, line);
    check(strstr(attune_error_text(), words) != NULL, words, source, line);
    memset(mine, 0, sizeof mine);
    strncpy(mine, attune_error_text(), sizeof mine - 1);
    memcpy(first, mine, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    check(strcmp(first, mine) == 0, "one sentence on all ranks", source, line);
}

static attune_mpi_context* made(const attune_mpi_options* options) {
    attune_mpi_context* world = NULL;
    CHECK(attune_mpi_make_context(MPI_COMM_WORLD, options, &world) == ATTUNE_OK && world != NULL);
    return world;
}

static void prefills(attune_mpi_context* world, int deterministic) {
    const attune_variant* const shard = sharded_documents_shard_variant();
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_argument argument = document_argument();
    attune_options how;
    attune_mpi_layout* layout = NULL;
    attune_mpi_traffic done = {-1, -1, -1, -1};
    prefill mine;
    long long own, all = 0;
    memset(&how, 0, sizeof how);
    how.size = sizeof how, how.threads = 1, how.deterministic = deterministic;
    CHECK(attune_mpi_plan(world, &what, &argument, 1, &how, &layout) == ATTUNE_OK && layout != NULL);
    make_prefill(&mine, layout, 0.01);
    own = mine.rows;
    MPI_Allreduce(&own, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == tokens);
    CHECK(attune_mpi_run(world, layout, shard, mine.list, 8, &how, &done) == ATTUNE_OK);
    CHECK(error_of_prefill(&mine, 0.01) < 2e-5);
    CHECK(ranks == 1 ? done.messages_sent == 0 && done.bytes_received == 0 : done.bytes_sent >= 0);
    own = done.bytes_sent - done.bytes_received, all = 1;
    MPI_Allreduce(&own, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == 0);
    own = done.messages_sent;
    MPI_Allreduce(&own, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(ranks == 1 ? all == 0 : all > 0);
    poison_prefill(&mine);
    CHECK(attune_mpi_run(world, layout, shard, mine.list, 8, &how, NULL) == ATTUNE_OK);
    CHECK(error_of_prefill(&mine, 0.01) < 2e-5);
    free_prefill(&mine);
}

/* The positions that a program chose: every rank has those that leave its number. */
static void own_positions(attune_mpi_context* world) {
    const attune_variant* const shard = sharded_documents_shard_variant();
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_argument argument = document_argument();
    attune_mpi_layout* layout = NULL;
    int32_t chosen[tokens];
    prefill mine;
    int32_t i;
    what.layout = ATTUNE_MPI_OWN, what.positions = chosen;
    for (i = rank; i < tokens; i += ranks) chosen[what.position_count++] = i;
    CHECK(attune_mpi_plan(world, &what, &argument, 1, NULL, &layout) == ATTUNE_OK);
    make_prefill(&mine, layout, 0.03);
    CHECK(mine.rows == (int64_t)what.position_count);
    CHECK(memcmp(mine.positions, chosen, what.position_count * sizeof *chosen) == 0);
    CHECK(attune_mpi_run(world, layout, shard, mine.list, 8, NULL, NULL) == ATTUNE_OK);
    CHECK(error_of_prefill(&mine, 0.03) < 2e-5);
    free_prefill(&mine);
}

/* Names, shapes, layout and context are gone when the call is made: only the tensors' memory is needed. */
static void prepared(void) {
    const attune_variant* const shard = sharded_documents_shard_variant();
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_argument argument = document_argument();
    attune_mpi_context* world = made(NULL);
    attune_mpi_layout* layout = NULL;
    attune_mpi_call* call = NULL;
    attune_mpi_traffic done;
    prefill mine;
    char names[8][16];
    int32_t* positions;
    int i;
    CHECK(attune_mpi_plan(world, &what, &argument, 1, NULL, &layout) == ATTUNE_OK);
    make_prefill(&mine, layout, 0.02);
    for (i = 0; i < 8; ++i) {
        strcpy(names[i], mine.list[i].name);
        mine.list[i].name = names[i];
    }
    CHECK(attune_mpi_prepare(world, layout, shard, mine.list, 8, NULL, &call) == ATTUNE_OK && call != NULL);
    CHECK(is_untouched(&mine));
    positions = malloc((size_t)(mine.rows + 1) * sizeof *positions);
    memcpy(positions, mine.positions, (size_t)mine.rows * sizeof *positions);
    mine.positions = positions, mine.layout = NULL;
    attune_mpi_free_layout(layout);
    attune_mpi_free_context(world);
    memset(names, 'x', sizeof names);
    memset(mine.list, 0xff, sizeof mine.list);
    for (i = 0; i < 3; ++i) {
        poison_prefill(&mine);
        fill_prefill(&mine, 0.02 + 0.01 * i);
        CHECK(attune_mpi_run_prepared(call, i == 1 ? NULL : &done) == ATTUNE_OK);
        CHECK(error_of_prefill(&mine, 0.02 + 0.01 * i) < 2e-5);
    }
    attune_mpi_free_call(call);
    free_prefill(&mine);
    free(positions);
}

/* Sequences of two lengths, decoded by sharded::windowed_shard with every key and query alike: the values that it sees
   have one mean, which is their weights' sum without that of the sink. */
enum { room = 300, queries = 2, batches = 2 };
static void decodes(attune_mpi_context* world) {
    const attune_variant* const shard = sharded_windowed_shard_variant();
    static const int32_t used[] = {300, 120};
    static const int64_t heads_shape[] = {heads}, batch_shape[] = {batches}, one = 1;
    static float q[batches * heads * queries * depth], out[batches * heads * queries * depth],
        lse[batches * heads * queries], slopes[heads], sinks[heads];
    static const int64_t q_shape[] = {batches, heads, queries, depth}, row_shape[] = {batches, heads, queries};
    int64_t k_shape[] = {batches, key_heads, 0, depth}, key_shape[] = {batches, 0};
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_mpi_layout* layout = NULL;
    attune_argument list[9];
    const int32_t* own;
    float *k, *v, *by_key;
    size_t count = 0;
    int64_t i, b, h, query;
    what.batches = batches, what.tokens = room, what.queries = queries;
    CHECK(attune_mpi_plan(world, &what, NULL, 0, NULL, &layout) == ATTUNE_OK);
    CHECK(attune_mpi_positions(layout, &own, &count) == ATTUNE_OK);
    k_shape[2] = key_shape[1] = (int64_t)count;
    k = calloc(batches * key_heads * depth * (count + 1), sizeof *k);
    v = calloc(batches * key_heads * depth * (count + 1), sizeof *v);
    by_key = calloc(batches * (count + 1), sizeof *by_key);
    for (i = 0; i < batches * key_heads * (int64_t)count * depth; ++i)
        v[i] = (float)own[i / depth % (int64_t)count]; /* each key's value is its position */
    list[0] = attune_tensor_argument("q", attune_dense(q, ATTUNE_F32, 4, q_shape));
    list[1] = attune_tensor_argument("k", attune_dense(k, ATTUNE_F32, 4, k_shape));
    list[2] = attune_tensor_argument("v", attune_dense(v, ATTUNE_F32, 4, k_shape));
    list[3] = attune_tensor_argument("slopes", attune_dense(slopes, ATTUNE_F32, 1, heads_shape));
    list[4] = attune_tensor_argument("by_key", attune_dense(by_key, ATTUNE_F32, 2, key_shape));
    list[5] = attune_tensor_argument("sinks", attune_dense(sinks, ATTUNE_F32, 1, &one));
    list[6] = attune_tensor_argument("lengths", attune_dense((void*)used, ATTUNE_I32, 1, batch_shape));
    list[7] = attune_tensor_argument("out", attune_dense(out, ATTUNE_F32, 4, q_shape));
    list[8] = attune_tensor_argument("lse", attune_dense(lse, ATTUNE_F32, 3, row_shape));
    list[6].tensor.read_only = 1;
    CHECK(attune_mpi_run(world, layout, shard, list, 9, NULL, NULL) == ATTUNE_OK);
    for (b = 0; b < batches; ++b)
        for (h = 0; h < heads; ++h)
            for (query = 0; query < queries; ++query) { /* 41 keys of weight 1, the last at `last`, and the sink */
                const double last = (double)(used[b] - queries + query), mean = 41 * (last - 20) / 42;
                const int64_t row = (b * heads + h) * queries + query;
                CHECK(fabs((double)lse[row] - log(42)) < 1e-5);
                for (i = 0; i < depth; ++i) CHECK(fabs((double)out[row * depth + i] - mean) < 1e-5 * mean);
            }
    free(k), free(v), free(by_key);
    attune_mpi_free_layout(layout);
}

/* What a plan says of itself, cut to what there is room for. */
static void explanations(attune_mpi_context* world) {
    const attune_variant* const shard = sharded_documents_shard_variant();
    attune_mpi_planning what = planning_of_prefill(&shard);
    attune_argument argument = document_argument();
    attune_mpi_layout* layout = NULL;
    char text[4096], small[10];
    size_t length = 0, same = 0;
    what.layout = ATTUNE_MPI_ZIGZAG, what.stages = 2, what.size = 0;
    CHECK(attune_mpi_plan(world, &what, &argument, 1, NULL, &layout) == ATTUNE_OK);
    CHECK(attune_mpi_explain(layout, text, sizeof text, &length) == ATTUNE_OK && strlen(text) == length);
    CHECK(strstr(text, "150 tokens") && strstr(text, "zigzag, as was asked for"));
    CHECK(attune_mpi_explain(layout, small, sizeof small, &same) == ATTUNE_OK && same == length);
    CHECK(strlen(small) == 9 && strncmp(small, text, 9) == 0);
    CHECK(attune_mpi_explain(layout, NULL, 0, NULL) == ATTUNE_OK);
    attune_mpi_free_layout(layout);
}

void calls(void) {
    attune_mpi_options patient;
    attune_mpi_context *world = made(NULL), *other;
    memset(&patient, 0, sizeof patient);
    patient.size = sizeof patient + 64, patient.timeout = INFINITY, patient.grace = 0.5; /* a program that knows more */
    other = made(&patient);
    prefills(world, 0);
    prefills(other, 1);
    own_positions(other);
    prepared();
    decodes(world);
    explanations(world);
    attune_mpi_free_context(world);
    attune_mpi_free_context(other);
}

int main(int count, char** arguments) {
    attune_mpi_context *world = NULL, *kept = NULL;
    int provided = 0, i;
    if (count < 2) return 2;
    file = open(arguments[1], O_WRONLY | O_APPEND | O_CREAT, 0644);
    for (i = 0; i < tokens; ++i) document[i] = i / 37;
    CHECK(attune_mpi_make_context(MPI_COMM_WORLD, NULL, &world) == ATTUNE_REFUSED && world == NULL);
    CHECK(strstr(attune_error_text(), "expected MPI to be initialized, got a process that did not"));
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    calls();
    refusals(count > 2 ? arguments[2] : NULL);
    failures();
    kept = made(NULL);
    MPI_Finalize();
    attune_mpi_free_context(kept); /* does nothing of MPI's */
    if (wrong == 0) print("all is well\n");
    return wrong == 0 ? 0 : 1;
}
