#include "index/codes/scalar_quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>
#include <tuple>

#include "index/base/random.h"
#include "index/distance/simd_level.h"

namespace hmann {
namespace {

constexpr std::size_t kVectors = 2000, kQueries = 40, kNear = 10;

/// Vectors around a few centers, with dimensions of different widths, in stored form.
class Set {
 public:
  Set(DType dtype, Metric metric, std::uint32_t dim)
      : kernels_(*ChooseKernels(dtype, metric, dim)), rows_(kVectors + kQueries) {
    std::vector<float> wide(dim);
    std::vector<std::byte> given(dim * SizeOf(QueryType(dtype)));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (std::uint32_t d = 0; d < dim; ++d) {
        const double center = Normal(i % 20, d) * 30, spread = 2 + 20.0 / (1 + d);
        wide[d] = static_cast<float>(100 + center + Normal(1000 + i, d) * spread);
        if (dtype == DType::kU8 || dtype == DType::kI8) {
          const float least = dtype == DType::kU8 ? 0.0f : -128.0f;
          const float whole = std::clamp(std::round(wide[d] + least), least, least + 255);
          given[d] = static_cast<std::byte>(static_cast<int>(whole));
        }
      }
      rows_[i].resize(kernels_.row_bytes);
      const bool floats = IsFloat(dtype);
      EXPECT_TRUE(EncodeRow(kernels_, floats ? static_cast<const void*>(wide.data()) : given.data(),
                            rows_[i].data())
                      .ok());
    }
  }

  const Kernels& kernels() const { return kernels_; }
  const std::byte* Row(std::size_t i) const { return rows_[i].data(); }
  const std::byte* Query(std::size_t i) const { return rows_[kVectors + i].data(); }
  DistanceKey Exact(std::size_t query, std::size_t i) const {
    return kernels_.one(Query(query), Row(i), kernels_.dim);
  }

 private:
  static double Normal(std::uint64_t stream, std::uint64_t at) {
    double sum = 0;
    for (std::uint64_t part = 0; part < 12; ++part)
      sum += static_cast<double>(RandomBelow(stream, at * 12 + part, 1 << 20)) / (1 << 20);
    return sum - 6;
  }

