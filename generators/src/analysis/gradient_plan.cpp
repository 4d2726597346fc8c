#include "analysis/gradient_products.hpp"

#include <attune/ir/projections.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>
#include <string>

namespace attune::generators::inline analysis {
namespace {

using form = gradient_term::form;

/// A way to make a term from sums of one side: nodes under its value, each with the sum that it is.
struct placement {
    form is{};
    bool of_queries{};
    std::vector<std::pair<int, gradient_sum>> sums{};
};

class gradient_reader {
public:
    gradient_reader(const graph_ir& graph, const std::vector<dependence>& depends) : graph_(graph), depends_(depends) {}

    gradient_plan read() {
        for (std::size_t output = 0; output < graph_.outputs.size(); ++output) {
            output_ = output;
            read_sum(graph_.outputs[output].node);
        }
        for (const gradient_sum& sum : plan_.sums) plan_.tiles.push_back(sum.pairs);
        std::ranges::sort(plan_.tiles);
        const auto [first, last] = std::ranges::unique(plan_.tiles);
        plan_.tiles.erase(first, last);
        return plan_;
    }

private:
    const instruction& node(int n) const { return graph_.nodes[n]; }
    const dependence& on(int n) const { return depends_[static_cast<std::size_t>(n)]; }
    bool of_query(int n) const { return on(n).query || on(n).score; }
    bool of_key(int n) const { return on(n).key || on(n).score; }
    bool of_pairs(int n) const { return of_query(n) && of_key(n); }
    bool is_number(int n) const { return on(n).bound == 0 && !on(n).channel; }
    bool is_zero(int n) const { return node(n).op == operation::constant && node(n).number == 0; }

    [[noreturn]] void refuse(const std::string& why) const {
        throw std::runtime_error("attune makes no kernel for the gradient \"" +
                                 std::string(graph_.outputs[output_].name) + "\" yet: " + why);
    }

    static bool is_made_in_full(operation op) { return is_formed(op) || op == operation::tokens; }

    /// Queries, keys and values make a sum for each channel once; anywhere else it would be made anew for each number
    /// that contains it.
    void check_projections(const gradient_term& term) const {
        const std::vector<bool> made = under(graph_, {term.value}, [&](int n) {
            return term.sums.contains(n) || node(n).op == operation::contract ||
                   (node(n).op == operation::load && is_made_in_full(node(node(n).arguments[0]).op));
        });
        for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
            if (made[static_cast<std::size_t>(n)] && node(n).op == operation::sum && !is_number(n) &&
                (on(n).query || on(n).key))
                refuse(
                    "it is of a sum over projected queries, keys or values that counts something other than their "
                    "channels; compute them before the call");
    }

    void read_sum(int n) {
        if (node(n).op == operation::deposit) return read_deposit(n);
        read_sum(node(n).arguments[0]), read_sum(node(n).arguments[1]);
    }

    void read_deposit(int n) {
        const instruction& it = node(n);
        gradient_term term{.deposit = n, .output = output_, .value = it.arguments[0]};
        for (; node(term.value).op == operation::each; term.value = node(term.value).arguments[2])
            term.over.push_back({node(term.value).arguments[0], node(term.value).arguments[1]});
        bool query = false, key = false;
        for (int i = 1; i < it.argument_count; ++i)
            query = query || of_query(it.arguments[i]), key = key || of_key(it.arguments[i]);
        term.of_queries = !key;
        if (it.integer == 0) {
            term.is = form::placed;
        } else if (const std::optional<placement> found = placement_of(term, query, key)) {
            term.is = found->is, term.of_queries = found->of_queries;
            for (const auto& [made, sum] : found->sums) term.sums[made] = entered(sum);
        } else {
            term.is = form::by_pair;
            find_tiles(term.value, term.tiles);
        }
        check_projections(term);
        add_up_first(term);
        add_term(term);
    }

