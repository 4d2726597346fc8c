#pragma once
#include <attune/runtime.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace soak {

/// One call of a kind, a variant, a shape and a number of threads that are drawn, checked against what the same call
/// gave before.
void call_once(std::mt19937& random);

std::int64_t calls_made();
void failed(const std::string& what);
std::string problem();  ///< what failed first, or nothing

// The calls of servers and trainers.
void packed_queries(std::mt19937& random);
void pages(std::mt19937& random);
void prepared(std::mt19937& random);
void gradient(std::mt19937& random);
void stores(std::mt19937& random);
void choices(std::mt19937& random);
void shards(std::mt19937& random);

// The parts of calls.
template <class T, std::size_t Count> const T& one_of(const T (&list)[Count], std::mt19937& random) {
    return list[random() % Count];
}
attune::options drawn_options(std::mt19937& random);
std::vector<float> filled(std::int64_t count, float step);

/// The same call gives the same bits, however many threads it has and whatever runs beside it.
void remember(const std::string& call, std::uint64_t result);
std::uint64_t hash(std::uint64_t seed, const float* data, std::int64_t count);

}  // namespace soak
