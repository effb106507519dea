#include "index/construct/bounded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/checkpoints.h"
#include "index/construct/graph/bottom_layer.h"
#include "index/construct/jobs/stages.h"
#include "index/construct/jobs/work_status.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A build of several groups and ranges, in memory and within bounded memory.
struct Sample {
  explicit Sample(DType dtype = DType::kU8, Metric metric = Metric::kL2, std::uint64_t n = 9000,
                  BuildMethod method = BuildMethod::kPartition) {
    options = SmallBuild(folder, dtype, metric, n);
    options.method = method;
    MustBuild(options);
    content = FileContent(options.out);
    fs::remove(options.out);
    options.memory = 110_MiB;
    options.work = folder / "work";
  }
  std::vector<std::string> Artifacts() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(options.work)) {
      if (entry.path().extension() == ".part") paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  SampleFolder folder;
  BuildOptions options;
  std::string content;  ///< of the index that was built in memory
};

/// Memory that a sanitizer takes for itself.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kOfSanitizer = 1_GiB;
#else
constexpr std::uint64_t kOfSanitizer = 0;
#endif

class Bounded : public testing::TestWithParam<std::tuple<DType, Metric>> {};

TEST_P(Bounded, HasTheBytesOfABuildInMemory) {
  Sample sample(std::get<0>(GetParam()), std::get<1>(GetParam()));
  for (const int threads : {1, 3}) {
    sample.options.threads = threads;
    const BuildReport report = MustBuild(sample.options);
    EXPECT_TRUE(FileContent(sample.options.out) == sample.content) << threads << " threads";
    EXPECT_LE(report.peak_anonymous_bytes, sample.options.memory + kOfSanitizer);
    EXPECT_GT(report.peak_anonymous_bytes, 0u);
    EXPECT_FALSE(fs::exists(sample.options.work)) << "is removed at the end";
  }
}

INSTANTIATE_TEST_SUITE_P(, Bounded,
                         testing::Values(std::tuple(DType::kU8, Metric::kL2),
                                         std::tuple(DType::kI8, Metric::kCosine),
                                         std::tuple(DType::kF32, Metric::kCosine),
                                         std::tuple(DType::kF16, Metric::kCosine),
                                         std::tuple(DType::kF32, Metric::kL2)));

TEST(BoundedBuild, WithReplicasAndCopiesHasTheBytesOfABuildInMemory) {
  SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 3000);
  // Every vector of the first half appears twice more, far from the first.
  std::vector<std::uint8_t> rows;
  const std::string base = FileContent(options.base);
  for (const std::size_t part : {3000, 1500, 1500}) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(base.data()) + 8;
    rows.insert(rows.end(), begin, begin + part * 12);
  }
  options.base = folder / "copies.u8bin";
  WriteRows(options.base, 12, rows);
  options.replicas = 2;
  EXPECT_EQ(MustBuild(options).duplicates, 3000u);
  const std::string content = FileContent(options.out);
  options.memory = 110_MiB;
  options.work = folder / "work";
  EXPECT_EQ(MustBuild(options).duplicates, 3000u);
  EXPECT_TRUE(FileContent(options.out) == content);
}

TEST(BoundedBuild, PromotesAFinishedIndexToTheBytesOfAPromotionInMemory) {
  for (const bool user_labels : {false, true}) {
    SampleFolder folder;
    BuildOptions first = SmallBuild(folder, DType::kU8, Metric::kL2, 9000);
    if (user_labels) {
      std::vector<std::uint64_t> labels(9000);
      for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = 1'000'000 - i;
      first.labels = folder / "labels";
      std::ofstream(first.labels, std::ios::binary)
          .write(reinterpret_cast<const char*>(labels.data()), std::streamsize{9000} * 8);
    }
    MustBuild(first);
    BuildOptions promoted;
    promoted.from_index = first.out;
    promoted.out = folder / "promoted.hmann";
    promoted.promote = 0.3;
    MustBuild(promoted);
    const std::string content = FileContent(promoted.out);
    promoted.memory = 110_MiB;
    promoted.work = folder / "work";
    const BuildReport report = MustBuild(promoted);
    EXPECT_TRUE(FileContent(promoted.out) == content) << user_labels;
    EXPECT_LE(report.peak_anonymous_bytes, promoted.memory + kOfSanitizer);
    // The folder is refused for another index.
    promoted.keep_work = true;
    MustBuild(promoted);
    promoted.promote = 0.2;
    EXPECT_THAT(std::string(TryBuild(promoted).status().message()), HasSubstr("another promoted"));
  }
}