    /// The gradient of a norm with respect to its row is the row times one sum over the channels. If that sum is made
    /// first, it is a number of the position; else each channel would meet each other one.
    void add_up_first(gradient_term& term) const {
        if (term.is != form::placed || term.sums.empty() || term.over.size() < 2) return;
        std::vector<int> sums;
        for (const auto& [node, number] : term.sums) {
            if (plan_.sums[number].channel != plan_.sums[term.sums.begin()->second].channel) return;
            sums.push_back(node);
        }
        const int channel = plan_.sums[term.sums.begin()->second].channel;
        const auto over = std::ranges::find_if(term.over, [&](const counted_index& each) {
            return static_cast<int>(node(each.index).integer) == channel;
        });
        if (channel < 0 || over == term.over.end()) return;
        const std::uint64_t own = std::uint64_t{1} << channel;
        const instruction& to = node(term.deposit);
        for (std::size_t i = 1; i < to.argument_count; ++i)
            if ((on(to.arguments[i]).bound & own) != 0) return;
        const std::vector<bool> holds = holding(graph_, sums);
        const int part = linear_part(graph_, depends_, term.value, own, holds);
        if (part < 0 || (on(term.value).bound & ~own) == 0 ||
            (beside(graph_, depends_, term.value, part, holds).bound & own) != 0)
            return;
        term.added_first = part, term.added_over = *over;
        term.over.erase(over);
    }

    /// A sum of matrix products, such as a rotation of a channel and its partner, becomes a term for each product.
    void add_term(const gradient_term& term) {
        if (term.is == form::placed && node(term.value).op == operation::add && !is_matrix_product(term)) {
            std::vector<gradient_term> parts;
            for (const int side : {0, 1}) {
                gradient_term part = term;
                part.value = node(term.value).arguments[static_cast<std::size_t>(side)];
                const std::vector<bool> made = under(graph_, {part.value});
                std::erase_if(part.sums, [&](const auto& sum) { return !made[static_cast<std::size_t>(sum.first)]; });
                if (is_matrix_product(part)) parts.push_back(std::move(part));
            }
            if (parts.size() == 2) return plan_.terms.insert(plan_.terms.end(), parts.begin(), parts.end()), void();
        }
        plan_.terms.push_back(term);
    }
    bool is_matrix_product(const gradient_term& term) const {
        return product_of(graph_, depends_, plan_, term).has_value();
    }

    /// The first way that fits a deposit whose place depends on a query or on a key. A place that depends on neither
    /// may take the sums of either side: the weights of projected keys take those of keys.
    std::optional<placement> placement_of(const gradient_term& term, bool query, bool key) const {
        if (query && key) return {};
        std::optional<placement> found = as_copied(term);
        if (!found) found = as_placed(term);
        if (!found && !query && !key) {
            gradient_term of_keys = term;
            of_keys.of_queries = false;
            found = as_placed(of_keys);
        }
        return found;
    }

    /// A product at (b, h, position, channel) of a tensor that is declared so.
    std::optional<placement> as_copied(const gradient_term& term) const {
        const instruction& deposit = node(term.deposit);
        const input_declaration& to = graph_.inputs[static_cast<std::size_t>(deposit.input)];
        if (term.over.size() != 1 || to.rank != 4) return {};
        const operation position = node(deposit.arguments[3]).op;
        const bool fits =
            to.axes[0].kind == axis_kind::batch && node(deposit.arguments[1]).op == operation::b &&
            node(deposit.arguments[2]).op == operation::h && deposit.arguments[4] == term.over[0].index &&
            (term.of_queries ? to.axes[1].kind == axis_kind::head && to.axes[2].kind == axis_kind::query
                             : to.axes[1].kind == axis_kind::key_head && to.axes[2].kind == axis_kind::key) &&
            position == (term.of_queries ? operation::q_idx : operation::kv_idx);
        gradient_sum sum;
        if (!fits || !is_product(term, term.value, sum)) return {};
        if (to.axes[3].kind != (sum.of_values ? axis_kind::value_depth : axis_kind::depth)) return {};
        return placement{form::copied, term.of_queries, {{term.value, sum}}};
    }

    std::optional<placement> as_placed(const gradient_term& term) const {
        placement made{form::placed, term.of_queries};
        if (!find_sums(term, term.value, made.sums)) return {};
        const instruction& deposit = node(term.deposit);
        std::vector<int> sums;
        for (const auto& [n, sum] : made.sums) sums.push_back(n);
        const input_declaration& to = graph_.inputs[static_cast<std::size_t>(deposit.input)];
        bool per_head = differs_in_group(term.value, sums);
        for (std::size_t axis = 0; axis < to.rank; ++axis)
            if (const int index = deposit.arguments[axis + 1]; !is_key_head(to.axes[axis].kind, index))
                per_head = per_head || differs_in_group(index, {});
        for (auto& [n, sum] : made.sums) sum.per_head = per_head && !term.of_queries;
        return made;
    }

