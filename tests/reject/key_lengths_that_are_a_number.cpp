// rejects: a number is passed where this variant reads a tensor
#include "call.hpp"

void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, kv_lengths = 5, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, kv_lengths = x, out = x);
#endif
}
