// rejects: a call takes arguments by name: run<variant>(q = Q, k = K, v = V, out = O)
#include "call.hpp"

void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(x, x, x, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}
