// rejects: a variant must end in an output, such as softmax(scores) * v; this graph stops before
#include "call.hpp"

void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<scores>(q = x, k = x, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}
