/* Caches from C: how much of them is in use, and that the last query meets the last key of it. */
#include "checks.h"

#include <attune_common.h>

#include <math.h>
#include <stdio.h>

enum { batches = 2, heads = 4, key_heads = 2, length = 37, depth = 64 };
enum { count = batches * heads * length * depth, key_count = batches * key_heads * length * depth };
static float q[count], k[key_count], v[key_count], out[count];
static const int64_t shape[] = {batches, heads, length, depth}, key_shape[] = {batches, key_heads, length, depth};

static attune_tensor view(float* data) {
    return attune_dense(data, ATTUNE_F32, 4, data == k || data == v ? key_shape : shape);
}

/* The struct's kv_lengths: all zeros stands for all keys, and nothing else does. */
static void lengths(void) {
    static int32_t in_use[batches] = {5, 7};
    static const int64_t per_batch[] = {batches};
    attune_common_causal_attention_arguments given;
    memset(&given, 0, sizeof given);
    given.q = view(q), given.k = view(k), given.v = view(v), given.out = view(out);
    poison(out, count);
    given.kv_lengths = attune_dense(in_use, ATTUNE_I32, 1, NULL);
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a shape of 1 extents for kv_lengths, got null"));
    given.kv_lengths.rank = 0;
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "kv_lengths with 1 axis (batch)"));
    memset(&given.kv_lengths, 0, sizeof given.kv_lengths);
    given.kv_lengths.data = in_use;
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "element type of kv_lengths"));
    given.kv_lengths = attune_dense(NULL, ATTUNE_I32, 1, per_batch);
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a pointer to the elements of kv_lengths"));
    CHECK(is_untouched(out, count));
    given.kv_lengths = attune_dense(in_use, ATTUNE_I32, 1, per_batch);
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_OK);
}

/* The struct's cu_seqlens_q likewise. */
static void packed(void) {
    static int32_t starts[] = {0, 5, length};
    static const int64_t ends[] = {batches + 1}, packed_shape[] = {1, heads, length, depth};
    attune_common_plain_attention_arguments given;
    memset(&given, 0, sizeof given);
    given.q = attune_dense(q, ATTUNE_F32, 4, packed_shape), given.out = attune_dense(out, ATTUNE_F32, 4, packed_shape);
    given.k = view(k), given.v = view(v);
    poison(out, count);
    given.cu_seqlens_q = attune_dense(starts, ATTUNE_I32, 1, NULL);
    CHECK(attune_common_plain_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a shape of 1 extents for cu_seqlens_q, got null"));
    given.cu_seqlens_q.rank = 0;
    CHECK(attune_common_plain_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "cu_seqlens_q with 1 axis (batch + 1)"));
    memset(&given.cu_seqlens_q, 0, sizeof given.cu_seqlens_q);
    given.cu_seqlens_q.data = starts;
    CHECK(attune_common_plain_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "element type of cu_seqlens_q"));
    given.cu_seqlens_q = attune_dense(NULL, ATTUNE_I32, 1, ends);
    CHECK(attune_common_plain_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a pointer to the elements of cu_seqlens_q"));
    CHECK(is_untouched(out, count));
    given.cu_seqlens_q = attune_dense(starts, ATTUNE_I32, 1, ends);
    CHECK(attune_common_plain_attention_run(&given, NULL) == ATTUNE_OK);
}

/* Keys of more than 2^31 - 1 elements, by their shape alone: refused with the number, and nothing is read. */
static void large(void) {
    static const struct {
        int64_t shape[4];
        const char* says;
    } cases[] = {{{1, key_heads, 33554433, depth},
                  "a stride of at most 2147483647 elements along key_head of k, got 2147483712"},
                 {{1, key_heads, (int64_t)1 << 32, depth}, "from 0 to 2147483647 along key of k, got 4294967296"},
                 {{1, key_heads, INT64_MAX, depth}, "got 9223372036854775807"}};
    int i;
    for (i = 0; i < 3; ++i) {
        attune_common_plain_attention_arguments given;
        memset(&given, 0, sizeof given);
        given.q = view(q), given.out = view(out);
        given.k = given.v = attune_dense(k, ATTUNE_F32, 4, cases[i].shape);
        poison(out, count);
        CHECK(attune_common_plain_attention_run(&given, NULL) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), cases[i].says));
        CHECK(is_untouched(out, count));
    }
}

