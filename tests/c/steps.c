/* Calls that store, from C: token after token into a cache, each beside attention over the keys so far. */
#include "checks.h"

#include <attune_step_kernels.h>

#include <math.h>
#include <stdio.h>

enum { heads = 4, key_heads = 2, room = 9, depth = 64 };
static float q[heads * depth], out[heads * depth];
static float k_new[key_heads * depth], v_new[key_heads * depth];
static float k[key_heads * room * depth], v[key_heads * room * depth];
static float k_before[key_heads * room * depth];

static int32_t in_use;

static test_step_arguments arguments(void) {
    static const int64_t row[] = {1, heads, 1, depth}, new_row[] = {1, key_heads, 1, depth},
                         cache[] = {1, key_heads, room, depth}, one[] = {1};
    test_step_arguments given;
    memset(&given, 0, sizeof given);
    given.q = attune_dense(q, ATTUNE_F32, 4, row), given.out = attune_dense(out, ATTUNE_F32, 4, row);
    given.k_new = attune_dense(k_new, ATTUNE_F32, 4, new_row),
    given.v_new = attune_dense(v_new, ATTUNE_F32, 4, new_row);
    given.k = attune_dense(k, ATTUNE_F32, 4, cache), given.v = attune_dense(v, ATTUNE_F32, 4, cache);
    given.kv_lengths = attune_dense(&in_use, ATTUNE_I32, 1, one);
    return given;
}

/* The largest difference between `out` and attention over the keys in use. */
static double error(void) {
    double worst = 0;
    int h, j, d;
    for (h = 0; h < heads; ++h) {
        const int first = h / (heads / key_heads) * room;
        double weight[room], most = -1e300, sum = 0;
        for (j = 0; j < in_use; ++j) {
            weight[j] = 0;
            for (d = 0; d < depth; ++d) weight[j] += (double)q[h * depth + d] * (double)k[(first + j) * depth + d];
            weight[j] /= sqrt((double)depth);
            if (weight[j] > most) most = weight[j];
        }
        for (j = 0; j < in_use; ++j) sum += weight[j] = exp(weight[j] - most);
        for (d = 0; d < depth; ++d) {
            double o = 0, difference;
            for (j = 0; j < in_use; ++j) o += weight[j] / sum * (double)v[(first + j) * depth + d];
            difference = fabs(o - (double)out[h * depth + d]);
            if (!(difference <= worst)) worst = difference;
        }
    }
    return worst;
}

static void steps(void) {
    for (in_use = 1; in_use <= room; ++in_use) {
        const test_step_arguments given = arguments();
        int h, place = in_use - 1;
        fill(q, heads * depth, 0.7 * in_use), fill(k_new, key_heads * depth, 1.1 * in_use);
        fill(v_new, key_heads * depth, 0.3 * in_use);
        CHECK(test_step_run(&given, NULL) == ATTUNE_OK);
        for (h = 0; h < key_heads; ++h) {
            CHECK(memcmp(k + (h * room + place) * depth, k_new + h * depth, depth * sizeof *k) == 0);
            CHECK(memcmp(v + (h * room + place) * depth, v_new + h * depth, depth * sizeof *v) == 0);
        }
        CHECK(error() < 1e-5);
    }
}

/* A cache that must not be written, and a token that has no place: refused, and nothing is written. */
static void refusals(void) {
    test_step_arguments given;
    in_use = room, given = arguments();
    memcpy(k_before, k, sizeof k), fill(out, heads * depth, 5);
    fill(k_new, key_heads * depth, 0.9);
    given.k.read_only = 1;
    CHECK(test_step_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "expected a tensor that may be written for k, got a view of const elements"));
    in_use = 0, given = arguments();
    CHECK(test_step_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a place in k for all that is stored; kv_lengths count the new keys"));
    CHECK(memcmp(k_before, k, sizeof k) == 0);
}

int main(void) {
    steps();
    refusals();
    if (failures == 0) printf("all is well with steps\n");
    return failures == 0 ? 0 : 1;
}
