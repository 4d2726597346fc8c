#pragma once
#include <attune/runtime/threads.hpp>

#include <string_view>

namespace attune {

/// How one call is to run; given anywhere among its arguments: `run<G>(q = Q, ..., attune::options{.threads = 2})`.
struct options {
    int threads = 0;            ///< at most so many; 0: attune::threads()
    std::string_view target{};  ///< the ISA level; empty: ATTUNE_TARGET, else the most demanding one that is linked and runs
    /// Bits that depend on neither the batch nor the number of threads. ATTUNE_DETERMINISTIC=1 asks for it too. It costs nothing and changes nothing: no
    /// kernel splits its keys over threads, so that all results are such. A kernel that did would not be chosen under it.
    bool deterministic = false;
    const parallel_for* pool = nullptr;  ///< runs the tasks of this call, and lives until it returns; null: what set_parallel_for was given, else attune's threads
};

}  // namespace attune