/* The largest difference between `out` and the last of `in_use[b]` positions, each seeing `left` keys back. */
static double error_of_last(const int32_t* in_use, int left, const float* slopes) {
    double worst = 0;
    int b, h, i, j, d;
    for (b = 0; b < batches; ++b)
        for (h = 0; h < heads; ++h)
            for (i = 0; i < length; ++i) {
                const float* query = q + ((b * heads + h) * length + i) * depth;
                const int key_row = (b * key_heads + h / (heads / key_heads)) * length, at = i + in_use[b] - length;
                double weight[length], most = -1e300, sum = 0;
                for (j = 0; j < length; ++j) {
                    weight[j] = -1e300;
                    if (j > at || j >= in_use[b] || at - j > left) continue;
                    weight[j] = 0;
                    for (d = 0; d < depth; ++d) weight[j] += (double)query[d] * (double)k[(key_row + j) * depth + d];
                    weight[j] = weight[j] / sqrt((double)depth) + (slopes ? (double)slopes[h] * (j - at) : 0);
                    if (weight[j] > most) most = weight[j];
                }
                for (j = 0; j < length; ++j) sum += weight[j] = weight[j] > -1e299 ? exp(weight[j] - most) : 0;
                for (d = 0; d < depth; ++d) {
                    double o = 0, difference;
                    for (j = 0; j < length && sum > 0; ++j) o += weight[j] / sum * (double)v[(key_row + j) * depth + d];
                    difference = fabs(o - (double)out[query - q + d]);
                    if (!(difference <= worst)) worst = difference;
                }
            }
    return worst;
}

static attune_tensor of_last(float* data) {
    static const int64_t one[] = {batches, heads, 1, depth},
                         strides[] = {heads * length * depth, length * depth, depth, 1};
    attune_tensor t = attune_dense(data + (length - 1) * depth, ATTUNE_F32, 4, one);
    t.strides = strides;
    return t;
}

/* Queries over caches that are filled in part: the last one meets the last key in use, in all three variants. */
static void caches(void) {
    static int32_t in_use[batches] = {length, 11};
    static float slopes[heads] = {0.5f, 0.25f, 0.125f, 0.0625f};
    static const int64_t per_batch[] = {batches}, per_head[] = {heads};
    attune_common_decode_attention_arguments all;
    attune_common_decode_window_attention_arguments within;
    attune_common_decode_alibi_attention_arguments sloped;
    const attune_tensor lengths_in_use = attune_dense(in_use, ATTUNE_I32, 1, per_batch);
    memset(&all, 0, sizeof all);
    all.q = view(q), all.k = view(k), all.v = view(v), all.out = view(out), all.kv_lengths = lengths_in_use;
    CHECK(attune_common_decode_attention_run(&all, NULL) == ATTUNE_OK);
    CHECK(error_of_last(in_use, length, NULL) < 1e-5);
    memset(&within, 0, sizeof within);
    within.q = view(q), within.k = view(k), within.v = view(v), within.out = view(out);
    within.kv_lengths = lengths_in_use, within.left = 4;
    CHECK(attune_common_decode_window_attention_run(&within, NULL) == ATTUNE_OK);
    CHECK(error_of_last(in_use, 4, NULL) < 1e-5);
    memset(&sloped, 0, sizeof sloped);
    sloped.q = view(q), sloped.k = view(k), sloped.v = view(v), sloped.out = view(out);
    sloped.kv_lengths = lengths_in_use, sloped.slopes = attune_dense(slopes, ATTUNE_F32, 1, per_head);
    CHECK(attune_common_decode_alibi_attention_run(&sloped, NULL) == ATTUNE_OK);
    CHECK(error_of_last(in_use, length, slopes) < 1e-5);
    /* One query, by a kernel for decode: the last of each, in the place of what it was. */
    all.q = of_last(q), all.out = of_last(out);
    within.q = of_last(q), within.out = of_last(out);
    sloped.q = of_last(q), sloped.out = of_last(out);
    CHECK(attune_common_decode_alibi_attention_run(&sloped, NULL) == ATTUNE_OK);
    CHECK(error_of_last(in_use, length, slopes) < 1e-5);
    all.out = view(out), all.q = view(q);
    CHECK(attune_common_decode_attention_run(&all, NULL) == ATTUNE_OK);
    all.q = of_last(q), all.out = of_last(out);
    CHECK(attune_common_decode_attention_run(&all, NULL) == ATTUNE_OK);
    CHECK(error_of_last(in_use, length, NULL) < 1e-5);
    within.q = view(q), within.out = view(out);
    CHECK(attune_common_decode_window_attention_run(&within, NULL) == ATTUNE_OK);
    within.q = of_last(q), within.out = of_last(out);
    CHECK(attune_common_decode_window_attention_run(&within, NULL) == ATTUNE_OK);
    CHECK(error_of_last(in_use, 4, NULL) < 1e-5);
}

