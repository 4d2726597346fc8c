#include "analysis/gradient_products.hpp"

namespace attune::generators::inline analysis {
namespace {

/// Finds the rows of a term, and their other factor.
class product_reader {
public:
    product_reader(const graph_ir& graph, const std::vector<dependence>& depends, const gradient_plan& plan,
                   const gradient_term& term)
        : graph_(graph), depends_(depends), plan_(plan), term_(term) {}

    std::optional<gradient_product> read() {
        if (term_.is != gradient_term::form::placed) return {};
        if (!term_.sums.empty() && term_.added_first < 0) {
            const gradient_sum& sum = plan_.sums[term_.sums.begin()->second];
            for (const auto& [node, number] : term_.sums)
                if (plan_.sums[number].channel != sum.channel) return {};
            if (sum.channel < 0) return {};
            return product_along(sum.channel, sum.of_values);
        }
        for (const counted_index& each : term_.over)
            if (const operation extent = node(each.extent).op;
                extent == operation::depth || extent == operation::value_depth)
                if (const auto made =
                        product_along(static_cast<int>(node(each.index).integer), extent == operation::value_depth))
                    return made;
        return {};
    }

private:
    const instruction& node(int n) const { return graph_.nodes[n]; }
    const dependence& on(int n) const { return depends_[static_cast<std::size_t>(n)]; }

    std::optional<gradient_product> product_along(int channel, bool of_values) {
        gradient_product made{.channel = channel, .of_values = of_values};
        const instruction& deposit = node(term_.deposit);
        dependence& place = made.place;
        for (std::size_t i = 1; i < deposit.argument_count; ++i) {
            const dependence& index = on(deposit.arguments[i]);
            place.query |= index.query, place.key |= index.key, place.head |= index.head, place.batch |= index.batch;
            place.bound |= index.bound;
        }
        const auto decides = [&](int index) { return (place.bound >> index & 1) != 0; };
        made.by_position = place.query || place.key;
        if (decides(channel) == made.by_position || !find_rows(channel)) return {};
        made.rows = rows_;
        const dependence factors = beside(graph_, depends_, term_.value, rows_, in_rows_);
        if (made.by_position ? factors.query || factors.key : (factors.bound >> channel & 1) != 0) return {};
        for (; made.lanes < term_.over.size(); ++made.lanes)
            if (const auto index = static_cast<int>(node(term_.over[made.lanes].index).integer);
                index != channel && decides(index))
                return made;
        return {};
    }

    /// Finds the largest part of the value that only `channel` counts and in which the value is linear. It contains all
    /// sums, or all else that `channel` counts.
    bool find_rows(int channel) {
        std::uint64_t own = std::uint64_t{1} << channel;
        if (term_.added_first >= 0) {
            in_rows_ = holding(graph_, {term_.added_first});
            own |= on(term_.added_first).bound;
        } else if (!term_.sums.empty()) {
            std::vector<int> sums;
            for (const auto& [node, number] : term_.sums) sums.push_back(node);
            in_rows_ = holding(graph_, sums);
        } else {
            in_rows_.clear();
            for (const dependence& each : depends_) in_rows_.push_back((each.bound & own) != 0);
        }
        rows_ = linear_part(graph_, depends_, term_.value, own, in_rows_);
        return rows_ >= 0 && in_rows_[static_cast<std::size_t>(rows_)];
    }

    const graph_ir& graph_;
    const std::vector<dependence>& depends_;
    const gradient_plan& plan_;
    const gradient_term& term_;
    int rows_{};                 // node
    std::vector<bool> in_rows_;  // nodes that contain the rows' operands
};

}  // namespace

std::optional<gradient_product> product_of(const graph_ir& graph, const std::vector<dependence>& depends,
                                           const gradient_plan& plan, const gradient_term& term) {
    return product_reader(graph, depends, plan, term).read();
}

}  // namespace attune::generators::inline analysis
