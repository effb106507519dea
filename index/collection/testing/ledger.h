/// For tests: a collection and a map that says what it must contain.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/build.h"
#include "hmann/collection.h"
#include "index/base/random.h"
#include "index/construct/testing/build_samples.h"

namespace hmann {

inline bool IsSoak() { return std::getenv("HMANN_SOAK") != nullptr; }

/// Vectors are made of a label and a version, so that each version of a label differs.
class Ledger {
 public:
  static constexpr std::uint32_t kDim = 16;
  using Vector = std::vector<std::uint8_t>;

  explicit Ledger(std::string folder) : folder_(std::move(folder)) {}

  static CreateCollection Options() {
    CreateCollection options;
    options.dtype = DType::kU8;
    options.dim = kDim;
    options.build.m = 6;
    options.build.ef_construction = 40;
    return options;
  }
  void Create(const std::string& from) {
    CreateCollection options = Options();
    options.from = from;
    const absl::Status status = Collection::Create(folder_, options);
    ASSERT_TRUE(status.ok()) << status;
  }
  void Open(const OpenCollection& options = {.merges = false}) {
    options_ = options;
    auto opened = Collection::Open(folder_, options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    collection_ = *std::move(opened);
  }
  void Reopen() {
    collection_.reset();
    Open(options_);
  }
  void OpenCopy(const std::string& folder) {
    collection_.reset();
    std::filesystem::copy(folder_, folder, std::filesystem::copy_options::recursive);
    folder_ = folder;
    Open(options_);
  }
  Collection& collection() { return *collection_; }
  CollectionInfo info() const { return collection_->info(); }

  Vector Made(std::uint64_t label) {
    const std::uint64_t version = versions_[label]++;
    Vector vector(kDim);
    for (std::uint32_t c = 0; c < kDim; ++c)
      vector[c] = static_cast<std::uint8_t>(RandomBelow(label * 1000 + version, c, 200));
    return vector;
  }
  void Put(const std::vector<std::uint64_t>& labels) {
    WriteBatch batch;
    for (const std::uint64_t label : labels) Put(label, &batch);
    Write(batch);
  }
  void Delete(const std::vector<std::uint64_t>& labels) {
    WriteBatch batch;
    for (const std::uint64_t label : labels) Delete(label, &batch);
    Write(batch);
  }
  /// Puts, replaces, updates and deletes labels below `labels`, some at once.
  void RandomWrites(std::uint64_t writes, std::uint64_t labels) {
    while (writes > 0) {
      const std::uint64_t some = std::min<std::uint64_t>(writes, 1 + Draw(40));
      WriteBatch batch;
      std::set<std::uint64_t> changed;
      for (std::uint64_t i = 0; i < some; ++i) {
        const std::uint64_t label = Draw(labels), kind = Draw(8);
        if (kind < 2) {
          Delete(label, &batch);
        } else if (kind < 4 && rows_.contains(label) && !changed.contains(label)) {
          notes_[label] = absl::StrCat("{\"n\":", Draw(1000), "}");
          batch.Update(label, notes_[label]);
        } else {
          Put(label, &batch);
        }
        changed.insert(label);
      }
      Write(batch);
      writes -= some;
    }
  }
  void Compact() {
    Progress quiet(Progress::Show::kNever);
    const absl::Status status = collection_->Compact(quiet);
    ASSERT_TRUE(status.ok()) << status;
  }

  /// Everything that the map has is there, and nothing else.
  void Check() {
    const std::shared_ptr<const Moment> now = collection_->Now();
    ASSERT_EQ(LiveRows(*now), rows_.size());
    CollectionSearcher searcher;
    for (const auto& [label, expected] : rows_) {
      Vector found(kDim);
      std::vector<std::string> notes;
      const absl::Status status = searcher.Get(*now, {&label, 1}, found.data(), &notes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(found, expected) << "label " << label;
      const auto note = notes_.find(label);
      ASSERT_EQ(notes.at(0), note == notes_.end() ? "{}" : note->second) << "label " << label;
    }
    Answer answer;
    const auto k = static_cast<std::uint32_t>(rows_.size() + 10);
    const auto all = Prepare(now, {.k = k, .mode = SearchMode::kScan});
    ASSERT_TRUE(all.ok()) << all.status();
    const Vector query(kDim, 100);
    ASSERT_TRUE(searcher.Search(query.data(), **all, &answer).ok());
    ASSERT_EQ(answer.nearest.size(), rows_.size());
    std::map<std::uint64_t, float> found;
    for (const Neighbor& neighbor : answer.nearest) found[neighbor.label] = neighbor.distance;
    for (const auto& [label, vector] : rows_) {
      float expected = 0;
      for (const int c : vector) expected += static_cast<float>((c - 100) * (c - 100));
      ASSERT_TRUE(found.contains(label)) << label;
      ASSERT_EQ(found[label], expected) << label;
    }
    ExpectRecall(now);
  }

  std::uint64_t SealedHash() const { return ReadInfo(info().sealed_file)->content_hash; }
  /// The hash of a build of the rows in the order of labels.
  std::uint64_t HashOfBuild(const std::string& out, int threads) const {
    std::vector<std::uint8_t> vectors;
    std::vector<std::uint64_t> labels;
    for (const auto& [label, vector] : rows_) {
      labels.push_back(label);
      vectors.insert(vectors.end(), vector.begin(), vector.end());
    }
    BuildCall call;
    call.build = Options().build;
    call.build.out = out;
    call.build.threads = threads;
    call.build.vectors = {vectors.data(), DType::kU8, kDim, labels.size(), kDim};
    call.build.label_values = labels;
    call.calibrate.wanted = false;
    Progress quiet(Progress::Show::kNever);
    const auto built = Build(call, quiet);
    EXPECT_TRUE(built.ok()) << built.status();
    return built.ok() ? built->report.info.content_hash : 0;
  }

 private:
  void Put(std::uint64_t label, WriteBatch* batch) {
    rows_[label] = Made(label);
    notes_.erase(label);
    batch->Put(label, rows_[label].data(), kDim);
  }
  void Delete(std::uint64_t label, WriteBatch* batch) {
    rows_.erase(label);
    notes_.erase(label);
    batch->Delete(label);
  }
  void Write(const WriteBatch& batch) {
    const auto written = collection_->Write(batch);
    ASSERT_TRUE(written.ok()) << written.status();
    ASSERT_EQ(written->sequence, SequenceOf(*collection_->Now()));
  }
  std::uint64_t Draw(std::uint64_t bound) { return RandomBelow(7, drawn_++, bound); }
  /// Searches for vectors of the collection find them.
  void ExpectRecall(const std::shared_ptr<const Moment>& now) {
    if (rows_.empty()) return;
    CollectionSearcher searcher;
    const auto prepared = Prepare(now, {.k = 1});
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    std::size_t found = 0, tried = 0;
    for (const auto& [label, vector] : rows_) {
      Answer answer;
      ASSERT_TRUE(searcher.Search(vector.data(), **prepared, &answer).ok());
      ++tried;
      found += !answer.nearest.empty() && answer.nearest[0].label == label;
      if (tried == 300) break;
    }
    EXPECT_GE(found * 100, tried * 97);
  }

  std::string folder_;
  OpenCollection options_;
  std::shared_ptr<Collection> collection_;
  std::map<std::uint64_t, Vector> rows_;
  std::map<std::uint64_t, std::string> notes_;  ///< attributes of rows that have any
  std::map<std::uint64_t, std::uint64_t> versions_;
  std::uint64_t drawn_ = 0;
};

}  // namespace hmann
