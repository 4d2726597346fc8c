#pragma once
#include "kernel/kernel_list.hpp"

namespace attune::generators::inline commands {

/// The request's schedule with the fields that `text` names: a JSON object as in schedule.hpp, or some of its fields,
/// such as {"key_block": 32}; the schedule itself where `text` is empty. Throws std::runtime_error, a sentence, for
/// anything else.
schedule schedule_with(const kernel_request& request, const std::string& text);

/// What such a text says it is for (schedule.hpp): "prefill" where it does not say.
std::string_view purpose_named(const std::string& text);

/// The same, checked for the request. What is thrown names the graph and the option that said it.
schedule schedule_for(const variant& of, const kernel_request& request, const std::string& text,
                      const std::string& option);

/// Kernels under another schedule: the fields that a JSON object names, of the kernels that it says it is for or of
/// those for prefill.
void use_schedule(std::vector<listed_kernel>& kernels, const std::string& fields);

}  // namespace attune::generators::inline commands
