/// The library's face: open an index, search it, look into it. build.h makes one, tune.h
/// finds dials, tier.h takes a kind of memory that you bring. Public is what lies in this
/// folder; no other header is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hmann/answer.h"
#include "hmann/cache_policy.h"
#include "hmann/counters.h"
#include "hmann/dial_table.h"
#include "hmann/dials.h"
#include "hmann/distance.h"
#include "hmann/info.h"
#include "hmann/matches.h"
#include "hmann/progress.h"
#include "hmann/search_options.h"
#include "hmann/tuned_table.h"

namespace hmann {

struct OpenOptions {
  std::string fast =
      "dram";  ///< tier of the upper layers and promoted vectors: dram, numa:N, mapped
  std::string slow = "mapped";  ///< tier of L0, as MakeTier (tier.h) takes them:
                                ///< mapped, dram, numa:N, dax:PATH, nvme, ...
  /// A cache of slow records in fast memory, beside them: none, static (by degree) or
  /// dynamic (by use).
  CachePolicy cache = CachePolicy::kNone;
  std::uint64_t cache_bytes = 0;
  std::uint64_t migration_bytes = std::uint64_t{16}
                                  << 20;  ///< of each searcher, for reads from a block tier
  /// Threads that copy ahead, for queries with Prefetch::kHelper.
  int helper_threads = 0;
  /// Codes of scalar quantisation (SQ8, SQ4), made of the vectors now and kept in fast
  /// memory: 8 or 4 bits a component; 0: none. All walks but the quantised go by them,
  /// and what they find is ranked by exact distances. For L0 in memory. Absent: what the
  /// tuned table of the index has found to be fastest; none where nothing of them is
  /// tuned.
  std::optional<std::uint32_t> sq_bits = {};
};

/// What a search will do.
struct ResolvedSearch {
  Dials dials;
  std::optional<TunedSetting> tuned;  ///< where a target chose the dials: what to expect of them
  /// Where the calibration chose them: the mean recall to expect.
  std::optional<double> calibrated_recall;
  /// Queries that a thread should have under way at once (SearchMany), where there are
  /// many: as `hmann tune` has measured for this placement and k, or else a guess.
  std::uint32_t in_flight = 1;
};

class Driver;
class IndexImpl;

/// An opened index. Immutable; any number of Searchers may use it at once. Thread-safe.
class Index {
 public:
  /// Checks the header and section table, then places upper layers, then L0. What is
  /// copied to memory is compared with its checksum; what is read in place is not (see
  /// Scrub and Verify). Errors: NOT_FOUND, INVALID_ARGUMENT (foreign file, unknown tier),
  /// DATA_LOSS (truncated or damaged), RESOURCE_EXHAUSTED,
  /// UNIMPLEMENTED (another version of the format), FAILED_PRECONDITION (a tier that
  /// cannot work on this machine). `progress`, when given, shows
  /// the loading.
  static absl::StatusOr<std::shared_ptr<const Index>> Open(const std::string& path,
                                                           const OpenOptions& options = {},
                                                           Progress* progress = nullptr);
  ~Index();

  const IndexInfo& info() const;
  const Kernels& kernels() const;
  std::vector<Placement> Placements() const;
  /// What was chosen here that nobody has said, and why, a line each: how many queries a
  /// thread has under way at once.
  std::vector<std::string> Choices() const;
  /// What could not be had and was done without, a line each: memory that is not locked,
  /// io_uring that is forbidden.
  std::vector<std::string> Warnings() const;
  /// The dials that run here for what a user says, to be found once for all queries that
  /// share it; takes microseconds. For a target they are those that `hmann tune` found at
  /// this placement and k, from the table that Open has read; for a recall at a placement
  /// or k that is not tuned, what the calibration says. Errors: those of
  /// SearchOptions::Resolve; for a target those of ReadTunedTable (NOT_FOUND: neither
  /// tuned nor calibrated; FAILED_PRECONDITION: stale) and of TunedTable::Choose
  /// (OUT_OF_RANGE).
  absl::StatusOr<ResolvedSearch> Resolve(const SearchOptions& options) const;
  /// Calls visit(ids, labels) with the labels of all vectors and their internal ids, some
  /// at a time. Labels that are row numbers come from their order in the file; others are
  /// read from L0, once from end to end. Errors: DATA_LOSS.
  absl::Status ForLabels(const std::function<void(std::span<const std::uint32_t>,
                                                  std::span<const std::uint64_t>)>& visit) const;
  /// The vectors that `accepts(label)` is true for, for SearchOptions::matches: once for
  /// all queries that share the predicate. Errors: those of ForLabels.
  template <typename Accepts>
  absl::StatusOr<Matches> Matching(const Accepts& accepts) const {
    Matches matches(info().n, info().content_hash);
    const absl::Status status =
        ForLabels([&](std::span<const std::uint32_t> ids, std::span<const std::uint64_t> labels) {
          for (std::size_t i = 0; i < ids.size(); ++i) {
            if (accepts(labels[i])) matches.Add(ids[i]);
          }
        });
    if (!status.ok()) return status;
    return matches;
  }
  /// Whether queries wait for a device, so that several should be in flight.
  bool on_block_tier() const;
  /// Reads what is mapped in place once, on all cores, so that the first queries pay no
  /// page fault. What is larger than the memory that this process may still take is left
  /// as it is, unless `asked`: its first pages would be gone before the last are there.
  void Warm(bool asked = false) const;
  /// Bytes of sections that are read in place (mapped, nvme), so that Open has not
  /// compared them with their checksums.
  std::uint64_t bytes_in_place() const;
  /// Compares them; searches may run meanwhile. `pace` is called before each MiB with its
  /// bytes, and may wait; false ends the work (CANCELLED). Errors: DATA_LOSS naming the
  /// section; UNAVAILABLE when the device does not give the bytes.
  absl::Status Scrub(const std::function<bool(std::uint64_t bytes)>& pace) const;

