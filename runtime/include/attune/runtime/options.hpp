#pragma once
#include <string_view>

namespace attune {

/// How one call is to run; given anywhere among its arguments: `run<G>(q = Q, ..., attune::options{.threads = 2})`.
struct options {
    int threads = 0;            ///< at most so many; 0: attune::threads()
    std::string_view target{};  ///< the ISA level; empty: ATTUNE_TARGET, else the most demanding one that is linked and runs
    bool deterministic = false; ///< bits that depend on neither batch nor threads; true of every kernel today, whatever is set here
};

}  // namespace attune
