/* attune/c.h as a C99 program sees it: calls, refusals that write nothing, answers, threads, DLPack. */
#include "checks.h"

#include <attune/dlpack.h>
#include <attune_common.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { batches = 2, heads = 4, key_heads = 2, length = 37, depth = 64 };
enum { count = batches * heads * length * depth, key_count = batches * key_heads * length * depth };
static float q[count], k[key_count], v[key_count], out[count], windowed[count];
static const int64_t shape[] = {batches, heads, length, depth}, key_shape[] = {batches, key_heads, length, depth};

static attune_tensor view(float* data) {
    return attune_dense(data, ATTUNE_F32, 4, data == k || data == v ? key_shape : shape);
}

/* The largest difference between `result` and attention over the keys from i - left to i + right. */
static double error_of(const float* result, int left, int right) {
    double worst = 0;
    int b, h, i, j, d;
    for (b = 0; b < batches; ++b)
        for (h = 0; h < heads; ++h)
            for (i = 0; i < length; ++i) {
                const float* query = q + ((b * heads + h) * length + i) * depth;
                const int key_row = (b * key_heads + h / (heads / key_heads)) * length;
                double weight[length], most = -1e300, sum = 0;
                for (j = 0; j < length; ++j) {
                    weight[j] = -1e300;
                    if (i - j > left || j - i > right) continue;
                    weight[j] = 0;
                    for (d = 0; d < depth; ++d) weight[j] += (double)query[d] * (double)k[(key_row + j) * depth + d];
                    weight[j] /= sqrt((double)depth);
                    if (weight[j] > most) most = weight[j];
                }
                for (j = 0; j < length; ++j) sum += weight[j] = weight[j] > -1e299 ? exp(weight[j] - most) : 0;
                for (d = 0; d < depth; ++d) {
                    double o = 0, difference;
                    for (j = 0; j < length; ++j) o += weight[j] / sum * (double)v[(key_row + j) * depth + d];
                    difference = fabs(o - (double)result[query - q + d]);
                    if (!(difference <= worst)) worst = difference;
                }
            }
    return worst;
}

static void calls(void) {
    attune_common_causal_attention_arguments given;
    attune_common_window_attention_arguments within;
    attune_options how;
    attune_argument list[4];
    memset(&given, 0, sizeof given);
    given.q = view(q), given.k = view(k), given.v = view(v), given.out = view(out);
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_OK);
    CHECK(error_of(out, length, 0) < 1e-5);

    memset(&within, 0, sizeof within);
    within.q = view(q), within.k = view(k), within.v = view(v), within.out = view(windowed);
    within.left = 5, within.right = 2;
    memset(&how, 0, sizeof how);
    how.size = sizeof how, how.threads = 1;
    CHECK(attune_common_window_attention_run(&within, &how) == ATTUNE_OK);
    CHECK(error_of(windowed, 5, 2) < 1e-5);

    poison(out, count); /* by name, in any order, and with a pool of threads that is the application's */
    list[0] = attune_tensor_argument("out", view(out));
    list[1] = attune_tensor_argument("v", view(v));
    list[2] = attune_tensor_argument("q", view(q));
    list[3] = attune_tensor_argument("k", view(k));
    CHECK(attune_run(attune_common_plain_attention_variant(), list, 4, NULL) == ATTUNE_OK);
    CHECK(error_of(out, length, length) < 1e-5);
}

static int pool_calls = 0, own_calls = 0, tasks_to_leave = 0;
static void own_pool(void* state, int32_t tasks_count, int32_t threads, attune_task task, void* tasks) {
    int32_t i;
    ++*(int*)state;
    (void)threads;
    for (i = 0; i < tasks_count - tasks_to_leave; ++i) task(tasks, i);
}

