// The conventions of ARCHITECTURE.md, as tests over the source tree and the objects that came of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/house.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 400;
constexpr std::size_t kMostFunctionLines = 60;
constexpr std::uintmax_t kMostFileBytes = 4u << 20;

const std::vector<SourceFile>& Tree() {
  static const auto* tree = new std::vector<SourceFile>(ReadTree(fs::current_path()));
  return *tree;
}

// From the ground up, as in ARCHITECTURE.md: a room may use what it knows, and what those know.
const std::vector<std::pair<std::string, std::vector<std::string>>> kRooms = {
    {"index/base", {}},
    {"index/dials", {"index/base"}},
    {"index/distance", {"index/base"}},
    {"datasets", {"index/base", "index/distance"}},
    {"index/graph", {"index/base", "index/distance"}},
    {"index/sketch", {"index/base", "index/distance"}},
    {"index/tiers", {"index/base"}},
    {"index/format", {"index/graph", "index/sketch", "index/tiers"}},
    {"index/build", {"index/graph", "index/sketch", "datasets", "index/format"}},
    {"index/search", {"index/dials", "index/graph", "index/sketch", "index/tiers", "index/format"}},
    {"index/tune", {"index/search", "index/build"}},
    {"index", {"index/build", "index/tune", "index/search", "index/format", "datasets"}},
    {"proto", {"index/dials"}},
    {"client", {"proto", "index/dials"}},
    {"server", {"index", "proto"}},
    {"eval", {"index", "index/tiers", "index/search", "datasets", "client"}},
    {"tools", {"eval", "server", "client", "index"}},
    {"tests", {"tools"}},
};

std::string RoomOf(const std::string& path) {
  std::string best;
  for (const auto& [room, knows] : kRooms) {
    if (path.starts_with(absl::StrCat(room, "/")) && room.size() > best.size()) best = room;
  }
  return best;
}

/// Everything that a room reaches through its arrows, itself included.
std::set<std::string> Reach(const std::string& room) {
  std::set<std::string> reach = {room};
  for (const auto& [name, knows] : kRooms) {
    if (name != room) continue;
    for (const std::string& known : knows) reach.merge(Reach(known));
  }
  return reach;
}

/// The allow-list: "file index/x.cc" -> 420.
std::map<std::string, std::size_t> Allowed() {
  std::map<std::string, std::size_t> allowed;
  std::ifstream in("tests/house_rules_allow.txt");
  for (std::string line; std::getline(in, line);) {
    const std::size_t last = line.rfind(' ');
    if (line.empty() || line[0] == '#' || last == std::string::npos) continue;
    allowed[line.substr(0, last)] = std::stoul(line.substr(last + 1));
  }
  return allowed;
}

/// Compares sizes over a limit with the allow-list, both ways.
void ExpectRatchet(const std::string& kind, const std::map<std::string, std::size_t>& over, std::size_t limit) {
  for (const auto& [name, allowed] : Allowed()) {
    if (!name.starts_with(absl::StrCat(kind, " "))) continue;
    const auto found = over.find(name);
    EXPECT_TRUE(found != over.end()) << name << " is within " << limit << " lines now: take it off tests/house_rules_allow.txt";
    if (found == over.end()) continue;
    EXPECT_EQ(found->second, allowed) << name << ": tests/house_rules_allow.txt says " << allowed << "; shrink it, and then the list";
  }
  const auto allowed = Allowed();
  for (const auto& [name, lines] : over) {
    EXPECT_TRUE(allowed.contains(name)) << name << " has " << lines << " lines, at most " << limit << " are the rule: split it";
  }
}

TEST(HouseRules, TheTreeIsFound) {
  EXPECT_GT(Tree().size(), 40u);
  EXPECT_TRUE(std::any_of(Tree().begin(), Tree().end(), [](const SourceFile& file) { return file.path == "index/hmann.h"; }));
}

TEST(HouseRules, FilesAreShort) {
  std::map<std::string, std::size_t> over;
  for (const SourceFile& file : Tree()) {
    if (file.Cpp() && file.lines.size() > kMostLines) over[absl::StrCat("file ", file.path)] = file.lines.size();
  }
  ExpectRatchet("file", over, kMostLines);
}

TEST(HouseRules, FunctionsAreShort) {
  std::map<std::string, std::size_t> over;
  std::size_t seen = 0;
  for (const SourceFile& file : Tree()) {
    if (!file.Cpp()) continue;
    for (const Function& function : Functions(file)) {
      ++seen;
      if (function.lines > kMostFunctionLines) over[absl::StrCat("function ", file.path, " ", function.name)] = function.lines;
    }
  }
  EXPECT_GT(seen, 2000u);
  ExpectRatchet("function", over, kMostFunctionLines);
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
      EXPECT_TRUE(reach.contains(included)) << file.path << " includes " << match[1] << ": " << room << " does not know " << included;
    }
  }
  EXPECT_GT(seen, 100u);
}

