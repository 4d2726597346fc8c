#pragma once
#include "decoder.hpp"

#include <attune/runtime.hpp>

#include <map>
#include <memory>
#include <optional>
#include <random>

namespace serving {

struct request {
    std::vector<int> tokens;   ///< the prompt, and then what the model says
    std::size_t prompt, most;  ///< tokens of the prompt, and with those that it may say
    unsigned seed;             ///< of what is drawn
};

/// Serves requests over a cache of bytes in pages, some at a time. A step makes a token for each sequence that is
/// there, and reads the prompts of those that join when there is room: one pass through the model and one call a layer,
/// with packed queries, which stores the new keys and values and attends. Prompts that begin alike share pages.
class engine {
public:
    struct numbers {
        std::size_t done{}, tokens{}, steps{}, shared_pages{}, most_pages{};
    };

    engine(const decoder& model, int pages, int sequences);

    void add(std::unique_ptr<request> what) { waiting_.push_back(std::move(what)); }
    bool step();  ///< a token for each sequence; whether there is more to do
    const std::vector<std::unique_ptr<request>>& done() const { return done_; }
    const numbers& so_far() const { return numbers_; }
    std::size_t running() const { return running_.size(); }

private:
    static constexpr int page_tokens = 16, most_blocks = 16;

    /// One layer's keys or values: (page, key head, token, depth), and a scale for each row.
    struct pool {
        std::vector<std::int8_t> rows;
        std::vector<float> scales;
    };
    struct sequence {
        std::unique_ptr<request> of;
        std::vector<int> pages;
        std::minstd_rand random;
        std::size_t cached;  ///< tokens whose keys and values are in the pages
    };

    bool admit(std::size_t room);
    void retire();
    void write_table(std::size_t slot);
    std::vector<float> logits_after(std::span<const int> tokens, const std::function<void(int layer)>& attend);
    void append(std::size_t slot, std::span<const float> logits);
    auto bound(int layer, auto call);
    void attend(int layer);

    const decoder& model_;
    std::vector<pool> k_, v_;                // by layer
    std::vector<int> free_, users_;          // pages that nobody has; how many sequences have each
    std::map<std::vector<int>, int> known_;  // full pages of prompts, by all tokens up to their end
    std::vector<std::unique_ptr<request>> waiting_, done_;
    std::vector<sequence> running_;
    std::size_t most_running_;
    numbers numbers_;
    // What calls read and write: the first rows of these. They stay where they are.
    std::vector<float> q_, k_new_, v_new_, out_;
    std::vector<std::int32_t> table_, lengths_, starts_;
    std::vector<std::vector<std::optional<attune::prepared_call>>> steps_;  // by layer, by sequences less one
};

}  // namespace serving
