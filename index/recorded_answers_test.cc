// Recorded answers: labels and distances, bit for bit, of every walk on every tier, with
// and without cache and migration.
//
// Expect a change of tests/golden/recorded_answers.json with a change of the graph, of a
// walk or of default dials, and with nothing else. HMANN_RECORDED=all asks all queries in
// all ways, which takes minutes; without it a third of the ways with the first queries,
// and all queries at a third of the dials in DRAM. HMANN_GOLDEN=overwrite records anew;
// look at the diff.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "datasets/vector_file.h"
#include "index/base/checksum.h"
#include "index/construct/testing/build_samples.h"
#include "index/hmann.h"

namespace hmann {
namespace {

using Json = nlohmann::ordered_json;
using Answers = std::vector<std::vector<Neighbour>>;

constexpr const char* kRecorded = "tests/golden/recorded_answers.json";
constexpr std::size_t kQueries = 500, kFewQueries = 40;

// ---- All that this test knows of the library's face.

/// How an answer may be come by. It is the same answer.
struct Way {
  std::string tier;
  CachePolicy cache = CachePolicy::kNone;
  Prefetch prefetch = Prefetch::kRound;
  std::uint32_t in_flight = 1;
  std::size_t queries = kFewQueries;  ///< the first so many

  Way WithFewQueries() const { return {tier, cache, prefetch, in_flight}; }
};

std::shared_ptr<const Index> OpenFor(const Way& way, const std::string& path) {
  OpenOptions options;
  options.slow = way.tier;
  options.cache = way.cache;
  options.cache_bytes = way.cache == CachePolicy::kNone ? 0 : 512 * 1024;
  options.helper_threads = way.prefetch == Prefetch::kHelper ? 1 : 0;
  const auto index = Index::Open(path, options);
  EXPECT_TRUE(index.ok()) << index.status();
  return index.ok() ? *index : nullptr;
}

/// The answers of the first queries, one at a time or several in flight. Errors: the
/// first query's that has one.
absl::StatusOr<Answers> Search(const Index& index, Searcher& searcher,
                               const std::vector<const void*>& queries, SearchOptions options,
                               const Way& way) {
  const std::size_t n = way.queries;
  options.prefetch = way.prefetch;
  const absl::StatusOr<ResolvedSearch> search = index.Resolve(options);
  if (!search.ok()) return search.status();
  Answers answers(n);
  absl::Status status;
  if (way.in_flight > 1) {
    const absl::Status all = searcher.SearchMany(
        n, [&](std::size_t i) { return queries[i]; }, search->dials, way.in_flight,
        [&](std::size_t i, const absl::Status& outcome, Answer& answer) {
          status.Update(outcome);
          answers[i] = answer.nearest;
        });
    status.Update(all);
  }
  for (std::size_t i = 0; i < n && way.in_flight == 1 && status.ok(); ++i) {
    Answer answer;
    status = searcher.Search(queries[i], search->dials, &answer);
    answers[i] = answer.nearest;
  }
  if (!status.ok()) return status;
  return answers;
}

struct Setting {
  const char* name;
  SearchOptions options;
  bool has_defaults_of_tier = false;  ///< then each tier has answers of its own
};

using enum WalkKind;
const Setting kSettings[] = {
    {"beams", {.walk = kMultiStart}},
    {"beams, ef_l0 0", {.ef_l1 = 40, .walk = kUpper}},
    {"beams, ef_l0 1", {.ef_l1 = 8, .ef_l0 = 1, .walk = kMultiStart}},
    {"beams, ef_l0 2", {.ef_l1 = 40, .ef_l0 = 2, .walk = kMultiStart}},
    {"beams, ef_l0 4", {.ef_l1 = 120, .ef_l0 = 4, .walk = kMultiStart}},
    {"beams, ef_l0 1, query_threads 2",
     {.ef_l1 = 12, .ef_l0 = 1, .walk = kMultiStart, .query_threads = 2}},
    {"beams, ef_l0 2, query_threads 2",
     {.ef_l1 = 24, .ef_l0 = 2, .walk = kMultiStart, .query_threads = 2}},
    {"beams, ef_l0 4, query_threads 2",
     {.ef_l1 = 32, .ef_l0 = 4, .walk = kMultiStart, .query_threads = 2}},
    {"pool", {.walk = kBestFirst}},
    {"pool, ef_l0 0", {.ef_l1 = 64, .walk = kUpper}},
    {"pool, ef_l0 1", {.ef_l1 = 1, .ef_l0 = 1, .walk = kBestFirst, .beam_width = 1}},
    {"pool, width 1, ef_l0 64", {.ef_l1 = 4, .ef_l0 = 64, .walk = kBestFirst, .beam_width = 1}},
    {"pool, width 2, ef_l0 100", {.ef_l1 = 4, .ef_l0 = 100, .walk = kBestFirst, .beam_width = 2}},
    {"pool, width 4, ef_l0 40", {.ef_l1 = 16, .ef_l0 = 40, .walk = kBestFirst, .beam_width = 4}},
    {"pool, reach 1.2", {.walk = kBestFirst, .epsilon = 0.2f}},
    {"pool, reach 1.1, width 1, ef_l0 150",
     {.ef_l1 = 8, .ef_l0 = 150, .walk = kBestFirst, .beam_width = 1, .epsilon = 0.1f}},
    {"pool, reach 1.3, width 4, ef_l0 50",
     {.ef_l1 = 2, .ef_l0 = 50, .walk = kBestFirst, .beam_width = 4, .epsilon = 0.3f}},
    {"gated, ef_l0 12, width 1",
     {.ef_l1 = 4, .ef_l0 = 12, .walk = kQuantised, .nprobe = 0, .beam_width = 1}},
    {"gated, ef_l0 40, width 8",
     {.ef_l1 = 16, .ef_l0 = 40, .walk = kQuantised, .nprobe = 0, .beam_width = 8}},
    {"gated, reach 1.1, width 8",
     {.ef_l1 = 16, .walk = kQuantised, .nprobe = 0, .beam_width = 8, .epsilon = 0.1f}},
    {"gated, reach 1.2, ef_l0 100",
     {.ef_l1 = 16,
      .ef_l0 = 100,
      .walk = kQuantised,
      .nprobe = 0,
      .beam_width = 16,
      .epsilon = 0.2f}},
    {"gated, cells 0, ef_l0 30, stop 1",
     {.ef_l1 = 16,
      .ef_l0 = 30,
      .walk = kQuantised,
      .nprobe = 0,
      .beam_width = 8,
      .error_bound = 1}},
    {"gated, cells 64, ef_l0 20",
     {.ef_l1 = 32,
      .ef_l0 = 20,
      .walk = kQuantised,
      .nprobe = 64,
      .beam_width = 16,
      .error_bound = 1}},
    {"gated, cells 64, stop 2, reach 1.1",
     {.ef_l1 = 32,
      .ef_l0 = 60,
      .walk = kQuantised,
      .nprobe = 64,
      .beam_width = 8,
      .error_bound = 2,
      .epsilon = 0.1f}},
    {"gated, cells 128, ef_l0 0",
     {.ef_l1 = 64,
      .ef_l0 = 0,
      .walk = kQuantised,
      .nprobe = 128,
      .beam_width = 8,
      .error_bound = 1}},
    {"ef_l0 0", {.walk = kUpper}},
    {"defaults", {}, true},
    {"defaults, ef_l0 50", {.ef_l0 = 50}, true},
    {"gated, defaults", {.walk = kQuantised}, true},
    {"gated, width 4", {.walk = kQuantised, .beam_width = 4}, true},
};

// ---- Which indexes, and in which ways they are searched.

struct Kind {
  const char* name;
  DType dtype;
  Metric metric;
  CodePlace codes;
};

constexpr Kind kKinds[] = {{"u8_l2_hub", DType::kU8, Metric::kL2, CodePlace::kNode},
                           {"u8_ip_hub", DType::kU8, Metric::kInnerProduct, CodePlace::kNode},
                           {"u8_cosine_hub", DType::kU8, Metric::kCosine, CodePlace::kNode},
                           {"u8_l2_edge", DType::kU8, Metric::kL2, CodePlace::kLink},
                           {"u8_ip_edge", DType::kU8, Metric::kInnerProduct, CodePlace::kLink},
                           {"u8_cosine_edge", DType::kU8, Metric::kCosine, CodePlace::kLink},
                           {"f32_l2_hub", DType::kF32, Metric::kL2, CodePlace::kNode}};

/// Sums of f32 depend on the instruction set: these kernels are the same on every
/// machine.
bool NeedsScalar(const Kind& kind) { return kind.dtype == DType::kF32; }

bool IsSet(const char* variable, const char* value) {
  const char* found = std::getenv(variable);
  return found != nullptr && std::strcmp(found, value) == 0;
}
bool Overwrites() { return IsSet("HMANN_GOLDEN", "overwrite"); }
bool AsksAll() { return IsSet("HMANN_RECORDED", "all"); }

/// Every pair of tier and prefetch; with the caches and numbers in flight taking turns
/// from kind to kind. Of these a third, unless all are asked for: the next kind has the
/// next third.
std::vector<Way> WaysOf(std::size_t kind) {
  constexpr std::array kPolicies = {CachePolicy::kNone, CachePolicy::kStatic,
                                    CachePolicy::kDynamic};
  std::vector<Way> ways;
  std::size_t number = kind;
  for (const char* tier : {"dram", "mapped", "nvme", "emulated:lat=100ns"}) {
    for (const Prefetch prefetch :
         {Prefetch::kRound, Prefetch::kAhead, Prefetch::kOff, Prefetch::kHelper}) {
      Way way{tier, kPolicies[number / 3 % 3], prefetch, number % 2 == 0 ? 1u : 8u};
      if (AsksAll() || ways.empty()) way.queries = kQueries;
      if (way.queries == kQueries || number % 3 == 0 || Overwrites()) ways.push_back(way);
      ++number;
    }
  }
  return ways;
}

/// The sample's queries, and vectors of its base between them.
struct Sample {
  explicit Sample(const Kind& kind) {
    options.base = "datasets/sample/base.u8bin";
    if (kind.dtype == DType::kF32) {
      options.base = folder / "base.fbin";
      WriteRows(options.base, base.dim(), Floats(base, 2000));
    }
    options.rows = kind.dtype == DType::kF32 ? 2000 : 4000;
    options.out = folder / "index.hmann";
    options.metric = kind.metric;
    options.codes = kind.codes;
    options.replicas = kind.codes == CodePlace::kNode ? 2 : 1;
    options.threads = 2;
    base_floats = Floats(base, base.n());
    query_floats = Floats(queries, queries.n());
    for (std::size_t i = 0; i < kQueries; ++i) {
      const bool is_query = i % 5 < 2;
      const std::size_t row = is_query ? i / 5 * 2 + i % 5 : i * base.n() / kQueries;
      const std::vector<float>& floats = is_query ? query_floats : base_floats;
      asked.push_back(kind.dtype == DType::kF32
                          ? static_cast<const void*>(&floats[row * base.dim()])
                          : (is_query ? queries : base).Row(row));
    }
  }