/* A call that is prepared once, of names that are gone by the time it is made, for other keys and values. */
static void prepared(void) {
    static float other_k[key_count], other_v[key_count], expected[count];
    char names[4][4] = {"q", "k", "v", "out"};
    float* data[] = {q, k, v, out};
    static const int64_t longer[] = {batches, key_heads, length + 1, depth};
    attune_argument given[4], others[2];
    attune_call* call = NULL;
    int i;
    fill(other_k, key_count, 0.3), fill(other_v, key_count, 0.7);
    for (i = 0; i < 4; ++i) given[i] = attune_tensor_argument(names[i], view(data[i]));
    given[1].tensor.shape = given[2].tensor.shape = key_shape;
    CHECK(attune_run(attune_common_plain_attention_variant(), given, 4, NULL) == ATTUNE_OK);
    memcpy(expected, out, sizeof out);
    CHECK(attune_prepare(attune_common_plain_attention_variant(), given, 4, NULL, &call) == ATTUNE_OK && call);
    memset(names, 'x', sizeof names);
    memset(given, 0, sizeof given);
    poison(out, count);
    CHECK(attune_run_prepared(call, NULL, 0) == ATTUNE_OK && memcmp(expected, out, sizeof out) == 0);

    others[0] = attune_tensor_argument("k", attune_dense(other_k, ATTUNE_F32, 4, key_shape));
    others[1] = attune_tensor_argument("v", attune_dense(other_v, ATTUNE_F32, 4, key_shape));
    CHECK(attune_run_prepared(call, others, 2) == ATTUNE_OK && memcmp(expected, out, sizeof out) != 0);
    memcpy(k, other_k, sizeof k), memcpy(v, other_v, sizeof v);
    memcpy(expected, out, sizeof out);
    poison(out, count);
    CHECK(attune_run_prepared(call, NULL, 0) == ATTUNE_OK && memcmp(expected, out, sizeof out) == 0);

    poison(out, count);
    others[0].tensor.shape = longer;
    CHECK(attune_run_prepared(call, others, 1) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a tensor like the one that the call was prepared with"));
    others[0] = attune_tensor_argument("w", attune_dense(other_k, ATTUNE_F32, 4, key_shape));
    CHECK(attune_run_prepared(call, others, 1) == ATTUNE_REFUSED);
    CHECK(attune_run_prepared(call, NULL, 1) == ATTUNE_REFUSED && is_untouched(out, count));
    attune_free_call(call);
    attune_free_call(NULL);

    CHECK(attune_run_prepared(NULL, NULL, 0) == ATTUNE_REFUSED);
    call = (attune_call*)names;
    given[0] = attune_tensor_argument("q", view(q));
    CHECK(attune_prepare(attune_common_plain_attention_variant(), given, 1, NULL, &call) == ATTUNE_REFUSED && !call);
    CHECK(attune_prepare(attune_common_plain_attention_variant(), given, 1, NULL, NULL) == ATTUNE_REFUSED);
    CHECK(attune_prepare(NULL, given, 1, NULL, &call) == ATTUNE_REFUSED);
}

/* An entry of a page table that is no page: refused by its place, and nothing is written. */
static void pages(void) {
    enum { page_count = 3, tokens = 4, blocks = 2, size = page_count * key_heads * tokens };
    static int8_t codes[size * depth];
    static float scales[size];
    static int32_t table[batches * blocks] = {0, 1, 2, 0}, in_use[batches] = {8, 5};
    static const int64_t of_codes[] = {page_count, key_heads, tokens, depth}, of_table[] = {batches, blocks},
                         per_batch[] = {batches};
    attune_common_paged_attention_arguments given;
    memset(&given, 0, sizeof given);
    given.q = of_last(q), given.out = of_last(out);
    given.k_pages = given.v_pages = attune_dense(codes, ATTUNE_I8, 4, of_codes);
    given.k_scale = given.v_scale = attune_dense(scales, ATTUNE_F32, 3, of_codes);
    given.block_table = attune_dense(table, ATTUNE_I32, 2, of_table);
    given.kv_lengths = attune_dense(in_use, ATTUNE_I32, 1, per_batch);
    poison(out, count);
    table[3] = 99;
    CHECK(attune_common_paged_attention_run(&given, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "block_table from 0 to 2, an index along page of k_pages, got 99 at (batch 1, "));
    CHECK(is_untouched(out, count));
    in_use[1] = 4; /* beyond the keys in use it may be anything */
    CHECK(attune_common_paged_attention_run(&given, NULL) == ATTUNE_OK);
    CHECK(!is_untouched(out, count));
}

int main(void) {
    fill(q, count, 0.7), fill(k, key_count, 1.3), fill(v, key_count, 2.1);
    lengths();
    packed();
    large();
    prepared();
    pages();
    caches();
    if (failures == 0) printf("all is well with caches\n");
    return failures == 0 ? 0 : 1;
}
