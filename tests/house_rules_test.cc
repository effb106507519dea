// Tests the conventions of ARCHITECTURE.md over the source tree and its compiled objects.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/house.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 600;
constexpr std::size_t kMostFunctionLines = 60;
constexpr std::size_t kMostColumns = 100;
constexpr std::size_t kMostCommentColumns = 90;
constexpr std::uintmax_t kMostFileBytes = 4u << 20;

const std::vector<SourceFile>& Tree() {
  static const auto* tree = new std::vector<SourceFile>(ReadTree(fs::current_path()));
  return *tree;
}

/// A room and the rooms it knows, by their paths.
struct Room {
  std::string path;
  std::vector<std::string> knows;
};

/// Reads the table of rooms in ARCHITECTURE.md, from the ground up. A known room is given
/// by its path or by a short name: a sibling, a room within, or one in index/.
std::vector<Room> ReadRooms() {
  std::ifstream in("ARCHITECTURE.md");
  std::vector<Room> rooms;
  bool in_table = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) in_table = line.starts_with("## Rooms");
    if (!in_table || !line.starts_with("| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    Room room{cells.front().substr(3, cells.front().rfind("/`") - 3), {}};
    std::string last = cells.back();
    absl::StripAsciiWhitespace(&last);
    const std::vector<std::string> names = absl::StrSplit(absl::StripSuffix(last, " |"), ", ");
    for (const std::string& name : names) {
      if (name == "nothing") continue;
      const fs::path beside = fs::path(room.path).parent_path() / name;
      for (const Room& known : rooms) {
        const bool is_it = known.path == name || known.path == beside.string() ||
                           known.path == absl::StrCat(room.path, "/", name) ||
                           known.path == absl::StrCat("index/", name);
        if (is_it || name == "everything") room.knows.push_back(known.path);
      }
      EXPECT_FALSE(room.knows.empty()) << room.path << " knows " << name << ": no room above it";
    }
    rooms.push_back(std::move(room));
  }
  return rooms;
}

const std::vector<Room>& Rooms() {
  static const auto* rooms = new std::vector<Room>(ReadRooms());
  return *rooms;
}

/// Maps public headers to rooms. "hmann/answer.h" belongs to index/parameters, whose
/// CMakeLists.txt lists it.
std::map<std::string, std::string> PublicHeaders() {
  std::map<std::string, std::string> headers;
  const std::regex list("PUBLIC ([a-z_.h ]+)");
  for (const auto& [room, knows] : Rooms()) {
    std::ifstream in(absl::StrCat(room, "/CMakeLists.txt"));
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    std::smatch match;
    if (!std::regex_search(text, match, list)) continue;
    const std::vector<std::string> names = absl::StrSplit(match[1].str(), ' ');
    for (const std::string& name : names) headers[absl::StrCat("hmann/", name)] = room;
  }
  return headers;
}

/// The innermost room around a file: index/tune, not index, for index/tune/tuner.h.
std::string RoomOf(const std::string& path) {
  static const auto* published = new std::map<std::string, std::string>(PublicHeaders());
  const std::size_t include = path.find("include/hmann/");
  const std::string name = include == std::string::npos ? path : path.substr(include + 8);
  if (const auto found = published->find(name); found != published->end()) return found->second;
  std::string best;
  for (const auto& [room, knows] : Rooms()) {
    if (path.starts_with(absl::StrCat(room, "/")) && room.size() > best.size()) best = room;
  }
  return best;
}

/// Everything that a room reaches through its arrows, itself included.
std::set<std::string> Reach(const std::string& room) {
  std::set<std::string> reach = {room};
  for (const auto& [name, knows] : Rooms()) {
    if (name != room) continue;
    for (const std::string& known : knows) reach.merge(Reach(known));
  }
  return reach;
}

TEST(HouseRules, TheTreeIsFound) {
  EXPECT_GT(Tree().size(), 40u);
  EXPECT_TRUE(std::any_of(Tree().begin(), Tree().end(), [](const SourceFile& file) {
    return file.path == "index/include/hmann/hmann.h";
  }));
}

TEST(HouseRules, PublicHeadersAreOfARoom) {
  const std::map<std::string, std::string> published = PublicHeaders();
  for (const SourceFile& file : Tree()) {
    const std::size_t include = file.path.find("include/hmann/");
    if (include == std::string::npos) continue;
    EXPECT_TRUE(published.contains(file.path.substr(include + 8)))
        << file.path << ": no room lists it as PUBLIC in its CMakeLists.txt";
  }
  EXPECT_GT(published.size(), 15u);
}

constexpr std::size_t kMostFilesOfAFolder = 40;

TEST(HouseRules, FoldersShowTheirParts) {
  std::map<std::string, std::size_t> files;
  const std::regex helper("_(test|bench|fuzz)\\.cc$");
  for (const SourceFile& file : Tree()) {
    if ((file.Cpp() || file.path.ends_with(".py")) && !std::regex_search(file.path, helper))
      ++files[fs::path(file.path).parent_path().string()];
  }
  for (const auto& [folder, count] : files) {
    if (folder == "tools") continue;  // one file per command
    EXPECT_LE(count, kMostFilesOfAFolder) << folder << ": split it";
  }
}

TEST(HouseRules, FilesAreShort) {
  for (const SourceFile& file : Tree()) {
    if (!file.Cpp() && !file.path.ends_with(".py")) continue;
    EXPECT_LE(file.lines.size(), kMostLines) << file.path << ": split it";
  }
}

TEST(HouseRules, FunctionsAreShort) {
  std::size_t seen = 0;
  for (const SourceFile& file : Tree()) {
    if (!file.Cpp()) continue;
    for (const Function& function : Functions(file)) {
      ++seen;
      EXPECT_LE(function.lines, kMostFunctionLines)
          << file.path << " " << function.name << ": split it";
    }
  }
  EXPECT_GT(seen, 2000u);
}

/// Characters, not bytes, of a line of UTF-8.
std::size_t Columns(const std::string& line) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins));
}

/// A URL in a comment and a raw string in code cannot be broken.
bool MayBeWide(const std::string& line, bool comment) {
  return absl::StrContains(line, comment ? "://" : "R\"(");
}

TEST(HouseRules, LinesAreNarrow) {
  std::size_t comments = 0;
  for (const SourceFile& file : Tree()) {
    if (!file.Cpp() && !file.path.ends_with(".py")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const std::size_t first = line.find_first_not_of(' ');
      const bool comment = first != std::string::npos && line.compare(first, 2, "//") == 0;
      comments += comment ? 1 : 0;
      const std::size_t most = comment ? kMostCommentColumns : kMostColumns;
      if (MayBeWide(line, comment)) continue;
      EXPECT_LE(Columns(line), most)
          << file.path << ":" << i + 1 << ": " << (comment ? "a comment" : "a line")
          << " has at most " << most << " columns";
    }
  }
  EXPECT_GT(comments, 2000u);
}

/// Idioms that a native engineer would not write, and old names. A phrase with a capital
/// counts at the beginning of a sentence only.
constexpr std::string_view kNotPlain[] = {
    "Of a",        "Of an",      "Of the",       "Of each",    "Of what",     "Of it",
    "Of these",    "Of those",   "Whoever",      "whoever",    "Who",         "What is",
    "What are",    "What was",   "What has",     "What comes", "What cannot", "so many",
    "as far as",   "beside",     "nobody",       "somebody",   "is told",     "are told",
    "was told",    "is asked",   "are asked",    "dear",       "to be had",   "can be had",
    "of before",   "goes on",    "at the most",  "shall",      "one's own",   "under way",
    "for the eye", "once more",  "all the same", "holds on",   "the like",    "not taken",
    "dial",        "dials",      "quantised",    "neighbour",  "neighbours",  "contestant",
    "rival",       "slow reads", "slow touches"};

/// The first of kNotPlain in `text`, as whole words; empty: none.
std::string_view NotPlain(std::string_view text) {
  const auto letter = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  for (const std::string_view phrase : kNotPlain) {
    for (std::size_t at = text.find(phrase); at != std::string_view::npos;
         at = text.find(phrase, at + 1)) {
      const std::size_t end = at + phrase.size();
      const bool opens = at == 0 || (at > 1 && (text[at - 2] == '.' || text[at - 2] == ':'));
      const bool word = (at == 0 || !letter(text[at - 1])) &&
                        (end == text.size() || (!letter(text[end]) && text[end] != '_'));
      if (word && (absl::ascii_islower(static_cast<unsigned char>(phrase[0])) || opens))
        return phrase;
    }
  }
  return {};
}

/// Comments of C++, and pages: what stands in ``` or is quoted code is left out.
TEST(HouseRules, CommentsAndPagesArePlainEnglish) {
  std::size_t comments = 0, lines = 0;
  for (const SourceFile& file : Tree()) {
    const bool page = file.path.ends_with(".md") && !file.path.starts_with("doc/notes/") &&
                      file.path != "CHANGELOG.md";
    if ((!file.Cpp() && !page) || file.path == "tests/house_rules_test.cc") continue;
    bool fenced = false;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      std::string_view text = file.lines[i];
      if (page) {
        if (text.starts_with("```")) fenced = !fenced;
        if (fenced || text.starts_with("```")) continue;
        ++lines;
      } else {
        const std::size_t at = text.find("// ");
        if (at == std::string_view::npos || text.substr(0, at).find('"') != std::string_view::npos)
          continue;
        text = text.substr(at + 3);
        ++comments;
      }
      EXPECT_EQ(NotPlain(text), "") << file.path << ":" << i + 1 << ": " << text;
    }
  }
  EXPECT_GT(comments, 5000u);
  EXPECT_GT(lines, 500u);
}

TEST(HouseRules, ArrowsPointUp) {
  const std::regex include("^#include \"([^\"]+)\"");
  std::size_t seen = 0;
  for (const SourceFile& file : Tree()) {
    const std::string room = RoomOf(file.path);
    if (!file.Cpp() || room.empty() || file.Test()) continue;
    const std::set<std::string> reach = Reach(room);
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      const std::string included = RoomOf(match[1]);
      if (included.empty()) continue;
      ++seen;
      EXPECT_TRUE(reach.contains(included))
          << file.path << " includes " << match[1] << ": " << room << " does not know " << included;
    }
  }
  EXPECT_GT(seen, 100u);
}

