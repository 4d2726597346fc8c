#include "commands/draw_command.hpp"

#include "commands/schedule_option.hpp"
#include "commands/variant_named.hpp"
#include "kernel/kernel_list.hpp"

#include "base/formatting.hpp"
#include "kernel/kernel_request.hpp"

#include <attune/ir/recurrence.hpp>

#include <fstream>
#include <stdexcept>

namespace attune::generators::inline commands {
void draw_command::add_to(CLI::App& command) {
    command.add_option("--variant", variant_, "which variant, by its name or the last part of it; else the first");
    command.add_option("--queries", request_.queries, "query length; 256 unless an input says otherwise");
    command.add_option("--keys", request_.keys, "key length; as many as queries unless an input says otherwise");
    command.add_option("--heads", request_.heads, "query heads; 8 unless an input says otherwise");
    command.add_option("--key-heads", request_.key_heads, "key heads; as many as heads");
    command.add_option("--head", request_.head, "the head to draw");
    command.add_option("--batch", request_.batch, "the batch element to draw");
    command
        .add_option("--input", request_.inputs,
                    "an input: name=5 (everywhere), name=0*100,1*156 (along its last axis, over and over), "
                    "name=random(seed), name=FILE.safetensors[:tensor], or FILE.safetensors for all that it "
                    "holds; the others are made up")
        ->allow_extra_args(false);
    command.add_option("--scalar", scalars_, "a run-time number: name=256")->allow_extra_args(false);
    command.add_option("--product", product_, "the q . k at which scores are drawn; 0, or 1 where at 0 all are alike");
    command.add_flag("--blocks,!--no-blocks", style_.blocks,
                     "show which blocks the kernel skips and where it runs without mask; on by default");
    command.add_option("--target", target_, "the ISA level whose blocks are shown; else the first one built");
    command.add_option("--depth", depths_, "depth of q and k, or depth x depth of v; else the first one built");
    command.add_option(
        "--schedule", schedule_,
        "other blocks than the kernel's: a JSON object such as {\"query_block\": 24, \"key_block\": 32}");
    command.add_flag("--json", json_, "the values as JSON instead of the picture");
    command.add_option("--output", file_, "the file to write; else it is printed");
}

void draw_command::run(std::span<const variant> variants) const {
    const variant& v = variant_named(variants, variant_);
    if (has_recurrences(v.graph.nodes))
        throw std::runtime_error(v.name +
                                 ": a recurrence has no picture, for it masks no pair: a token sees every earlier "
                                 "one");
    draw_request request = request_;
    request.inputs.insert(request.inputs.end(), scalars_.begin(), scalars_.end());
    const depth_pair depths = depth_pair_from(depths_.empty() ? built_.depths.front() : depths_);
    request.depth = depths.depth, request.value_depth = depths.value_depth;
    kernel_request made{facts_of(v.graph),
                        element_types_from("f32"),
                        depths,
                        &level_named(target_.empty() ? built_.targets.front() : target_),
                        {}};
    made.schedule = default_prefill(made);
    if (!schedule_.empty()) made.schedule = schedule_for(v, made, schedule_, "--schedule");
    const picture drawn = picture_of(v, made, request, product_);
    const std::string text = json_ ? json_of(drawn) : svg_of(drawn, style_);
    if (file_.empty()) {
        fmt::print("{}", text);
        return;
    }
    std::ofstream out(file_);
    out << text;
    if (!out.flush()) throw std::runtime_error("expected a file that can be written, got \"" + file_ + "\"");
}

}  // namespace attune::generators::inline commands