TEST(BoundedBuild, OfVeryFewVectorsWorks) {
  for (const std::uint64_t n : {1, 2, 5, 100}) {
    Sample sample(DType::kU8, Metric::kL2, n);
    MustBuild(sample.options);
    EXPECT_TRUE(FileContent(sample.options.out) == sample.content) << n;
  }
}

TEST(BoundedBuild, ByInsertionHasTheBytesOfABuildInMemory) {
  for (const auto& [dtype, metric] :
       {std::pair(DType::kU8, Metric::kL2), std::pair(DType::kF32, Metric::kCosine)}) {
    Sample sample(dtype, metric, 3000, BuildMethod::kInsertion);
    for (const int threads : {1, 3}) {
      sample.options.threads = threads;
      const BuildReport report = MustBuild(sample.options);
      EXPECT_TRUE(FileContent(sample.options.out) == sample.content) << threads << " threads";
      EXPECT_LE(report.peak_anonymous_bytes, sample.options.memory + kOfSanitizer);
      EXPECT_GT(report.work_bytes, 3000u * (12 + 2 * sample.options.m.value() * 4));
      EXPECT_FALSE(fs::exists(sample.options.work)) << "is removed at the end";
    }
  }
}

class Killed : public testing::TestWithParam<BuildMethod> {};

TEST_P(Killed, ABoundedBuildGoesOnWhereverThatWas) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  Sample sample(DType::kU8, Metric::kL2, 9000, GetParam());
  sample.options.keep_work = true;
  // Each child is killed a little later than the previous one, until one reaches the end.
  for (int milliseconds = 20, status = 1; status != 0; milliseconds += 60) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      sample.options.threads = 1;
      Progress quiet(Progress::Show::kNever);
      ::_exit(BuildIndex(sample.options, quiet).ok() ? 0 : 1);
    }
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "an error after a kill";
    ASSERT_LT(milliseconds, 60'000);
  }
  EXPECT_TRUE(FileContent(sample.options.out) == sample.content);
}

INSTANTIATE_TEST_SUITE_P(, Killed,
                         testing::Values(BuildMethod::kPartition, BuildMethod::kInsertion));

TEST(Checkpoints, GoOnFromTheLastThatIsWhole) {
  SampleFolder folder;
  const BuildOptions options = SmallBuild(folder, DType::kU8, Metric::kL2, 9000);
  const VectorFile file = *VectorFile::Open(options.base);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, file.dim());
  Progress quiet(Progress::Show::kNever);
  ThreadPool pool(2);
  const TaskContext job{pool, quiet, nullptr};
  const StoredVectors rows = *LoadVectors(file, kernels, job);
  const auto n = static_cast<NodeId>(file.n());
  const InsertionSource source{&rows, kernels, n, n, 6, 20, 1.2f};
  const auto work =
      *WorkFolder::Open(folder / "work", R"({"rows": 9000, "method": "insertion", "alpha": 1.2})");
  std::vector<PhaseTime> times;
  Phases phases(quiet, times);
  // Links until `end`, or to the end, from what is kept.
  const auto link = [&](const LinkedSoFar& end) {
    InsertionGraph graph =
        *OpenLayers(source, [&](std::size_t bytes) { return work->Scratch(bytes); });
    Checkpoints kept(*work, "l0-inserted", graph, n);
    const LinkedSoFar from = kept.Restore();
    const AfterBatch keep = kept.AfterEach();
    const absl::Status status = InsertBottom(
        source, graph, from,
        [&](const LinkedSoFar& state) {
          HMANN_RETURN_IF_ERROR(keep(state));
          const bool ends = state.inserted + state.refined >= end.inserted + end.refined;
          return ends ? absl::CancelledError() : absl::OkStatus();
        },
        phases, job);
    const NodeId* links = graph.Links(0, 0);
    return std::tuple(from, status, std::vector<NodeId>(links, links + std::size_t{n} * 12));
  };
  InsertionGraph whole = *OpenLayers(source);
  ASSERT_TRUE(InsertBottom(source, whole, {}, nullptr, phases, job).ok());
  const auto [nothing, cancelled, half] = link({n / 2 + 500, 0});
  EXPECT_EQ(nothing.inserted, 0u);
  EXPECT_FALSE(cancelled.ok());
  const WorkStatus there = *ReadWorkStatus(work->path());
  EXPECT_EQ(there.stages.at(1).name, "l0-inserted");
  EXPECT_EQ(there.stages[1].made, kCheckpoints / 2);
  EXPECT_EQ(there.stages[1].jobs, 2 * kCheckpoints);
  const auto [from_half, refining, more] = link({n, n / 4 + 500});
  EXPECT_GE(from_half.inserted, n / 2);
  EXPECT_LT(from_half.inserted, n / 2 + 500);
  EXPECT_FALSE(refining.ok());
  const auto [from_quarter, status, links] = link({n, n + 1});
  EXPECT_EQ(from_quarter.inserted, n);
  EXPECT_GE(from_quarter.refined, n / 4);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(links == std::vector<NodeId>(whole.Links(0, 0), whole.Links(0, n)));
  // The last state is damaged, and there is no other.
  fs::resize_file(absl::StrCat(work->path(), "/l0-inserted-16.part"), 1000);
  const auto [anew, again, same] = link({n, n + 1});
  EXPECT_EQ(anew.inserted, 0u);
  EXPECT_TRUE(same == links);
}

