#pragma once
#include "analysis/magnitudes.hpp"
#include "analysis/plan.hpp"

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// What decides whether a pair is visible, brought to one shape however it was spelt: comparisons as sums, negations at
/// the leaves.
namespace attune::generators::inline analysis {

/// An integer as a sum of nodes times numbers, and a number.
struct linear {
    std::map<int, std::int64_t> terms;  ///< by node, none of them 0
    std::int64_t constant{};

    auto operator<=>(const linear&) const = default;
};
linear operator+(const linear& a, const linear& b);
linear operator*(const linear& a, std::int64_t factor);
inline linear operator-(const linear& a, const linear& b) { return a + b * -1; }
inline linear operator+(const linear& a, std::int64_t constant) { return a + linear{{}, constant}; }
/// The largest magnitude, of those of all nodes.
double magnitude_of(const linear& sum, const std::vector<double>& of_nodes);

/// A statement about a pair. Ordered, so that equal ones are found.
struct formula {
    enum class is : std::uint8_t {
        positive,  ///< sum >= 1
        zero,      ///< sum == 0
        nonzero,   ///< sum != 0
        flag,      ///< the condition `node` holds
        masked,    ///< the real `node` stands for -infinity
        all,
        any,  ///< of `parts`; all of none holds, any of none does not
    };
    is what = is::all;
    bool negated{};  ///< of a flag, of masked
    int node{-1};
    linear sum{};
    std::vector<formula> parts{};
    /// Of a comparison whose integers may wrap around: it is about `sum` where all of these are within i32; else it is
    /// what the condition `node` says, `negated` or not.
    std::vector<linear> exact{};

    std::strong_ordering operator<=>(const formula&) const;
    bool operator==(const formula& other) const { return (*this <=> other) == 0; }
};
formula always_true();
formula always_false();
formula operator&&(const formula& a, const formula& b);
formula operator||(const formula& a, const formula& b);
formula operator!(const formula& a);

/// What a formula's value differs with. Of a formula of one index only, `query` or `key` alone is set.
dependence depends_on(const formula& f, const std::vector<dependence>& depends);
dependence depends_on(const linear& sum, const std::vector<dependence>& depends);

/// Reads conditions and scores of a graph as formulas, by what graph_facts know of it.
class formula_reader {
public:
    formula_reader(const graph_ir& graph, const std::vector<dependence>& depends, const wrapping& wraps,
                   const std::vector<bool>& makes_infinity)
        : graph_(graph), depends_(depends), wraps_(wraps), makes_infinity_(makes_infinity) {}

    formula condition(int node);
    /// Whether a real is not -infinity.
    formula visible(int node);
    /// An integer that may wrap around is itself; with `exact` it is the sum that it is as long as it does not, and
    /// that sum is added to the list.
    linear sum(int node, std::vector<linear>* exact = nullptr) const;

    /// Simplifies `statement` under the assumption of `equation` (a == b). Empty if nothing changes.
    std::optional<formula> given(const formula& equation, const formula& statement) const;

private:
    formula visible_by_arguments(int node);
    bool alike(int x, int y, int a, int b) const;
    formula compare(formula::is what, const linear& sum, int splits);
    bool split(const linear& sum, int splits, formula& result);

    const graph_ir& graph_;
    const std::vector<dependence>& depends_;
    const wrapping& wraps_;
    const std::vector<bool>& makes_infinity_;
};

}  // namespace attune::generators::inline analysis
