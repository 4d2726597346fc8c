#include "analysis/gradient_plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace attune::generators {
namespace {

class gradient_reader {
public:
    explicit gradient_reader(const graph_facts& facts)
        : graph_(facts.graph), core_(facts.core), depends_(facts.depends) {}

    gradient_plan read() {
        for (std::size_t output = 0; output < graph_.outputs.size(); ++output) {
            output_ = output;
            read_sum(graph_.outputs[output].node);
        }
        for (const int tensor : {core_.query, core_.key})
            if (tensor >= 0 && node(tensor).op != operation::input)
                throw std::runtime_error("attune makes no kernel for gradients of computed queries or keys yet");
        std::ranges::sort(plan_.tiles);
        const auto [first, last] = std::ranges::unique(plan_.tiles);
        plan_.tiles.erase(first, last);
        if (plan_.tiles.empty()) refuse("no pair of a query and a key has a part in it");
        find_contractions();
        return plan_;
    }

private:
    const instruction& node(int n) const { return graph_.nodes[static_cast<std::size_t>(n)]; }
    const dependence& on(int n) const { return depends_[static_cast<std::size_t>(n)]; }
    bool of_query(int n) const { return on(n).query || on(n).score; }
    bool of_key(int n) const { return on(n).key || on(n).score; }

    [[noreturn]] void refuse(const std::string& why) const {
        throw std::runtime_error("attune makes no kernel for the gradient \"" +
                                 std::string(graph_.outputs[output_].name) + "\" yet: " + why);
    }

    void read_sum(int n) {
        if (node(n).op == operation::deposit) return read_deposit(n);
        read_sum(node(n).arguments[0]), read_sum(node(n).arguments[1]);
    }

    void read_deposit(int n) {
        const instruction& it = node(n);
        gradient_term term{.deposit = n, .output = output_, .value = it.arguments[0]};
        if (node(term.value).op == operation::each) return read_product(term);
        bool query = false, key = false;
        for (int i = 1; i < it.argument_count; ++i)
            query = query || of_query(it.arguments[i]), key = key || of_key(it.arguments[i]);
        if (query && key) refuse("its index depends on the query and on the key");
        term.is = it.integer == 0 ? gradient_term::form::of_row
                  : key           ? gradient_term::form::by_column
                                  : gradient_term::form::by_row;
        if (term.is != gradient_term::form::of_row) plan_.tiles.push_back(term.value);
        plan_.terms.push_back(term);
    }

    /// each(channel, depth, pairs * rows) at (b, h, position, channel).
    void read_product(gradient_term term) {
        const instruction &deposit = node(term.deposit), &each = node(term.value), &body = node(each.arguments[2]);
        const operation extent = node(each.arguments[1]).op;
        const int index = each.arguments[0];
        term.channel = static_cast<int>(node(index).integer);
        const input_declaration& to = graph_.inputs[static_cast<std::size_t>(deposit.input)];
        const auto has_channel = [&](int n) { return on(n).bound != 0; };
        if (deposit.integer == 0) refuse("it is of rows and channels");
        const bool plain = (extent == operation::depth || extent == operation::value_depth) &&
                           body.op == operation::multiply && !has_channel(body.arguments[0]) &&
                           has_channel(body.arguments[1]) &&
                           on(body.arguments[1]).bound == std::uint64_t{1} << term.channel;
        if (!plain || to.rank != 4 || node(deposit.arguments[1]).op != operation::b ||
            node(deposit.arguments[2]).op != operation::h || deposit.arguments[4] != index)
            refuse("it is more than numbers of pairs times rows of a tensor");
        term.value = body.arguments[0], term.rows = body.arguments[1];
        const operation position = node(deposit.arguments[3]).op;
        term.at_query = position == operation::q_idx;
        const axis_kind channels = extent == operation::depth ? axis_kind::depth : axis_kind::value_depth;
        const bool fits = term.at_query ? to.axes[1].kind == axis_kind::head && to.axes[2].kind == axis_kind::query
                                        : to.axes[1].kind == axis_kind::key_head && to.axes[2].kind == axis_kind::key &&
                                              position == operation::kv_idx;
        if (!fits || to.axes[0].kind != axis_kind::batch || to.axes[3].kind != channels ||
            (term.at_query ? of_query(term.rows) : of_key(term.rows)))
            refuse("it is no tensor (batch, head, query, depth) or (batch, key_head, key, depth)");
        plan_.tiles.push_back(term.value);
        plan_.terms.push_back(term);
    }

    /// Sums over products of what depends on the query and what depends on the key.
    void find_contractions() {
        const std::vector<bool> made = under(graph_, plan_.tiles);
        for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
            const instruction& it = node(n);
            if (!made[static_cast<std::size_t>(n)] || it.op != operation::sum || !on(n).query || !on(n).key ||
                on(n).bound)
                continue;
            const instruction& body = node(it.arguments[2]);
            bool found = false;
            for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
                if (body.op != operation::multiply || body.kind != kind::real || found) continue;
                const int a = body.arguments[side], b = body.arguments[1 - side];
                if (of_key(a) || of_query(b)) continue;
                plan_.contractions.push_back({n, a, b, it.arguments[0], it.arguments[1]});
                found = true;
            }
        }
    }

    const graph_ir& graph_;
    const plan& core_;
    const std::vector<dependence>& depends_;
    std::size_t output_{};
    gradient_plan plan_;
};

}  // namespace

gradient_plan gradient_plan_of(const graph_facts& facts) { return gradient_reader(facts).read(); }

}  // namespace attune::generators