static void threads(void) {
    attune_common_causal_attention_arguments given;
    attune_options how;
    int32_t used = 0;
    memset(&given, 0, sizeof given);
    given.q = view(q), given.k = view(k), given.v = view(v), given.out = view(out);
    CHECK(attune_set_threads(3) == ATTUNE_OK && attune_threads(&used) == ATTUNE_OK && used == 3);
    CHECK(attune_set_threads(-1) == ATTUNE_REFUSED && strstr(attune_error_text(), "-1"));
    CHECK(attune_threads(NULL) == ATTUNE_REFUSED);
    CHECK(attune_set_parallel_for(own_pool, &pool_calls) == ATTUNE_OK);
    poison(out, count);
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_OK && pool_calls > 0);
    CHECK(error_of(out, length, 0) < 1e-5);
    poison(out, count); /* a pool of this call's alone goes before */
    memset(&how, 0, sizeof how);
    how.size = sizeof how, how.pool = own_pool, how.pool_state = &own_calls, pool_calls = 0;
    CHECK(attune_common_causal_attention_run(&given, &how) == ATTUNE_OK && own_calls > 0 && pool_calls == 0);
    CHECK(error_of(out, length, 0) < 1e-5);
    how.size = 0; /* the struct of version 1 */
    CHECK(attune_common_causal_attention_run(&given, &how) == ATTUNE_OK && own_calls > 1);
    how.size = sizeof how + 64; /* a program that knows more */
    CHECK(attune_common_causal_attention_run(&given, &how) == ATTUNE_OK && own_calls > 2);
    tasks_to_leave = 1;
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_FAILED);
    CHECK(strstr(attune_error_text(), "set_parallel_for") != NULL);
    CHECK(attune_set_parallel_for(NULL, NULL) == ATTUNE_OK && attune_set_threads(0) == ATTUNE_OK);
    CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_OK);
}

static attune_status with(attune_argument spoilt) {
    attune_argument list[4];
    int i;
    list[0] = attune_tensor_argument("q", view(q));
    list[1] = attune_tensor_argument("k", view(k));
    list[2] = attune_tensor_argument("v", view(v));
    list[3] = attune_tensor_argument("out", view(out));
    for (i = 0; i < 4; ++i)
        if (spoilt.name && strcmp(spoilt.name, list[i].name) == 0) list[i] = spoilt;
    if (!spoilt.name) list[0] = spoilt;
    return attune_run(attune_common_causal_attention_variant(), list, 4, NULL);
}
static attune_status with_q(attune_tensor tensor) { return with(attune_tensor_argument("q", tensor)); }

/// Lengths of which anything is there are not taken for lengths that were left out.
static void partly_filled(void) {
    static const int64_t one[] = {1};
    attune_common_causal_attention_arguments given;
    int i;
    for (i = 0; i < 5; ++i) {
        memset(&given, 0, sizeof given);
        given.q = view(q), given.k = view(k), given.v = view(v), given.out = view(out);
        if (i == 0) given.kv_lengths.rank = 1;
        if (i == 1) given.kv_lengths.element = ATTUNE_I32;
        if (i == 2) given.kv_lengths.strides = one;
        if (i == 3) given.kv_lengths.memory = ATTUNE_CUDA;
        if (i == 4) given.kv_lengths.data = q;
        CHECK(attune_common_causal_attention_run(&given, NULL) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "kv_lengths"));
    }
    CHECK(strstr(attune_error_text(), "try ATTUNE_I32"));
}

static void refusals(void) {
    attune_tensor t;
    attune_argument argument;
    static const int64_t strides[] = {0, 0, 0, 2}, huge[] = {batches, heads, (int64_t)1 << 40, depth},
                         nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    poison(out, count);
    CHECK(attune_run(NULL, NULL, 0, NULL) == ATTUNE_REFUSED && strstr(attune_error_text(), "null"));
    CHECK(attune_run(attune_common_causal_attention_variant(), NULL, 4, NULL) == ATTUNE_REFUSED);
    CHECK(attune_common_causal_attention_run(NULL, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "arguments, got null"));
    CHECK(attune_run(attune_common_causal_attention_variant(), NULL, 0, NULL) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "input q"));
    t = view(q), t.data = NULL;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "pointer"));
    t = view(q), t.data = (char*)q + 1;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "multiple of 4"));
    t = view(q), t.shape = NULL;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "shape"));
    t = view(q), t.rank = -1;
    CHECK(with_q(t) == ATTUNE_REFUSED);
    t = view(q), t.rank = 9, t.shape = nine;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "8 axes"));
    t = view(q), t.element = 0;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "element type"));
    t = view(q), t.element = ATTUNE_F16;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "f16"));
    t = view(q), t.strides = strides;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "stride of 1"));
    t = view(q), t.shape = huge;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "extent"));
    t = view(q), t.memory = 3;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "memory of q"));
    t = view(q), t.device = 1;
    CHECK(with_q(t) == ATTUNE_REFUSED && strstr(attune_error_text(), "device of q"));
    CHECK(with_q(attune_on_device(view(q), ATTUNE_CUDA, -2)) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "device of q"));
    CHECK(with_q(attune_on_device(view(q), ATTUNE_CUDA, 0)) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "for cuda, as where the tensors lie asks"));
    t = view(out), t.read_only = 1;
    CHECK(with(attune_tensor_argument("out", t)) == ATTUNE_REFUSED && strstr(attune_error_text(), "written"));
    CHECK(with(attune_integer_argument("q", 3)) == ATTUNE_REFUSED && strstr(attune_error_text(), "tensor"));
    argument = attune_tensor_argument("q", view(q)), argument.kind = 7;
    CHECK(with(argument) == ATTUNE_REFUSED && strstr(attune_error_text(), "kind"));
    CHECK(with(attune_tensor_argument(NULL, view(q))) == ATTUNE_REFUSED && strstr(attune_error_text(), "name"));
    argument = attune_tensor_argument("q", view(q)), argument.reserved = 1;
    CHECK(with(argument) == ATTUNE_REFUSED && strstr(attune_error_text(), "reserved of the argument q"));
    partly_filled();
    CHECK(is_untouched(out, count));
}

