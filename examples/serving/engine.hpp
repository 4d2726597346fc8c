#pragma once
#include "decoder.hpp"
#include "states.hpp"

#include <attune/runtime.hpp>

#include <map>
#include <memory>
#include <optional>
#include <random>

namespace serving {

/// What a user says, some steps after the last answer, and how many tokens the model answers: one at least.
struct turn {
    std::vector<int> words;
    std::size_t rest, answer;
};

struct request {
    std::vector<turn> turns;
    unsigned seed;  ///< of what is drawn
    /// What was said so far, by both; of each token of the model its place in it, and the logits that it was drawn by.
    std::vector<int> tokens{};
    std::vector<std::size_t> answers{};
    std::vector<float> logits{};

    std::size_t most() const;  ///< tokens of all turns
};

/// Serves requests over a cache of bytes in pages, and over pools of states where layers have some: a few at a time. A
/// step makes a token for each sequence that is there, and reads a part of the words of those that join or go on: one
/// pass through the model and one call a layer, with packed queries, which stores the new keys and values and attends,
/// or moves the states. Prompts that begin alike share pages, and begin with the state that was kept at their end.
class engine {
public:
    struct numbers {
        std::size_t done{}, tokens{}, steps{}, shared_pages{}, most_pages{}, kept_states{};
    };

    engine(const decoder& model, int pages, int sequences);

    void add(std::unique_ptr<request> what);
    bool step();  ///< a token for each sequence; whether there is more to do
    const std::vector<std::unique_ptr<request>>& done() const { return done_; }
    const numbers& so_far() const { return numbers_; }
    std::size_t running() const;

private:
    /// A sequence reads as many tokens in a step at most; at multiples of it states are kept.
    static constexpr int page_tokens = 16, most_blocks = 16, part_tokens = 32;

    /// One layer's keys or values: (page, key head, token, depth), and a scale for each row.
    struct pool {
        std::vector<std::int8_t> rows;
        std::vector<float> scales;
    };
    struct sequence {
        std::unique_ptr<request> of;
        std::vector<int> pages;
        std::minstd_rand random;
        std::size_t cached;                     ///< tokens whose keys and values are in the pages
        std::size_t turn{}, rest{}, answers{};  ///< steps to rest, and then tokens to answer
    };
    /// A full page of a prompt, and what its slot had after it, if that was kept.
    struct known_page {
        int page;
        std::vector<float> state;
    };
    /// What calls of attention read and write: the first rows of these. They stay where they are.
    struct packed_rows {
        std::vector<float> q, k_new, v_new, out;
        std::vector<std::int32_t> table, lengths, starts;
    };

    bool admit();
    void begin_turn(sequence& s);
    std::size_t tokens_of_step(const sequence& s) const;
    void keep(std::size_t slot, std::size_t before);
    void retire();
    void append(sequence& s, std::span<const float> logits);
    auto bound(int layer, auto call);
    void attend(int layer, bool is_prepared);

    const decoder& model_;
    state_pools states_;
    std::vector<pool> k_, v_;                       // by layer
    std::vector<int> free_, users_;                 // pages that nobody has; how many sequences have each
    std::map<std::vector<int>, known_page> known_;  // by all tokens up to their end
    std::vector<std::unique_ptr<request>> waiting_, done_;
    std::vector<std::optional<sequence>> slots_;
    numbers numbers_;
    packed_rows rows_;
    std::vector<std::vector<std::optional<attune::prepared_call>>> steps_;  // by layer, by tokens less one
};

}  // namespace serving
