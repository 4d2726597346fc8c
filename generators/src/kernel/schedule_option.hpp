#pragma once
#include "kernel/schedule.hpp"

namespace attune::generators {

/// `base` with the fields that `text` names: a JSON object as in schedule.hpp, or some of its fields, such as
/// {"key_block": 32}; `base` itself where `text` is empty. Throws std::runtime_error, a sentence, for anything else.
schedule schedule_with(const schedule& base, const std::string& text);

}  // namespace attune::generators
