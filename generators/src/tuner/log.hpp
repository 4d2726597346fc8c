#pragma once
#include "tuner/search.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace attune::generators {

/// One search as its log tells it.
struct recorded_search {
    nlohmann::ordered_json begin;  ///< what it was about: kernel, space, seed, CPU, versions
    std::vector<tried_candidate> tried;
    std::optional<final_rounds> last;
    std::vector<length_rounds> lengths;  ///< of short calls, where another schedule serves longer ones
};

/// A file of JSON lines, one a candidate, each on the disk before the next is tried: what is killed loses the candidate
/// at hand and no other.
class tune_log {
public:
    /// Without a file nothing is kept. What a file holds is read if `keep` is set, a last line that was cut short left
    /// out; else it starts anew. Throws std::runtime_error for a file that is no such log.
    tune_log(const std::filesystem::path& file, bool keep);
    ~tune_log();
    tune_log(const tune_log&) = delete;
    tune_log& operator=(const tune_log&) = delete;

    const std::map<std::string, recorded_search>& searches() const { return searches_; }

    void begin(const std::string& search, const nlohmann::ordered_json& about);
    void add(const std::string& search, const tried_candidate& tried);
    void end(const std::string& search, const final_rounds& last);

    void compare(const std::string& search, const std::vector<length_rounds>& lengths);

    /// The searches of a file, which is only read.
    static std::map<std::string, recorded_search> read(const std::filesystem::path& file);

private:
    void append(const nlohmann::ordered_json& line);

    std::filesystem::path file_;
    int fd_ = -1;
    std::map<std::string, recorded_search> searches_;
};

}  // namespace attune::generators