static void refused_options(void) {
    attune_argument argument;
    attune_options how;
    poison(out, count);
    memset(&how, 0, sizeof how);
    how.size = 4;
    argument = attune_tensor_argument("q", view(q));
    CHECK(attune_run(attune_common_causal_attention_variant(), &argument, 1, &how) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "attune_options"));
    how.size = 0, how.target = "opencl";
    {
        attune_argument list[4];
        list[0] = argument;
        list[1] = attune_tensor_argument("k", view(k));
        list[2] = attune_tensor_argument("v", view(v));
        list[3] = attune_tensor_argument("out", view(out));
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "opencl"));
        how.target = NULL, how.threads = -5;
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "-5"));
        how.threads = 0, how.size = sizeof how, how.device = -1;
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "-1"));
        how.device = 0, how.reserved[2] = 7;
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "reserved of attune_options, got 7"));
        how.reserved[2] = 0;
        list[0].tensor = attune_on_device(view(q), ATTUNE_CUDA, 0);
        list[1].tensor = attune_on_device(view(k), ATTUNE_OPENCL, 0);
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED);
        CHECK(strstr(attune_error_text(),
                     "expected memory of cuda for k, as for q, or the host's, got memory of opencl; try "));
        list[1].tensor = attune_on_device(view(k), ATTUNE_CUDA, 1);
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED);
        CHECK(strstr(attune_error_text(), "expected device 0 for k, as for q, got device 1; try "));
        how.device = 3;
        CHECK(attune_run(attune_common_causal_attention_variant(), list, 4, &how) == ATTUNE_REFUSED);
        CHECK(
            strstr(attune_error_text(), "expected device 2 for q, as for attune::options::device, got device 0; try "));
        CHECK(attune_synchronize(NULL, NULL) == ATTUNE_REFUSED && strstr(attune_error_text(), "null"));
        CHECK(attune_synchronize(attune_common_causal_attention_variant(), NULL) ==
              ATTUNE_OK); /* its calls are done when they return */
        how.device = 0, how.target = "cuda";
        CHECK(attune_synchronize(attune_common_causal_attention_variant(), &how) == ATTUNE_REFUSED &&
              strstr(attune_error_text(), "cuda"));
    }
    CHECK(is_untouched(out, count));
}

static void answers(void) {
    attune_argument list[3];
    char text[8192], small[10];
    size_t size = 0, same = 0;
    list[0] = attune_tensor_argument("q", view(q));
    list[1] = attune_tensor_argument("k", view(k));
    list[2] = attune_tensor_argument("v", view(v));
    CHECK(attune_explain(attune_common_causal_attention_variant(), list, 3, NULL, text, sizeof text, &size) ==
          ATTUNE_OK);
    CHECK(size < sizeof text && strlen(text) == size && text[0] == '{' &&
          strstr(text, "attune::common::causal_attention"));
    CHECK(attune_blocks(attune_common_causal_attention_variant(), list, 3, NULL, text, sizeof text, &size) ==
          ATTUNE_OK);
    CHECK(strstr(text, "\"blocks\": \"") && strstr(text, "\"key_block\": "));
    CHECK(attune_blocks(attune_common_causal_attention_variant(), list, 2, NULL, text, sizeof text, &size) ==
          ATTUNE_REFUSED);
    CHECK(attune_explain(attune_common_causal_attention_variant(), list, 2, NULL, text, sizeof text, &size) ==
          ATTUNE_REFUSED);
    CHECK(attune_kernels(attune_common_causal_attention_variant(), text, sizeof text, &size) == ATTUNE_OK &&
          strstr(text, "f32"));
    CHECK(attune_describe(attune_common_window_attention_variant(), text, sizeof text, &size) == ATTUNE_OK);
    CHECK(strstr(text, "\"left\"") && strstr(text, "kv_lengths") && strstr(text, "value_depth"));
    CHECK(attune_describe(attune_common_window_attention_variant(), small, sizeof small, &same) == ATTUNE_OK &&
          same == size);
    CHECK(strlen(small) == 9 && strncmp(small, text, 9) == 0);
    CHECK(attune_describe(attune_common_window_attention_variant(), NULL, 0, NULL) == ATTUNE_OK);
    CHECK(attune_describe(NULL, text, sizeof text, &size) == ATTUNE_REFUSED);
    CHECK(attune_c_version() == ATTUNE_C_VERSION && strchr(attune_version(), '.'));
}