    bool is_key_head(axis_kind axis, int index) const {
        return axis == axis_kind::key_head && node(index).op == operation::h;
    }

    /// Whether a number, apart from the nodes in `ends`, differs between the query heads of a group.
    bool differs_in_group(int n, const std::vector<int>& ends) const {
        const instruction& it = node(n);
        if (std::ranges::find(ends, n) != ends.end()) return false;
        if (it.op == operation::h || it.op == operation::keep) return true;
        const bool load = it.op == operation::load;
        for (int a = load ? 1 : 0; a < it.argument_count; ++a) {
            if (load && node(it.arguments[0]).op == operation::input &&
                is_key_head(graph_.inputs[static_cast<std::size_t>(node(it.arguments[0]).input)]
                                .axes[static_cast<std::size_t>(a - 1)]
                                .kind,
                            it.arguments[a]))
                continue;
            if (differs_in_group(it.arguments[a], ends)) return true;
        }
        return false;
    }

    std::size_t entered(const gradient_sum& sum) {
        const auto at = std::ranges::find(plan_.sums, sum);
        if (at == plan_.sums.end()) return plan_.sums.push_back(sum), plan_.sums.size() - 1;
        return static_cast<std::size_t>(at - plan_.sums.begin());
    }

    /// A number of pairs times rows of the other side.
    bool is_product(const gradient_term& term, int n, gradient_sum& sum) const {
        const instruction& it = node(n);
        if (it.op != operation::multiply || !is_number(it.arguments[0])) return false;
        const int rows = it.arguments[1];
        const std::uint64_t bound = on(rows).bound;
        if (!std::has_single_bit(bound) || on(rows).channel || (term.of_queries ? of_query(rows) : of_key(rows)))
            return false;
        const int channel = std::countr_zero(bound);
        for (const counted_index& each : term.over) {
            const operation extent = node(each.extent).op;
            if (node(each.index).integer != channel || (extent != operation::depth && extent != operation::value_depth))
                continue;
            sum = {it.arguments[0], rows, channel, extent == operation::value_depth, term.of_queries, false};
            return true;
        }
        return false;
    }

    /// Finds the sums over the other side in which a value is linear; all else in it belongs to this side.
    bool find_sums(const gradient_term& term, int n, std::vector<std::pair<int, gradient_sum>>& found) const {
        const auto other = [&](int x) { return term.of_queries ? of_key(x) : of_query(x); };
        const instruction& it = node(n);
        if (!other(n)) return false;
        const int a = it.arguments[0], b = it.argument_count > 1 ? it.arguments[1] : a;
        if (it.op == operation::negate) return find_sums(term, a, found);
        if (it.op == operation::add || it.op == operation::subtract)
            if (other(a) && other(b)) return find_sums(term, a, found) && find_sums(term, b, found);
        if ((it.op == operation::multiply || it.op == operation::divide) && !other(b)) return find_sums(term, a, found);
        if (it.op == operation::multiply && !other(a)) return find_sums(term, b, found);
        if (it.op == operation::where && !other(a)) {
            const auto branch = [&](int x) { return is_zero(x) || find_sums(term, x, found); };
            return branch(it.arguments[1]) && branch(it.arguments[2]);
        }
        gradient_sum sum{.pairs = n, .of_queries = term.of_queries};
        if (!is_number(n) && !is_product(term, n, sum)) return false;
        found.emplace_back(n, sum);
        return true;
    }

