#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/hmann.h"
#include "index/attributes/rows.h"
#include "index/label_filter.h"

namespace hmann {

/// The attributes of a row in memory.
using AttributeCells = std::vector<AttributeCell>;

/// Rows of a collection that are indexed, each with its own label: the sealed index in
/// its file, or a graph over a part of the delta. Which of them are dead, a moment knows.
class Segment {
 public:
  /// `cells`: of the rows by internal id; empty: none has any. The sealed index has its
  /// attributes in a file.
  Segment(std::shared_ptr<const Index> index, std::string path)
      : index_(std::move(index)), path_(std::move(path)) {}
  /// A graph over the delta's rows [first, end) that were alive.
  Segment(std::shared_ptr<const Index> index, std::uint64_t first, std::uint64_t end,
          std::vector<AttributeCells> cells)
      : index_(std::move(index)), first_(first), end_(end), cells_(std::move(cells)) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  /// Removes the files of a sealed index that another one has replaced.
  ~Segment();

  const std::shared_ptr<const Index>& index() const { return index_; }
  std::uint64_t n() const { return index_->info().n; }
  bool is_sealed() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }
  /// That it takes in fast memory besides the sealed index, about.
  std::uint64_t bytes() const;

  /// The rows for which the filter holds, dead ones included. Those of the last filter
  /// are kept. `fields`: of the collection. Errors: those of the filter.
  absl::StatusOr<std::shared_ptr<const Matches>> Filtered(
      const Filter& filter, const std::vector<AttributeField>& fields) const;
  absl::StatusOr<AttributeCells> CellsOf(std::uint32_t id,
                                         const std::vector<AttributeField>& fields) const;
  /// Calls visit(id, cells) for all rows in order. Errors: as CellsOf; those of `visit`.
  absl::Status ForCells(
      const std::vector<AttributeField>& fields,
      const std::function<absl::Status(std::uint32_t id, const AttributeCells& cells)>& visit)
      const;
  /// Labels of the sealed index are remembered in memory, about, so that Find reads
  /// nothing for most others. Errors: RESOURCE_EXHAUSTED.
  absl::Status RememberLabels();
  /// Sets ids[i] as Index::Find does.
  absl::Status Find(std::span<const std::uint64_t> labels, std::span<std::uint32_t> ids) const;
  /// From when no moment has it any more, its files are removed.
  void Supersede() const { superseded_ = true; }

 private:
  std::shared_ptr<const Index> index_;
  std::string path_;
  std::uint64_t first_ = 0, end_ = 0;
  std::vector<AttributeCells> cells_;
  std::optional<LabelFilter> labels_;
  mutable std::atomic<bool> superseded_ = false;
  mutable std::mutex mutex_;
  mutable std::string last_filter_;
  mutable std::shared_ptr<const Matches> last_matches_;
};

}  // namespace hmann