  static std::vector<float> Floats(const VectorFile& file, std::uint64_t rows) {
    std::vector<float> floats;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const auto* components = reinterpret_cast<const std::uint8_t*>(file.Row(row));
      floats.insert(floats.end(), components, components + file.dim());
    }
    return floats;
  }

  SampleFolder folder;
  VectorFile base = *VectorFile::Open("datasets/sample/base.u8bin"),
             queries = *VectorFile::Open("datasets/sample/query.u8bin");
  std::vector<float> base_floats, query_floats;
  std::vector<const void*> asked;
  BuildOptions options;
};

std::string Hex(std::uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

/// Of count, labels and bits of the distances of the first n answers.
std::string HashOf(const Answers& answers, std::size_t n) {
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < n; ++i) {
    words.push_back(answers[i].size());
    for (const Neighbour& neighbour : answers[i]) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &neighbour.distance, sizeof bits);
      words.insert(words.end(), {neighbour.label, bits});
    }
  }
  return Hex(Checksum(words.data(), words.size() * sizeof words[0]));
}

/// "all first": a hash over all answers and one over the first of them; of few queries
/// only the latter. Or why there is no answer.
std::string SummaryOf(const absl::StatusOr<Answers>& answers) {
  if (!answers.ok()) return absl::StatusCodeToString(answers.status().code());
  const std::string first = HashOf(*answers, kFewQueries);
  return answers->size() == kFewQueries
             ? first
             : absl::StrCat(HashOf(*answers, answers->size()), " ", first);
}

