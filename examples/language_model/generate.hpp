#pragma once
#include "model.hpp"

#include <functional>

namespace language_model {

/// A prompt, and then what the model says.
struct sequence {
    std::vector<std::int32_t> tokens;
    std::size_t prompt;  ///< tokens of the prompt
    bool done = false;
};

struct limits {
    std::size_t tokens;      ///< that each sequence says at most
    std::size_t drafts = 0;  ///< tokens that are guessed a step; the same text in fewer steps
};

/// What a run took.
struct spent {
    double prompt = 0, prompt_attention = 0;                         ///< seconds of the step that reads the prompts
    double generation = 0, generation_attention = 0;                 ///< and of those that follow
    std::size_t prompt_tokens = 0, generated_tokens = 0, steps = 0;  ///< tokens and steps of generation
};

/// Reads all prompts in one step, then takes the likeliest token of each sequence, step by step, until each has said
/// as many as the limit or one that ends it. Calls `said` with each.
spent generate(const model& of, cache& past, std::span<sequence> all, const limits& limit,
               const std::function<bool(std::int32_t token)>& ends,
               const std::function<void(std::size_t sequence, std::int32_t token)>& said);

}  // namespace language_model
