// What the program does with names of files: pipes, devices and links to write to, and
// names that are not UTF-8.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/program.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const char kBase[] = "datasets/sample/base.u8bin";
const char kQueries[] = "datasets/sample/query.u8bin";

/// The index of the sample's first 1000 vectors, built once.
const std::string& SmallIndex() {
  static const TestFolder* folder = new TestFolder("files_index");
  static const std::string path = *folder / "small.hmann";
  static const Outcome built = Hmann({"build", "--base", kBase, "--out", path, "--rows", "1000"});
  EXPECT_EQ(built.exit_code, 0) << built.err;
  return path;
}

/// Commands that write one file, by its suffix.
struct Writer {
  const char* suffix;
  std::function<Outcome(const std::string& out)> run;
};
std::vector<Writer> Writers() {
  return {
      {".hmann",
       [](const std::string& out) {
         return Hmann({"build", "--base", kBase, "--rows", "300", "--no-calibrate", "--out", out});
       }},
      {".lifted",
       [](const std::string& out) {
         return Hmann(
             {"promote", SmallIndex(), "--promote", "0.1", "--no-calibrate", "--out", out});
       }},
      {".jsonl",
       [](const std::string& out) {
         return Hmann({"search", SmallIndex(), "--queries", kQueries, "--rows", "3", "--out", out});
       }},
      {".fbin",
       [](const std::string& out) {
         return Hmann({"data", "generate", "--n", "50", "--dim", "8", "--out", out});
       }},
      {".fvecs",
       [](const std::string& out) {
         return Hmann({"data", "convert", kQueries, out});
       }},
      {".gt",
       [](const std::string& out) {
         return Hmann({"data", "groundtruth", "--base", kBase, "--rows", "300", "--queries",
                       kQueries, "--k", "3", "--out", out});
       }},
      {".u8bin",
       [](const std::string& out) {
         return Hmann({"get", SmallIndex(), "--labels", "1,2", "--out", out});
       }},
      {".json",
       [](const std::string& out) {
         return Hmann({"profile", "--budget", "50ms", "--out", out});
       }},
  };
}

void IsRefused(const Outcome& ran, const std::vector<std::string>& words) {
  EXPECT_EQ(ran.exit_code, 1) << "signal " << ran.signal << ran.out;
  for (const std::string& word : words) EXPECT_THAT(ran.err, HasSubstr(word));
  EXPECT_THAT(ran.err, Not(HasSubstr("exception")));
}

TEST(FilesToWrite, PipesDevicesAndFoldersAreRefusedByName) {
  for (const Writer& writer : Writers()) {
    const TestFolder folder("refused");
    const std::string pipe = folder / absl::StrCat("pipe", writer.suffix),
                      device = folder / absl::StrCat("device", writer.suffix),
                      dir = folder / absl::StrCat("dir", writer.suffix);
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    ASSERT_TRUE(fs::create_directory(dir));
    std::vector<std::pair<std::string, std::string>> cases = {{pipe, "is a pipe"},
                                                              {dir, "is a folder"}};
    if (::mknod(device.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) == 0)  // as /dev/null; root's
      cases.emplace_back(device, "is a device");
    fs::create_symlink(pipe, folder / absl::StrCat("link", writer.suffix));
    cases.emplace_back(folder / absl::StrCat("link", writer.suffix), "is a pipe");
    for (const auto& [out, is] : cases) {
      const fs::file_type before = fs::symlink_status(out).type();
      IsRefused(writer.run(out), {out, is, "expected the name of a file"});
      EXPECT_EQ(fs::symlink_status(out).type(), before) << out;
    }
    EXPECT_EQ(folder.Files().size(), cases.size()) << testing::PrintToString(folder.Files());
  }
}

TEST(FilesToWrite, ALinkStaysAndItsFileIsReplaced) {
  for (const Writer& writer : Writers()) {
    const TestFolder folder("links");
    ASSERT_TRUE(fs::create_directory(folder / "real"));
    for (const char* kind : {"old", "new"}) {  // the file that it leads to is there, or not yet
      const std::string name = absl::StrCat(kind, writer.suffix);
      const std::string link = folder / name, file = folder / absl::StrCat("real/", name);
      if (std::strcmp(kind, "old") == 0) WriteFile(file, "old");
      fs::create_symlink(absl::StrCat("step", name), link);
      fs::create_symlink(absl::StrCat("real/", name), folder / absl::StrCat("step", name));
      const Outcome ran = writer.run(link);
      EXPECT_EQ(ran.exit_code, 0) << ran.err;
      EXPECT_TRUE(fs::is_symlink(link)) << link;
      EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file))) << file;
      EXPECT_GT(ReadFile(file).size(), 3u) << file;
    }
    EXPECT_EQ(folder.Files().size(), 5u) << testing::PrintToString(folder.Files());
  }
}

