// A disk that is really full, or only read: a small tmpfs (needs root). A read that
// really fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/program.h"
#include "tests/small_disk.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FullDisk, BuildFailsAndTheOldIndexSurvives) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a tmpfs needs root";
  const TestFolder folder("small_disk");
  const SmallDisk disk(folder.path().string());
  if (!disk.mounted) GTEST_SKIP() << "no tmpfs here: " << std::strerror(errno);
  const std::string index = folder / "a.hmann";
  const std::string base = "datasets/sample/base.u8bin";
  const Outcome small = RunProgram({HmannProgram(), "build", "--base", base, "--out", index,
                                    "--rows", "2000", "--no-calibrate"});
  ASSERT_EQ(small.exit_code, 0) << small.err;
  const std::string before = ReadFile(index);

  const Outcome large = RunProgram({HmannProgram(), "build", "--base", base, "--out", index});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("a.hmann"));
  EXPECT_THAT(large.err, HasSubstr("No space left"));
  EXPECT_THAT(folder.Files(), ElementsAre("a.hmann"));
  EXPECT_TRUE(ReadFile(index) == before);
}

TEST(FullDisk, ABoundedBuildRefusesOrGoesOnWhenThereIsRoom) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a tmpfs needs root";
  const TestFolder folder("small_disk"), disk_folder("small_work");
  const SmallDisk disk(disk_folder.path().string(), "size=700k");
  if (!disk.mounted) GTEST_SKIP() << "no tmpfs here: " << std::strerror(errno);
  const auto build = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.begin(), {HmannProgram(), "build", "--base", "datasets/sample/base.u8bin",
                               "--out", folder / out});
    return RunProgram(more);
  };
  const std::vector<std::string> bounded = {"--build-memory", "160MiB", "--work",
                                            disk_folder / "work"};
  Outcome ran = build("a.hmann", bounded);
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("the work folder takes"), HasSubstr("are free")));
  std::vector<std::string> plan = bounded;
  plan.emplace_back("--plan");
  ran = build("a.hmann", plan);
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("the work folder takes"), HasSubstr("are free there")));
  // Enough for the known part, and too little for the rest.
  ASSERT_TRUE(disk.Resize("size=900k"));
  ran = build("a.hmann", bounded);
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("No space left"), HasSubstr("/work/")));
  EXPECT_THAT(folder.Files(), ElementsAre());
  ASSERT_TRUE(disk.Resize("size=16m"));
  ran = build("a.hmann", bounded);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  ran = build("b.hmann", {});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ReadFile(folder / "a.hmann") == ReadFile(folder / "b.hmann"));
}

TEST(FullDisk, ASplitLeavesNothingBehind) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a tmpfs needs root";
  const TestFolder folder("small_disk");
  // Of 8 shards of 160 kB, the first five fit.
  const SmallDisk disk(folder.path().string(), "size=900k");
  if (!disk.mounted) GTEST_SKIP() << "no tmpfs here: " << std::strerror(errno);
  const std::vector<std::string> split = {
      "data", "split", "datasets/sample/base.u8bin", "--shards", "8", "--out", folder / "shards"};
  const Outcome ran = Hmann(split);
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("/shard-5."), HasSubstr("No space left")));
  EXPECT_THAT(folder.Files(), ElementsAre());
  ASSERT_TRUE(disk.Resize("size=4m"));
  EXPECT_EQ(Hmann(split).exit_code, 0);
  EXPECT_THAT(folder.Files(), ElementsAre("shards"));
}

