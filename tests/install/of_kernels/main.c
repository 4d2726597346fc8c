/* Every value is 1, so that every output must be 1 too. */
#include <my_kernels.h>

#include <math.h>
#include <stdio.h>

enum { heads = 4, length = 100, depth = 64, count = heads * length * depth };
static float q[count], k[count], v[count], out[count];

int main(void) {
    const int64_t shape[] = {1, heads, length, depth}, heads_shape[] = {heads};
    float slopes[heads] = {0.5f, 0.25f, 0.125f, 0.0625f}, error = 0;
    my_attention_arguments given;
    int i;
    for (i = 0; i < count; ++i) q[i] = sinf(0.1f * (float)i), k[i] = cosf(0.2f * (float)i), v[i] = 1;
    memset(&given, 0, sizeof given);
    given.q = attune_dense(q, ATTUNE_F32, 4, shape);
    given.k = attune_dense(k, ATTUNE_F32, 4, shape);
    given.v = attune_dense(v, ATTUNE_F32, 4, shape);
    given.slopes = attune_dense(slopes, ATTUNE_F32, 1, heads_shape);
    given.out = attune_dense(out, ATTUNE_F32, 4, shape);
    if (my_attention_run(&given, NULL) != ATTUNE_OK) {
        puts(attune_error_text());
        return 1;
    }
    for (i = 0; i < count; ++i) error = fmaxf(error, fabsf(out[i] - 1));
    printf("attune %s from C; largest error %.1e\n", attune_version(), (double)error);
    return error < 1e-5f ? 0 : 1;
}
