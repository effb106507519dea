/// The library's face: plan and build an index, open it, tune it, search it, look into it. Nothing else of hmann is public.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "index/build/options.h"
#include "index/dials/answer.h"
#include "index/dials/counters.h"
#include "index/dials/dial_table.h"
#include "index/dials/dials.h"
#include "index/dials/options.h"
#include "index/distance/distance.h"
#include "index/format/info.h"
#include "index/tiers/block_cache.h"
#include "index/tune/target.h"
#include "index/tune/tuned_table.h"

namespace hmann {

/// Builds an index from a vector file by Algorithm 1 and writes it to options.out, whole or not at all.
/// Deterministic: the same input, options (but threads) and version give the same bytes.
/// Errors: INVALID_ARGUMENT (options, malformed or non-finite data, zero vector under cosine), NOT_FOUND, RESOURCE_EXHAUSTED (memory or
/// disk; memory is checked before the work starts), CANCELLED.
absl::StatusOr<BuildReport> Build(const BuildOptions& options, Progress& progress);

/// What an index is planned for.
struct PlanOptions {
  std::uint64_t fast_memory_bytes = 0;
  std::string slow = "nvme";  ///< tier that L0 will lie on, of any size, as MakeTier takes it
  std::string profile{};      ///< device file (MeasureProfile); empty: figures of a usual machine
  int threads = 0;            ///< that search at once, whose scratch comes off the fast memory; 0: UsableCores()
  /// Pinned; absent: the planner's choice. With bits or codes, and for another library's graph, only N_1 is left: as many as fit.
  std::optional<std::uint32_t> bits{}, assign{};
  std::optional<CodePlace> codes{};
};

/// Where the structures of a planned index go, for OpenOptions.
struct PlannedPlacement {
  std::string structure;  ///< "16 % promoted, 2 bits, assign 1"
  std::string fast, slow;
  std::uint64_t cache_bytes = 0;  ///< of a static cache; 0: none
  double predicted_us = 0;        ///< of a query at recall@10 of about 0.95
};

struct PlannedBuild {
  BuildOptions build;                         ///< with promote, bits, codes and assign of the plan
  std::optional<PlannedPlacement> placement;  ///< absent where only N_1 was left to choose
  std::vector<std::string> warnings;          ///< a device file of another machine
};

/// Which index of the inputs of `build` to make for so much fast memory: `hmann build --fast-memory` and `promote --fast-memory` are Plan,
/// then Build. Reads headers only, and measures nothing: the same options, device file and number of threads give the same plan.
/// Errors: those of opening the inputs, the device file and PlanPlacement; RESOURCE_EXHAUSTED naming the smallest fast memory that would
/// do.
absl::StatusOr<PlannedBuild> Plan(const BuildOptions& build, const PlanOptions& options);

struct OpenOptions {
  std::string fast = "dram";    ///< tier of the upper layers and promoted vectors: dram, numa:N, mapped
  std::string slow = "mapped";  ///< tier of L0, as MakeTier (index/tiers/tier.h) takes them: mapped, dram, numa:N, dax:PATH, nvme, ...
  /// A cache of slow records in fast memory, beside them: none, static (by degree) or dynamic (by use).
  CachePolicy cache = CachePolicy::kNone;
  std::uint64_t cache_bytes = 0;
  std::uint64_t migration_bytes = std::uint64_t{16} << 20;  ///< of each searcher, for reads from a block tier
  /// Threads that copy ahead, for queries with Prefetch::kHelper: a number, or -1: as many as this machine's own measurement favours.
  int helper_threads = 0;
};

/// Where a structure lies while an index is open.
struct Placement {
  /// Section of the file: "upper_links[1]", "fast_rows", "fast_labels", "l0"; or made by Open: "cells", "l0_cache", "migration_space" (of
  /// the searchers that have asked for Prefetch::kHelper; there where helpers run).
  std::string structure;
  std::string tier;   ///< as asked for: "dram", "mapped", ...
  std::string where;  ///< as the kernel says: "node 0: 100 %, 2 MiB pages 96 %, locked"
  std::uint64_t bytes = 0;
};

/// What a search will do.
struct ResolvedSearch {
  Dials dials;
  std::optional<TunedSetting> tuned;  ///< where a target chose the dials: what to expect of them
};

class Driver;
class IndexImpl;

/// An opened index. Immutable; any number of Searchers may use it at once. Thread-safe.
class Index {
 public:
  /// Checks the header and section table (contents: see Verify), then places upper layers, then L0.
  /// Errors: NOT_FOUND, INVALID_ARGUMENT (foreign file, unknown tier), DATA_LOSS (truncated or corrupt), RESOURCE_EXHAUSTED.
  /// `progress`, when given, shows the loading.
  static absl::StatusOr<std::shared_ptr<const Index>> Open(const std::string& path, const OpenOptions& options = {},
                                                           Progress* progress = nullptr);
  ~Index();