TEST(FailedRead, EndsABuildByNameAndItGoesOnOnceTheFileIsWhole) {
  const TestFolder folder("failed_read");
  const std::string base = folder / "base.u8bin", old = "an old index";
  ASSERT_EQ(Hmann({"data", "generate", "--n", "60K", "--dim", "64", "--out", base}).exit_code, 0);
  WriteFile(folder / "a.hmann", old);
  const std::vector<std::string> command = {
      HmannProgram(), "build",         "--base",         base,    "--out", folder / "a.hmann",
      "--work",       folder / "work", "--build-memory", "256MiB"};
  const std::string whole = ReadFile(base);
  const auto written = std::filesystem::last_write_time(base);
  {
    Program build(command);
    ASSERT_TRUE(build.UntilBusyFor(0.5));
    std::filesystem::resize_file(base, 4096);
    const Outcome ended = build.Wait();
    EXPECT_EQ(ended.exit_code, 1) << ended.signal;
    EXPECT_THAT(ended.err, AllOf(HasSubstr(base), HasSubstr("a read failed")));
    EXPECT_EQ(ReadFile(folder / "a.hmann"), old);
  }
  WriteFile(base, whole);
  std::filesystem::last_write_time(base, written);
  const Outcome ran = RunProgram(command);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(Hmann({"verify", folder / "a.hmann"}).exit_code, 0);
}

/// A disk is remounted for reading. A collection on it is read as before, and writes are
/// refused by name. The journal of the second one was not closed.
class ReadOnlyDisk : public testing::TestWithParam<bool> {};

TEST_P(ReadOnlyDisk, ACollectionIsReadAndNotWritten) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a tmpfs needs root";
  const TestFolder folder("read_only"), copies("copies");
  const SmallDisk disk(folder.path().string(), "size=64m");
  if (!disk.mounted) GTEST_SKIP() << "no tmpfs here: " << std::strerror(errno);
  const std::string live = folder / "c.live", base = "datasets/sample/base.u8bin";
  const std::vector<std::vector<std::string>> writes = {
      {"put", live, base, "--rows", "1200"}, {"delete", live, "3"}, {"compact", live}};
  ASSERT_EQ(Hmann({"create", live, "--dim", "128", "--dtype", "u8"}).exit_code, 0);
  ASSERT_EQ(Hmann({"put", live, base, "--rows", "1000"}).exit_code, 0);
  ASSERT_EQ(Hmann({"compact", live}).exit_code, 0);
  ASSERT_EQ(Hmann({"put", live, base, "--rows", "1100"}).exit_code, 0);
  if (GetParam()) {
    Program put({HmannProgram(), "put", live, base, "--rows", "1100", "--batch", "1"});
    while (!std::filesystem::exists(live + "/journal.sqlite-wal")) std::this_thread::yield();
    put.Signal(SIGKILL);
    EXPECT_EQ(put.Wait().signal, SIGKILL);
  }
  ASSERT_TRUE(disk.Remount(MS_RDONLY)) << std::strerror(errno);
  const std::vector<std::vector<std::string>> reads = {
      {"search", live, "datasets/sample/query.u8bin", "--k", "10"},
      {"get", live, "3", "1050"},
      {"info", live},
      {"verify", live},
      {"backup", live, copies / "copy.live"}};
  for (const std::vector<std::string>& read : reads) {
    const Outcome ran = Hmann(read);
    EXPECT_EQ(ran.exit_code, 0) << read[0] << ": " << ran.err;
  }
  EXPECT_THAT(Hmann({"info", live}).out, HasSubstr("1100 vectors"));
  EXPECT_THAT(Hmann({"info", copies / "copy.live"}).out, HasSubstr("1100 vectors"));
  for (const std::vector<std::string>& write : writes) {
    const Outcome ran = Hmann(write);
    EXPECT_EQ(ran.exit_code, 1) << write[0];
    EXPECT_THAT(ran.err, AllOf(HasSubstr(live), HasSubstr("Read-only file system")));
  }
  ASSERT_TRUE(disk.Remount(0)) << std::strerror(errno);
  for (const std::vector<std::string>& write : writes) EXPECT_EQ(Hmann(write).exit_code, 0);
  EXPECT_THAT(Hmann({"info", live}).out, HasSubstr("1199 vectors"));
}

INSTANTIATE_TEST_SUITE_P(All, ReadOnlyDisk, testing::Bool());

}  // namespace
}  // namespace hmann
