#pragma once
#include "analysis/magnitudes.hpp"
#include "analysis/plan.hpp"

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The conditions under which a pair is visible, in one shape however they were spelt: comparisons as sums, negations
/// at the leaves.
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
/// The largest magnitude of the sum, from those of all nodes.
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
        any,  ///< of `parts`; without parts `all` holds and `any` does not
    };
    is what = is::all;
    bool negated{};  ///< for flag and masked
    int node{-1};
    linear sum{};
    std::vector<formula> parts{};
    /// For a comparison whose integers may wrap around. If all of these are within i32, the statement is about `sum`;
    /// else it is the condition `node`, `negated` or not.
    std::vector<linear> exact{};

    std::strong_ordering operator<=>(const formula&) const;
    bool operator==(const formula& other) const { return (*this <=> other) == 0; }
};
formula always_true();
formula always_false();
formula operator&&(const formula& a, const formula& b);
formula operator||(const formula& a, const formula& b);
formula operator!(const formula& a);

/// The dependence of a formula's value. For a formula of one index only, `query` or `key` alone is set.
dependence depends_on(const formula& f, const std::vector<dependence>& depends);
dependence depends_on(const linear& sum, const std::vector<dependence>& depends);

/// Reads conditions and scores of a graph as formulas, with the help of its graph_facts.
class formula_reader {
public:
    formula_reader(const graph_ir& graph, const std::vector<dependence>& depends, const wrapping& wraps,
                   const std::vector<bool>& makes_infinity)
        : graph_(graph), depends_(depends), wraps_(wraps), makes_infinity_(makes_infinity) {}

    formula condition(int node);
    /// Whether a real is not -infinity.
    formula visible(int node);
    /// An integer that may wrap around is a term of its own. With `exact` it is its sum, which holds as long as it does
    /// not wrap around; that sum is added to the list.
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
