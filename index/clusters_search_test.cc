// Well-separated clusters: a search must reach the cluster of its query.
#include <gtest/gtest.h>

#include <algorithm>

#include "datasets/toolbox/generate.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

constexpr std::uint32_t kRows = 12000, kClusterQueries = 400, kDim = 64;

/// The share of queries whose nearest row is found.
double RecallAt1(const std::string& path, const Generator& generator) {
  const std::shared_ptr<const Index> index = *Index::Open(path);
  const Kernels kernels = *ChooseKernels(DType::kU8, Metric::kL2, kDim);
  std::vector<std::byte> rows(std::size_t{kRows} * kDim), query(kDim);
  for (std::uint32_t row = 0; row < kRows; ++row)
    generator.Row(row, &rows[std::size_t{row} * kDim]);
  Searcher searcher(index);
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < kClusterQueries; ++i) {
    generator.Row(kRows + i, query.data());
    DistanceKey nearest = ~DistanceKey{0};
    for (std::uint32_t row = 0; row < kRows; ++row)
      nearest = std::min(nearest, kernels.one(query.data(), &rows[std::size_t{row} * kDim], kDim));
    Answer answer;
    SearchParams params;
    params.k = 1;
    params.mode = SearchMode::kGraph;
    params.ef_l1 = 4;
    params.ef_l0 = 40;
    EXPECT_TRUE(searcher.Search(query.data(), params, &answer).ok());
    found += answer.nearest[0].distance <= kernels.ToDistance(nearest) ? 1 : 0;
  }
  return found / static_cast<double>(kClusterQueries);
}

TEST(Clusters, AreReachedByEitherMethod) {
  const Generator generator = *Generator::Make(
      {.n = kRows + kClusterQueries, .dim = kDim, .intrinsic_dim = 24, .clusters = 40}, DType::kU8);
  std::vector<std::uint8_t> values(std::size_t{kRows} * kDim);
  for (std::uint32_t row = 0; row < kRows; ++row)
    generator.Row(row, reinterpret_cast<std::byte*>(&values[std::size_t{row} * kDim]));
  const SampleFolder folder;
  BuildOptions options;
  options.base = folder / "base.u8bin";
  WriteRows(options.base, kDim, values);
  options.threads = 2;
  double recall[2];
  for (const BuildMethod method : {BuildMethod::kInsertion, BuildMethod::kPartition}) {
    options.method = method;
    options.out = folder / std::string(Name(method));
    MustBuild(options);
    recall[static_cast<int>(method)] = RecallAt1(options.out, generator);
    RecordProperty(std::string(Name(method)), std::to_string(recall[static_cast<int>(method)]));
  }
  EXPECT_GT(recall[0], 0.95);
  EXPECT_GE(recall[1], recall[0] - 0.02);
}

}  // namespace
}  // namespace hmann
