#pragma once
#include "kernel/kernel_list.hpp"

namespace attune::generators {

/// `base` with the fields that `text` names: a JSON object as in schedule.hpp, or some of its fields, such as
/// {"key_block": 32}; `base` itself where `text` is empty. Throws std::runtime_error, a sentence, for anything else.
schedule schedule_with(const schedule& base, const std::string& text);

/// The kernel's schedule with those fields, checked for it. What is thrown names the graph and the option that said it.
schedule schedule_for(const listed_kernel& kernel, const std::string& text, const std::string& option);

}  // namespace attune::generators
