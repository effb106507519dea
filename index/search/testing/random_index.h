/// For tests: an index of random links and vectors, written and mapped, as seen by an
/// executor and by the reference.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "hmann/search_params.h"
#include "index/base/buffer.h"
#include "index/base/check.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/codes/encoder.h"
#include "index/format/reader.h"
#include "index/format/writer.h"
#include "index/graph/testing/reference_search.h"
#include "index/search/executor.h"
#include "index/search/placed_index.h"

namespace hmann {

struct RandomShape {
  NodeId n = 300, n1 = 60;
  std::uint32_t m = 4, dim = 5;
  DType dtype = DType::kU8;
  Metric metric = Metric::kL2;
  std::uint64_t seed = 1;
  bool user_labels = false;
  bool l1_in_pieces = false;  ///< L1 without links: its search ends where it began
  std::uint32_t bits = 0;     ///< of codes; 0: none. Estimates: poor, unbiased
  std::uint32_t replicas = 1;
};

/// Components are small whole numbers (except for f32), so that equal distances are
/// common. In every layer, node i is linked to its successor, so that all are reachable,
/// and to random others. Not movable: views point into it.
class RandomIndex {
 public:
  explicit RandomIndex(const RandomShape& shape)
      : shape_(shape), layers_(Layers::Make(shape.n, shape.n1, shape.m)) {
    placed_.kernels = *ChooseKernels(shape.dtype, shape.metric, shape.dim);
    MakeRows();
    MakeLinks();
    labels_ = RandomPermutation(shape.n, shape.seed + 7);
    Write();
    Place();
  }
  RandomIndex(const RandomIndex&) = delete;

