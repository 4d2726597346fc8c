// rejects: a number is passed where this variant reads a tensor
#include "call.hpp"

void call(attune::tensor x) {
    using namespace my;
#ifdef REJECT
    attune::run<variant>(q = x, k = x, v = x, slopes = 0.5, w = 3, out = x);
#else
    attune::run<variant>(q = x, k = x, v = x, slopes = x, w = 3, out = x);
#endif
}