  const IndexInfo& info() const;
  const Kernels& kernels() const;
  std::vector<Placement> Placements() const;
  /// What could not be had and was done without, a line each: memory that is not locked, io_uring that is forbidden.
  std::vector<std::string> Warnings() const;
  /// Another policy for the cache that Open made; queries may run meanwhile. Errors: FAILED_PRECONDITION without a cache.
  absl::Status SetCachePolicy(CachePolicy policy) const;
  /// The dials that run here for what a user says, to be found once for all queries that share it; takes microseconds. For a target they
  /// are those that `hmann tune` found at this placement and k, from the table that Open has read. Errors: those of SearchOptions::Resolve;
  /// for a target those of ReadTunedTable (NOT_FOUND: not tuned; FAILED_PRECONDITION: stale) and of TunedTable::Choose (OUT_OF_RANGE).
  absl::StatusOr<ResolvedSearch> Resolve(const SearchOptions& options) const;
  /// Whether queries wait for a device, so that several should be in flight.
  bool on_block_tier() const;
  /// Touches all of L0 that can be addressed, so that the first queries pay no page fault.
  void Warm() const;

  const IndexImpl& impl() const { return *impl_; }

 private:
  explicit Index(std::unique_ptr<IndexImpl> impl);
  std::unique_ptr<IndexImpl> impl_;
};

/// Answers queries, one at a time, with scratch that is kept between them: no allocation in the steady state. One per thread.
class Searcher {
 public:
  explicit Searcher(std::shared_ptr<const Index> index);
  ~Searcher();
  Searcher(Searcher&&) noexcept;

  /// `query`: dim components of the index's dtype, unaligned. `dials`: those that Index::Resolve gave. `counters`, when given, is added to.
  /// Errors: INVALID_ARGUMENT (NaN, zero vector under cosine), DEADLINE_EXCEEDED, CANCELLED, INTERNAL (device).
  absl::Status Search(const void* query, const Dials& dials, Answer* answer, Counters* counters = nullptr, const SearchLimits& limits = {});
  /// Resolves `options` first, and keeps their budget. Errors: those of Index::Resolve as well.
  absl::Status Search(const void* query, const SearchOptions& options, Answer* answer, Counters* counters = nullptr);

  /// Answers queries 0 .. n - 1 as Search does, in any order. Up to `in_flight` (at most 256) of them are under way at once, so that the
  /// thread computes for one while memory or the device reads for others: four in DRAM, eight and more on a device. `query(i)` points to
  /// query i and is called when it begins; `done(i, status, answer)` is called once for each, from this thread; it may take the answer's
  /// content. Errors: what prevents all queries; those of one query go to `done`.
  absl::Status SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const Dials& dials, std::uint32_t in_flight,
                          const std::function<void(std::size_t, const absl::Status&, Answer&)>& done, Counters* counters = nullptr,
                          const SearchLimits& limits = {});

 private:
  std::shared_ptr<const Index> index_;
  std::unique_ptr<Driver> driver_;
};

/// What Tune is to find.
struct TuneOptions {
  std::string index;        ///< index file
  OpenOptions open;         ///< the placement that is tuned
  std::string queries;      ///< vector file to learn from; empty: queries are made from indexed vectors (MakeLearningSet)
  std::string groundtruth;  ///< of `queries`; empty: computed by comparing with all indexed vectors
  std::vector<std::uint32_t> k = {10};
  std::vector<Target> targets = {
      {.recall = 0.9}, {.recall = 0.95}, {.recall = 0.99}};  ///< measured to the end; the table answers others too
  std::uint64_t learn = 2000;                                ///< queries, at most
  std::uint32_t most_query_threads = 0;                      ///< 0: the usable cores
  std::string profile;                                       ///< of the device (MeasureProfile), as bounds for the model; empty: none
};

struct TuneReport {
  std::vector<TunedEntry> entries;    ///< one for each k, as they were stored
  std::vector<std::string> warnings;  ///< a device profile of another machine, a stale table that was replaced
  std::string table;                  ///< path of the tuned table
};

/// Finds the fastest dials for each target by the model and measurement (index/tune/tuner.h), one query at a time in one thread, and stores
/// them beside the index (index/tune/tuned_table.h) for Index::Choose; entries of other placements and other k stay.
/// Errors: INVALID_ARGUMENT (no queries, another dimension or type, targets), those of Index::Open and of AtomicFile.
absl::StatusOr<TuneReport> Tune(const TuneOptions& options, Progress& progress);

/// What the header of an index file says. Errors as Index::Open.
absl::StatusOr<IndexInfo> ReadInfo(const std::string& path);

/// Checks every checksum and every invariant of an index file: links in range, no self-link, no duplicate, all nodes reachable, nested
/// layers. Errors: DATA_LOSS naming section and offset.
absl::Status Verify(const std::string& path, Progress& progress);

}  // namespace hmann
