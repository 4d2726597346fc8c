#pragma once
#include "tuner/search.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace attune::generators::inline tuner {

/// One search, as read from its log.
struct recorded_search {
    nlohmann::ordered_json begin;  ///< the subject of the search: kernel, space, seed, CPU, versions
    std::vector<tried_candidate> tried;
    std::optional<final_rounds> last;
    std::vector<length_rounds> lengths;  ///< of short calls, if another schedule serves longer ones
};

/// A file with a line of JSON for each candidate. Each line is on the disk before the next candidate is tried, so that
/// a killed search loses only the candidates it was working on.
class tune_log {
public:
    /// Without a file nothing is kept. With `keep` the file is read, except for a last line that was cut short; else it
    /// starts anew. Throws std::runtime_error for any other file.
    tune_log(const std::filesystem::path& file, bool keep);
    ~tune_log();
    tune_log(const tune_log&) = delete;
    tune_log& operator=(const tune_log&) = delete;

    const std::map<std::string, recorded_search>& searches() const { return searches_; }

    void begin(const std::string& search, const nlohmann::ordered_json& about);
    void add(const std::string& search, const tried_candidate& tried);
    void end(const std::string& search, const final_rounds& last);

    void compare(const std::string& search, const std::vector<length_rounds>& lengths);

    /// The searches of a file, which is not changed.
    static std::map<std::string, recorded_search> read(const std::filesystem::path& file);

private:
    void append(const nlohmann::ordered_json& line);

    std::filesystem::path file_;
    int fd_ = -1;
    std::map<std::string, recorded_search> searches_;
};

}  // namespace attune::generators::inline tuner
