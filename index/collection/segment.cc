#include "index/collection/segment.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "index/attributes/bound_filter.h"
#include "index/attributes/stored_rows.h"
#include "index/base/status_macros.h"
#include "index/index_impl.h"

namespace hmann {
namespace {

std::uint32_t NumberOf(const std::vector<AttributeField>& fields, const std::string& name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const AttributeField& field) { return field.name == name; });
  return static_cast<std::uint32_t>(found - fields.begin());
}

/// Whether a file of attributes has all fields of a filter. It may lack some that came
/// later.
bool HasAllOf(const std::vector<AttributeField>& fields, const FilterNode& node) {
  if (!node.field.empty() && NumberOf(fields, node.field) == fields.size()) return false;
  return std::all_of(node.children.begin(), node.children.end(),
                     [&](const FilterNode& child) { return HasAllOf(fields, child); });
}

std::vector<AttributeField> FieldsOf(const Attributes& attributes) {
  std::vector<AttributeField> fields;
  for (AttributeFieldInfo& info : attributes.fields()) fields.push_back(std::move(info.field));
  return fields;
}

/// The places of fields of a file among those of the collection; kNoId: it has none.
std::vector<std::uint32_t> NumbersOf(const std::vector<AttributeField>& from,
                                     const std::vector<AttributeField>& to) {
  absl::flat_hash_map<std::string_view, std::uint32_t> places;
  for (const AttributeField& field : to) places.emplace(field.name, places.size());
  std::vector<std::uint32_t> numbers;
  for (const AttributeField& field : from) {
    const auto place = places.find(field.name);
    numbers.push_back(place == places.end() ? kNoId : place->second);
  }
  return numbers;
}

AttributeCells Renumbered(std::span<const AttributeCell> cells,
                          const std::vector<std::uint32_t>& numbers) {
  AttributeCells renumbered(cells.begin(), cells.end());
  for (AttributeCell& cell : renumbered) cell.field = numbers[cell.field];
  std::erase_if(renumbered, [](const AttributeCell& cell) { return cell.field == kNoId; });
  std::sort(renumbered.begin(), renumbered.end());
  return renumbered;
}

}  // namespace

absl::Status Segment::RememberLabels() {
  if (!index_->info().user_labels) return absl::OkStatus();
  HMANN_ASSIGN_OR_RETURN(labels_, LabelFilter::Build(ImplOf(*index_).placed().sorted_labels));
  return absl::OkStatus();
}

absl::Status Segment::Find(std::span<const std::uint64_t> labels,
                           std::span<std::uint32_t> ids) const {
  if (!labels_.has_value()) return index_->Find(labels, ids);
  std::vector<std::uint64_t> asked;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ids[i] = kNoId;
    if (!labels_->MayHave(labels[i])) continue;
    asked.push_back(labels[i]);
    places.push_back(i);
  }
  std::vector<std::uint32_t> found(asked.size());
  HMANN_RETURN_IF_ERROR(index_->Find(asked, found));
  for (std::size_t i = 0; i < places.size(); ++i) ids[places[i]] = found[i];
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Matches>> Segment::Filtered(
    const Filter& filter, const std::vector<AttributeField>& fields) const {
  const auto& attributes = index_->attributes();
  if (attributes.ok() && HasAllOf(FieldsOf(**attributes), filter.root()))
    return index_->Filtered(filter);
  {
    const std::scoped_lock lock(mutex_);
    if (last_filter_ == filter.text()) return last_matches_;
  }
  HMANN_ASSIGN_OR_RETURN(const BoundNode on_rows, BindFilter(filter, fields));
  const IndexInfo& info = index_->info();
  std::vector<std::uint32_t> ids;
  HMANN_RETURN_IF_ERROR(ForCells(fields, [&](std::uint32_t id, const AttributeCells& cells) {
    if (on_rows.Holds(cells)) ids.push_back(id);
    return absl::OkStatus();
  }));
  auto matches = std::make_shared<const Matches>(info.n, info.content_hash, std::move(ids));
  const std::scoped_lock lock(mutex_);
  last_filter_ = filter.text();
  last_matches_ = matches;
  return matches;
}

absl::StatusOr<AttributeCells> Segment::CellsOf(std::uint32_t id,
                                                const std::vector<AttributeField>& fields) const {
  const auto& attributes = index_->attributes();
  if (absl::IsNotFound(attributes.status())) return AttributeCells();
  HMANN_RETURN_IF_ERROR(attributes.status());
  HMANN_ASSIGN_OR_RETURN(const AttributeCells cells, hmann::CellsOf(**attributes, id));
  return Renumbered(cells, NumbersOf(FieldsOf(**attributes), fields));
}

absl::Status Segment::ForCells(
    const std::vector<AttributeField>& fields,
    const std::function<absl::Status(std::uint32_t id, const AttributeCells& cells)>& visit) const {
  const auto& attributes = index_->attributes();
  if (absl::IsNotFound(attributes.status())) {
    const AttributeCells none;
    for (std::uint32_t id = 0; id < n(); ++id) HMANN_RETURN_IF_ERROR(visit(id, none));
    return absl::OkStatus();
  }
  HMANN_RETURN_IF_ERROR(attributes.status());
  HMANN_ASSIGN_OR_RETURN(const auto rows, StoredRows::Open(*attributes));
  const std::vector<std::uint32_t> numbers = NumbersOf(rows->fields(), fields);
  return rows->ForEach([&](std::uint64_t id, std::uint64_t, std::span<const AttributeCell> cells) {
    return visit(static_cast<std::uint32_t>(id), Renumbered(cells, numbers));
  });
}

}  // namespace hmann
