#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune::mpi {

/// What one rank says of a call before any data is sent. All ranks must say the same.
class statement {
public:
    /// `call`: "run of my::alibi"
    explicit statement(std::string call = {}) : call_(std::move(call)) {}

    /// "shape of k", "f32 (1, 8, 4096, 64)", "tensors of one shape on all ranks": for whoever hears that they differ.
    void add(std::string_view what, std::string_view value, std::string_view attempt);
    /// This rank cannot make the call, in the words of its own error. All ranks throw them.
    void refuse(std::string_view sentence) { refusal_ = sentence; }

    /// The number of this rank's call, if the ranks differ in it.
    void number(std::uint64_t calls) { call_ += " (its call " + std::to_string(calls) + ")"; }

    const std::string& call() const { return call_; }
    bool refuses() const { return !refusal_.empty(); }
    std::uint64_t fingerprint() const;

    std::vector<std::byte> bytes() const;
    static statement of(std::span<const std::byte> bytes);

private:
    friend std::optional<std::string> disagreement(std::span<const statement> all);
    struct fact {
        std::string what, value, attempt;
    };
    std::string call_, refusal_;
    std::vector<fact> facts_;
};

/// The one sentence that all ranks throw if their statements differ.
std::optional<std::string> disagreement(std::span<const statement> all);

/// The shortest decimal that is this number and no other: 0.1. For facts, which are compared as text.
std::string exactly(double number);

/// "0", "0 and 3", "0 to 62 and 64", "0, 2, 4 and 17 others"
std::string list_of_ranks(std::span<const int> ranks);

}  // namespace attune::mpi