TEST(BoundedBuild, MakesAgainWhatIsDamagedMissingOrShort) {
  Sample sample;
  sample.options.keep_work = true;
  MustBuild(sample.options);
  std::uint64_t number = 0;
  for (const std::string& path : sample.Artifacts()) {
    const std::string kept = FileContent(path);
    if (kept.empty()) continue;
    switch (number++ % 3) {
      case 0:
        fs::remove(path);
        break;
      case 1:
        fs::resize_file(path, kept.size() / 2);
        break;
      default:
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(kept.size() / 3));
        file.put(static_cast<char>(kept[kept.size() / 3] ^ 1));
    }
    fs::remove(sample.options.out);
    const auto report = TryBuild(sample.options);
    ASSERT_TRUE(report.ok()) << path << ": " << report.status();
    ASSERT_TRUE(FileContent(sample.options.out) == sample.content) << path;
    if (number > 24) break;
  }
}

TEST(BoundedBuild, RefusesWhatCannotWork) {
  Sample sample(DType::kU8, Metric::kL2, 3000);
  const auto refusal = [](const BuildOptions& options) {
    return std::string(TryBuild(options).status().message());
  };
  BuildOptions options = sample.options;
  options.memory = 10_MiB;
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("3000 vectors"), HasSubstr("expected at least about")));
  options = sample.options;
  options.work.clear();
  EXPECT_THAT(refusal(options), HasSubstr("--work"));
  options = sample.options;
  options.memory = 0;
  EXPECT_THAT(refusal(options), HasSubstr("--build-memory"));
  options = sample.options;
  options.method = BuildMethod::kInsertion;
  options.workers = 2;
  options.worker_program = "hmann";
  EXPECT_THAT(refusal(options), HasSubstr("one process"));
  options = sample.options;
  options.metric = Metric::kInnerProduct;
  EXPECT_THAT(refusal(options), HasSubstr("inner product"));
  options = sample.options;
  options.work = sample.options.base;
  EXPECT_FALSE(TryBuild(options).ok()) << "a file, not a folder";
  options.work = sample.folder / "";
  EXPECT_THAT(refusal(options), HasSubstr("holds other files"));
}

TEST(BoundedBuild, RefusesAFolderOfSomethingElseByName) {
  Sample sample(DType::kU8, Metric::kL2, 3000);
  sample.options.keep_work = true;
  MustBuild(sample.options);
  const auto refusal = [](const BuildOptions& options) {
    return std::string(TryBuild(options).status().message());
  };
  BuildOptions options = sample.options;
  options.m = 7;
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("another m"), HasSubstr("6"), HasSubstr("7")));
  options = sample.options;
  options.seed = 3;
  EXPECT_THAT(refusal(options), HasSubstr("another seed"));
  options = sample.options;
  fs::last_write_time(options.base, fs::last_write_time(options.base) + std::chrono::seconds(5));
  EXPECT_THAT(refusal(options), HasSubstr("base_changed"));
  std::ofstream(options.work + "/manifest.json") << "{\"format\": \"hmann work folder\"}";
  EXPECT_THAT(refusal(options), HasSubstr("another version"));
  for (const char* manifest : {"no json", "{\"format\": 3}", "[]",
                               "{\"format\": \"hmann work folder\", \"version\": 5, \"of\": 5}"}) {
    std::ofstream(options.work + "/manifest.json") << manifest;
    EXPECT_THAT(refusal(options), HasSubstr("not the manifest")) << manifest;
    EXPECT_FALSE(ReadWorkStatus(options.work).ok()) << manifest;
  }
  EXPECT_TRUE(FileContent(sample.options.out) == sample.content) << "the old index survives";
}