TEST(HouseRules, EveryRoomIsOnTheMap) {
  std::ifstream in("ARCHITECTURE.md");
  const std::string map((std::istreambuf_iterator<char>(in)), {});
  for (const SourceFile& file : Tree()) {
    const fs::path path(file.path);
    if (path.filename() != "CMakeLists.txt" || path.parent_path().empty() || file.path.starts_with("tests/consumer")) continue;
    const std::string room = absl::StrCat("`", path.parent_path().string(), "/`");
    EXPECT_NE(map.find(room), std::string::npos) << "ARCHITECTURE.md does not name the room " << room;
  }
}

TEST(HouseRules, EveryTestIsBuilt) {
  const std::regex kind("_(test|bench|fuzz)\\.cc$");
  for (const SourceFile& file : Tree()) {
    if (!std::regex_search(file.path, kind)) continue;
    const std::string stem = fs::path(file.path).stem().string();
    // The room's list, or that of a room around it.
    bool named = false;
    for (fs::path folder = fs::path(file.path).parent_path(); !folder.empty() && !named; folder = folder.parent_path()) {
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
  std::regex allowed_in;  ///< paths where it may stand
};

const std::vector<Ban>& Bans() {
  static const auto* bans = new std::vector<Ban>{
      {std::regex(R"(\b(s?rand|random_device)\b *[({;> ])"), "index/base/random.h: seeded, by counter", std::regex("^$")},
      {std::regex(R"(\bmt19937(_64)?\b)"), "index/base/random.h: by counter, whatever the threads do",
       std::regex("^tests/|conformance|_(test|bench)\\.cc$")},
      {std::regex(R"(\bstrtok(_r)?\b)"), "absl::StrSplit", std::regex("^$")},
      {std::regex(R"(\bv?sprintf\b)"), "absl::StrFormat", std::regex("^$")},
      {std::regex(R"(\b(atoi|atol|atof|strtol|strtoul|strtod|stoi|stol|stoul|stoull|stod|stof)\b *\()"),
       "absl::SimpleAtoi and its kin, which can fail", std::regex("^tests/house")},
      {std::regex(R"(\bstd::(cout|cerr|clog)\b)"), "a Status upwards; only tools/ and eval/ talk to people",
       std::regex("^(tools|eval|tests)/|_(test|bench)\\.cc$")},
      {std::regex(R"((^|[^\w.>])(std::)?v?printf *\()"), "a Status upwards; only tools/ and eval/ talk to people",
       std::regex("^(tools|eval|tests)/|_(main|bench)\\.cc$")},
      {std::regex(R"(\bassert *\()"), "HMANN_CHECK, which release builds keep", std::regex("^$")},
      {std::regex(R"(\bthrow\b)"), "absl::Status", std::regex("^(tools|tests)/|_test\\.cc$")},
      {std::regex(R"(\busing namespace std *;)"), "the names in full", std::regex("^$")},
      {std::regex(R"(\b(_mm_prefetch|__builtin_prefetch)\b)"), "index/base/prefetch.h: g++ 12 drops bare prefetch helpers",
       std::regex("^index/base/prefetch\\.h$")},
      {std::regex(R"(\b(gettimeofday|strcpy|strcat|gets|alloca)\b *\()"), "std::chrono, std::string", std::regex("^$")},
      {std::regex(R"((^|[^\w.>:])(std::)?system *\()"), "posix_spawn with an argument list", std::regex("^$")},
      {std::regex(R"(\b(mkstemp|tmpnam|tempnam)\b)"), "AtomicFile", std::regex("_test\\.cc$|^tests/")},
      {std::regex(R"(-(march=native|ffast-math|Ofast)\b)"), "a kernel file with flags of its own", std::regex("^eval/")},
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
        EXPECT_FALSE(std::regex_search(line, ban.pattern)) << file.path << ":" << number << ": use " << ban.instead;
      }
    }
  }
}

TEST(HouseRules, NothingIsLeftForLater) {
  const std::regex later(absl::StrCat("\\b(TO", "DO|FIX", "ME|XX", "X)\\b"));
  for (const SourceFile& file : Tree()) {
    if (file.path.ends_with("package-lock.json")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], later)) << file.path << ":" << i + 1 << ": do it, or write an issue";
    }
  }
}

TEST(HouseRules, LockFilesNameNoRegistry) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with("package-lock.json")) continue;
    EXPECT_FALSE(absl::StrContains(file.text, "\"resolved\"")) << file.path << ": .npmrc leaves these out; run npm at the root";
  }
}

TEST(HouseRules, HeadersGuardThemselves) {
  for (const SourceFile& file : Tree()) {
    if (!file.path.ends_with(".h")) continue;
    EXPECT_NE(file.text.find("#pragma once"), std::string::npos) << file.path;
  }
}

TEST(HouseRules, FilesAreSmall) {
  for (auto it = fs::recursive_directory_iterator("."); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    const bool top = it.depth() == 0;
    if (it->is_directory() &&
        ((top && (name == "build" || name == "data")) || name == "node_modules" || name == ".git" || name == ".cache")) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && !it->is_symlink()) {
      EXPECT_LE(it->file_size(), kMostFileBytes) << it->path() << ": large files do not belong in the repository";
    }
  }
}

}  // namespace
}  // namespace hmann
