// Indexes of f16 built from f32 and f16 files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "datasets/exact_distance.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "index/base/units.h"
#include "index/construct/testing/build_samples.h"
#include "index/format/reader.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(HalfBuild, OfFloatsIsThatOfTheHalvesTheyRoundTo) {
  const SampleFolder folder;
  for (const Metric metric : {Metric::kL2, Metric::kInnerProduct}) {
    BuildOptions options = SmallBuild(folder, DType::kF32, metric, 2000);
    options.dtype = DType::kF16;
    const BuildReport report = MustBuild(options);
    EXPECT_EQ(report.info.dtype, DType::kF16);
    const std::string content = FileContent(options.out);
    Progress quiet(Progress::Show::kNever);
    const std::string halves = folder / "halves.f16bin";
    ASSERT_TRUE(ConvertVectors(*VectorFile::Open(options.base), halves, quiet).ok());
    options.base = halves;
    for (const std::optional<DType> dtype : {std::optional<DType>(), {DType::kF16}}) {
      options.dtype = dtype;
      MustBuild(options);
      EXPECT_TRUE(FileContent(options.out) == content) << Name(metric);
    }
  }
}

TEST(HalfBuild, WithinBoundedMemoryHasTheBytesOfOneInMemory) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kCosine, 9000);
  options.dtype = DType::kF16;
  MustBuild(options);
  const std::string content = FileContent(options.out);
  options.memory = 110_MiB;
  options.work = folder / "work";
  MustBuild(options);
  EXPECT_TRUE(FileContent(options.out) == content);
}

TEST(HalfBuild, KeepsHalfTheBytesOfVectors) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kCosine, 2000, 64);
  const auto bytes = [&] {
    std::uint64_t sum = 0;
    for (const StructureBytes& line : MustBuild(options).info.bytes)
      if (line.name == "fast_vectors" || line.name == "slow_vectors") sum += line.bytes;
    return sum;
  };
  EXPECT_EQ(bytes(), 2000u * 64 * 4);
  options.dtype = DType::kF16;
  EXPECT_EQ(bytes(), 2000u * 64 * 2);
}

/// Norms of 1e-20 and 1e20 together: under cosine each vector is a direction.
TEST(HalfBuild, TakesAnyNormUnderCosine) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kCosine, 600, 8);
  const VectorFile base = *VectorFile::Open(options.base);
  std::vector<float> mixed(600UL * 8);
  for (std::size_t i = 0; i < 600; ++i) {
    ReadComponents(DType::kF32, base.Row(i), 8, &mixed[i * 8]);
    for (std::size_t c = 0; c < 8; ++c) mixed[i * 8 + c] *= i % 2 == 0 ? 1e-20f : 1e20f;
  }
  options.base = folder / "mixed.fbin";
  WriteRows(options.base, 8, mixed);
  options.dtype = DType::kF16;
  EXPECT_GT(MustBuild(options).self_recall_at_1, 0.9);
  options.metric = Metric::kL2;
  EXPECT_THAT(std::string(TryBuild(options).status().message()),
              AllOf(HasSubstr("mixed.fbin: vector 0"), HasSubstr("too small")));
}

TEST(HalfBuild, NamesWhatHalvesDoNotHold) {
  const SampleFolder folder;
  BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kL2, 50, 3);
  const auto refusal = [&](DType dtype) {
    options.dtype = dtype;
    const absl::Status status = TryBuild(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(DType::kU8), AllOf(HasSubstr("dtype: u8 asked for"),
                                         HasSubstr("holds f32, expected this or f16")));
  std::vector<float> rows(5000UL * 2, 0.5f);
  rows[4444 * 2 + 1] = -70000;
  options.base = folder / "large.fbin";
  WriteRows(options.base, 2, rows);
  EXPECT_THAT(refusal(DType::kF16), AllOf(HasSubstr("large.fbin: vector 4444: component 1"),
                                          HasSubstr("65504"), HasSubstr("found -70000")));
  options.base = folder / "infinite.f16bin";
  WriteRows<std::uint16_t>(options.base, 2, {1, 1, 0x3c00, 0x7c00});
  EXPECT_THAT(refusal(DType::kF16),
              AllOf(HasSubstr("infinite.f16bin: vector 1: component 1"), HasSubstr("found Inf")));
  EXPECT_THAT(refusal(DType::kF32), HasSubstr("holds f16, expected this"));
  options = SmallBuild(folder, DType::kU8, Metric::kL2, 50, 3);
  EXPECT_THAT(refusal(DType::kF16), HasSubstr("holds u8"));
}

/// Norms whose complement exceeds the range of halves: links are worse, but no number is
/// lost.
TEST(HalfBuild, LiftsNormsOfAnySize) {
  const SampleFolder folder;
  std::vector<float> rows(300UL * 8);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = (i / 8) % 3 == 0 ? 60000.0f - static_cast<float>(i % 97) * 256
                               : static_cast<float>(i % 31) - 15;
  BuildOptions options = SmallBuild(folder, DType::kF32, Metric::kInnerProduct, 50, 3);
  options.base = folder / "spread.fbin";
  WriteRows(options.base, 8, rows);
  options.dtype = DType::kF16;
  const BuildReport report = MustBuild(options);
  EXPECT_EQ(report.reachable_share, 1.0);
}

}  // namespace
}  // namespace hmann
