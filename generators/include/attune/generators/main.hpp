#pragma once
#include <attune/ir/graph_ir.hpp>

#include <span>
#include <string>
#include <vector>

/// The only entry of a generator program. `attune_add_variant` writes its main.cpp: it includes the variant header,
/// lists the variants and makes this call. Nothing here includes Halide.
namespace attune::generators {

/// A graph under the name that its users type.
struct variant {
    std::string name;  ///< "my::alibi"
    graph_ir graph;    ///< attune::dsl::ir_of<my::alibi>
};

/// The request of attune_add_variant. `explain` shows this unless options say otherwise.
struct build_request {
    std::vector<std::string> targets, dtypes{"f32"}, depths{"64", "128"}, shapes{"prefill"};
    std::string schedules{};   ///< the folder of measured schedules, a file for each CPU; none if empty
    std::string tuned_into{};  ///< the folder of schedules that `tune` updates; none if empty
    std::string tuned_for{};   ///< whose schedules: a file's name without .json, "native", "model" (the cost model's
                               ///< choices) or "generic" (the defaults)
    bool finite{};             ///< no element read below kv_lengths is NaN or infinite: kernels need not look
    std::string f32_products{"f32"};  ///< how CUDA multiplies f32: "f32", or by tensor cores "tf32", "3xtf32"
};

/// Subcommands `emit`, `explain`, `plan`, `describe`, `draw`, `bench`, `tune` and `merge`, each with `--help`. Returns
/// 0, or 1 after a sentence on stderr that names the fault of the arguments or the part of a graph that cannot be
/// compiled. Writes only the files named on the command line.
int generator_main(int argc, char** argv, std::span<const variant> variants, const build_request& built);

}  // namespace attune::generators