  Kernels kernels_;
  std::vector<std::vector<std::byte>> rows_;
};

ScalarQuantizer Learn(const Set& set, std::uint32_t bits) {
  absl::StatusOr<ScalarQuantizer> quantizer = ScalarQuantizer::Learn(
      set.kernels(), bits, 500, [&set](std::size_t i) { return set.Row(i * 4); });
  EXPECT_TRUE(quantizer.ok()) << quantizer.status();
  return *std::move(quantizer);
}

using Case = std::tuple<DType, Metric, std::uint32_t>;

class ScalarQuantizerTest : public testing::TestWithParam<Case> {};

/// Keys of all codes for each query.
std::vector<std::vector<DistanceKey>> KeysOf(const Set& set, const ScalarQuantizer& quantizer,
                                             std::vector<std::vector<std::byte>>* queries) {
  ScalarQuantizer::Scratch scratch;
  std::vector<std::byte> codes(kVectors * quantizer.code_bytes());
  std::vector<const std::byte*> pointers(kVectors);
  for (std::size_t i = 0; i < kVectors; ++i) {
    std::byte* code = codes.data() + i * quantizer.code_bytes();
    quantizer.Encode(set.Row(i), code, scratch);
    pointers[i] = code;
  }
  std::vector<std::vector<DistanceKey>> keys(kQueries, std::vector<DistanceKey>(kVectors));
  queries->assign(kQueries, std::vector<std::byte>(quantizer.query_bytes()));
  for (std::size_t q = 0; q < kQueries; ++q) {
    quantizer.EncodeQuery(set.Query(q), (*queries)[q].data(), scratch);
    quantizer.kernels().many((*queries)[q].data(), pointers.data(), kVectors,
                             quantizer.kernels().dim, keys[q].data());
  }
  return keys;
}

TEST_P(ScalarQuantizerTest, FindsTheNearestWithinItsMargin) {
  const auto [dtype, metric, bits] = GetParam();
  const Set set(dtype, metric, 100);
  const ScalarQuantizer quantizer = Learn(set, bits);
  std::vector<std::vector<std::byte>> queries;
  const auto keys = KeysOf(set, quantizer, &queries);
  std::size_t within = 0, ranked = 0;
  for (std::size_t q = 0; q < kQueries; ++q) {
    std::vector<std::size_t> order(kVectors);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto nearest = [&](const auto& key_of) {
      std::vector<std::size_t> near = order;
      std::sort(near.begin(), near.end(),
                [&](std::size_t a, std::size_t b) { return key_of(a) < key_of(b); });
      return near;
    };
    const auto exact = nearest([&](std::size_t i) { return set.Exact(q, i); });
    const auto coded = nearest([&](std::size_t i) { return keys[q][i]; });
    const DistanceKey margin = quantizer.Margin(queries[q].data(), keys[q][coded[kNear - 1]]);
    EXPECT_GE(margin, keys[q][coded[kNear - 1]]);
    for (std::size_t rank = 0; rank < kNear; ++rank)
      within += keys[q][exact[rank]] <= margin ? 1 : 0;
    for (const std::size_t i : coded) ranked += keys[q][i] <= margin ? 1 : 0;
  }
  EXPECT_GE(within, kQueries * kNear * 97 / 100);
  // The margin is also selective: most of the 2,000 vectors are beyond it.
  EXPECT_LE(ranked, kQueries * kNear * (bits == 8 ? 4 : 16));
}

TEST_P(ScalarQuantizerTest, KeysAreTheSameOnEveryLevel) {
  const auto [dtype, metric, bits] = GetParam();
  const char* const chosen = std::getenv("HMANN_SIMD");
  const std::string before = chosen != nullptr ? chosen : "";
  std::vector<std::vector<DistanceKey>> first;
  for (const SimdLevel& level : BuiltSimdLevels()) {
    if (!level.supported()) continue;
    setenv("HMANN_SIMD", std::string(level.name).c_str(), 1);
    const Set set(dtype, metric, 37);
    std::vector<std::vector<std::byte>> queries;
    const auto keys = KeysOf(set, Learn(set, bits), &queries);
    if (first.empty()) first = keys;
    EXPECT_EQ(keys == first, true) << level.name;
  }
  before.empty() ? unsetenv("HMANN_SIMD") : setenv("HMANN_SIMD", before.c_str(), 1);
}

INSTANTIATE_TEST_SUITE_P(
    , ScalarQuantizerTest,
    testing::Combine(testing::Values(DType::kF32, DType::kF16, DType::kU8, DType::kI8),
                     testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine),
                     testing::Values(4u, 8u)),
    [](const auto& info) {
      return std::string(Name(std::get<0>(info.param))) + "_" +
             std::string(Name(std::get<1>(info.param))) + "_" +
             std::to_string(std::get<2>(info.param));
    });

TEST(ScalarQuantizer, RefusesWhatItCannotDo) {
  const Set set(DType::kF32, Metric::kL2, 8);
  const auto row = [&set](std::size_t i) { return set.Row(i); };
  for (const std::uint32_t bits : {0u, 1u, 5u, 16u})
    EXPECT_FALSE(ScalarQuantizer::Learn(set.kernels(), bits, 10, row).ok());
  EXPECT_FALSE(ScalarQuantizer::Learn(set.kernels(), 8, 0, row).ok());
}

