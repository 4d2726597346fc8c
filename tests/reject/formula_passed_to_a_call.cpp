// rejects: a call passes tensors and numbers; a formula belongs to the graph
#include "call.hpp"

void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = alibi_slope, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}
