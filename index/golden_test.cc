// Golden counters: the work of the searches of the sample, in a human-readable file.
//
// tests/golden/search_counters.json changes with every change of the graph, of promotion
// or of a traversal. It must not change with threads, tier, SIMD level or machine.
// HMANN_GOLDEN=overwrite rewrites the file; review its diff.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "datasets/ground_truth.h"
#include "datasets/recall.h"
#include "hmann/hmann.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kGolden = "tests/golden/search_counters.json";

Json WorkOf(const std::shared_ptr<const Index>& index, const VectorFile& queries,
            const GroundTruth& truth, const SearchParams& options) {
  Searcher searcher(index);
  Counters total;
  std::uint64_t found = 0;
  for (std::uint64_t query = 0; query < queries.n(); ++query) {
    Answer answer;
    EXPECT_TRUE(searcher.Search(queries.Row(query), options, &answer, &total).ok());
    std::vector<std::uint64_t> ids;
    for (const Neighbor& neighbor : answer.nearest) ids.push_back(neighbor.label);
    found +=
        static_cast<std::uint64_t>(RecallAtK(truth, query, options.k, ids, {}) * options.k + 0.5);
  }
  return {{"mode", std::string(Name(*options.mode))},
          {"matches", options.matches != nullptr ? options.matches->size() : index->info().n},
          {"k", options.k},
          {"ef_l1", *options.ef_l1},
          {"ef_l0", options.ef_l0.value_or(0)},
          {"found", found},
          {"distances_fast", total.distances_fast},
          {"distances_slow", total.distances_slow},
          {"estimates", total.estimates},
          {"node_reads", total.node_reads},
          {"node_accesses", total.node_accesses},
          {"node_bytes", total.node_bytes},
          {"hops", total.hops},
          {"expanded_l1", total.expanded_l1},
          {"expanded_l0", total.expanded_l0}};
}

/// The first field that differs, as "searches[3].rounds"; empty if none does.
std::string FirstDifference(const Json& expected, const Json& found, const std::string& at = "") {
  if (expected.type() != found.type() && !(expected.is_number() && found.is_number()))
    return at + ": another type";
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      const std::string place = at.empty() ? key : absl::StrCat(at, ".", key);
      if (!found.contains(key)) return place + ": missing";
      if (std::string difference = FirstDifference(value, found[key], place); !difference.empty())
        return difference;
    }
  } else if (expected.is_array()) {
    if (expected.size() != found.size())
      return absl::StrCat(at, ": expected ", expected.size(), " entries; found ", found.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::string difference =
              FirstDifference(expected[i], found[i], absl::StrCat(at, "[", i, "]"));
          !difference.empty())
        return difference;
    }
  } else if (expected != found) {
    return absl::StrCat(at, ": expected ", expected.dump(), "; found ", found.dump());
  }
  return expected.size() == found.size() ? "" : at + ": another number of fields";
}

/// Without a filter, and among `most` or `few` of the vectors.
std::vector<SearchParams> GoldenSearches(const Matches* most, const Matches* few) {
  return {{.k = 10, .ef_l1 = 4, .ef_l0 = 32, .mode = SearchMode::kGraph},
          {.k = 10, .ef_l1 = 4, .ef_l0 = 64, .mode = SearchMode::kGraph},
          {.k = 10, .ef_l1 = 32, .ef_l0 = 128, .mode = SearchMode::kGraph},
          {.k = 100, .ef_l1 = 16, .ef_l0 = 100, .mode = SearchMode::kGraph},
          {.k = 10, .ef_l1 = 64, .mode = SearchMode::kUpper},
          {.k = 1, .ef_l1 = 8, .ef_l0 = 1, .mode = SearchMode::kMultiStart},
          {.k = 10, .ef_l1 = 40, .ef_l0 = 2, .mode = SearchMode::kMultiStart},
          {.k = 100, .ef_l1 = 200, .ef_l0 = 4, .mode = SearchMode::kMultiStart},
          {.k = 10,
           .ef_l1 = 16,
           .ef_l0 = 40,
           .mode = SearchMode::kQuantized,
           .nprobe = 0,
           .beam_width = 8},
          {.k = 10,
           .ef_l1 = 32,
           .ef_l0 = 20,
           .mode = SearchMode::kQuantized,
           .nprobe = 64,
           .beam_width = 16,
           .error_bound = 1},
          {.k = 10,
           .ef_l1 = 64,
           .ef_l0 = 0,
           .mode = SearchMode::kQuantized,
           .nprobe = 128,
           .beam_width = 8,
           .error_bound = 1},
          {.k = 10, .ef_l1 = 4, .mode = SearchMode::kGraph, .matches = most},
          {.k = 10, .ef_l1 = 4, .mode = SearchMode::kGraph, .matches = few},
          {.k = 10, .ef_l1 = 40, .ef_l0 = 2, .mode = SearchMode::kMultiStart, .matches = few},
          {.k = 10,
           .ef_l1 = 64,
           .ef_l0 = 0,
           .mode = SearchMode::kQuantized,
           .nprobe = 128,
           .beam_width = 8,
           .error_bound = 1,
           .matches = most}};
}

TEST(Golden, SearchCounters) {
  const SampleFolder folder;
  BuildOptions options;
  options.base = "datasets/sample/base.u8bin";
  options.out = folder / "sample.hmann";
  options.threads = 2;
  const BuildReport report = MustBuild(options);
  Progress quiet(Progress::Show::kNever);
  ASSERT_TRUE(
      MakeAttributes(options.out, {.from = "datasets/sample/attributes.csv", .types = ""}, quiet)
          .ok());
  const auto index = *Index::Open(options.out);
  const auto most = *index->Filtered(*Filter::Parse("strength > 3000"));
  const auto few = *index->Filtered(*Filter::Parse("strength > 3000 and direction = 'N'"));
  const VectorFile queries = *VectorFile::Open("datasets/sample/query.u8bin");
  const GroundTruth truth = *ReadGroundTruth("datasets/sample/query.gt100");

  Json golden = {
      {"what",
       "sums over the 200 queries of the sample, index built with the defaults; see "
       "index/golden_test.cc"},
      {"content_hash", absl::StrCat(absl::Hex(report.info.content_hash, absl::kZeroPad16))}};
  for (const SearchParams& params : GoldenSearches(most.get(), few.get()))
    golden["searches"].push_back(WorkOf(index, queries, truth, params));
  if (const char* mode = std::getenv("HMANN_GOLDEN");
      mode != nullptr && std::string(mode) == "overwrite") {
    std::ofstream(kGolden) << golden.dump(2) << "\n";
    return;
  }
  std::ifstream in(kGolden);
  ASSERT_TRUE(in.good()) << kGolden << " is missing: HMANN_GOLDEN=overwrite makes it";
  EXPECT_EQ(FirstDifference(Json::parse(in), golden), "")
      << "if that is what the change is about, run with HMANN_GOLDEN=overwrite";
}

}  // namespace
}  // namespace hmann