TEST_P(ScalarQuantizerTest, ItsRangeGivesTheSameCodes) {
  const auto [dtype, metric, bits] = GetParam();
  const Set set(dtype, metric, 37);
  const ScalarQuantizer quantizer = Learn(set, bits);
  const auto again = ScalarQuantizer::FromRange(set.kernels(), bits, quantizer.range());
  ASSERT_TRUE(again.ok()) << again.status();
  std::vector<std::vector<std::byte>> queries;
  const auto keys = KeysOf(set, quantizer, &queries);
  EXPECT_TRUE(keys == KeysOf(set, *again, &queries));
  EXPECT_EQ(again->Margin(queries[0].data(), keys[0][0]),
            quantizer.Margin(queries[0].data(), keys[0][0]));
  for (const auto& [place, value] :
       {std::pair<std::size_t, float>(0, 0.0f), {0, NAN}, {1, -1.0f}, {2, 0.5f}, {3, INFINITY}}) {
    std::vector<float> range = quantizer.range();
    range[place] = value;
    EXPECT_FALSE(ScalarQuantizer::FromRange(set.kernels(), bits, range).ok()) << place;
  }
  EXPECT_FALSE(ScalarQuantizer::FromRange(set.kernels(), bits, {}).ok());
}

/// One step for all dimensions serves none if a few vary much more than the others.
TEST(ScalarQuantizer, VectorsAreRotatedIfThatLessensTheError) {
  for (const bool uneven : {false, true}) {
    std::vector<float> rows(64000);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float x = static_cast<float>(Random(5, i) % 1000) / 1000;
      rows[i] = uneven && i % 64 < 8 ? 20 * x : x;
    }
    const Kernels kernels = *ChooseKernels(DType::kF32, Metric::kL2, 64);
    const auto quantizer = ScalarQuantizer::Learn(kernels, 4, 1000, [&](std::size_t i) {
      return reinterpret_cast<const std::byte*>(&rows[i * 64]);
    });
    ASSERT_TRUE(quantizer.ok());
    EXPECT_EQ(quantizer->range()[2], uneven ? 1.0f : 0.0f);
  }
}

/// By inner product the longest vectors are the answers. By L2 they are far away.
TEST(ScalarQuantizer, AFewLongVectorsWidenTheRangeOnlyIfTheyAreAnswers) {
  constexpr std::size_t kDim = 32, kRows = 2000;
  std::vector<float> rows(kRows * kDim);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float x = static_cast<float>(Random(5, i) % 1000) / 500 - 1;
    rows[i] = i / kDim % 100 == 7 ? 50 * x : x;
  }
  for (const std::uint32_t bits : {4u, 8u}) {
    const auto width = [&](Metric metric) {
      const auto quantizer = ScalarQuantizer::Learn(
          *ChooseKernels(DType::kF32, metric, kDim), bits, kRows,
          [&](std::size_t i) { return reinterpret_cast<const std::byte*>(&rows[i * kDim]); });
      EXPECT_TRUE(quantizer.ok());
      return quantizer->step() * static_cast<float>((1u << bits) - 1);
    };
    EXPECT_GT(width(Metric::kInnerProduct), 60);
    EXPECT_LT(width(Metric::kL2), 3);
  }
}

TEST(ScalarQuantizer, VectorsThatAreAllAlikeHaveKeys) {
  const Set set(DType::kF32, Metric::kL2, 8);
  for (const std::uint32_t bits : {4u, 8u}) {
    const auto quantizer =
        ScalarQuantizer::Learn(set.kernels(), bits, 10, [&set](std::size_t) { return set.Row(0); });
    ASSERT_TRUE(quantizer.ok());
    ScalarQuantizer::Scratch scratch;
    std::vector<std::byte> query(quantizer->query_bytes()), code(quantizer->code_bytes());
    quantizer->EncodeQuery(set.Row(0), query.data(), scratch);
    quantizer->Encode(set.Row(0), code.data(), scratch);
    const Kernels& kernels = quantizer->kernels();
    EXPECT_EQ(kernels.ToDistance(kernels.one(query.data(), code.data(), kernels.dim)), 0.0f);
  }
}

}  // namespace
}  // namespace hmann
