#pragma once
#include <attune/mpi/call.hpp>
#include <attune/mpi/states.hpp>
#include <attune/mpi/tree.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace attune::mpi::detail {

/// Few queries, which all ranks have. Each rank computes with its own keys, and a tree joins the results. Keys do not
/// travel.
class tree_call final : public call_over_ranks {
public:
    tree_call(context& world, const layout& plan, const kernel_table& table, std::span<const named_argument> given,
              const attune::options& how, bool poison);

    traffic run() override;

private:
    using numbers = std::shared_ptr<float[]>;
    numbers memory_of(std::size_t states) const;
    void prepare_parts(const arguments& common, const attune::options& how);
    void compute(waiting_states<numbers>& mine);
    void add(waiting_states<numbers>& mine, const branch& at, numbers state) const;
    request receive(int from, int part, const numbers& to, std::size_t states);
    request send(int to, int part, const numbers& from, std::size_t states);

    const output_states states_;
    const bool poison_;
    traffic done_;  // of the call that is made
    std::vector<std::int32_t> query_positions_;
    std::vector<tensor> outputs_, of_part_;                               // the caller's, and what a kernel writes
    std::vector<std::shared_ptr<const attune::detail::prepared>> calls_;  // of each part
};

}  // namespace attune::mpi::detail