TEST(HouseRules, TheServingCoreHasNoWire) {
  EXPECT_FALSE(Reach("server/core").contains("proto"));
  const std::regex wire("^#include [<\"](grpc|google/|proto/|httplib|nlohmann)");
  for (const SourceFile& file : Tree()) {
    if (!file.path.starts_with("server/core/") || file.Test()) continue;
    for (const std::string& line : file.lines)
      EXPECT_FALSE(std::regex_search(line, wire)) << file.path << ": " << line;
  }
}

TEST(HouseRules, ARoomInsideAnotherIsARoom) {
  EXPECT_EQ(RoomOf("index/tune/tuner.h"), "index/tune");
  EXPECT_EQ(RoomOf("index/include/hmann/tune.h"), "index/tune");
  EXPECT_EQ(RoomOf("hmann/answer.h"), "index/params");
  EXPECT_EQ(RoomOf("index/hmann.cc"), "index");
  EXPECT_FALSE(Reach("index").contains("index/tune")) << "the tuner is a client of hmann.h";
}

TEST(HouseRules, EveryRoomIsOnTheMap) {
  EXPECT_GT(Rooms().size(), 15u);
  for (const SourceFile& file : Tree()) {
    const fs::path path(file.path);
    if (path.filename() != "CMakeLists.txt" || path.parent_path().empty() ||
        file.path.starts_with("tests/consumer"))
      continue;
    EXPECT_EQ(RoomOf(file.path), path.parent_path().string())
        << "the table of rooms in ARCHITECTURE.md lacks it, so nothing holds it to its arrows";
  }
}

