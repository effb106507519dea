#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/attributes.h"
#include "hmann/hmann.h"
#include "hmann/progress.h"
#include "hmann/tier.h"
#include "hmann/tuned_table.h"
#include "index/codes/encoder.h"
#include "index/filter_cache.h"
#include "index/format/reader.h"
#include "index/graph/cells.h"
#include "index/scalar_codes.h"
#include "index/search/placed_index.h"
#include "index/tiers/block_cache.h"

namespace hmann {

/// An index file and the locations to which its sections were placed.
class IndexImpl {
 public:
  explicit IndexImpl(IndexFile file) : file_(std::move(file)) {}

  /// Places the upper layers first, because they must not fail. Reads the tuned table
  /// before that. Errors: those of Index::Open.
  absl::Status Place(const OpenOptions& options, Progress& progress);

  const IndexFile& file() const { return file_; }
  const IndexInfo& info() const { return file_.info(); }
  const PlacedIndex& placed() const { return placed_; }
  BlockCache* cache() const { return cache_.get(); }
  std::vector<Placement> Placements(bool ask) const;
  std::vector<std::string> Choices() const;
  std::vector<std::string> Warnings() const;
  void Warm(bool requested, Progress& progress) const;
  /// See Index.
  std::uint64_t BytesInPlace() const;
  absl::Status ForLabels(const std::function<void(std::span<const NodeId>,
                                                  std::span<const std::uint64_t>)>& visit) const;
  absl::Status ForRows(
      const std::function<absl::Status(std::span<const NodeId>, std::span<const std::uint64_t>,
                                       std::span<const std::byte>)>& visit) const;
  absl::Status Scrub(const std::function<bool(std::uint64_t)>& pace) const;

  /// The tuned table next to the file, if there is one. If it cannot be read, it says
  /// why. Not null.
  using Table = std::shared_ptr<const absl::StatusOr<TunedTable>>;
  Table tuned() const { return tuned_.load(); }
  /// See Index.
  absl::Status ReadTuned() const;
  /// See Index.
  const absl::StatusOr<std::shared_ptr<const Attributes>>& attributes() const {
    return attributes_;
  }
  absl::StatusOr<std::shared_ptr<const Matches>> Filtered(const Filter& filter) const;
  const TunedEntryKey& placement() const { return placement_; }
  /// What `make` gives for k, which is called once for a table. Errors: those of `make`.
  absl::StatusOr<std::shared_ptr<const TunedTable>> Timed(
      const Table& table, std::uint32_t k,
      const std::function<absl::StatusOr<TunedEntry>()>& make) const;
  /// The value for ResolvedSearch.
  std::uint32_t InFlight(std::uint32_t k) const;

 private:
  struct PlacedSection {
    Section section;
    std::string tier;
    Region region;
  };

  /// Places a section and returns its region, which stays valid while this object lives.
  absl::StatusOr<const Region*> PlaceSection(const Section& section, const Tier& tier,
                                             Progress& progress);
  /// Checks the checksums of sections that are read now and not placed.
  absl::Status CheckNow(std::initializer_list<SectionKind> kinds) const;
  absl::Status PlaceUpperLayers(const Tier& fast, Progress& progress);
  absl::Status PlaceCodes(const Tier& fast, Progress& progress);
  /// Leaves the label order where it lies: lookups by label are no reason to load 4 bytes
  /// a vector.
  absl::Status PlaceLabelOrder(Progress& progress);
  absl::Status PlaceL0(const Tier& slow, const OpenOptions& options, Progress& progress);
  absl::Status MakeCache(const OpenOptions& options, Progress& progress);
  absl::Status CheckCodes(std::uint32_t bits, double least) const;
  std::uint32_t StoredBits();
  absl::Status MakeCodes(std::uint32_t bits, const Tier& fast, Progress& progress);
  std::uint32_t TunedBits(const OpenOptions& options);

  IndexFile file_;  ///< kept open: tiers `mapped` and `nvme` serve from it
  PlacedIndex placed_;
  std::vector<std::unique_ptr<PlacedSection>> sections_;
  std::optional<Encoder> encoder_;
  Cells cells_;
  std::unique_ptr<ScalarCodes> scalar_codes_;
  std::string why_codes_;
  std::unique_ptr<BlockCache> cache_;
  mutable std::atomic<Table> tuned_;
  TunedEntryKey placement_;
  mutable std::mutex timing_;  ///< guards the next two
  mutable Table timed_for_;
  mutable std::map<std::uint32_t, std::shared_ptr<const TunedTable>> timed_;  ///< by k
  absl::StatusOr<std::shared_ptr<const Attributes>> attributes_;
  mutable FilterCache filters_;
};

/// The implementation of `index`, for internal users: Searcher, index/tune, tests.
const IndexImpl& ImplOf(const Index& index);

/// The placement of an index opened with `options` and codes of `sq_bits`, as its tuned
/// table names it.
TunedEntryKey PlacementOf(const OpenOptions& options, std::uint32_t sq_bits);

}  // namespace hmann