TEST(BoundedBuild, RefusesAFolderThatIsInUse) {
  Sample sample(DType::kU8, Metric::kL2, 3000);
  const auto inputs = BuildInputs::Open(sample.options);
  ASSERT_TRUE(inputs.ok());
  const auto held = OpenWorkFolder(sample.options, *inputs, 480);
  ASSERT_TRUE(held.ok()) << held.status();
  const auto second = OpenWorkFolder(sample.options, *inputs, 480);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another build is at work"));
}

TEST(BoundedBuild, LeavesWhatALivingTaskWritesAndRemovesWhatADeadOneLeft) {
  Sample sample(DType::kU8, Metric::kL2, 3000);
  const auto inputs = BuildInputs::Open(sample.options);
  ASSERT_TRUE(inputs.ok());
  ASSERT_TRUE(OpenWorkFolder(sample.options, *inputs, 480).ok());
  const auto task = JoinWorkFolder(sample.options, *inputs, 480);
  ASSERT_TRUE(task.ok()) << task.status();
  auto artifact = (*task)->Create("l0-leaves-5");
  ASSERT_TRUE(artifact.ok());
  const std::string dead = sample.options.work + "/l0-leaves-6.part.tmp.1.0123456789abcdef";
  std::ofstream(dead) << "half";
  ASSERT_TRUE(OpenWorkFolder(sample.options, *inputs, 480).ok());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_EQ(artifact->Append("done", 4), absl::OkStatus());
  EXPECT_EQ(artifact->Commit(), absl::OkStatus());
  EXPECT_TRUE((*task)->Has("l0-leaves-5"));
}

TEST(BoundedBuild, TellsFromOutsideHowFarItIs) {
  Sample sample;
  EXPECT_EQ(ReadWorkStatus(sample.options.work).status().code(), absl::StatusCode::kNotFound);
  sample.options.keep_work = true;
  MustBuild(sample.options);
  WorkStatus status = *ReadWorkStatus(sample.options.work);
  EXPECT_EQ(status.current, status.stages.size()) << "all are done";
  EXPECT_FALSE(status.at_work);
  EXPECT_GT(status.bytes, 9000u * 12);
  // As if killed in the middle of a stage.
  fs::remove(sample.options.work + "/done-l0-final.part");
  fs::remove(sample.options.work + "/l0-final-2.part");
  const auto inputs = BuildInputs::Open(sample.options);
  const auto held = OpenWorkFolder(sample.options, *inputs, 1440);
  ASSERT_TRUE(held.ok()) << held.status();
  status = *ReadWorkStatus(sample.options.work);
  EXPECT_TRUE(status.at_work);
  ASSERT_LT(status.current, status.stages.size());
  const WorkStatus::Stage& stage = status.stages[status.current];
  EXPECT_EQ(stage.name, "l0-final");
  EXPECT_EQ(stage.jobs, 3u);
  EXPECT_EQ(stage.made, 2u);
}

TEST(Ranges, CoverAllNodesInWholePages) {
  for (const NodeId n : {1u, 4095u, 4096u, 4097u, 131072u, 131073u, 10'000'000u, 2'147'483'647u}) {
    const std::vector<NodeRange> ranges = RangesOf(n);
    EXPECT_LE(ranges.size(), 32u);
    NodeId next = 0;
    for (const NodeRange& range : ranges) {
      EXPECT_EQ(range.first, next);
      EXPECT_EQ(range.first % 4096, 0u);
      EXPECT_GT(range.last, range.first);
      next = range.last;
    }
    EXPECT_EQ(next, n);
  }
}

}  // namespace
}  // namespace hmann