TEST(HouseRules, EveryTestIsBuilt) {
  const std::regex kind("_(test|bench|fuzz)\\.cc$");
  for (const SourceFile& file : Tree()) {
    if (!std::regex_search(file.path, kind)) continue;
    const std::string stem = fs::path(file.path).stem().string();
    // The list of the room, or that of an enclosing room.
    bool named = false;
    for (fs::path folder = fs::path(file.path).parent_path(); !folder.empty() && !named;
         folder = folder.parent_path()) {
      std::ifstream in(folder / "CMakeLists.txt");
      const std::string list((std::istreambuf_iterator<char>(in)), {});
      named = std::regex_search(list, std::regex(absl::StrCat("\\b", stem, "\\b")));
    }
    EXPECT_TRUE(named) << file.path << " is named in no CMakeLists.txt, so nothing builds it";
  }
}

struct Ban {
  std::regex pattern;  ///< over code without comments and literals
  const char* instead;
  std::regex allowed_in;  ///< paths where it is allowed
};

const std::vector<Ban>& Bans() {
  static const auto* bans = new std::vector<Ban>{
      {std::regex(R"(\b(s?rand|random_device)\b *[({;> ])"),
       "index/base/random.h: seeded, by counter", std::regex("^$")},
      {std::regex(R"(\bmt19937(_64)?\b)"),
       "index/base/random.h: by counter, whatever the threads do",
       std::regex("^tests/|conformance|_(test|bench)\\.cc$")},
      {std::regex(R"(\bstrtok(_r)?\b)"), "absl::StrSplit", std::regex("^$")},
      {std::regex(R"(\bv?sprintf\b)"), "absl::StrFormat", std::regex("^$")},
      {std::regex(
           R"(\b(atoi|atol|atof|strtol|strtoul|strtod|stoi|stol|stoul|stoull|stod|stof)\b *\()"),
       "absl::SimpleAtoi and its kin, which can fail", std::regex("^tests/house")},
      {std::regex(R"(\bstd::(cout|cerr|clog)\b)"),
       "a Status upwards; only tools/ and eval/ talk to people",
       std::regex("^(tools|eval|tests)/|_(test|bench)\\.cc$")},
      {std::regex(R"((^|[^\w.>])(std::)?v?printf *\()"),
       "a Status upwards; only tools/ and eval/ talk to people",
       std::regex("^(tools|eval|tests)/|_(main|bench)\\.cc$")},
      {std::regex(R"(\bassert *\()"), "HMANN_CHECK, which release builds keep", std::regex("^$")},
      {std::regex(R"(\bthrow\b)"), "absl::Status",
       std::regex("^(tools|eval/program|client/python|tests)/|_test\\.cc$")},
      {std::regex(R"(\busing namespace std *;)"), "the names in full", std::regex("^$")},
      {std::regex(R"(\b(_mm_prefetch|__builtin_prefetch)\b)"),
       "index/base/prefetch.h: g++ 12 drops bare prefetch helpers",
       std::regex("^index/base/prefetch\\.h$")},
      {std::regex(R"(\b(gettimeofday|strcpy|strcat|gets|alloca)\b *\()"),
       "std::chrono, std::string", std::regex("^$")},
      {std::regex(R"((^|[^\w.>:])(std::)?system *\()"), "posix_spawn with an argument list",
       std::regex("^$")},
      {std::regex(R"(\b(mkstemp|tmpnam|tempnam)\b)"), "AtomicFile",
       std::regex("_test\\.cc$|^tests/")},
      {std::regex(R"(\brename *\()"), "AtomicFile; FileToWrite says which file it replaces",
       std::regex("^(index/base/file|index/collection/create|datasets/toolbox/fetch|eval/"
                  "(results|adapters/build_cache))"
                  "\\.cc$|^tests/|_test\\.cc$")},
      {std::regex(R"(\.dump *\()"), "JsonText, since names are not always UTF-8",
       std::regex("^index/base/json_reader\\.h$|^tests/|_(test|bench)\\.cc$")},
      {std::regex(R"(-(march=native|ffast-math|Ofast)\b)"), "a kernel file with flags of its own",
       std::regex("^eval/")},
  };
  return *bans;
}

