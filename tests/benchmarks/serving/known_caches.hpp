#pragma once
#include "memory.hpp"

#include <attune/ir/graph_ir.hpp>
#include <attune/runtime/detail/call.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The caches that engines keep, with calls over them.
namespace bench {

struct shape {
    std::int64_t sequences, heads, key_heads, keys, depth;
    std::int64_t slots;  ///< that there is room for; so many keys are in use
};

/// A call's arguments, and the bytes that it has to read.
struct call {
    std::vector<memory> tensors;
    std::vector<attune::detail::named_argument> arguments;
    std::vector<std::span<const std::byte>> read;  ///< in the order in which the cache is read

    void add(std::string_view name, memory made) {
        tensors.push_back(std::move(made));
        give(name, tensors.back().view());
    }
    /// Of each of so many pieces of a tensor, the slots in use are read.
    void add(std::string_view name, memory made, std::int64_t pieces, const shape& s) {
        add(name, std::move(made));
        read_pieces(pieces, s);
    }
    void read_pieces(std::int64_t pieces, const shape& s) {
        const std::span<const std::byte> whole = tensors.back().bytes();
        const std::size_t piece = whole.size() / static_cast<std::size_t>(pieces),
                          used = piece / static_cast<std::size_t>(s.slots) * static_cast<std::size_t>(s.keys);
        for (std::size_t i = 0; i < static_cast<std::size_t>(pieces); ++i)
            read.push_back(whole.subspan(i * piece, used));
    }
    attune::tensor give(std::string_view name, attune::tensor view) {
        arguments.push_back({.name = name, .view = view});
        return view;
    }
};

struct cache {
    std::string name;
    attune::graph_ir graph;
    std::string dtype;
    std::function<void(call&, const shape&)> fill;
    std::string exact{};  ///< the cache that this one would be without rounding, if it rounds
};

std::vector<cache> all_caches();

}  // namespace bench
