#include "call/bind/bind.hpp"
#include "call/bind/slot.hpp"
#include "execution/device_call.hpp"

#include <attune/ir/stores.hpp>

#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

namespace attune::detail {

void bound_call::run_on_device(const lent& with, int threads, launched what, bool is_last) const {
    scratch first(first_bytes);
    std::pmr::monotonic_buffer_resource memory(first.data(), first.data() ? first_bytes : 0);
    std::pmr::vector<halide_buffer_t*> buffers(&memory);
    std::pmr::vector<std::string_view> names(&memory);
    const auto add = [&](void* buffer, std::string_view name) {
        buffers.push_back(static_cast<halide_buffer_t*>(buffer)), names.push_back(name);
    };
    const graph_ir& graph = table_.graph;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
        if (!graph.inputs[i].is_scalar) add(with.argv[1 + i], graph.inputs[i].name);
    add(with.argv[1 + graph.inputs.size()], "kv_lengths");
    const std::size_t made = graph.outputs.size(), kept = with.kept.size();
    const std::span<void*> written = with.argv.last(made + kept);
    for (std::size_t i = 0; i < written.size(); ++i) add(written[i], i < made ? graph.outputs[i].name : "");
    const std::size_t passed = buffers.size();
    const bool stores = chosen().stores && what != launched::reads;
    if (stores)
        each_stored(graph, [&](std::size_t input) {
            if (const tensor& t = given_.inputs[input]->view; t.where() == memory::host && !t.empty())
                buffers.push_back(static_cast<halide_buffer_t*>(with.argv[1 + input]));
        });
    const std::span all = std::span(buffers).first(passed);
    scratch of_stores;
    device_call call{.target = chosen().target,
                     .kernel = what == launched::stores ? nullptr : chosen().call,
                     .argv = with.argv.data(),
                     .stores = stores ? chosen().stores : nullptr,
                     .stores_argv = stores ? arguments_of_stores(with.argv, of_stores) : nullptr,
                     .inputs = all.first(all.size() - made - kept),
                     .outputs = all.last(made + kept).first(what == launched::stores ? 0 : made),
                     .stored = std::span(buffers).subspan(passed),
                     .kept = all.last(kept),
                     .names = names,
                     .device = device_,
                     .context = how_.context,
                     .stream = how_.stream,
                     .wait = how_.wait && is_last,
                     .keeps_scratch = most_splits_ != 0};
    void* arguments[] = {nullptr, &call};
    table_.invoke(table_.devices->launch, arguments, threads, tasks(), nullptr);
}

}  // namespace attune::detail
