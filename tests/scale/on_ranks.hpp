#pragma once
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <memory>

#include "local_transport.hpp"
#include "ranks.hpp"

/// run_local, as a check of its own: what a rank finds wrong it throws.
inline void on_ranks(int ranks, const attune::mpi::local_script& script,
                     const std::function<void(std::unique_ptr<attune::mpi::transport>)>& work) {
    CHECK_NOTHROW(attune::mpi::run_local(ranks, script, work));
}
