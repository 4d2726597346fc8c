#include "evaluation.hpp"
#include "states.hpp"

#include <algorithm>
#include <tuple>

/// Gradients of recurrences: the loop over tokens backwards, whose states are all kept.
namespace attune::reference {
namespace {

/// A state (depth, value depth), or its cotangent.
struct matrix {
    std::size_t width;
    std::vector<double> numbers;

    double& at(std::size_t d, std::size_t e) { return numbers[d * width + e]; }
    double at(std::size_t d, std::size_t e) const { return numbers[d * width + e]; }
    std::size_t depth() const { return numbers.size() / width; }
    /// row * this
    std::vector<double> read_by(const std::vector<double>& row) const {
        std::vector<double> read(width);
        for (std::size_t d = 0; d < depth(); ++d)
            for (std::size_t e = 0; e < width; ++e) read[e] += row[d] * at(d, e);
        return read;
    }
    /// this * t(values)
    std::vector<double> times(const std::vector<double>& values) const {
        std::vector<double> made(depth());
        for (std::size_t d = 0; d < depth(); ++d)
            for (std::size_t e = 0; e < width; ++e) made[d] += at(d, e) * values[e];
        return made;
    }
    void add(const std::vector<double>& row, const std::vector<double>& values, double factor = 1) {
        for (std::size_t d = 0; d < depth(); ++d)
            for (std::size_t e = 0; e < width; ++e) at(d, e) += factor * row[d] * values[e];
    }
};

double product(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

}  // namespace

part_cotangents evaluation::flow_back(const cotangent_arguments& all) {
    const recurrence_arguments of = arguments_of(node(all.recurrence));
    const auto [b, h, at, these] = std::tuple(b_, h_, q_, channels_);
    const std::int64_t depth = size().depth, width = size().value_depth, tokens = size().queries;
    const auto stride = static_cast<std::size_t>(width);
    std::vector<matrix> states;  // before each token, and after the last one
    running_state running;
    begin(all.recurrence, running);
    states.push_back({stride, running.after});
    for (std::int64_t q = 0; q < tokens; ++q) {
        go_to(b, h, q, these);
        advance(all.recurrence, running);
        states.push_back({stride, running.after});
    }
    const std::int64_t heads = has_states_of_key_heads(graph_, all.recurrence) ? size().key_heads : size().heads,
                       group = size().heads / heads;
    matrix flowing{stride, std::vector<double>(static_cast<std::size_t>(depth * width))};
    for (std::int64_t e = 0; e < width && h % group == 0; ++e) {
        bound_indices_[value_index] = e, changed(value_index);
        const std::vector<double> column = row_of(all.last, depth);
        for (std::size_t d = 0; d < column.size(); ++d) flowing.at(d, static_cast<std::size_t>(e)) = column[d];
    }

    part_cotangents made{b, h, {}};
    using enum step_part;
    for (const step_part part : {decay, key, value, erase, read, row_that_reads})
        made.of[part].resize(static_cast<std::size_t>(tokens));
    const auto channels = static_cast<std::size_t>(depth);
    for (std::int64_t q = tokens; q-- > 0;) {
        go_to(b, h, q, these);
        const auto t = static_cast<std::size_t>(q);
        const matrix &before = states[t], &after = states[t + 1];
        if (all.has_row()) {
            const std::vector<double> of_output = row_of(all.cotangent, width);
            made.of[row_that_reads][t] = after.times(of_output);
            flowing.add(row_of(all.row, depth), of_output);
        }
        const std::vector<double> decays = row_of(of.decay, depth), keys = row_of(of.key, depth),
                                  reads = row_of(of.read, depth), values = row_of(of.value, width);
        const double by = this->value(of.erase)->real.at(0);
        matrix kept = before;
        for (std::size_t d = 0; d < channels; ++d)
            for (std::size_t e = 0; e < stride; ++e) kept.at(d, e) *= decays[d];
        const std::vector<double> found = kept.read_by(reads);
        std::vector<double> written = values;
        for (std::size_t e = 0; e < stride && by != 0; ++e) written[e] -= by * found[e];
        const std::vector<double> of_written = flowing.read_by(keys);
        made.of[key][t] = flowing.times(written);
        made.of[value][t] = of_written;
        made.of[erase][t] = {-product(of_written, found)};
        made.of[read][t] = kept.times(of_written);
        for (double& each : made.of[read][t]) each *= -by;
        flowing.add(reads, of_written, -by);
        made.of[decay][t].resize(channels);
        for (std::size_t d = 0; d < channels; ++d)
            for (std::size_t e = 0; e < stride; ++e) {
                made.of[decay][t][d] += flowing.at(d, e) * before.at(d, e);
                flowing.at(d, e) *= decays[d];
            }
    }
    made.of[initial] = {flowing.numbers};
    go_to(b, h, at, these);
    return made;
}

const part_cotangents& evaluation::cotangents(node_id states) {
    part_cotangents& known = flowed_[states];
    if (known.b != b_ || known.h != h_) known = flow_back(cotangents_of(node(states)));
    return known;
}

/// A part without a channel is a number of the token: the sum over the channels that it multiplies.
column evaluation::part_cotangent(const instruction& n) {
    const auto which = static_cast<step_part>(n.integer);
    std::vector<shared_column> indices;
    for (std::size_t i = 1; i < n.argument_count; ++i) indices.push_back(value(n.arguments[i]));
    const part_cotangents& all = cotangents(n.arguments[0]);
    const bool of_state = which == step_part::initial;
    const std::vector<double>& row = all.of.at(which)[of_state ? 0 : static_cast<std::size_t>(q_)];
    if (indices.empty()) {
        double sum = 0;
        for (const double each : row) sum += each;
        return {{sum}, {}};
    }
    std::size_t count = 1;
    for (const shared_column& each : indices) count = std::max(count, each->integer.size());
    const auto index = [&](std::size_t axis, std::size_t i) {
        const auto& of = indices[axis]->integer;
        return static_cast<std::size_t>(of[of.size() == 1 ? 0 : i]);
    };
    column to{std::vector<double>(count), {}};
    for (std::size_t i = 0; i < count; ++i)
        to.real[i] =
            row[of_state ? index(0, i) * static_cast<std::size_t>(size().value_depth) + index(1, i) : index(0, i)];
    return to;
}

}  // namespace attune::reference