/// What was recorded of one index; when recording, the first way writes and the others
/// are held to it.
class Record {
 public:
  explicit Record(const std::string& name) : name_(name) {
    if (std::ifstream in(kRecorded); in.good()) file_ = Json::parse(in);
    if (Overwrites()) file_[name_] = Json::object();
    EXPECT_TRUE(file_.contains(name_))
        << kRecorded << " lacks " << name_ << ": HMANN_GOLDEN=overwrite records it";
    if (!file_.contains(name_)) file_[name_] = Json::object();
  }
  ~Record() {
    if (Overwrites()) std::ofstream(kRecorded) << file_.dump(1) << "\n";
  }

  void Check(const std::string& key, const std::string& found) {
    checked_.insert(key);
    Json& entries = file_[name_];
    if (Overwrites() && !entries.contains(key)) entries[key] = found;
    const std::string recorded = entries.value(key, std::string("nothing recorded"));
    EXPECT_TRUE(recorded == found || recorded.ends_with(absl::StrCat(" ", found)))
        << name_ << ", " << key << ": recorded " << recorded << ", found " << found;
  }

  void ExpectAllWereChecked() { EXPECT_EQ(checked_.size(), file_[name_].size()) << name_; }

 private:
  std::string name_;
  Json file_ = Json::object();
  std::set<std::string> checked_;
};

