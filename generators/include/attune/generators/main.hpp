#pragma once
#include <attune/ir/graph_ir.hpp>

#include <span>
#include <string>
#include <vector>

/// The one entry of a generator program. `attune_add_variant` writes its main.cpp: the variant header, a list of
/// `variant`, this call. Nothing here includes Halide.
namespace attune::generators {

/// A graph under the name that its users type.
struct variant {
    std::string name;  ///< "my::alibi"
    graph_ir graph;    ///< attune::dsl::ir_of<my::alibi>
};

/// What attune_add_variant was asked to compile: what `explain` shows unless it is told otherwise.
struct build_request {
    std::vector<std::string> targets, dtypes{"f32"}, depths{"64", "128"}, shapes{"prefill"};
    std::string schedules{};   ///< the folder of measured schedules, a file a CPU; none if empty
    std::string tuned_into{};  ///< the folder of schedules that `tune` updates; none if empty
    std::string tuned_for{};   ///< whose: a file's name without .json, "native", "model" (what the cost model says) or
                               ///< "generic" (the defaults)
};

/// Subcommands `emit`, `explain`, `describe`, `draw`, `bench`, `tune` and `merge`, each with `--help`. Returns 0, or 1
/// after one sentence on stderr that says what was wrong with the arguments or which part of a graph cannot be
/// compiled. Writes only the files named on the command line.
int generator_main(int argc, char** argv, std::span<const variant> variants, const build_request& built);

}  // namespace attune::generators
