#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "index/collection/tail.h"
#include "index/graph/layer_search.h"
#include "index/graph/select.h"
#include "index/search/epsilon.h"

namespace hmann {

/// A graph over rows of the delta that grows while it is searched (one layer of HNSW;
/// Malkov & Yashunin 2018). Its links are in the chunks of the tail. Nothing leads from
/// it to rows of another graph, so that a merge can drop the rows of one.
///
/// Thread safety: one thread inserts, any number search.
class DeltaGraph {
 public:
  /// Memory of a thread that inserts or searches.
  struct Scratch {
    LayerScratch layer;
    std::vector<NodeId> links;
    NeighborSelector selector;
    std::vector<Candidate> candidates, shorter;
    std::vector<const std::byte*> rows;
    std::vector<NodeId> chosen;
    Beam found;  ///< of a search among some of the rows
  };
  /// What a search looks for.
  struct Wanted {
    std::uint32_t width = 0;  ///< of the beam
    std::uint32_t k = 0;      ///< nearest rows
    /// It ends at the first candidate beyond, unless that is one of the nearest few.
    EpsilonLimit end = {};
    /// The rows that may be found, a bit each from tail.base() on; empty: all.
    std::span<const std::uint64_t> among = {};
    std::uint64_t most_distances = ~std::uint64_t{0};  ///< then it gives up
  };
  struct Searched {
    std::uint64_t distances = 0;
    /// A scan is needed: it has computed the most distances, or met too few rows that may
    /// be found, or only beyond what its beam could hold.
    bool gave_up = false;
  };

  explicit DeltaGraph(std::uint64_t first) : first_(first) {}

  /// Rows [first, end) are in it.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return first_ + nodes_.load(std::memory_order_acquire); }
  /// Rows from this one on are for another graph.
  std::uint64_t limit() const { return limit_; }
  void Close(std::uint64_t limit) { limit_ = limit; }

  static std::string PathIn(const std::string& folder) { return folder + "/delta-graph"; }
  static constexpr std::uint64_t kPieceRows = 1024;
  /// Writes the links of its first rows, whole pieces of kPieceRows of them, each
  /// with a checksum of these links, the rows and their labels (COLLECTION.md). Errors:
  /// those of AtomicFile.
  absl::Status Write(const Tail& tail, const Kernels& kernels, const std::string& path) const;
  /// Takes over the pieces of such a file that are of its rows, up to the first that is
  /// not. Call it before any insertion or search.
  void Read(const Tail& tail, const Kernels& kernels, const std::string& path);

  /// Inserts row end(), which the tail has. A row that is dead gets no links. `width`:
  /// ef_construction.
  void Insert(const Tail& tail, const Kernels& kernels, std::uint32_t width, float alpha,
              Scratch& scratch);
  /// Leaves in Found the nearest rows of the tail that it finds, row - first() each.
  /// `query`: a stored vector.
  Searched Search(const Tail& tail, const Kernels& kernels, const std::byte* query,
                  const Wanted& wanted, Scratch& scratch) const;
  /// The k nearest of some rows; or the `width` nearest of all, dead ones included.
  static const Beam& Found(const Wanted& wanted, const Scratch& scratch) {
    return wanted.among.empty() ? scratch.layer.beam : scratch.found;
  }

 private:
  /// Moves the rows of scratch.layer.batch that `wanted` takes to scratch.found.
  void Offer(const Tail& tail, const Wanted& wanted, Scratch& scratch) const;
  /// Whether nearer rows are to be expected than a search has found. `nodes`: in it.
  static bool NeedsScan(const Wanted& wanted, NodeId nodes, const Scratch& scratch);
  void ReadLinks(const Tail& tail, NodeId node, NodeId nodes, std::vector<NodeId>* links) const;
  void WriteLinks(const Tail& tail, NodeId node, std::span<const NodeId> links);
  void LinkBack(const Tail& tail, const Kernels& kernels, NodeId node, NodeId to, DistanceKey key,
                float alpha, Scratch& scratch);

  const std::uint64_t first_;
  std::atomic<NodeId> nodes_ = 0;
  std::atomic<std::uint64_t> limit_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace hmann
