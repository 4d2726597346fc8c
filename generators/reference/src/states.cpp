#include "states.hpp"

#include <attune/ir/recurrence.hpp>

#include "evaluation.hpp"

#include <stdexcept>
#include <tuple>

/// Recurrences: the loop over tokens, one state at a time.
namespace attune::reference {

std::int64_t evaluation::state_head(node_id recurrence) const {
    return has_states_of_key_heads(graph_, recurrence) ? key_head() : h_;
}

std::vector<double> evaluation::row_of(node_id formula, std::int64_t width) {
    std::vector<double> row(static_cast<std::size_t>(width));
    with_channels({0, width}, [&] {
        const shared_column all = value(formula);
        for (std::size_t d = 0; d < row.size(); ++d) row[d] = all->real[all->real.size() == 1 ? 0 : d];
    });
    return row;
}

void evaluation::begin(node_id recurrence, running_state& to) {
    const std::int64_t depth = known_depth(size().depth, "keys"), width = known_depth(size().value_depth, "the values");
    to = {b_, state_head(recurrence), -1, {}, std::vector<double>(static_cast<std::size_t>(depth * width))};
    for (std::int64_t e = 0; e < width; ++e) {
        bound_indices_[value_index] = e, changed(value_index);
        const std::vector<double> column = row_of(arguments_of(node(recurrence)).initial, depth);
        for (std::int64_t d = 0; d < depth; ++d)
            to.after[static_cast<std::size_t>(d * width + e)] = column[static_cast<std::size_t>(d)];
    }
    to.before = to.after;
}

/// The token at hand. Sums are over the channels of the keys.
void evaluation::advance(node_id recurrence, running_state& to) {
    const recurrence_arguments of = arguments_of(node(recurrence));
    const std::int64_t depth = size().depth, width = size().value_depth;
    const std::vector<double> decay = row_of(of.decay, depth), key = row_of(of.key, depth),
                              values = row_of(of.value, width), read = row_of(of.read, depth);
    const double erase = value(of.erase)->real.at(0);
    std::vector<double> second_key, second_read;
    if (of.has_second_pair()) second_key = row_of(of.second_key, depth), second_read = row_of(of.second_read, depth);

    to.before = to.after;
    for (std::size_t e = 0; e < static_cast<std::size_t>(width); ++e) {
        const auto element = [&](std::vector<double>& state, std::size_t d) -> double& {
            return state[d * static_cast<std::size_t>(width) + e];
        };
        double of_kept = 0, of_before = 0;
        for (std::size_t d = 0; d < key.size(); ++d) {
            const double kept = decay[d] * element(to.before, d);
            element(to.after, d) = kept;
            of_kept += read[d] * kept;
            if (of.has_second_pair()) of_before += second_read[d] * element(to.before, d);
        }
        const double written = erase == 0 ? values[e] : values[e] - erase * of_kept;
        for (std::size_t d = 0; d < key.size(); ++d) {
            element(to.after, d) += key[d] * written;
            if (of.has_second_pair()) element(to.after, d) += second_key[d] * of_before;
        }
    }
    ++to.token;
}

const running_state& evaluation::state_after(node_id recurrence, std::int64_t q) {
    running_state& running = running_[recurrence];
    const auto [b, h, at, these] = std::tuple(b_, h_, q_, channels_);
    const bool begun = running.b == b_ && running.head == state_head(recurrence) && running.token <= q;
    if (!begun) begin(recurrence, running);
    while (running.token < q) {
        go_to(b, h, running.token + 1, these);
        advance(recurrence, running);
    }
    go_to(b, h, at, these);
    return running;
}

column evaluation::read_states(const instruction& n) {
    const bool earlier = node(n.arguments[1]).op == operation::earlier;
    const running_state& running = state_after(recurrence_under(graph_.nodes, n.arguments[1]), q_);
    const std::vector<double>& state = earlier ? running.before : running.after;
    const std::vector<double> row = row_of(n.arguments[0], size().depth);
    const auto width = static_cast<std::size_t>(size().value_depth);
    column to{std::vector<double>(width), {}};
    for (std::size_t d = 0; d < row.size(); ++d)
        for (std::size_t e = 0; e < width; ++e) to.real[e] += row[d] * state[d * width + e];
    return to;
}

std::pair<std::vector<std::int64_t>, std::vector<double>> evaluation::states_whole(node_id i) {
    const node_id recurrence = recurrence_under(graph_.nodes, i);
    const bool of_last = node(i).op == operation::last, earlier = node(i).op == operation::earlier;
    const std::int64_t heads = has_states_of_key_heads(graph_, recurrence) ? size().key_heads : size().heads,
                       group = size().heads / heads;
    std::pair<std::vector<std::int64_t>, std::vector<double>> all{{size().batches, heads}, {}};
    if (!of_last) all.first.push_back(size().queries);
    all.first.insert(all.first.end(), {size().depth, size().value_depth});
    for (std::int64_t b = 0; b < size().batches; ++b)
        for (std::int64_t head = 0; head < heads; ++head)
            for (std::int64_t q = of_last ? size().queries - 1 : 0; q < size().queries; ++q) {
                go_to(b, head * group, q);
                const running_state& running = state_after(recurrence, q);
                const std::vector<double>& state = earlier ? running.before : running.after;
                all.second.insert(all.second.end(), state.begin(), state.end());
            }
    return all;
}

}  // namespace attune::reference
