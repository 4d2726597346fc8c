/* A rank's part of a call of sharded::documents_shard, and the same in plain loops and double precision. */
#include <math.h>
#include <stdlib.h>

#include "c_ranks.h"

int32_t document[tokens];

/* An element of a tensor of the whole, so that no rank has to have all of it. */
static double value(int tensor, double step, int head, int64_t token, int64_t at) {
    return (float)sin(step * (1.0 + tensor) * ((head * 1000.0 + (double)token) * 40.0 + (double)at));
}

attune_argument document_argument(void) {
    static const int64_t shape[] = {tokens};
    return attune_tensor_argument("document", attune_dense(document, ATTUNE_I32, 1, shape));
}

attune_mpi_planning planning_of_prefill(const attune_variant* const* variant) {
    attune_mpi_planning what;
    memset(&what, 0, sizeof what);
    what.size = sizeof what;
    what.variants = variant, what.variant_count = 1;
    what.heads = heads, what.key_heads = key_heads, what.tokens = tokens;
    return what;
}

static void* memory(int64_t elements) { return malloc((size_t)(elements + 1) * sizeof(float)); }

void make_prefill(prefill* made, attune_mpi_layout* layout, double step) {
    size_t count = 0;
    int64_t n;
    memset(made, 0, sizeof *made);
    made->layout = layout;
    CHECK(attune_mpi_positions(layout, &made->positions, &count) == ATTUNE_OK);
    n = made->rows = (int64_t)count;
    made->q_shape[0] = made->k_shape[0] = made->row_shape[0] = 1;
    made->q_shape[1] = made->row_shape[1] = heads, made->k_shape[1] = key_heads;
    made->q_shape[2] = made->k_shape[2] = made->bias_shape[0] = made->row_shape[2] = n;
    made->q_shape[3] = made->k_shape[3] = depth, made->bias_shape[1] = tokens;
    made->q = memory(heads * n * depth), made->out = memory(heads * n * depth);
    made->k = memory(key_heads * n * depth), made->v = memory(key_heads * n * depth);
    made->bias = memory(n * tokens), made->lse = memory(heads * n), made->top = memory(heads * n);
    made->list[0] = attune_tensor_argument("q", attune_dense(made->q, ATTUNE_F32, 4, made->q_shape));
    made->list[1] = attune_tensor_argument("k", attune_dense(made->k, ATTUNE_F32, 4, made->k_shape));
    made->list[2] = attune_tensor_argument("v", attune_dense(made->v, ATTUNE_F32, 4, made->k_shape));
    made->list[3] = attune_tensor_argument("bias", attune_dense(made->bias, ATTUNE_F32, 2, made->bias_shape));
    made->list[4] = document_argument();
    made->list[5] = attune_tensor_argument("out", attune_dense(made->out, ATTUNE_F32, 4, made->q_shape));
    made->list[6] = attune_tensor_argument("lse", attune_dense(made->lse, ATTUNE_F32, 3, made->row_shape));
    made->list[7] = attune_tensor_argument("top", attune_dense(made->top, ATTUNE_F32, 3, made->row_shape));
    fill_prefill(made, step);
    poison_prefill(made);
}

void fill_prefill(prefill* made, double step) {
    int64_t row, d;
    int h;
    for (row = 0; row < made->rows; ++row) {
        const int64_t token = made->positions[row];
        for (d = 0; d < depth; ++d) {
            for (h = 0; h < heads; ++h)
                made->q[(h * made->rows + row) * depth + d] = (float)value(0, step, h, token, d);
            for (h = 0; h < key_heads; ++h) {
                made->k[(h * made->rows + row) * depth + d] = (float)value(1, step, h, token, d);
                made->v[(h * made->rows + row) * depth + d] = (float)value(2, step, h, token, d);
            }
        }
        for (d = 0; d < tokens; ++d) made->bias[row * tokens + d] = (float)value(3, step, 0, token, d);
    }
}

void poison_prefill(prefill* made) {
    int64_t i;
    for (i = 0; i < heads * made->rows * depth; ++i) made->out[i] = -12345.0f;
    for (i = 0; i < heads * made->rows; ++i) made->lse[i] = made->top[i] = -12345.0f;
}

int is_untouched(const prefill* made) {
    int64_t i;
    for (i = 0; i < heads * made->rows * depth; ++i)
        if (made->out[i] != -12345.0f) return 0;
    for (i = 0; i < heads * made->rows; ++i)
        if (made->lse[i] != -12345.0f || made->top[i] != -12345.0f) return 0;
    return 1;
}

static void compare(double got, double expected, double* worst) {
    const double difference = fabs(got - expected) / (1 + fabs(expected));
    if (!(difference <= *worst)) *worst = difference;
}

/* The largest difference of a row's outputs, as a part of 1 + what is expected. */
static void compare_row(const prefill* made, double step, int h, int64_t row, double* worst) {
    const int key_head = h / (heads / key_heads);
    const int64_t token = made->positions[row];
    double weight[tokens], most = -1e300, sum = 0;
    int64_t j, d;
    for (j = 0; j <= token; ++j) {
        weight[j] = -1e300;
        if (document[j] != document[token]) continue;
        weight[j] = 0;
        for (d = 0; d < depth; ++d) weight[j] += value(0, step, h, token, d) * value(1, step, key_head, j, d);
        weight[j] = weight[j] / sqrt((double)depth) + value(3, step, 0, token, j);
        if (weight[j] > most) most = weight[j];
    }
    for (j = 0; j <= token; ++j) sum += weight[j] = weight[j] > -1e299 ? exp(weight[j] - most) : 0;
    for (d = 0; d < depth; ++d) {
        double out = 0;
        for (j = 0; j <= token; ++j) out += weight[j] / sum * value(2, step, key_head, j, d);
        compare(made->out[(h * made->rows + row) * depth + d], out, worst);
    }
    compare(made->lse[h * made->rows + row], most + log(sum), worst);
    compare(made->top[h * made->rows + row], most, worst);
}

double error_of_prefill(const prefill* made, double step) {
    double worst = 0;
    int64_t row;
    int h;
    for (h = 0; h < heads; ++h)
        for (row = 0; row < made->rows; ++row) compare_row(made, step, h, row, &worst);
    return worst;
}

void free_prefill(prefill* made) {
    free(made->q), free(made->k), free(made->v), free(made->bias), free(made->out), free(made->lse), free(made->top);
    attune_mpi_free_layout(made->layout);
}
