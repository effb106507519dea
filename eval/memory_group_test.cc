// Where a memory cgroup is looked for: on the files of several kinds of machine. What it
// does: memory_limit_test, as root.
#include "eval/memory_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// A machine of plain files: the kernel does not fill a new folder, so that what is asked
/// of it shows in the errors.
class MemoryGroups : public testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(testing::TempDir(), "memory_group_test.", ::getpid());
    fs::create_directories(root_);
    files_ = {root_ + "/cgroup", root_ + "/mountinfo"};
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  std::string Error() {
    return std::string(MemoryGroup::Create("x", 64_MiB, files_).status().message());
  }
  /// The folder of the group that would be made.
  std::string Group(const std::string& parent) {
    return absl::StrCat(root_, parent, "/hmann-eval.", ::getpid(), ".x");
  }

  std::string root_;
  CgroupFiles files_;
};

TEST_F(MemoryGroups, AMachineWithoutAControllerSaysWhatHelps) {
  Write("cgroup", "0::/\n");
  Write("mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("a memory cgroup cannot be made"),
                             HasSubstr("no memory controller"), HasSubstr("run as root")));
  EXPECT_EQ(MemoryGroup::Create("x", 64_MiB, files_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(MemoryGroups, VersionOneIsMadeBelowOurs) {
  Write("cgroup", "9:name=systemd:/\n5:devices:/else\n4:cpuset,memory:/jobs/7\n0::/\n");
  Write("mountinfo",
        absl::StrCat("34 31 0:31 / ", root_, "/cpu rw shared:5 - cgroup cgroup rw,cpu\n",
                     "35 31 0:32 / ", root_, "/v1 rw shared:5 - cgroup cgroup rw,cpuset,memory\n"));
  fs::create_directories(root_ + "/v1/jobs/7");
  EXPECT_THAT(Error(), HasSubstr(Group("/v1/jobs/7") + "/memory.limit_in_bytes"));
  EXPECT_FALSE(fs::exists(Group("/v1/jobs/7"))) << "what could not be set up is removed";
}

TEST_F(MemoryGroups, AContainerSeesAPartOfTheTree) {
  Write("cgroup", "4:memory:/docker/abc/inner\n");
  Write("mountinfo",
        absl::StrCat("35 31 0:32 /docker/abc ", root_, "/v1 rw - cgroup cgroup rw,memory\n"));
  fs::create_directories(root_ + "/v1/inner");
  EXPECT_THAT(Error(), HasSubstr(Group("/v1/inner")));
  fs::remove_all(root_ + "/v1/inner");
  EXPECT_THAT(Error(), HasSubstr(Group("/v1") + "/memory.limit_in_bytes"))
      << "not there at all: at the mount";
}

TEST_F(MemoryGroups, VersionTwoGoesUpToWhereTheControllerIsOn) {
  Write("cgroup", "0::/user.slice/session-1.scope\n");
  Write("mountinfo",
        absl::StrCat("31 23 0:28 / ", root_, "/v2 rw - cgroup2 cgroup2 rw,nsdelegate\n"));
  Write("v2/user.slice/session-1.scope/cgroup.controllers", "cpu memory\n");
  Write("v2/user.slice/cgroup.subtree_control", "cpu memory pids\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("session-1.scope/cgroup.subtree_control"),
                             HasSubstr(Group("/v2/user.slice") + "/memory.max")));
}

TEST_F(MemoryGroups, VersionTwoWithoutTheControllerIsNone) {
  Write("cgroup", "0::/\n");
  Write("mountinfo", absl::StrCat("31 23 0:28 / ", root_, "/v2 rw - cgroup2 cgroup2 rw\n"));
  Write("v2/cgroup.controllers", "cpu pids\n");
  EXPECT_THAT(Error(), HasSubstr("no memory controller"));
}

TEST_F(MemoryGroups, LeftoversOfTheDeadAreRemovedAndThoseOfTheLivingAreNot) {
  Write("cgroup", "4:memory:/\n");
  Write("mountinfo", absl::StrCat("35 31 0:32 / ", root_, "/v1 rw - cgroup cgroup rw,memory\n"));
  const std::string dead = root_ + "/v1/hmann-eval.2147483646.hmann",
                    living = absl::StrCat(root_, "/v1/hmann-eval.", ::getppid(), ".hmann");
  for (const std::string& folder : {dead, living, root_ + "/v1/other"})
    fs::create_directories(folder);
  EXPECT_FALSE(MemoryGroup::Create("x", 64_MiB, files_).ok());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_TRUE(fs::exists(root_ + "/v1/other"));
}

TEST_F(MemoryGroups, ALimitThatHoldsNothingIsRefused) {
  EXPECT_EQ(MemoryGroup::Create("x", 1000, files_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann
