/* What the tests in C check with, and the numbers that they are called on. */
#ifndef ATTUNE_TESTS_C_CHECKS_H
#define ATTUNE_TESTS_C_CHECKS_H
#include <attune/c.h>

#include <math.h>
#include <stdio.h>

static int failures = 0;

#define CHECK(truth) check((truth) != 0, #truth, __FILE__, __LINE__)
static inline void check(int truth, const char* text, const char* file, int line) {
    if (truth) return;
    printf("FAILED  %s:%d  %s  (%s)\n", file, line, text, attune_error_text());
    ++failures;
}

static inline void fill(float* to, int count, double step) {
    int i;
    for (i = 0; i < count; ++i) to[i] = (float)sin(step * (i + 1));
}

/* What no call writes, so that `is_untouched` tells whether one wrote. */
static inline void poison(float* to, int count) {
    int i;
    for (i = 0; i < count; ++i) to[i] = -12345.0f;
}
static inline int is_untouched(const float* of, int count) {
    int i;
    for (i = 0; i < count; ++i)
        if (of[i] != -12345.0f) return 0;
    return 1;
}
#endif