    /// Finds the tiles of a term that is placed pair by pair: the parts that are linear in the weights and independent
    /// of channels.
    void find_tiles(int n, std::vector<int>& tiles) const {
        const instruction& it = node(n);
        if (is_number(n) && of_pairs(n)) return tiles.push_back(n);
        const int a = it.arguments[0], b = it.argument_count > 1 ? it.arguments[1] : a;
        if (it.op == operation::negate) return find_tiles(a, tiles);
        if (it.op == operation::add || it.op == operation::subtract) return find_tiles(a, tiles), find_tiles(b, tiles);
        if (it.op == operation::multiply && of_pairs(a) && !on(b).score) return find_tiles(a, tiles);
        if (it.op == operation::multiply && of_pairs(b) && !on(a).score) return find_tiles(b, tiles);
        if (it.op == operation::divide && of_pairs(a) && !on(b).score) return find_tiles(a, tiles);
        if (it.op == operation::where && !on(a).score) {
            for (const int branch : {it.arguments[1], it.arguments[2]})
                if (!is_zero(branch)) find_tiles(branch, tiles);
            return;
        }
        throw std::logic_error("a gradient is not linear in the weights");
    }

    const graph_ir& graph_;
    const std::vector<dependence>& depends_;
    std::size_t output_{};
    gradient_plan plan_;
};

}  // namespace

std::vector<bool> holding(const graph_ir& graph, const std::vector<int>& nodes) {
    std::vector<bool> holds(graph.nodes.size());
    for (const int n : nodes) holds[static_cast<std::size_t>(n)] = true;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
        for (std::size_t i = 0; i < graph.nodes[n].argument_count; ++i)
            if (holds[static_cast<std::size_t>(graph.nodes[n].arguments[i])]) holds[n] = true;
    return holds;
}

int linear_part(const graph_ir& graph, const std::vector<dependence>& depends, int value, std::uint64_t indices,
                const std::vector<bool>& holds) {
    const auto at = [&](int n) -> const instruction& { return graph.nodes[n]; };
    const auto is_zero = [&](int n) { return at(n).op == operation::constant && at(n).number == 0; };
    const auto next = [&](const instruction& it) {
        const int a = it.arguments[0], b = it.arguments[1];
        const auto within = [&](int n) { return static_cast<bool>(holds[static_cast<std::size_t>(n)]); };
        if (it.op == operation::negate) return a;
        if (it.op == operation::divide) return within(b) ? -1 : a;
        if (it.op == operation::multiply) return within(a) && within(b) ? -1 : within(a) ? a : b;
        if (it.op == operation::add && a == b) return a;  // as squares have
        if (it.op == operation::where && !within(a))
            return is_zero(it.arguments[2]) ? b : is_zero(b) ? static_cast<int>(it.arguments[2]) : -1;
        return -1;
    };
    while (value >= 0 && (depends[static_cast<std::size_t>(value)].bound & ~indices) != 0) value = next(at(value));
    return value;
}

dependence beside(const graph_ir& graph, const std::vector<dependence>& depends, int value, int part,
                  const std::vector<bool>& holds) {
    const std::vector<bool> made =
        under(graph, {value}, [&](int n) { return !holds[static_cast<std::size_t>(n)] || n == part; });
    dependence all;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        if (!made[n] || holds[n]) continue;
        all.query |= depends[n].query, all.key |= depends[n].key, all.bound |= depends[n].bound;
    }
    return all;
}

gradient_plan gradient_plan_of(const graph_ir& graph, const std::vector<dependence>& depends) {
    return gradient_reader(graph, depends).read();
}

bool is_plain_row(const graph_ir& graph, int node, int channel) {
    const auto at = [&](int n) -> const instruction& { return graph.nodes[n]; };
    const instruction& it = at(node);
    if (it.op != operation::load || it.argument_count != 5 || at(it.arguments[0]).op != operation::input) return false;
    const auto& axes = graph.inputs[static_cast<std::size_t>(at(it.arguments[0]).input)].axes;
    const instruction& last = at(it.arguments[4]);
    const operation position = at(it.arguments[3]).op;
    const bool query = axes[2].kind == axis_kind::query && position == operation::q_idx,
               key = axes[2].kind == axis_kind::key && position == operation::kv_idx;
    return axes[0].kind == axis_kind::batch && at(it.arguments[1]).op == operation::b &&
           (axes[1].kind == axis_kind::head || axes[1].kind == axis_kind::key_head) &&
           at(it.arguments[2]).op == operation::h && (query || key) && last.op == operation::bound &&
           last.integer == channel && (axes[3].kind == axis_kind::depth || axes[3].kind == axis_kind::value_depth);
}

}  // namespace attune::generators::inline analysis
