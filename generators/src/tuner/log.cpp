#include "tuner/log.hpp"

#include "base/formatting.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace attune::generators::inline tuner {
namespace {

using json = nlohmann::ordered_json;

json json_of(const schedule& s) { return json::parse(to_json(s)); }

json json_of(const std::vector<round_times>& all) {
    json rounds = json::array();
    for (const round_times& r : all) rounds.push_back({r.incumbent, r.challenger});
    return rounds;
}

std::vector<round_times> rounds_from(const json& list) {
    std::vector<round_times> rounds;
    for (const json& round : list) rounds.push_back({round.at(0).get<double>(), round.at(1).get<double>()});
    return rounds;
}

json json_of(const tried_candidate& tried) {
    json object{{"schedule", json_of(tried.schedule)},
                {"rounds", json_of(tried.rounds)},
                {"compile_seconds", tried.compile_seconds},
                {"at", tried.at}};
    if (!tried.wrong.empty()) object["wrong"] = tried.wrong;
    return object;
}

/// The target of a search, which its class names before the bucket.
const level& target_of(const recorded_search& search) {
    const std::string about = search.begin.at("class").get<std::string>();
    const std::size_t end = about.rfind(' '), from = about.rfind(' ', end - 1) + 1;
    return level_named(about.substr(from, end - from));
}

tried_candidate tried_from(const json& object, const level& target) {
    return {schedule_from_json(object.at("schedule").dump(), target), rounds_from(object.at("rounds")),
            object.value("wrong", std::string()), object.at("compile_seconds").get<double>(),
            object.at("at").get<double>()};
}

json json_of(const final_rounds& last) {
    json schedules = json::array();
    for (const schedule& s : last.schedules) schedules.push_back(json_of(s));
    return {{"schedules", schedules}, {"seconds", last.seconds}};
}

final_rounds final_from(const json& object, const level& target) {
    final_rounds last;
    for (const json& s : object.at("schedules")) last.schedules.push_back(schedule_from_json(s.dump(), target));
    last.seconds = object.at("seconds").get<std::vector<std::vector<double>>>();
    for (const auto& round : last.seconds)
        if (round.size() != last.schedules.size()) throw std::runtime_error("a time for each schedule");
    return last;
}

/// The searches of a log's text, and how much of it they take: the last line may be cut short.
std::pair<std::map<std::string, recorded_search>, std::size_t> parsed(const std::string& text,
                                                                      const std::filesystem::path& file) {
    std::map<std::string, recorded_search> searches;
    std::size_t at = 0;
    for (int number = 1;; ++number) {
        const std::size_t end = text.find('\n', at);
        if (end == text.npos) return {searches, at};
        try {
            const json line = json::parse(text.substr(at, end - at));
            const std::string of = line.at("search").get<std::string>();
            if (line.contains("begin"))
                searches[of] = {line.at("begin"), {}, {}, {}};
            else if (line.contains("tried"))
                searches.at(of).tried.push_back(tried_from(line.at("tried"), target_of(searches.at(of))));
            else if (line.contains("last"))
                searches.at(of).last = final_from(line.at("last"), target_of(searches.at(of)));
            else
                for (const json& each : line.at("lengths"))
                    searches.at(of).lengths.push_back(
                        {each.at("queries").get<std::int64_t>(), rounds_from(each.at("rounds"))});
        } catch (const std::exception& problem) {
            throw std::runtime_error(
                fmt::format("{}, line {}: expected a line of a search's log, got one that is none ({})", file.string(),
                            number, problem.what()));
        }
        at = end + 1;
    }
}

std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

tune_log::tune_log(const std::filesystem::path& file, bool keep) : file_(file) {
    if (file_.empty()) return;
    std::size_t whole = 0;
    if (keep) std::tie(searches_, whole) = parsed(text_of(file_), file_);
    fd_ = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(whole)) != 0)
        throw std::runtime_error(
            fmt::format("expected a log that can be written, got \"{}\": {}", file_.string(), std::strerror(errno)));
}

tune_log::~tune_log() {
    if (fd_ >= 0) close(fd_);
}

void tune_log::append(const json& line) {
    if (fd_ < 0) return;
    const std::string text = line.dump() + "\n";
    // One write of one line, so that two processes would not mix theirs.
    if (write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(fd_) != 0)
        throw std::runtime_error(
            fmt::format("expected a log that can be written, got \"{}\": {}", file_.string(), std::strerror(errno)));
}

void tune_log::begin(const std::string& search, const json& about) {
    searches_[search] = {about, {}, {}, {}};
    append({{"search", search}, {"begin", about}});
}
void tune_log::add(const std::string& search, const tried_candidate& tried) {
    append({{"search", search}, {"tried", json_of(tried)}});
}
void tune_log::end(const std::string& search, const final_rounds& last) {
    append({{"search", search}, {"last", json_of(last)}});
}

void tune_log::compare(const std::string& search, const std::vector<length_rounds>& lengths) {
    json list = json::array();
    for (const length_rounds& each : lengths)
        list.push_back({{"queries", each.queries}, {"rounds", json_of(each.rounds)}});
    append({{"search", search}, {"lengths", list}});
}

std::map<std::string, recorded_search> tune_log::read(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file))
        throw std::runtime_error("expected the log of a search, got \"" + file.string() + "\", which is not there");
    return parsed(text_of(file), file).first;
}

}  // namespace attune::generators::inline tuner
