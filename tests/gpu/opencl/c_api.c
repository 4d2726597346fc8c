/* Tensors in OpenCL buffers as a C99 program passes them: through attune/c.h and through DLPack, asynchronously, and
   what is refused. What comes back is compared with the same call of tensors in the host's memory, bit by bit, and that
   with double precision. */
#include <attune/dlpack.h>
#include <under_test_opencl.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

enum { heads = 2, length = 45, depth = 32, count = heads * length * depth, rows = heads * length };
static float q[count], k[count], v[count], out[count], back[count], lse[rows], lse_back[rows];
static const int64_t shape[] = {1, heads, length, depth}, row_shape[] = {1, heads, length};
static int failures = 0;

#define CHECK(truth) check((truth) != 0, #truth, __LINE__)
static void check(int truth, const char* text, int line) {
    if (truth) return;
    printf("FAILED  %s:%d  %s  (%s)\n", __FILE__, line, text, attune_error_text());
    ++failures;
}

/* What is called of OpenCL; no header of it is needed. */
static int32_t (*get_platforms)(uint32_t, void**, uint32_t*);
static int32_t (*get_devices)(void*, uint64_t, uint32_t, void**, uint32_t*);
static void* (*create_context)(const intptr_t*, uint32_t, void* const*, void*, void*, int32_t*);
static void* (*create_queue)(void*, void*, uint64_t, int32_t*);
static void* (*create_buffer)(void*, uint64_t, size_t, void*, int32_t*);
static int32_t (*write_buffer)(void*, void*, uint32_t, size_t, size_t, const void*, uint32_t, const void*, void*);
static int32_t (*read_buffer)(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, const void*, void*);
static void *context, *queue;