static int releases = 0;
static void release(void* owner) { ++*(int*)owner; }

static void dlpack(void) {
    attune_tensor t = view(q), back;
    attune_argument argument;
    void* made = NULL;
    DLManagedTensor* managed;
    struct DLManagedTensorVersioned* versioned;
    CHECK(attune_tensor_to_dlpack(&t, 0, release, &releases, &made) == ATTUNE_OK);
    managed = (DLManagedTensor*)made;
    CHECK(managed->dl_tensor.data == q && managed->dl_tensor.ndim == 4 && managed->dl_tensor.strides[2] == depth);
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_OK);
    CHECK(back.data == q && back.rank == 4 && back.element == ATTUNE_F32 && !back.read_only && back.shape[2] == length);
    managed->dl_tensor.byte_offset = 16;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_OK && back.data == q + 4);
    managed->dl_tensor.device.device_type = kDLVulkan;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_REFUSED && strstr(attune_error_text(), "CPU") &&
          strstr(attune_error_text(), "Vulkan"));
    managed->dl_tensor.device.device_type = kDLCUDA, managed->dl_tensor.device.device_id = 2;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_OK && back.memory == ATTUNE_CUDA && back.device == 3 &&
          back.data == q + 4);
    managed->dl_tensor.device.device_type = kDLOpenCL;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_REFUSED && strstr(attune_error_text(), "16 bytes"));
    managed->dl_tensor.device.device_id = 0;
    managed->dl_tensor.device.device_type = kDLCPU;
    CHECK(attune_argument_from_dlpack("q", managed, 0, &argument) == ATTUNE_OK && strcmp(argument.name, "q") == 0 &&
          argument.kind == ATTUNE_TENSOR && argument.tensor.data == q + 4);
    managed->dl_tensor.dtype.bits = 64;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_REFUSED && strstr(attune_error_text(), "got f64;"));
    argument.name = "untouched";
    CHECK(attune_argument_from_dlpack("slopes", managed, 0, &argument) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "in slopes, got f64; try a copy with elements of f32"));
    CHECK(strcmp(argument.name, "untouched") == 0);
    CHECK(attune_argument_from_dlpack(NULL, managed, 0, &argument) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "a name"));
    CHECK(attune_argument_from_dlpack("q", managed, 0, NULL) == ATTUNE_REFUSED);
    managed->dl_tensor.dtype.bits = 32, managed->dl_tensor.dtype.lanes = 4;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "vectors of 4"));
    managed->dl_tensor.dtype.lanes = 1, managed->dl_tensor.ndim = 9;
    CHECK(attune_tensor_from_dlpack(managed, 0, &back) == ATTUNE_REFUSED && strstr(attune_error_text(), "axes"));
    CHECK(releases == 0);
    managed->deleter(managed);
    CHECK(releases == 1);

    t.read_only = 1;
    CHECK(attune_tensor_to_dlpack(&t, 0, release, &releases, &made) == ATTUNE_REFUSED && releases == 1);
    CHECK(attune_tensor_to_dlpack(&t, 1, NULL, NULL, &made) == ATTUNE_OK);
    versioned = (struct DLManagedTensorVersioned*)made;
    CHECK(versioned->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    CHECK(attune_tensor_from_dlpack(versioned, 1, &back) == ATTUNE_OK && back.read_only);
    versioned->version.major = 2;
    CHECK(attune_tensor_from_dlpack(versioned, 1, &back) == ATTUNE_REFUSED && strstr(attune_error_text(), "version"));
    versioned->deleter(versioned);
    CHECK(attune_tensor_from_dlpack(NULL, 0, &back) == ATTUNE_REFUSED);
    CHECK(attune_tensor_to_dlpack(NULL, 0, NULL, NULL, &made) == ATTUNE_REFUSED);
}

int main(void) {
    fill(q, count, 0.7), fill(k, key_count, 1.3), fill(v, key_count, 2.1);
    calls();
    threads();
    refusals();
    refused_options();
    answers();
    dlpack();
    if (failures == 0) printf("all is well with attune %s\n", attune_version());
    return failures == 0 ? 0 : 1;
}
