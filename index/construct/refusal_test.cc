#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "index/base/cpu.h"
#include "index/base/units.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Every failure leaves the folder as it was: the old index whole, no temporary file.
class Refusal : public testing::Test {
 protected:
  Refusal() : options_(SmallBuild(folder_, DType::kF32, Metric::kL2, 400)) {
    MustBuild(options_);
    old_ = FileContent(options_.out);
    files_ = folder_.files();
  }
  std::string Error(absl::StatusCode code) {
    const absl::Status status = TryBuild(options_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(FileContent(folder_ / "index.hmann") == old_) << "the old index is hurt";
    EXPECT_EQ(folder_.files(), files_) << "something was left";
    return std::string(status.message());
  }

  SampleFolder folder_;
  BuildOptions options_;
  std::string old_;
  std::size_t files_ = 0;
};

TEST_F(Refusal, OfACancelledBuild) {
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  Error(absl::StatusCode::kCancelled);
}

TEST_F(Refusal, OfABuildCancelledOnTheWay) {
  // At some moment of the half second that the build takes on two idle cores.
  WriteGenerated(options_.base, {.n = 20000, .dim = 12, .intrinsic_dim = 6});
  for (const int milliseconds : {1, 20, 50}) {
    std::atomic<bool> cancelled{false};
    options_.cancelled = &cancelled;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      cancelled = true;
    });
    Error(absl::StatusCode::kCancelled);
    canceller.join();
  }
}

TEST_F(Refusal, OfDataThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(5000 * 2, 0.5f);
    values[4444 * 2 + 1] = bad;
    values[4999 * 2] = bad;
    options_.base = folder_ / "base_400_12.fbin";
    WriteRows(options_.base, 2, values);
    EXPECT_THAT(
        Error(absl::StatusCode::kInvalidArgument),
        AllOf(HasSubstr("base_400_12.fbin"), HasSubstr("vector 4444"), HasSubstr("component 1")));
  }
}

TEST_F(Refusal, OfAZeroVectorUnderCosine) {
  std::vector<float> values(100, 0.5f);
  values[60] = values[61] = 0;
  WriteRows(options_.base, 2, values);
  options_.metric = Metric::kCosine;
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("vector 30"), HasSubstr("zero vector")));
}

TEST_F(Refusal, OfMoreThanMemoryHolds) {
  // A sparse file of 1.5e9 rows is refused before anything is read.
  options_.base = folder_ / "huge.u8bin";
  ++files_;
  const std::uint32_t header[] = {1'500'000'000, 128};
  std::ofstream(options_.base, std::ios::binary).write(reinterpret_cast<const char*>(header), 8);
  std::filesystem::resize_file(options_.base, 8 + 1'500'000'000ull * 128);
  if (UsableMemoryBytes() > 400_GiB) GTEST_SKIP() << "this machine could build it";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(Error(absl::StatusCode::kResourceExhausted),
              AllOf(HasSubstr("needs about"), HasSubstr("GiB"), HasSubstr("are available")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20))
      << "the vectors were read";
}

TEST_F(Refusal, OfAnOutputThatCannotBe) {
  options_.out = folder_ / "no/such/folder/index.hmann";
  EXPECT_THAT(Error(absl::StatusCode::kNotFound), HasSubstr("no/such/folder"));
  options_.out = folder_ / "";
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument), HasSubstr("is a folder"));
  const std::string base = FileContent(options_.base);
  options_.out = folder_ / "../" +
                 std::filesystem::path(folder_ / "").parent_path().filename().string() +
                 "/base_400_12.fbin";
  EXPECT_THAT(Error(absl::StatusCode::kInvalidArgument), HasSubstr("which it would replace"));
  EXPECT_TRUE(FileContent(options_.base) == base);
}

TEST_F(Refusal, OfWrongOptions) {
  const BuildOptions good = options_;
  const auto error = [&](auto change) {
    options_ = good;
    change(options_);
    return Error(absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(error([](BuildOptions& o) { o.m = 1; }), HasSubstr("m: expected 2 to 512, found 1"));
  EXPECT_THAT(error([](BuildOptions& o) { o.m = 513; }), HasSubstr("m: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.ef_construction = 0; }),
              HasSubstr("ef_construction: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.promote = 0; }), HasSubstr("promote: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.promote = 1; }), HasSubstr("promote: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.promote = std::nan(""); }), HasSubstr("promote: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.from_faiss = o.from_hnswlib = "x"; }),
              HasSubstr("give one"));
  EXPECT_THAT(error([](BuildOptions& o) { o.threads = -1; }), HasSubstr("threads: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.base.clear(); }), HasSubstr("base: "));
  EXPECT_THAT(error([](BuildOptions& o) { o.out.clear(); }), HasSubstr("out: "));
  options_ = good;
  options_.base = folder_ / "absent.u8bin";
  EXPECT_THAT(Error(absl::StatusCode::kNotFound), HasSubstr("absent.u8bin"));
}

}  // namespace
}  // namespace hmann
