// A disk that is really full: a small tmpfs. Needs root.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tests/program.h"

namespace hmann {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct SmallDisk {
  explicit SmallDisk(const std::string& path) : path(path) {
    mounted = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=2m") == 0;
  }
  ~SmallDisk() {
    if (mounted) ::umount2(path.c_str(), MNT_DETACH);
  }
  std::string path;
  bool mounted = false;
};

TEST(FullDisk, BuildFailsAndTheOldIndexSurvives) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a tmpfs needs root";
  const TestFolder folder("small_disk");
  const SmallDisk disk(folder.path().string());
  if (!disk.mounted) GTEST_SKIP() << "no tmpfs here: " << std::strerror(errno);
  const std::string index = folder / "a.hmann";
  const std::string base = "datasets/sample/base.u8bin";
  const Outcome small =
      RunProgram({HmannProgram(), "build", "--base", base, "--out", index, "--rows", "2000"});
  ASSERT_EQ(small.exit_code, 0) << small.err;
  const std::string before = ReadFile(index);

  const Outcome large = RunProgram({HmannProgram(), "build", "--base", base, "--out", index});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("a.hmann"));
  EXPECT_THAT(large.err, HasSubstr("No space left"));
  EXPECT_THAT(folder.Files(), ElementsAre("a.hmann"));
  EXPECT_TRUE(ReadFile(index) == before);
}

}  // namespace
}  // namespace hmann