class RecordedAnswers : public testing::TestWithParam<std::size_t> {
 protected:
  void SearchWith(const Setting& dials, std::uint32_t k, Way way) {
    const std::string tier = way.tier.substr(0, way.tier.find(':'));
    if (Overwrites() && dials.has_defaults_of_tier) way.queries = kQueries;
    SearchOptions options = dials.options;
    options.k = k;
    const std::string key =
        absl::StrCat(dials.has_defaults_of_tier ? tier + ": " : "", dials.name, ", k ", k);
    record_.Check(key, SummaryOf(Search(*index_, *searcher_, sample_.asked, options, way)));
  }

  const Kind& kind_ = kKinds[GetParam()];
  const std::optional<ScopedVariable> scalar_ =
      NeedsScalar(kind_) ? std::make_optional<ScopedVariable>("HMANN_SIMD", "scalar")
                         : std::nullopt;
  Sample sample_ = Sample(kind_);
  Record record_ = Record(kind_.name);
  std::shared_ptr<const Index> index_;
  std::optional<Searcher> searcher_;
};

TEST_P(RecordedAnswers, AreFoundInEveryWay) {
  record_.Check("content_hash", Hex(MustBuild(sample_.options).info.content_hash));
  for (const Way& way : WaysOf(GetParam())) {
    SCOPED_TRACE(absl::StrCat(way.tier, ", cache ", static_cast<int>(way.cache), ", prefetch ",
                              static_cast<int>(way.prefetch), ", in flight ", way.in_flight));
    index_ = OpenFor(way, sample_.options.out);
    ASSERT_TRUE(index_ != nullptr);
    searcher_.emplace(index_);
    // Unless all are asked for, the three k take turns with what takes long: all queries,
    // and those of a device.
    const bool takes_turns = !AsksAll() && !Overwrites();
    std::size_t turn = GetParam();
    for (const Setting& dials : kSettings) {
      ++turn;
      for (const std::uint32_t k : {1u, 10u, 100u}) {
        const bool has_turn = turn++ % 3 == 0 || !takes_turns;
        if (!has_turn && index_->on_block_tier() && !dials.has_defaults_of_tier) continue;
        SearchWith(dials, k, has_turn ? way : way.WithFewQueries());
      }
    }
  }
  record_.ExpectAllWereChecked();
}

INSTANTIATE_TEST_SUITE_P(All, RecordedAnswers, testing::Range<std::size_t>(0, std::size(kKinds)),
                         [](const auto& info) { return std::string(kKinds[info.param].name); });

}  // namespace
}  // namespace hmann