TEST(FilesToWrite, PromoteAndTunedTableFollowTheLink) {
  const TestFolder folder("promoted");
  const std::string file = folder / "a.hmann", link = folder / "current.hmann";
  fs::copy_file(SmallIndex(), file);
  fs::create_symlink("a.hmann", link);
  const Outcome ran = Hmann({"promote", link, "--promote", "0.3"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(folder.Files(), testing::ElementsAre("a.hmann", "a.hmann.tuned", "current.hmann"));
  for (const std::string& name : {file, link}) {
    const json info = json::parse(Hmann({"info", name, "--json"}).out);
    EXPECT_NEAR(info["promote"].get<double>(), 0.3, 0.01) << name;
    const Outcome searched =
        Hmann({"search", name, "--queries", kQueries, "--recall", "0.9", "--json"});
    EXPECT_EQ(searched.exit_code, 0) << name << searched.err;
  }
}

TEST(FilesToWrite, StdoutAndWhatALinkInTheWayLeadsTo) {
  const TestFolder folder("others");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"build", "--base", kBase, "--rows", "300", "--no-calibrate", "--out", "-"},
           {"data", "convert", kQueries, "-"},
           {"data", "generate", "--n", "9", "--dim", "2", "--out", "-"},
           {"data", "groundtruth", "--base", kBase, "--queries", kQueries, "--out", "-"},
           {"get", SmallIndex(), "--labels", "1", "--out", "-"}}) {
    IsRefused(Hmann(command), {"- is stdout", "expected the name of a file"});
  }
  EXPECT_FALSE(fs::exists("-"));
  // Links in a circle.
  fs::create_symlink("b.fbin", folder / "a.fbin");
  fs::create_symlink("a.fbin", folder / "b.fbin");
  IsRefused(Hmann({"data", "convert", kQueries, folder / "a.fbin"}), {"a.fbin", "symbolic links"});
  // A work folder that is a link stays one.
  ASSERT_TRUE(fs::create_directory(folder / "work"));
  fs::create_symlink("work", folder / "scratch");
  const Outcome ran =
      Hmann({"build", "--base", kBase, "--no-calibrate", "--out", folder / "w.hmann",
             "--build-memory", "160MiB", "--work", folder / "scratch"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(fs::is_symlink(folder / "scratch"));
  // A pipe is not waited for where a file is read, either.
  ASSERT_EQ(::mkfifo((folder / "p.u8bin").c_str(), 0600), 0);
  IsRefused(Hmann({"data", "info", folder / "p.u8bin"}), {"p.u8bin", "not a regular file"});
}

const char kOdd[] = "odd\xff";  // not UTF-8

TEST(OddNames, BuildWithinMemoryWithWorkersAndResumed) {
  const TestFolder folder("odd");
  const std::string base = folder / absl::StrCat(kOdd, ".u8bin"),
                    out = folder / absl::StrCat(kOdd, ".hmann"),
                    work = folder / absl::StrCat(kOdd, ".work");
  fs::copy_file(kBase, base);
  const std::vector<std::string> build = {"build",  "--base", base,          "--out",
                                          out,      "--work", work,          "--build-memory",
                                          "400MiB", "--json", "--keep-work", "--no-calibrate"};
  std::vector<std::string> shared = build;
  shared.insert(shared.end(), {"--workers", "2"});
  Outcome ran = Hmann(shared);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("ended with"))) << "the workers find the base";
  EXPECT_TRUE(json::accept(ran.out));
  ran = Hmann(build);
  ASSERT_EQ(ran.exit_code, 0) << "the folder is known again: " << ran.err;
  // Two names that differ in what is not UTF-8 are two bases.
  const std::string other = folder / "odd\xfe.u8bin";
  fs::copy_file(kBase, other);
  std::vector<std::string> another = build;
  another[2] = other;
  IsRefused(Hmann(another), {"begun with another base"});
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"build", "--status", "--work", work, "--json"},
           {"info", out, "--json"},
           {"data", "info", base, "--json"},
           {"plan", "--base", base, "--fast-memory", "64MiB", "--json"},
           {"search", out, "--queries", kQueries, "--json"},
           {"promote", out, "--no-calibrate", "--json"}}) {
    ran = Hmann(command);
    EXPECT_EQ(ran.exit_code, 0) << command[0] << ran.err;
    EXPECT_TRUE(json::accept(ran.out)) << command[0] << ran.out;
  }
}

