#include <algorithm>
#include <attune/mpi/transport.hpp>
#include <chrono>
#include <thread>

namespace attune::mpi {

double transport::now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void transport::idle(int times, double until) {
    // A message over shared memory takes microseconds, and a long one gets on while both sides ask; but there may be
    // more ranks than cores.
    if (times < 4096)
        std::this_thread::yield();
    else
        std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(until - now(), 0.0, 2e-4)));
}

}  // namespace attune::mpi
