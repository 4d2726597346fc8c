#pragma once
#include <attune/runtime/threads.hpp>

#include <functional>

namespace language_model {

/// Loops of attune on the threads of oneDNN, which spin while they wait. For what is compiled with OpenMP.
inline void use_threads_of_products() {
    attune::set_parallel_for([](int count, int threads, const std::function<void(int)>& task) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int i = 0; i < count; ++i) task(i);
    });
}

}  // namespace language_model