static void find(void* library, const char* name, void* function) {
    void* const found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

static void open_device(void) {
    void* const library = dlopen("libOpenCL.so.1", RTLD_LAZY);
    void *platform = NULL, *device = NULL;
    int32_t code = 0;
    find(library, "clGetPlatformIDs", &get_platforms);
    find(library, "clGetDeviceIDs", &get_devices);
    find(library, "clCreateContext", &create_context);
    find(library, "clCreateCommandQueue", &create_queue);
    find(library, "clCreateBuffer", &create_buffer);
    find(library, "clEnqueueWriteBuffer", &write_buffer);
    find(library, "clEnqueueReadBuffer", &read_buffer);
    CHECK(get_platforms(1, &platform, NULL) == 0 && get_devices(platform, 0xffffffffu, 1, &device, NULL) == 0);
    context = create_context(NULL, 1, &device, NULL, NULL, &code);
    CHECK(code == 0);
    queue = create_queue(context, device, 0, &code);
    CHECK(code == 0);
}

static void* buffer_of(const float* values, size_t floats) {
    int32_t code = 0;
    void* const made = create_buffer(context, 1, floats * sizeof(float), NULL, &code);
    CHECK(code == 0);
    CHECK(write_buffer(queue, made, 1, 0, floats * sizeof(float), values, 0, NULL, NULL) == 0);
    return made;
}
static void read_from(void* buffer, float* to, size_t floats) {
    CHECK(read_buffer(queue, buffer, 1, 0, floats * sizeof(float), to, 0, NULL, NULL) == 0);
}

static void fill(float* to, double step) {
    int i;
    for (i = 0; i < count; ++i) to[i] = (float)sin(step * (i + 1));
}
static void poison(float* to, int n) {
    int i;
    for (i = 0; i < n; ++i) to[i] = -12345.0f;
}

static double error_of_output(double scale) {
    double worst = 0;
    int h, i, j, d;
    for (h = 0; h < heads; ++h)
        for (i = 0; i < length; ++i) {
            double weight[length], sum = 0;
            for (j = 0; j < length; ++j) {
                weight[j] = 0;
                for (d = 0; d < depth; ++d)
                    weight[j] += (double)q[(h * length + i) * depth + d] * (double)k[(h * length + j) * depth + d];
                sum += weight[j] = exp(weight[j] * scale);
            }
            if (!(fabs(log(sum) - (double)lse[h * length + i]) <= worst))
                worst = fabs(log(sum) - (double)lse[h * length + i]);
            for (d = 0; d < depth; ++d) {
                double o = 0;
                for (j = 0; j < length; ++j) o += weight[j] / sum * (double)v[(h * length + j) * depth + d];
                o = fabs(o - (double)out[(h * length + i) * depth + d]);
                if (!(o <= worst)) worst = o;
            }
        }
    return worst;
}

int main(void) {
    under_test_plain_arguments host, there;
    attune_options how;
    DLManagedTensor* managed;
    void* made = NULL;
    attune_tensor spoilt;
    fill(q, 0.7), fill(k, 1.3), fill(v, 2.1), poison(out, count), poison(lse, rows);
    memset(&host, 0, sizeof host), memset(&how, 0, sizeof how);
    how.size = sizeof how, how.target = "opencl";
    host.q = attune_dense(q, ATTUNE_F32, 4, shape), host.k = attune_dense(k, ATTUNE_F32, 4, shape),
    host.v = attune_dense(v, ATTUNE_F32, 4, shape);
    host.out = attune_dense(out, ATTUNE_F32, 4, shape), host.lse = attune_dense(lse, ATTUNE_F32, 3, row_shape);
    host.scale = 0.2f;
    if (under_test_plain_run(&host, &how) == ATTUNE_REFUSED && strstr(attune_error_text(), "lacks")) {
        printf("skipped: %s\n", attune_error_text());
        return 4;
    }
    CHECK(error_of_output(0.2) < 2e-5);

    open_device();
    there = host;
    there.q = attune_on_device(attune_dense(buffer_of(q, count), ATTUNE_F32, 4, shape), ATTUNE_OPENCL, 0);
    there.k = attune_on_device(attune_dense(buffer_of(k, count), ATTUNE_F32, 4, shape), ATTUNE_OPENCL, 0);
    there.v = attune_on_device(attune_dense(buffer_of(v, count), ATTUNE_F32, 4, shape), ATTUNE_OPENCL,
                               -1); /* one that is not said */
    poison(back, count), poison(lse_back, rows);
    there.out = attune_on_device(attune_dense(buffer_of(back, count), ATTUNE_F32, 4, shape), ATTUNE_OPENCL, 0);
    there.lse = attune_on_device(attune_dense(buffer_of(lse_back, rows), ATTUNE_F32, 3, row_shape), ATTUNE_OPENCL, 0);
    how.target = NULL, how.context = context, how.stream = queue, how.asynchronous = 1;
    CHECK(under_test_plain_run(&there, &how) == ATTUNE_OK);
    CHECK(attune_synchronize(under_test_plain_variant(), &how) == ATTUNE_OK);
    read_from(there.out.data, back, count), read_from(there.lse.data, lse_back, rows);
    CHECK(memcmp(back, out, sizeof out) == 0 && memcmp(lse_back, lse, sizeof lse) == 0);

    /* Through DLPack, with an output in each memory. */
    CHECK(attune_tensor_to_dlpack(&there.v, 0, NULL, NULL, &made) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "on which device"));
    CHECK(attune_tensor_to_dlpack(&there.q, 0, NULL, NULL, &made) == ATTUNE_OK);
    managed = (DLManagedTensor*)made;
    CHECK(managed->dl_tensor.device.device_type == kDLOpenCL && managed->dl_tensor.device.device_id == 0 &&
          managed->dl_tensor.data == there.q.data);
    CHECK(attune_tensor_from_dlpack(managed, 0, &there.q) == ATTUNE_OK && there.q.memory == ATTUNE_OPENCL &&
          there.q.device == 1);
    poison(back, count), poison(lse_back, rows);
    there.out = attune_on_device(attune_dense(buffer_of(back, count), ATTUNE_F32, 4, shape), ATTUNE_OPENCL, 0);
    there.lse = attune_dense(lse_back, ATTUNE_F32, 3, row_shape);
    CHECK(under_test_plain_run(&there, &how) == ATTUNE_OK);
    CHECK(memcmp(lse_back, lse, sizeof lse) == 0); /* memory of the host is there when the call returns */
    read_from(there.out.data, back, count);
    CHECK(memcmp(back, out, sizeof out) == 0);

    poison(lse_back, rows);
    how.device = 100;
    CHECK(under_test_plain_run(&there, &how) == ATTUNE_REFUSED &&
          strstr(attune_error_text(), "expected device 99 for q"));
    how.device = 0, how.stream = NULL;
    CHECK(under_test_plain_run(&there, &how) == ATTUNE_REFUSED && strstr(attune_error_text(), "command queue"));
    how.context = NULL;
    CHECK(under_test_plain_run(&there, &how) == ATTUNE_REFUSED && strstr(attune_error_text(), "context"));
    how.context = context, how.stream = queue;
    spoilt = there.k, there.k.memory = ATTUNE_CUDA;
    CHECK(under_test_plain_run(&there, &how) == ATTUNE_REFUSED && strstr(attune_error_text(), "got memory of cuda"));
    there.k = spoilt;
    CHECK(lse_back[0] == -12345.0f);
    managed->deleter(managed);
    if (failures == 0) printf("tensors in OpenCL buffers, from C\n");
    return failures == 0 ? 0 : 1;
}
