#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace attune {

/// A node of a list, by its position. A node converts to a number; a number becomes a node only by `node_id{3}`.
enum node_id : std::int16_t { no_node = -1 };

constexpr node_id& operator++(node_id& n) { return n = static_cast<node_id>(n + 1); }
constexpr node_id& operator--(node_id& n) { return n = static_cast<node_id>(n - 1); }
constexpr node_id node_at(std::integral auto position) { return static_cast<node_id>(position); }

/// A node, or none. None is all zeros, so that tables of these need not be filled.
class optional_node {
public:
    constexpr optional_node() = default;
    constexpr optional_node(node_id n) : plus_one_(static_cast<std::int16_t>(n + 1)) {}
    constexpr explicit operator bool() const { return plus_one_ != 0; }
    constexpr node_id operator*() const { return static_cast<node_id>(plus_one_ - 1); }

private:
    std::int16_t plus_one_{};
};

/// The nodes of a list, first to last.
class node_ids {
public:
    struct iterator {
        node_id at{};
        constexpr node_id operator*() const { return at; }
        constexpr iterator& operator++() { return ++at, *this; }
        constexpr bool operator==(const iterator&) const = default;
    };
    constexpr explicit node_ids(std::size_t count) : end_(node_at(count)) {}
    constexpr iterator begin() const { return {}; }
    constexpr iterator end() const { return {end_}; }
    constexpr node_id last() const { return node_at(end_ - 1); }  ///< no_node in an empty list

private:
    node_id end_;
};

/// A value for each node of a list. Nothing but a node is an index.
template <class T, class Values = std::vector<T>> class node_map {
public:
    constexpr node_map() = default;
    constexpr explicit node_map(std::size_t nodes, const T& value = {}) : values_(nodes, value) {}
    constexpr explicit node_map(Values values) : values_(std::move(values)) {}

    constexpr decltype(auto) operator[](node_id n) { return values_[static_cast<std::size_t>(n)]; }
    constexpr decltype(auto) operator[](node_id n) const { return values_[static_cast<std::size_t>(n)]; }
    template <class N> void operator[](N) const = delete;

    constexpr std::size_t size() const { return values_.size(); }
    constexpr node_ids ids() const { return node_ids(size()); }
    constexpr bool empty() const { return values_.empty(); }
    constexpr auto begin() { return values_.begin(); }
    constexpr auto end() { return values_.end(); }
    constexpr auto begin() const { return values_.begin(); }
    constexpr auto end() const { return values_.end(); }
    constexpr void push_back(T value) { values_.push_back(std::move(value)); }

private:
    Values values_{};
};

inline constexpr int max_nodes = 512;

/// The same with room for any list, as constant expressions need it.
template <class T> using node_table = node_map<T, std::array<T, max_nodes>>;

/// The same in the caller's memory.
template <class T> using node_span = node_map<T, std::span<T>>;

}  // namespace attune
