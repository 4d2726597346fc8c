// Calls: arguments, their names and kinds.
#include "call.hpp"

// --- argument_without_a_name
// rejects: a call takes arguments by name: run<variant>(q = Q, k = K, v = V, out = O)
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(x, x, x, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- call_of_scores
// rejects: a variant must end in an output, such as softmax(scores) * v; this graph stops before
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<scores>(q = x, k = x, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- formula_passed_to_a_call
// rejects: a call passes tensors and numbers; a formula belongs to the graph
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = alibi_slope, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- input_left_out
// rejects: the call leaves out inputs or outputs of this variant
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- input_never_read
// rejects: the call passes something that this variant never reads
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, doc = x, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- input_passed_twice
// rejects: the call passes something twice
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, q = x, k = x, v = x, slopes = x, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- key_lengths_that_are_a_number
// rejects: a number is passed where this variant reads a tensor
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, kv_lengths = 5, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, kv_lengths = x, out = x);
#endif
}

// --- number_for_a_tensor
// rejects: a number is passed where this variant reads a tensor
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = 0.5, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- output_left_out
// rejects: the call leaves out inputs or outputs of this variant
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- pointer_for_a_tensor
// rejects: an argument is neither a number nor an attune::tensor; try attune::tensor(pointer, {shape})
void call(attune::tensor x) {
    using namespace my;
    float values[4]{};
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = values, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = attune::tensor(values, {4}), w = 3, out = x);
#endif
}

// --- real_for_an_integer_scalar
// rejects: an i32 scalar takes an integer
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 2.5, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}

// --- tensor_for_a_scalar
// rejects: a scalar of this variant is passed something else than its kind of number
void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = x, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}