 private:
  friend const IndexImpl& ImplOf(const Index& index);
  explicit Index(std::unique_ptr<IndexImpl> impl);
  std::unique_ptr<IndexImpl> impl_;
};

/// Answers queries, one at a time, with scratch that is kept between them: no allocation
/// in the steady state. One per thread.
class Searcher {
 public:
  explicit Searcher(std::shared_ptr<const Index> index);
  ~Searcher();
  Searcher(Searcher&&) noexcept;

  /// `query`: dim components of QueryType(the index's dtype), unaligned. `dials`: those
  /// that Index::Resolve gave. `counters`, when given, is added to. Errors:
  /// INVALID_ARGUMENT (NaN, zero vector under cosine), DEADLINE_EXCEEDED, CANCELLED,
  /// DATA_LOSS (a read failed), UNAVAILABLE (stalled).
  absl::Status Search(const void* query, const Dials& dials, Answer* answer,
                      Counters* counters = nullptr, const SearchLimits& limits = {});
  /// Resolves `options` first, and keeps their budget. Errors: those of Index::Resolve as
  /// well.
  absl::Status Search(const void* query, const SearchOptions& options, Answer* answer,
                      Counters* counters = nullptr);

  /// Answers queries 0 .. n - 1 as Search does, in any order. Up to `in_flight` (at most
  /// 256) of them are under way at once, so that the thread computes for one while memory
  /// or the device reads for others: four in DRAM, eight and more on a device. `query(i)`
  /// points to query i and is called when it begins; `done(i, status, answer)` is called
  /// once for each, from this thread; it may take the answer's content. Errors: what
  /// prevents all queries; those of one query go to `done`.
  absl::Status SearchMany(
      std::size_t n, const std::function<const void*(std::size_t)>& query, const Dials& dials,
      std::uint32_t in_flight,
      const std::function<void(std::size_t, const absl::Status&, Answer&)>& done,
      Counters* counters = nullptr, const SearchLimits& limits = {});

  /// Vectors by their labels, as the index has them: dim components of its dtype each, in
  /// the order of `labels`, to `vectors`, which has room for them. f32 and f16 vectors
  /// under cosine come divided by their norm. Of a label that several vectors have, it is
  /// always the same one of them, that of the lowest internal id. After an error
  /// `vectors` means nothing. The budget of `limits` does not count. Errors: NOT_FOUND
  /// naming the first label that no vector has; FAILED_PRECONDITION for a file from
  /// before there were orders of labels (format 2.0); those of reads, as Search has them;
  /// DATA_LOSS, too, where the order is damaged.
  absl::Status Get(std::span<const std::uint64_t> labels, void* vectors,
                   Counters* counters = nullptr, const SearchLimits& limits = {});

 private:
  std::shared_ptr<const Index> index_;
  std::unique_ptr<Driver> driver_;
};

/// What the header of an index file says. Errors as Index::Open.
absl::StatusOr<IndexInfo> ReadInfo(const std::string& path);

/// Checks every checksum and every invariant of an index file: links in range, no
/// self-link, no duplicate, all nodes reachable, nested layers. Errors: DATA_LOSS naming
/// section and offset.
absl::Status Verify(const std::string& path, Progress& progress);

}  // namespace hmann
