#pragma once
#include "problem.hpp"

#include <attune/runtime.hpp>

#include <functional>
#include <string>

/// What every example's main shares: options, data, check, timing and the table. The example itself is its header and
/// its call.
namespace attune::examples {

struct setup {
    std::string name;                    ///< of the program
    graph_ir graph;                      ///< ir_of<the variant>
    std::string golden;                  ///< stem of the committed file that it reads; empty: it has none
    std::function<void(problem&)> fill;  ///< adds the variant's own inputs to random q, k and v; empty: it has none
};

/// A variant with its arguments bound.
struct bound {
    std::function<void()> run;
    std::function<explanation()> explain;
};

/// Runs the example on its file and on a large random shape, or on what the command line says; prints a row of the
/// table for each. Returns 0, 1 if a result is wrong, 2 if the command line or an input is.
int run_example(int argc, char** argv, const setup& what, const std::function<bound(problem&)>& bind);

/// As above; `prepare` returns attune::prepare<variant>(...).
template <class Prepare> int run(int argc, char** argv, const setup& what, Prepare prepare) {
    return run_example(argc, argv, what, [&](problem& p) {
        auto call = prepare(p);
        return bound{[call] { call(); }, [call] { return call.explain(); }};
    });
}

}  // namespace attune::examples
