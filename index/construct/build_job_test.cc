// Jobs of a bounded build that other processes make.
#include "index/construct/build_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "index/base/units.h"
#include "index/construct/bounded.h"
#include "index/construct/jobs/work_status.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A build that has begun, and the index it must produce. L1 is large enough to be
/// joined.
struct Begun {
  Begun() {
    options = SmallBuild(folder, DType::kU8, Metric::kL2, 13'000);
    options.promote = 0.2;
    MustBuild(options);
    content = FileContent(options.out);
    fs::remove(options.out);
    options.memory = 110_MiB;
    options.work = folder / "work";
    const auto inputs = BuildInputs::Open(options);
    EXPECT_TRUE(OpenWorkFolder(options, *inputs, 2600).ok());
  }
  absl::Status Run(const std::string& stage, std::size_t first, std::size_t last) const {
    Progress quiet(Progress::Show::kNever);
    return RunBuildJob({options.work, stage, first, last, 2, 100_MiB}, quiet);
  }
  WorkStatus Status() const { return *ReadWorkStatus(options.work); }
  std::size_t Jobs(const std::string& stage) const {
    for (const WorkStatus::Stage& known : Status().stages) {
      if (known.name == stage) return known.jobs;
    }
    return 0;
  }

  SampleFolder folder;
  BuildOptions options;
  std::string content;
};

TEST(BuildJob, JobsMadeElsewhereInReverseOrderGiveTheSameBytes) {
  Begun build;
  std::size_t jobs = 0;
  for (const std::string& stage : StageNames()) {
    if (!stage.starts_with("l0-")) continue;
    for (std::size_t j = build.Jobs(stage); j-- > 0; ++jobs)
      ASSERT_EQ(build.Run(stage, j, j + 1), absl::OkStatus()) << stage << " " << j;
  }
  EXPECT_GT(jobs, 20u);
  for (const WorkStatus::Stage& stage : build.Status().stages)
    EXPECT_EQ(stage.made, stage.jobs) << stage.name;
  const auto before = fs::last_write_time(build.options.work + "/l0-final-1.part");
  build.options.keep_work = true;
  MustBuild(build.options);
  EXPECT_EQ(fs::last_write_time(build.options.work + "/l0-final-1.part"), before)
      << "what a worker made is not made again";
  EXPECT_TRUE(FileContent(build.options.out) == build.content);
}

TEST(BuildJob, JobsWithOthersMadeBeforeGiveTheSameBytes) {
  // Vectors that a process loads for the jobs of one run are not those of jobs behind a
  // gap.
  for (const bool by_build : {false, true}) {
    Begun build;
    for (const std::string& stage : StageNames()) {
      if (!stage.starts_with("l0-")) continue;
      if (stage == "l0-shelf" || stage == "l0-part") {  // of layers in parts
        EXPECT_EQ(build.Run(stage, 0, 1).code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      const std::size_t jobs = build.Jobs(stage);
      if (jobs > 2) {
        ASSERT_EQ(build.Run(stage, 1, 2), absl::OkStatus()) << stage;
      }
      if (by_build && stage == "l0-links") break;
      ASSERT_EQ(build.Run(stage, 0, jobs), absl::OkStatus()) << stage;
    }
    if (by_build) {
      fs::remove(build.options.work + "/l0-lists-0.part");
      fs::remove(build.options.work + "/l0-rest-3.part");
    }
    MustBuild(build.options);
    EXPECT_TRUE(FileContent(build.options.out) == build.content) << by_build;
  }
}

TEST(BuildJob, OfL1GiveTheSameBytes) {
  Begun build;
  build.options.keep_work = true;
  MustBuild(build.options);
  // As if the build had ended when L1 was begun.
  for (const auto& entry : fs::directory_iterator(build.options.work)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("done-l1-") ||
        (name.starts_with("l1-") && !name.starts_with("l1-ids") && !name.starts_with("l1-row-of")))
      fs::remove(entry.path());
  }
  for (const char* stage : {"l1-lead", "l1-near", "l1-leaves", "l1-lists", "l1-links"})
    ASSERT_EQ(build.Run(stage, 0, build.Jobs(stage)), absl::OkStatus()) << stage;
  EXPECT_GT(build.Jobs("l1-back"), 0u);
  MustBuild(build.options);
  EXPECT_TRUE(FileContent(build.options.out) == build.content);
}

TEST(BuildJob, TwoProcessesOnOneJobDoNoHarm) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  Begun build;
  ASSERT_EQ(build.Run("l0-hash", 0, build.Jobs("l0-hash")), absl::OkStatus());
  for (int round = 0; round < 3; ++round) {
    pid_t children[2];
    for (pid_t& child : children) {
      child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        Progress quiet(Progress::Show::kNever);
        ::_exit(RunBuildJob({build.options.work, "l0-lead", 0, 4, 1, 0}, quiet).ok() ? 0 : 1);
      }
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    if (round < 2) fs::remove(build.options.work + "/l0-lead-2.part");
  }
  MustBuild(build.options);
  EXPECT_TRUE(FileContent(build.options.out) == build.content);
}

TEST(BuildJob, RefusesByName) {
  Begun build;
  const auto refusal = [&](const std::string& stage, std::size_t first, std::size_t last) {
    return std::string(build.Run(stage, first, last).message());
  };
  EXPECT_THAT(refusal("l0-everything", 0, 1),
              AllOf(HasSubstr("l0-lead"), HasSubstr("found l0-everything")));
  EXPECT_THAT(refusal("l0-lead", 0, 1),
              AllOf(HasSubstr("before l0-lead comes l0-hash"), HasSubstr("0 of 4 jobs")));
  EXPECT_THAT(refusal("l0-hash", 2, 9),
              AllOf(HasSubstr("expected some of 0-3"), HasSubstr("found 2-8")));
  EXPECT_THAT(refusal("l1-lead", 0, 1), HasSubstr("L1 is not begun"));
  fs::last_write_time(build.options.base,
                      fs::last_write_time(build.options.base) + std::chrono::seconds(5));
  EXPECT_THAT(refusal("l0-hash", 0, 1), HasSubstr("base_changed"));
  fs::remove_all(build.options.work);
  EXPECT_EQ(build.Run("l0-hash", 0, 1).code(), absl::StatusCode::kNotFound);
}

TEST(BuildJob, AWorkerThatCannotBeStartedIsAnError) {
  Begun build;
  build.options.workers = 2;
  build.options.memory = 400_MiB;
  build.options.worker_program = build.folder / "no such program";
  Progress quiet(Progress::Show::kNever);
  EXPECT_THAT(std::string(BuildIndex(build.options, quiet).status().message()),
              HasSubstr("no such program"));
  // A failed worker leaves its jobs to the build.
  build.options.worker_program = "/bin/false";
  MustBuild(build.options);
  EXPECT_TRUE(FileContent(build.options.out) == build.content);
  build.options.memory = 100_MiB;
  EXPECT_THAT(std::string(BuildIndex(build.options, quiet).status().message()),
              HasSubstr("2 workers"));
}

}  // namespace
}  // namespace hmann
