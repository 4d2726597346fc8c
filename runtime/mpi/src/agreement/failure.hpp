#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// A call that failed after the agreement. Every rank tells every other its error or the message that it awaits. All
/// judge by the same notices, so all throw one sentence.
namespace attune::mpi {

/// What a rank tells of itself. Plain bytes of a fixed size: it is a message as it is.
struct notice {
    enum kind : int {
        thrown,   ///< an error of its own
        waiting,  ///< for a message of `awaited`
        joining,  ///< an agreement or a gather, which need all ranks
        busy,     ///< it waits for nothing, and has heard of another's failure
    };
    int rank{}, what{}, awaited{};
    int late{};            ///< it waited until the deadline
    std::uint64_t call{};  ///< the number of the call in which it says so
    std::array<char, 488> text{};

    void say(std::string_view sentence);  ///< one that is too long ends with "..."
    std::string_view sentence() const { return text.data(); }
};

/// The sentence, from the notice of each rank; nothing stands for a rank that told nothing.
std::string verdict(std::span<const std::optional<notice>> told);

/// "60 s"
std::string in_seconds(double seconds);

}  // namespace attune::mpi
