/// The main header of the library: open, search and inspect an index. build.h builds an
/// index, tune.h finds parameters, and tier.h accepts a custom kind of memory. The
/// headers in this folder are the public ones; no other header is installed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hmann/answer.h"
#include "hmann/attributes.h"
#include "hmann/cache_policy.h"
#include "hmann/counters.h"
#include "hmann/distance.h"
#include "hmann/filter.h"
#include "hmann/info.h"
#include "hmann/matches.h"
#include "hmann/param_table.h"
#include "hmann/progress.h"
#include "hmann/resolved_params.h"
#include "hmann/search_params.h"
#include "hmann/tuned_table.h"

namespace hmann {

struct OpenOptions {
  /// Tier of the upper layers and promoted vectors: dram, numa:N, mapped.
  std::string fast = "dram";
  /// Tier of L0, as MakeTier (tier.h) takes it: mapped, dram, numa:N, dax:PATH, nvme, ...
  std::string slow = "mapped";
  /// A cache in fast memory for node records of the slow tier: none, static (by degree)
  /// or dynamic (by use). It comes in addition to the fast structures.
  CachePolicy cache = CachePolicy::kNone;
  std::uint64_t cache_bytes = 0;
  /// Space of each searcher for reads from a block tier.
  std::uint64_t read_buffer_bytes = std::uint64_t{16} << 20;
  /// Codes of scalar quantization (SQ8, SQ4): 8 or 4 bits per component; 0: none. All
  /// modes except quantized navigate by these codes and rank the results by exact
  /// distances. They require L0 in memory. Open computes those that the file does not
  /// contain. Absent: the setting that the tuned table of the index found fastest;
  /// without such an entry, those of the file if `slow` is dram or mapped.
  std::optional<std::uint32_t> sq_bits = {};
  /// Accept codes that are too coarse for the vectors: with them, no search parameters
  /// find most of the neighbors (by the calibration). Otherwise Open rejects them.
  bool coarse_codes = false;

  bool operator==(const OpenOptions&) const = default;
};

/// The parameters of a search, resolved for an index.
struct ResolvedSearch {
  ResolvedParams params;
  /// If a target chose the parameters: what to expect.
  std::optional<TunedSetting> tuned;
  /// If the calibration chose the parameters: the expected mean recall.
  std::optional<double> calibrated_recall;
  /// The queries that either holds for (KindOfQueries). Empty: all, or it is not known.
  std::string predicted_for;
  /// The number of queries that a thread should keep in flight (SearchMany), if there are
  /// many. Measured by `hmann tune` for this placement and k; otherwise a guess.
  std::uint32_t in_flight = 1;
};

/// Index::Find: no vector has the label.
inline constexpr std::uint32_t kNoId = 0xffffffff;

class Executor;
class IndexImpl;

/// Gets the bytes of a file that was mapped, before they are read. They stay mapped while
/// the index is open.
using OnMapped = std::function<void(std::span<const std::byte> bytes)>;

/// An open index. Immutable and thread-safe: any number of Searchers may use it at once.
class Index {
 public:
  /// Checks the header and section table, then places the upper layers, then L0. Data
  /// copied to memory is compared with its checksum; data read in place is not (see Scrub
  /// and Verify). `progress`, if given, shows the loading. `on_mapped`, if given, gets
  /// the index file.
  ///
  /// Errors: NOT_FOUND, INVALID_ARGUMENT (foreign file, unknown tier), DATA_LOSS
  /// (truncated or damaged), RESOURCE_EXHAUSTED, UNIMPLEMENTED (another version of the
  /// format), FAILED_PRECONDITION (a tier that cannot work on this machine, codes that
  /// are too coarse).
  static absl::StatusOr<std::shared_ptr<const Index>> Open(const std::string& path,
                                                           const OpenOptions& options = {},
                                                           Progress* progress = nullptr,
                                                           const OnMapped& on_mapped = nullptr);
  ~Index();

