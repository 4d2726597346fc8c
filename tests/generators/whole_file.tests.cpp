// Files that are there whole or not at all.
#include "base/whole_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

using attune::generators::whole_file;
using attune::generators::write_whole;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// An empty folder, removed in the end.
struct scratch_folder {
    fs::path path = fs::temp_directory_path() / "attune_whole_file_tests";
    scratch_folder() { fs::remove_all(path), fs::create_directories(path); }
    ~scratch_folder() { fs::remove_all(path); }
    long files() const { return std::distance(fs::directory_iterator(path), {}); }
};

}  // namespace

TEST_CASE("a file is there when it is kept, and not before") {
    const scratch_folder folder;
    const fs::path file = folder.path / "a";
    {
        whole_file abandoned(file);
        std::ofstream(abandoned.part()) << "half";
        CHECK(!fs::exists(file));
    }
    CHECK(folder.files() == 0);
    whole_file kept(file);
    std::ofstream(kept.part()) << "whole";
    kept.keep();
    CHECK(content(file) == "whole");
    CHECK(folder.files() == 1);
}

TEST_CASE("two writers of one file in one process have two names, and the last one to end wins") {
    const scratch_folder folder;
    const fs::path file = folder.path / "a";
    whole_file first(file), second(file);
    REQUIRE(first.part() != second.part());
    std::ofstream(first.part()) << "first";
    std::ofstream(second.part()) << "second";
    second.keep();
    CHECK(content(file) == "second");
    first.keep();
    CHECK(content(file) == "first");
    CHECK(folder.files() == 1);
}

TEST_CASE("what cannot be written is refused, and what is no file is not replaced") {
    const scratch_folder folder;
    CHECK_THROWS_WITH(write_whole(folder.path / "absent" / "a", "text"),
                      Catch::Matchers::ContainsSubstring("absent/a\": No such file or directory"));
    CHECK_THROWS_WITH(write_whole("/dev/null", "text"),
                      "expected a file that can be written, got \"/dev/null\": it is no regular file");
    CHECK_THROWS_WITH(write_whole(folder.path, "text"), Catch::Matchers::ContainsSubstring("it is no regular file"));
    CHECK(fs::is_character_file("/dev/null"));
    write_whole(folder.path / "a", "before");
    write_whole(folder.path / "a", "after", true);
    CHECK(content(folder.path / "a") == "after");
    CHECK(folder.files() == 1);
}
