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

/// The sealed index of a collection. Which of its rows are dead, a moment knows.
class Segment {
 public:
  Segment(std::shared_ptr<const Index> index, std::string path)
      : index_(std::move(index)), path_(std::move(path)) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  /// Removes its files if another one has replaced it.
  ~Segment();

  const std::shared_ptr<const Index>& index() const { return index_; }
  std::uint64_t n() const { return index_->info().n; }
  const std::string& path() const { return path_; }

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
  std::optional<LabelFilter> labels_;
  mutable std::atomic<bool> superseded_ = false;
  mutable std::mutex mutex_;
  mutable std::string last_filter_;
  mutable std::shared_ptr<const Matches> last_matches_;
};

}  // namespace hmann