  const IndexInfo& info() const;
  const Kernels& kernels() const;
  /// `where`: whether to ask the kernel for Placement::where, which takes milliseconds.
  std::vector<Placement> Placements(bool where = true) const;
  /// The settings that the index chose because the user left them open, with the reason,
  /// one per line: how many queries a thread keeps in flight.
  std::vector<std::string> Choices() const;
  /// The resources that were unavailable and that the index works without, one per line:
  /// memory that is not locked, io_uring that is forbidden.
  std::vector<std::string> Warnings() const;
  /// Resolves the user's parameters for this index. Call it once for all queries that
  /// share them; it takes microseconds. For a target, the result is the setting that
  /// `hmann tune` found for this placement and k, from the table that Open read. For a
  /// recall target at a placement or k that is not tuned, the calibration decides.
  ///
  /// Errors: those of SearchParams::Resolve. For a target also those of ReadTunedTable
  /// (NOT_FOUND: neither tuned nor calibrated; FAILED_PRECONDITION: stale) and of
  /// TunedTable::Choose (OUT_OF_RANGE).
  absl::StatusOr<ResolvedSearch> Resolve(const SearchParams& options) const;
  /// Reads the tuned table next to the file again, which `hmann tune` may have written
  /// since Open. Searches that have begun keep their parameters. Errors: those of
  /// ReadTunedTable; the table that was read before stays in force.
  absl::Status ReadTuned() const;
  /// Calls visit(ids, labels) with the internal ids and labels of all vectors, in
  /// batches. Labels that are row numbers come from their order in the file. Other labels
  /// are read from L0, once from end to end. Errors: DATA_LOSS.
  absl::Status ForLabels(const std::function<void(std::span<const std::uint32_t>,
                                                  std::span<const std::uint64_t>)>& visit) const;
  /// Calls visit(ids, labels, rows) with all vectors, in batches and in the order of ids:
  /// as Searcher::Get returns them, dim components each, one after another. Reads L0 once
  /// from end to end. Errors: those of `visit`, which end the work.
  absl::Status ForRows(const std::function<absl::Status(std::span<const std::uint32_t>,
                                                        std::span<const std::uint64_t>,
                                                        std::span<const std::byte>)>& visit) const;
  /// Sets ids[i] to the internal id of the vector with labels[i]: the lowest, if several
  /// share it, and kNoId if there is none. `ids` is as long as `labels`. A row number
  /// takes one read of the file, a label of the user at most two. Errors: DATA_LOSS if
  /// the order of labels leads to no vector; whether it leads to the right one is checked
  /// by Scrub, Verify and Searcher::Get.
  absl::Status Find(std::span<const std::uint64_t> labels, std::span<std::uint32_t> ids) const;
  /// Returns the vectors whose label satisfies `accepts(label)`, for
  /// SearchParams::matches. Call it once for all queries that share the predicate.
  /// Errors: those of ForLabels.
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
  /// The attributes of the vectors, from the file next to the index as it was at Open.
  /// Errors: those of Attributes::Open (NOT_FOUND: there are none).
  absl::StatusOr<std::shared_ptr<const Attributes>> attributes() const;
  /// Returns the vectors for which a filter on the attributes holds, for
  /// SearchParams::matches. Those of recent filters are kept. Errors: those of attributes
  /// and of Attributes::Matching.
  absl::StatusOr<std::shared_ptr<const Matches>> Filtered(const Filter& filter) const;
  /// Whether queries wait for a device, so that several should be in flight.
  bool on_block_tier() const;
  /// Reads the data mapped in place once, on all cores, so that the first queries take no
  /// page faults. Skips data larger than the memory that this process may still use,
  /// unless `asked`: its first pages would be evicted before the last ones are read.
  void Warm(bool requested = false, Progress* progress = nullptr) const;
  /// Bytes of sections that are read in place (mapped, nvme) and that Open therefore did
  /// not compare with their checksums.
  std::uint64_t bytes_in_place() const;
  /// Compares those sections with their checksums; searches may run meanwhile. `pace` is
  /// called before each MiB with its size in bytes and may wait; returning false ends the
  /// work (CANCELLED). Errors: DATA_LOSS naming the section; UNAVAILABLE if the device
  /// does not return the bytes.
  absl::Status Scrub(const std::function<bool(std::uint64_t bytes)>& pace) const;

