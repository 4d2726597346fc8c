#include "base/text.hpp"
#include "call/bind/bind.hpp"
#include "execution/device_call.hpp"

#include <attune/runtime/detail/call.hpp>
#include <attune/runtime/error.hpp>

#include <algorithm>

namespace attune::detail {
namespace {

/// The GPU target whose queue is meant: the one asked for, else the only one that is linked. Empty where calls are done
/// when they return.
std::string_view target_of_queue(const kernel_table& table, const options& how) {
    std::string_view by;
    if (const std::string_view asked = forced_target(how, by); !asked.empty()) {
        const bool linked =
            std::any_of(table.kernels.begin(), table.kernels.end(), [&](const kernel& k) { return asked == k.target; });
        if (!linked)
            fail(say("a target of the linked kernels of ", table.variant, " in ", by), std::string(asked),
                 "the target of the calls to wait for");
        return is_device(asked) ? asked : std::string_view();
    }
    std::string_view only;
    for (const kernel& k : table.kernels) {
        if (!is_device(k.target) || only == k.target) continue;
        if (!only.empty())
            fail(say("the GPU target whose calls are to be waited for, since ", table.variant, " has kernels for ",
                     only, " and ", k.target),
                 "none", "attune::options::target");
        only = k.target;
    }
    return only;
}

}  // namespace

void synchronize(const kernel_table& table, const options& how) {
    check_version(table);
    const std::string_view target = target_of_queue(table, how);
    if (target.empty()) return;
    const auto its =
        std::find_if(table.kernels.begin(), table.kernels.end(), [&](const kernel& k) { return target == k.target; });
    std::string_view by;
    if (const std::string lacks = missing_here(table, *its, this_cpu()); !lacks.empty()) {
        if (forced_target(how, by).empty()) return;  // nothing can have been queued
        fail(say("a machine that runs ", target, " kernels, as ", by, " asks"), say("one that lacks ", lacks),
             "a target that runs here");
    }
    table.devices->synchronize(
        {.target = its->target, .device = how.device, .context = how.context, .stream = how.stream});
}

}  // namespace attune::detail
