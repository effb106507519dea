// Where a memory cgroup is searched for, tested on the files of several kinds of machine.
// memory_limit_test covers its effect, as root.
#include "eval/memory_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "index/base/units.h"

namespace hmann::eval {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// A machine of plain files. The kernel does not fill a new folder, so the errors show
/// what the code requests of it.
class MemoryGroups : public testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(testing::TempDir(), "memory_group_test.", ::getpid());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  std::string Error() {
    return std::string(MemoryGroup::Create("x", 64_MiB, root_).status().message());
  }
  /// The folder of the group that would be created.
  std::string Group(const std::string& parent) {
    return absl::StrCat(root_, parent, "/hmann-eval.", ::getpid(), ".x");
  }

  std::string root_;
};

TEST_F(MemoryGroups, AMachineWithoutAControllerSaysWhatHelps) {
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("a memory cgroup cannot be made"),
                             HasSubstr("no memory controller"), HasSubstr("run as root")));
  EXPECT_EQ(MemoryGroup::Create("x", 64_MiB, root_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(MemoryGroups, VersionOneIsMadeBelowOurs) {
  Write("proc/self/cgroup", "9:name=systemd:/\n5:devices:/else\n4:cpuset,memory:/jobs/7\n0::/\n");
  fs::create_directories(root_ + "/sys/fs/cgroup/memory/jobs/7");
  const std::string group = Group("/sys/fs/cgroup/memory/jobs/7");
  EXPECT_THAT(Error(), HasSubstr(group + "/memory.limit_in_bytes"));
  EXPECT_FALSE(fs::exists(group)) << "what could not be set up is removed";
}

TEST_F(MemoryGroups, AContainerSeesAPartOfTheTree) {
  Write("proc/self/cgroup", "4:memory:/docker/abc\n");
  fs::create_directories(root_ + "/sys/fs/cgroup/memory");
  EXPECT_THAT(Error(), HasSubstr(Group("/sys/fs/cgroup/memory") + "/memory.limit_in_bytes"))
      << "ours is not there: at the mount";
}

TEST_F(MemoryGroups, VersionTwoGoesUpToWhereTheControllerIsOn) {
  Write("proc/self/cgroup", "0::/user.slice/session-1.scope\n");
  Write("sys/fs/cgroup/user.slice/session-1.scope/cgroup.controllers", "cpu memory\n");
  Write("sys/fs/cgroup/user.slice/cgroup.subtree_control", "cpu memory pids\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("session-1.scope/cgroup.subtree_control"),
                             HasSubstr(Group("/sys/fs/cgroup/user.slice") + "/memory.max")));
}

TEST_F(MemoryGroups, VersionTwoWithoutTheControllerIsNone) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cgroup.controllers", "cpu pids\n");
  EXPECT_THAT(Error(), HasSubstr("no memory controller"));
}

TEST_F(MemoryGroups, LeftoversOfTheDeadAreRemovedAndThoseOfTheLivingAreNot) {
  Write("proc/self/cgroup", "4:memory:/\n");
  const std::string parent = root_ + "/sys/fs/cgroup/memory/",
                    dead = parent + "hmann-eval.2147483646.hmann",
                    living = absl::StrCat(parent, "hmann-eval.", ::getppid(), ".hmann");
  for (const std::string& folder : {dead, living, parent + "other"}) fs::create_directories(folder);
  EXPECT_FALSE(MemoryGroup::Create("x", 64_MiB, root_).ok());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_TRUE(fs::exists(parent + "other"));
}

TEST_F(MemoryGroups, ALimitThatHoldsNothingIsRefused) {
  EXPECT_EQ(MemoryGroup::Create("x", 1000, root_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hmann::eval
