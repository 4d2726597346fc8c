#include "formula_calls.hpp"
#include "../support/workload_values.hpp"

#include "formulas.hpp"

#include <attune/runtime/detail/call.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace attune::testing {
namespace {

std::map<std::string, double> with_defaults(std::map<std::string, double> numbers) {
    numbers.try_emplace("w", 21);
    numbers.try_emplace("shift", 0);
    return numbers;
}

std::map<std::string, std::int64_t> lengths_for(const support::shape& s) {
    const std::int64_t near = std::min<std::int64_t>(29, s.keys);
    return {{"near", near},
            {"far", s.keys - near},
            {"slot", s.keys},
            {"cell", 40},
            {"angle", 800},
            {"pair", s.depth / 2},
            {"byte", std::max<std::int64_t>(1, (s.keys + 7) / 8)},
            {"choice", 6},
            {"document", 5},
            {"part", 6}};
}

}  // namespace

const std::vector<variant>& formulas() {
    static const std::vector<variant> all{
        variant_of<formulas::plain>("plain"),
        variant_of<formulas::every>("every"),
        variant_of<formulas::sunk>("sunk"),
        variant_of<formulas::plus_one>("plus_one"),
        variant_of<formulas::biased>("biased"),
        variant_of<formulas::sigmoid_attention>("sigmoid_attention"),
        variant_of<formulas::normalised_after>("normalised_after"),
        variant_of<formulas::kept>("kept"),
        variant_of<formulas::gated>("gated"),
        variant_of<formulas::rotary>("rotary"),
        variant_of<formulas::normed>("normed"),
        variant_of<formulas::concatenated>("concatenated"),
        variant_of<formulas::concatenated_both>("concatenated_both"),
        variant_of<formulas::gathered>("gathered"),
        variant_of<formulas::dequantised>("dequantised"),
        variant_of<formulas::two_products>("two_products"),
        variant_of<formulas::by_bit>("by_bit"),
        variant_of<formulas::by_byte>("by_byte"),
        variant_of<formulas::by_number>("by_number"),
        variant_of<formulas::by_infinity>("by_infinity"),
        variant_of<formulas::by_formula>("by_formula"),
        variant_of<formulas::by_list>("by_list"),
        variant_of<formulas::by_id>("by_id"),
        variant_of<formulas::by_offset>("by_offset"),
        variant_of<formulas::by_range>("by_range"),
        variant_of<formulas::causal_mask>("causal_mask"),
        variant_of<formulas::merged>("merged"),
        variant_of<formulas::appended>("appended"),
    };
    return all;
}

const variant& formula_named(const std::string& name) {
    const auto found = std::ranges::find(formulas(), name, &variant::name);
    if (found == formulas().end()) throw std::invalid_argument("no formula " + name);
    return *found;
}

formula_call::formula_call(const std::string& name, const support::shape& s, unsigned seed,
                           std::map<std::string, double> numbers)
    : workload(formula_named(name).graph, s, seed, with_defaults(std::move(numbers)), lengths_for(s)),
      variant_(&formula_named(name)) {
    for (const input_declaration& d : variant_->graph.inputs) {
        if (d.name == "packed") draw(d.name, 0, 255);
        if (d.name == "codes") draw(d.name, 0, 15);
        if (d.name == "allowed" || d.name == "bytes") draw(d.name, 0, 1);
        if (d.name == "place") draw(d.name, 0, 39);
        if (d.name == "listed") draw(d.name, -2, static_cast<int>(s.keys) + 1);
        if (d.name == "ends") (*this)[d.name].integers = {3, 40, 41, 100, 250};
        if (d.name == "low" || d.name == "high")
            for (std::size_t i = 0; i < (*this)[d.name].integers.size(); ++i)
                (*this)[d.name].integers[i] = static_cast<int>(i) * 3 - 20 + (d.name == "high" ? 40 : 0);
        if (d.name == "added" || d.name == "lse_a" || d.name == "lse_b")
            sprinkle(*this, d.name, -std::numeric_limits<float>::infinity(), 3);
        if (d.name == "step") scale_by(*this, d.name, 0.2f);
        if (d.name == "cosines" || d.name == "sines") {  // angle p / 10^pair
            auto& table = reals(d.name);
            const auto pairs = static_cast<std::size_t>(s.depth / 2);
            for (std::size_t i = 0; i < table.size(); ++i) {
                const double angle =
                    static_cast<double>(i / pairs) * std::pow(10.0, -static_cast<double>(i % pairs) / 2);
                table[i] = static_cast<float>(d.name == "sines" ? std::sin(angle) : std::cos(angle));
            }
        }
    }
}

formula_call& formula_call::run(int threads) {
    reset_outputs();
    detail::call(*variant_->kernels, arguments(), {.threads = threads});
    return *this;
}

void formula_call::take_inputs(formula_call& other) {
    for (const input_declaration& d : variant_->graph.inputs) {
        const auto& theirs = other.of().graph.inputs;
        if (d.is_scalar || std::ranges::find(theirs, d.name, &input_declaration::name) == theirs.end()) continue;
        support::owned_tensor& mine = (*this)[d.name];
        const support::owned_tensor& from = other[d.name];
        std::ranges::copy(from.reals, mine.reals.begin()), std::ranges::copy(from.integers, mine.integers.begin()),
            std::ranges::copy(from.bytes, mine.bytes.begin());
    }
}

double largest_difference(const std::vector<float>& x, const std::vector<float>& y) {
    double worst = x.size() == y.size() ? 0 : 1e30;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        if (x[i] == y[i]) continue;
        const double difference = std::abs(static_cast<double>(x[i]) - y[i]);
        worst = std::max(worst, std::isnan(difference) ? 1e30 : difference);
    }
    return worst;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

}  // namespace attune::testing