TEST(ExitCode, TellsASchedulerWhatAnotherTryMayHeal) {
  const TestFolder folder("exit_code");
  const std::string work = folder / "work";
  const std::vector<std::string> build = {
      "build",  "--base", kBase, "--out",       folder / "a.hmann", "--build-memory",
      "160MiB", "--work", work,  "--keep-work", "--no-calibrate"};
  ASSERT_EQ(Hmann(build).exit_code, 0);
  const auto job = [&](const std::string& stage) {
    return Hmann({"build-job", "--work", work, "--stage", stage, "--jobs", "0"});
  };
  EXPECT_EQ(job("l0-none").exit_code, 1);
  for (const fs::directory_entry& entry : fs::directory_iterator(work)) {
    if (entry.path().filename().string().find("l0-") != std::string::npos) fs::remove(entry.path());
  }
  const Outcome early = job("l0-near");
  EXPECT_EQ(early.exit_code, 75) << early.err;
  EXPECT_THAT(early.err, HasSubstr("before l0-near comes "));
  const int lock = ::open((work + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  const Outcome busy = Hmann(build);
  EXPECT_EQ(busy.exit_code, 75);
  EXPECT_THAT(busy.err, HasSubstr("another build is at work in this folder: try again later"));
  ::close(lock);
  EXPECT_EQ(Hmann(build).exit_code, 0);
}

TEST(Split, NumbersOfShardsThatCannotBeAreRefused) {
  const TestFolder folder("split");
  const auto split = [&](const char* shards) {
    return Hmann({"data", "split", SmallIndex(), "--shards", shards, "--out", folder / "shards"});
  };
  for (const char* wrong : {"0", "257", "-1", "x"}) EXPECT_EQ(split(wrong).exit_code, 2) << wrong;
  IsRefused(split("2"), {"an index found, vectors expected"});
  EXPECT_THAT(folder.Files(), IsEmpty());
}

/// Commands whose output would replace what they read, under this name, a link's and
/// another name of the same file.
TEST(Inputs, AreNotReplaced) {
  const TestFolder folder("inputs");
  const std::string index = folder / "i.hmann", base = folder / "b.u8bin", truth = folder / "t.gt";
  fs::copy_file(SmallIndex(), index);
  fs::copy_file(kBase, base);
  ASSERT_EQ(Hmann({"data", "groundtruth", "--base", base, "--queries", kQueries, "--k", "3",
                   "--rows", "1000", "--out", truth})
                .exit_code,
            0);
  using Command = std::vector<std::string>;
  const std::vector<std::pair<std::string, std::function<Command(const std::string&)>>> commands = {
      {index,
       [&](const std::string& out) {
         return Command{"upgrade", index, "--out", out};
       }},
      {base,
       [&](const std::string& out) {
         return Command{"build", base, out};
       }},
      {base,
       [&](const std::string& out) {
         return Command{"build", kBase, out, "--queries", base};
       }},
      {base,
       [&](const std::string& out) {
         return Command{"data", "convert", base, out};
       }},
      {base,
       [&](const std::string& out) {
         return Command{"data", "generate", "--kind", "resample", "--from", base, "--out", out};
       }},
      {base,
       [&](const std::string& out) { return Command{"get", base, "--labels", "1", "--out", out}; }},
      {truth,
       [&](const std::string& out) {
         return Command{"data", "groundtruth", "--base", kBase, "--queries", truth, "--out", out};
       }},
      {truth, [&](const std::string& out) {
         return Command{"search", index,           "--queries", kQueries, "--k",
                        "3",      "--groundtruth", truth,       "--out",  out};
       }}};
  int number = 0;
  for (const auto& [input, command] : commands) {
    const std::string before = ReadFile(input), suffix = input.substr(input.rfind('.'));
    const std::string link = folder / absl::StrCat("link", ++number, suffix),
                      second = folder / absl::StrCat("second", number, suffix);
    fs::create_symlink(input, link);
    fs::create_hard_link(input, second);
    for (const std::string& out : {input, link, second}) {
      const Outcome ran = Hmann(command(out));
      EXPECT_EQ(ran.exit_code, 1) << number << ran.out;
      EXPECT_THAT(ran.err, HasSubstr("is the input ")) << number;
      EXPECT_EQ(ReadFile(input), before) << number;
    }
  }
}

TEST(Inputs, RowsOfAttributesAreNotReplaced) {
  const TestFolder folder("rows");
  const std::string index = folder / "i.hmann", rows = index + ".attrs";
  fs::copy_file(SmallIndex(), index);
  WriteFile(rows, "{\"a\": 1}\n");
  const Outcome attributes = Hmann({"attrs", index, "--from", rows});
  EXPECT_THAT(attributes.err, HasSubstr("is the input "));
  EXPECT_EQ(ReadFile(rows), "{\"a\": 1}\n");
  EXPECT_EQ(ReadFile(index), ReadFile(SmallIndex()));
}

}  // namespace
}  // namespace hmann
