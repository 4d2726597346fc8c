#pragma once
#include "kernel/kernel_list.hpp"

namespace attune::generators::inline commands {

/// The request's schedule with the fields that `text` names: a JSON object as in schedule.hpp, or some of its fields,
/// such as {"key_block": 32}; the schedule itself if `text` is empty. Throws std::runtime_error, a sentence, for
/// anything else.
schedule schedule_with(const kernel_request& request, const std::string& text);

/// The purpose of such a text (schedule.hpp): "prefill" if it names none.
std::string_view purpose_named(const std::string& text);

/// The same, checked for the request. Exceptions name the graph and the option.
schedule schedule_for(const variant& of, const kernel_request& request, const std::string& text,
                      const std::string& option);

/// Kernels under another schedule, with the fields that a JSON object names: the kernels of the object's purpose, or
/// those for prefill.
void use_schedule(std::vector<listed_kernel>& kernels, const std::string& fields);

}  // namespace attune::generators::inline commands