TEST(HouseRules, NoBannedCall) {
  for (const SourceFile& file : Tree()) {
    if (!file.Cpp() && !file.path.ends_with("CMakeLists.txt")) continue;
    const std::string code = file.Cpp() ? CodeOnly(file.text) : file.text;
    for (const Ban& ban : Bans()) {
      if (std::regex_search(file.path, ban.allowed_in)) continue;
      std::istringstream lines(code);
      std::size_t number = 0;
      for (std::string line; std::getline(lines, line);) {
        ++number;
        EXPECT_FALSE(std::regex_search(line, ban.pattern))
            << file.path << ":" << number << ": use " << ban.instead;
      }
    }
  }
}

TEST(HouseRules, NothingIsLeftForLater) {
  const std::regex later(absl::StrCat("\\b(TO", "DO|FIX", "ME|XX", "X)\\b"));
  for (const SourceFile& file : Tree()) {
    if (file.path.ends_with("package-lock.json")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], later))
          << file.path << ":" << i + 1 << ": do it, or write an issue";
    }
  }
}

TEST(HouseRules, LockFilesNameNoRegistry) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with("package-lock.json")) continue;
    EXPECT_FALSE(absl::StrContains(file.text, "\"resolved\""))
        << file.path << ": .npmrc leaves these out; run npm at the root";
  }
}

TEST(HouseRules, HeadersGuardThemselves) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".h")) continue;
    EXPECT_NE(file.text.find("#pragma once"), std::string::npos) << file.path;
  }
}

TEST(HouseRules, FilesAreSmall) {
  for (auto it = fs::recursive_directory_iterator("."); it != fs::recursive_directory_iterator();
       ++it) {
    const std::string name = it->path().filename().string();
    const bool top = it.depth() == 0;
    if (it->is_directory() && ((top && (name == "build" || name == "data")) ||
                               name == "node_modules" || name == ".git" || name == ".cache")) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && !it->is_symlink()) {
      EXPECT_LE(it->file_size(), kMostFileBytes)
          << it->path() << ": large files do not belong in the repository";
    }
  }
}

}  // namespace
}  // namespace hmann
