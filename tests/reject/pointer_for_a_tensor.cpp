// rejects: an argument is neither a number nor an attune::tensor; try attune::tensor(pointer, {shape})
#include "call.hpp"

void call(attune::tensor x) {
    using namespace my;
    float values[4]{};
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = values, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = attune::tensor(values, {4}), w = 3, out = x);
#endif
}
