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
inline constexpr graph_ir ir_of{detail::ir_storage<Graph>::nodes,
                                detail::ir_storage<Graph>::inputs,
                                detail::ir_storage<Graph>::outputs,
                                description<Graph>,
                                fingerprint<Graph>,
                                detail::ir_storage<Graph>::indices,
                                detail::ir_storage<Graph>::stores};

/// What `ir_of` was called in 0.1.
template <const auto& Graph>
[[deprecated(
    "it is called ir_of now; version 0.3 has this name no more")]] inline constexpr const graph_ir& listing_of =
    ir_of<Graph>;

}  // namespace attune::dsl
