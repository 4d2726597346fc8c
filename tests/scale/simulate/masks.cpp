#include "masks.hpp"

#include "variants.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace simulated {

std::vector<attune::detail::named_argument> masked::given() const {
    if (document.empty()) return {};
    return {{.name = "document", .view = attune::tensor(document.data(), {std::ssize(document)})}};
}

masked mask_of(const std::string& name, std::int64_t tokens, const documents& lengths) {
    if (name == "causal") return {&attune::detail::table_of<causal_shard>()};
    if (name == "window") return {&attune::detail::table_of<window_shard>()};
    masked made{&attune::detail::table_of<documents_shard>()};
    std::mt19937 random(lengths.seed);
    const auto uniform = [&] { return (static_cast<double>(random()) + 0.5) / 4294967296.0; };
    // Not std::lognormal_distribution: libraries draw differently.
    for (std::int32_t document = 0; std::ssize(made.document) < tokens; ++document) {
        const double first = uniform(), second = uniform(),
                     normal = std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second),
                     length = static_cast<double>(lengths.median) * std::exp(lengths.spread * normal);
        const auto left = static_cast<double>(tokens - std::ssize(made.document));
        made.document.insert(made.document.end(), static_cast<std::size_t>(std::clamp(length, 1.0, left)), document);
    }
    return made;
}

}  // namespace simulated
