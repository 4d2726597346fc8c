#pragma once
#include <attune/dsl/build.hpp>
#include <attune/ir/print.hpp>

#include <array>

namespace attune::dsl::detail {

template <const auto& Graph>
inline constexpr auto text_storage = [] {
    std::array<char, write_text(built<Graph>, nullptr)> text{};
    write_text(built<Graph>, text.data());
    return text;
}();

}  // namespace attune::dsl::detail

namespace attune::dsl {

/// The formula as canonical text, at compile time.
template <const auto& Graph>
inline constexpr std::string_view description{detail::text_storage<Graph>.data(), detail::text_storage<Graph>.size()};

/// The graph as a flat list: what generators, the runtime and tests work on.
template <const auto& Graph>
inline constexpr listing listing_of{detail::listing_storage<Graph>::nodes, detail::listing_storage<Graph>::inputs, detail::listing_storage<Graph>::outputs,
                                    description<Graph>, fingerprint<Graph>, detail::listing_storage<Graph>::indices};

}  // namespace attune::dsl
