/* Calls on threads that the program already runs side by side, as those of an OpenMP region. */
#define _XOPEN_SOURCE 600 /* barriers of pthreads */
#include "checks.h"

#include <attune_common.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { batches = 2, heads = 4, length = 37, depth = 64, count = batches * heads * length * depth, most_workers = 3 };
static float q[count], k[count], v[count], out[count], expected[count];
static const int64_t shape[] = {batches, heads, length, depth};

static attune_argument list[4];
static void make_list(void) {
    float* data[] = {q, k, v, out};
    static const char* const names[] = {"q", "k", "v", "out"};
    int i;
    for (i = 0; i < 4; ++i) list[i] = attune_tensor_argument(names[i], attune_dense(data[i], ATTUNE_F32, 4, shape));
}

/* A region of threads, each of which comes to the team once. The program's first thread is worker 0. */
struct region {
    pthread_barrier_t barrier;
    attune_team* team;
    attune_status (*calls)(void* state);
    int workers, met, threads; /* `met`: how often worker 0 came to the barrier; `threads`: of a call in the team */
    attune_status ended[most_workers];
};
struct worker {
    struct region* of;
    int number;
    pthread_t thread;
};
static pthread_t first_thread;

static void meet(void* state) {
    struct region* of = state;
    if (pthread_equal(pthread_self(), first_thread)) ++of->met;
    pthread_barrier_wait(&of->barrier);
}
static void* work(void* argument) {
    const struct worker* me = argument;
    struct region* of = me->of;
    of->ended[me->number] = attune_run_team(of->team, me->number, me->number == 0 ? of->calls : NULL, of);
    return NULL;
}
static void begin(struct region* of, int workers) {
    memset(of, 0, sizeof *of);
    of->workers = workers;
    CHECK(pthread_barrier_init(&of->barrier, NULL, (unsigned)workers) == 0);
    CHECK(attune_make_team(workers, meet, of, &of->team) == ATTUNE_OK && of->team);
}
static void run(struct region* of, attune_status (*calls)(void* state)) {
    struct worker all[most_workers];
    int i;
    of->calls = calls, of->met = 0;
    for (i = 0; i < of->workers; ++i) all[i].of = of, all[i].number = i;
    for (i = 1; i < of->workers; ++i) CHECK(pthread_create(&all[i].thread, NULL, work, &all[i]) == 0);
    work(&all[0]);
    for (i = 1; i < of->workers; ++i) CHECK(pthread_join(all[i].thread, NULL) == 0);
}
static void end(struct region* of) {
    attune_free_team(of->team);
    pthread_barrier_destroy(&of->barrier);
}

/* What worker 0 does in its regions. */
static attune_status two_calls(void* state) {
    char text[8192];
    const char* threads;
    attune_call* call = NULL;
    attune_status status = attune_prepare(attune_common_causal_attention_variant(), list, 4, NULL, &call);
    if (status == ATTUNE_OK) status = attune_run_prepared(call, NULL, 0);
    attune_free_call(call);
    if (status == ATTUNE_OK) status = attune_run(attune_common_causal_attention_variant(), list, 4, NULL);
    if (status == ATTUNE_OK)
        status = attune_explain(attune_common_causal_attention_variant(), list, 4, NULL, text, sizeof text, NULL);
    threads = status == ATTUNE_OK ? strstr(text, "\"threads\": ") : NULL;
    if (threads) sscanf(threads, "\"threads\": %d", &((struct region*)state)->threads);
    return status;
}
static attune_status no_calls(void* state) {
    (void)state;
    return ATTUNE_OK;
}
static attune_status refused_call(void* state) {
    (void)state;
    return attune_run(attune_common_causal_attention_variant(), list, 2, NULL);
}

/* To the last bit what one thread computes, by all workers: each loop of a call has a barrier at both ends. */
static void results(int workers) {
    struct region of;
    int again;
    begin(&of, workers);
    for (again = 0; again < 20; ++again) {
        int i;
        poison(out, count);
        run(&of, two_calls);
        for (i = 0; i < workers; ++i) CHECK(of.ended[i] == ATTUNE_OK);
        CHECK(memcmp(out, expected, sizeof out) == 0);
        CHECK(of.threads == workers);
        CHECK(workers == 1 ? of.met == 0 : of.met >= 1 + 2 * 2);
        run(&of, no_calls);
        CHECK(of.met == (workers > 1));
    }
    end(&of);
}

/* What worker 0 gets, the others do not, and all of them leave. */
static void refused_calls(int workers) {
    struct region of;
    int i;
    begin(&of, workers);
    poison(out, count);
    run(&of, refused_call);
    CHECK(of.ended[0] == ATTUNE_REFUSED && strstr(attune_error_text(), "expected "));
    for (i = 1; i < workers; ++i) CHECK(of.ended[i] == ATTUNE_OK);
    run(&of, NULL);
    CHECK(of.ended[0] == ATTUNE_REFUSED && strstr(attune_error_text(), "the calls of worker 0, got null; try "));
    for (i = 1; i < workers; ++i) CHECK(of.ended[i] == ATTUNE_OK);
    CHECK(is_untouched(out, count));
    run(&of, two_calls);
    CHECK(of.ended[0] == ATTUNE_OK && memcmp(out, expected, sizeof out) == 0);
    end(&of);
}

static void refused_teams(void) {
    static const int wrong[] = {0, -1, 4097}, none[] = {-1, 3};
    struct region of;
    attune_team* team;
    int i;
    for (i = 0; i < 3; ++i) {
        team = (attune_team*)list;
        CHECK(attune_make_team(wrong[i], meet, &of, &team) == ATTUNE_REFUSED && !team);
        CHECK(strstr(attune_error_text(), "expected from 1 to 4096 workers"));
    }
    CHECK(attune_make_team(2, NULL, NULL, &team) == ATTUNE_REFUSED && strstr(attune_error_text(), "a barrier"));
    CHECK(attune_make_team(2, meet, &of, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a place for the team"));
    CHECK(attune_make_team(1, NULL, NULL, &team) == ATTUNE_OK && team);
    CHECK(attune_run_team(team, 0, no_calls, NULL) == ATTUNE_OK);
    CHECK(attune_run_team(team, 1, no_calls, NULL) == ATTUNE_REFUSED);
    attune_free_team(team);
    attune_free_team(NULL);
    CHECK(attune_run_team(NULL, 0, no_calls, NULL) == ATTUNE_REFUSED && strstr(attune_error_text(), "expected a team"));
    begin(&of, 3);
    for (i = 0; i < 2; ++i)
        CHECK(attune_run_team(of.team, none[i], no_calls, NULL) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "a worker from 0 to 2") && of.met == 0);
    end(&of);
}

int main(void) {
    const attune_options alone = {.size = sizeof alone, .threads = 1};
    int workers;
    first_thread = pthread_self();
    fill(q, count, 0.7), fill(k, count, 1.3), fill(v, count, 2.1);
    make_list();
    CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &alone) == ATTUNE_OK);
    memcpy(expected, out, sizeof out);
    for (workers = 1; workers <= most_workers; ++workers) results(workers), refused_calls(workers);
    refused_teams();
    if (failures == 0) printf("all is well with teams\n");
    return failures == 0 ? 0 : 1;
}