 private:
  friend const IndexImpl& ImplOf(const Index& index);
  explicit Index(std::unique_ptr<IndexImpl> impl);
  std::unique_ptr<IndexImpl> impl_;
};

/// Answers queries, one at a time. It keeps its scratch memory between queries and
/// allocates nothing in the steady state. Use one per thread.
class Searcher {
 public:
  explicit Searcher(std::shared_ptr<const Index> index);
  ~Searcher();
  Searcher(Searcher&&) noexcept;

  /// `query`: dim components of QueryType(the index's dtype), unaligned. `params`: from
  /// Index::Resolve. The work is added to `counters`, if given. Errors: INVALID_ARGUMENT
  /// (NaN, zero vector under cosine), DEADLINE_EXCEEDED, CANCELLED, DATA_LOSS (a read
  /// failed), UNAVAILABLE (stalled).
  absl::Status Search(const void* query, const ResolvedParams& params, Answer* answer,
                      Counters* counters = nullptr, const SearchLimits& limits = {});
  /// Resolves `options` first and applies their budget. Errors: additionally those of
  /// Index::Resolve.
  absl::Status Search(const void* query, const SearchParams& options, Answer* answer,
                      Counters* counters = nullptr);

  /// Answers queries 0 .. n - 1 as Search does, in any order. Up to `in_flight` (at most
  /// 256) queries are in flight at once: the thread computes for one query while memory
  /// or the device reads for others. Use four in DRAM, eight or more on a device.
  ///
  /// `query(i)` points to query i and is called when that query starts.
  /// `done(i, status, answer)` is called once per query, from this thread, and may move
  /// the content out of the answer. Errors: those that prevent all queries; errors of a
  /// single query go to `done`.
  absl::Status SearchMany(
      std::size_t n, const std::function<const void*(std::size_t)>& query,
      const ResolvedParams& params, std::uint32_t in_flight,
      const std::function<void(std::size_t, const absl::Status&, Answer&)>& done,
      Counters* counters = nullptr, const SearchLimits& limits = {});

  /// Retrieves vectors by label, as the index stores them: dim components of its dtype
  /// each, in the order of `labels`. `vectors` must have room for them. f32 and f16
  /// vectors under cosine are returned divided by their norm. If several vectors share a
  /// label, the one with the lowest internal id is returned. After an error the content
  /// of `vectors` is unspecified. The budget in `limits` is ignored.
  ///
  /// Errors: NOT_FOUND naming the first label that no vector has; read errors as in
  /// Search; DATA_LOSS also if the order is damaged.
  absl::Status Get(std::span<const std::uint64_t> labels, void* vectors,
                   Counters* counters = nullptr, const SearchLimits& limits = {});

 private:
  std::shared_ptr<const Index> index_;
  std::unique_ptr<Executor> executor_;
};

struct MakeAttributesOptions {
  std::string from;   ///< .ndjson, .jsonl, .csv or .spmat (doc/filters.md)
  std::string types;  ///< types of some fields, "year:int64,tags:tag"
  /// Bytes that may be used; 0: half of what is available.
  std::uint64_t memory = 0;
  const std::atomic<bool>* cancelled = nullptr;
};
/// Writes the file of attributes next to an index, from a file with a row for each
/// vector; a file that is there is replaced. Errors: INVALID_ARGUMENT naming the line or
/// row; RESOURCE_EXHAUSTED; those of files; CANCELLED.
absl::Status MakeAttributes(const std::string& index, const MakeAttributesOptions& options,
                            Progress& progress);

/// Reads the header of an index file. Errors: as Index::Open.
absl::StatusOr<IndexInfo> ReadInfo(const std::string& path);

/// Checks every checksum and every invariant of an index file: links in range, no
/// self-links, no duplicates, all nodes reachable, nested layers. Errors: DATA_LOSS
/// naming section and offset.
absl::Status Verify(const std::string& path, Progress& progress);

}  // namespace hmann