  const RandomShape& shape() const { return shape_; }
  const PlacedIndex& placed() const { return placed_; }
  std::uint64_t Label(NodeId id) const {
    return shape_.user_labels ? labels_[id] * std::uint64_t{10'000'000'019} : labels_[id];
  }
  const std::byte* Row(NodeId id) const {
    return rows_.data() + std::size_t{id} * placed_.kernels.row_bytes;
  }

  /// Query number i: dim components as a user gives them.
  std::vector<std::byte> Query(std::uint64_t i) const { return Vector(1'000'000 + i); }

  /// Overwrites bytes of L0 and of the upper layers' links, as a faulty disk might. Calls
  /// `change` with the bytes of each.
  void Damage(const std::function<void(std::byte*, std::size_t)>& change) {
    change(l0_.data(), l0_.size());
    for (Buffer& links : upper_links_) change(links.data(), links.size());
  }

  ReferenceIndex Reference() const {
    return {placed_.kernels, layers_,
            [this](std::uint32_t layer, NodeId id) { return links_[layer][id]; },
            [this](NodeId id) { return Row(id); },
            [this](NodeId id) { return placed_.records.RecordBytes(id); }};
  }

 private:
  /// Vector number i; never a zero vector.
  std::vector<std::byte> Vector(std::uint64_t i) const {
    std::vector<std::byte> vector(shape_.dim * SizeOf(QueryType(shape_.dtype)));
    for (std::uint32_t c = 0; c < shape_.dim; ++c) {
      const std::uint64_t counter = i * shape_.dim + c;
      const auto real = static_cast<float>(RandomUnit(shape_.seed, counter) - 0.5);
      const auto whole = static_cast<std::byte>(1 + RandomBelow(shape_.seed, counter, 9));
      if (IsFloat(shape_.dtype)) {
        std::memcpy(&vector[c * sizeof(real)], &real, sizeof(real));
      } else {
        vector[c] = whole;
      }
    }
    return vector;
  }

  void MakeRows() {
    rows_.resize(std::size_t{shape_.n} * placed_.kernels.row_bytes);
    for (NodeId id = 0; id < shape_.n; ++id) {
      HMANN_CHECK(EncodeRow(placed_.kernels, Vector(id).data(),
                            rows_.data() + std::size_t{id} * placed_.kernels.row_bytes)
                      .ok());
    }
  }

  void MakeLinks() {
    links_.resize(layers_.nodes.size());
    std::uint64_t counter = 0;
    for (std::uint32_t layer = 0; layer <= layers_.top(); ++layer) {
      const NodeId nodes = layers_.nodes[layer];
      links_[layer].resize(nodes);
      if (layer == 1 && shape_.l1_in_pieces) continue;
      for (NodeId id = 0; id < nodes; ++id) {
        const std::uint64_t count =
            1 + RandomBelow(shape_.seed + 1, counter++, layers_.MaxDegree(layer));
        std::vector<NodeId>& links = links_[layer][id];
        for (std::uint64_t i = 0; i < count; ++i) {
          const auto link =
              i == 0 ? (id + 1) % nodes
                     : static_cast<NodeId>(RandomBelow(shape_.seed + 1, counter++, nodes));
          if (link != id && std::find(links.begin(), links.end(), link) == links.end())
            links.push_back(link);
        }
      }
    }
  }

  void Write() {
    IndexContents contents;
    contents.dtype = shape_.dtype;
    contents.metric = shape_.metric;
    contents.dim = shape_.dim;
    contents.row_bytes = placed_.kernels.row_bytes;
    contents.layers = layers_;
    contents.ef_construction = 10;
    contents.user_labels = shape_.user_labels;
    contents.links = [this](std::uint32_t layer, NodeId id) -> std::span<const NodeId> {
      return links_[layer][id];
    };
    contents.row = [this](NodeId id) { return Row(id); };
    contents.label = [this](NodeId id) { return Label(id); };
    if (shape_.bits > 0) AddCodes(contents);
    const std::string path = absl::StrCat(testing::TempDir(), "/hmann_random_index_", ::getpid());
    Progress quiet(Progress::Show::kNever);
    const auto written = WriteIndex(path, contents, quiet);
    HMANN_CHECK(written.ok());
    auto file = IndexFile::Open(path);
    ::unlink(path.c_str());
    HMANN_CHECK(file.ok());
    file_ = *std::move(file);
  }

  void AddCodes(IndexContents& contents) {
    contents.codes = {shape_.bits, shape_.replicas, CodeBytes(shape_.dim, shape_.bits)};
    contents.code_mean.assign(shape_.dim, 0.25f);
    encoder_.emplace(*Encoder::Make(placed_.kernels, shape_.bits, shape_.seed, contents.code_mean));
    const std::vector<std::uint32_t> centroids = RandomPermutation(shape_.n1, shape_.seed + 8);
    std::uint64_t counter = 0;
    for (NodeId first = shape_.n1; first < shape_.n && contents.cells.size() < centroids.size();) {
      contents.cells.push_back({centroids[contents.cells.size()], first});
      first += 1 + static_cast<NodeId>(RandomBelow(shape_.seed + 9, counter++,
                                                   std::uint64_t{2} * (shape_.n / shape_.n1)));
    }
    for (NodeId id = shape_.n1; id < shape_.n && shape_.replicas == 2; ++id) {
      contents.second_centroids.push_back(
          static_cast<NodeId>(RandomBelow(shape_.seed + 10, id, shape_.n1)));
    }
    cells_ = Cells(shape_.n, shape_.n1, contents.cells, contents.second_centroids);
    contents.code = [this](NodeId id) {
      Encoder::Scratch scratch;
      code_.resize(CodeBytes(shape_.dim, shape_.bits));
      encoder_->Encode(Row(id), Row(cells_.CentroidOf(id)), code_.data(), scratch);
      return code_.data();
    };
  }

  /// L0 and the upper links are separate copies, so that they can be damaged.
  void Place() {
    const auto copy = [](std::span<const std::byte> bytes) {
      Buffer buffer = *Buffer::Allocate(bytes.size());
      std::copy(bytes.begin(), bytes.end(), buffer.data());
      return buffer;
    };
    placed_.layers = file_.layers();
    placed_.records = file_.records();
    placed_.label_bytes = placed_.records.label_bytes;
    l0_ = copy(file_.l0());
    placed_.l0 = l0_.data();
    for (std::uint32_t layer = 1; layer <= layers_.top(); ++layer) {
      upper_links_.push_back(copy(file_.upper_links(layer)));
      placed_.upper.push_back({reinterpret_cast<const NodeId*>(upper_links_.back().data()),
                               layers_.nodes[layer], layers_.MaxDegree(layer),
                               file_.fast_rows().data(), file_.fast_row_stride(),
                               &placed_.kernels});
    }
    if (layers_.n1() > 0) placed_.fast_labels = file_.fast_labels().data();
    if (shape_.bits == 0) return;
    placed_.encoder = &*encoder_;
    placed_.code_bytes = file_.info().codes.code_bytes;
    placed_.codes = file_.codes().data();
    placed_.cells = &cells_;
  }

  RandomShape shape_;
  Layers layers_;
  PlacedIndex placed_;
  std::vector<std::byte> rows_;
  std::vector<std::vector<std::vector<NodeId>>> links_;  ///< [layer][node]
  std::vector<std::uint32_t> labels_;
  std::optional<Encoder> encoder_;
  Cells cells_;
  std::vector<std::byte> code_;
  IndexFile file_;
  Buffer l0_;
  std::vector<Buffer> upper_links_;
};

/// Parameters with which a traversal runs to its end, whatever it costs.
inline absl::StatusOr<ResolvedParams> ResolveToEnd(const SearchParams& options,
                                                   const PlacedIndex& index) {
  absl::StatusOr<ResolvedParams> params = options.Resolve(index.Context());
  if (params.ok()) params->most_distances = ~std::uint64_t{0};
  return params;
}

/// The executor of an index, with a user's parameters.
class ParamsExecutor {
 public:
  explicit ParamsExecutor(const PlacedIndex& index)
      : index_(index), executor_(MakeExecutor(index)) {}

  absl::Status Search(const void* query, const SearchParams& options,
                      std::vector<Neighbor>* nearest, Counters* counters,
                      const SearchLimits& limits) {
    absl::Status outcome;
    const auto done = [&](std::size_t, const absl::Status& status, Answer& answer) {
      outcome = status;
      if (status.ok()) answer.nearest.swap(*nearest);
    };
    HMANN_RETURN_IF_ERROR(SearchMany(
        1, [query](std::size_t) { return query; }, options, 1, std::ref(done), counters, limits));
    return outcome;
  }

  absl::Status SearchMany(
      std::size_t n, const std::function<const void*(std::size_t)>& query,
      const SearchParams& options, std::uint32_t in_flight,
      const std::function<void(std::size_t, const absl::Status&, Answer&)>& done,
      Counters* counters, const SearchLimits& limits) {
    HMANN_ASSIGN_OR_RETURN(const ResolvedParams params, ResolveToEnd(options, index_));
    return executor_->Run({n, in_flight, query, params, done, counters, limits});
  }

 private:
  const PlacedIndex& index_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace hmann
