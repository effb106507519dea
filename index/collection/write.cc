#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "index/attributes/bound_filter.h"
#include "index/attributes/json_rows.h"
#include "index/base/checksum.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/collection/collection_impl.h"

namespace hmann {
namespace {

/// Bytes that one transaction takes from those that wait: a guess.
constexpr std::size_t kMostTogether = 64 << 20;

absl::StatusOr<std::vector<std::uint32_t>> FindSealed(const Moment& moment,
                                                      std::span<const std::uint64_t> labels) {
  std::vector<std::uint32_t> ids(labels.size(), kNoId);
  if (moment.sealed.segment != nullptr)
    HMANN_RETURN_IF_ERROR(moment.sealed.segment->Find(labels, ids));
  return ids;
}

absl::Status FindSealed(const Moment& moment, PendingWrite* write) {
  write->looked_in = moment.sealed.segment;
  std::vector<std::uint64_t> labels(write->changes.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = write->changes[i].label;
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> ids, FindSealed(moment, labels));
  for (std::size_t i = 0; i < labels.size(); ++i) write->changes[i].sealed_id = ids[i];
  return absl::OkStatus();
}

absl::Status CheckCondition(const PendingWrite::Change& change) {
  if (change.when == WriteBatch::If::kPresent && !change.had_row)
    return NotFound("label ", change.label, ": no vector of the collection has it");
  if (change.when == WriteBatch::If::kAbsent && change.had_row)
    return absl::AlreadyExistsError(
        absl::StrCat("label ", change.label, ": a vector of the collection has it"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Written> CollectionImpl::Write(const WriteBatch& batch) {
  PendingWrite write;
  const std::shared_ptr<const Moment> now = Now();
  HMANN_RETURN_IF_ERROR(ReadBatch(batch, *shape_, *now->fields, &write));
  HMANN_RETURN_IF_ERROR(FindSealed(*now, &write));
  return Run(write);
}

absl::StatusOr<Written> CollectionImpl::Delete(const Filter& filter, std::string_view operation) {
  PendingWrite write;
  write.filter = &filter;
  write.operation = operation;
  write.digest = Checksum(filter.text().data(), filter.text().size());
  return Run(write);
}

absl::StatusOr<Written> CollectionImpl::DeleteAll(std::string_view operation) {
  PendingWrite write;
  write.deletes_all = true;
  write.operation = operation;
  return Run(write);
}

absl::StatusOr<Written> CollectionImpl::Run(PendingWrite& write) {
  constexpr std::size_t kMostOperation = 64;
  if (options_.read_only) return FailedPrecondition(folder_, ": was opened for reading");
  if (write.operation.size() > kMostOperation) {
    return InvalidArgument("operation: ", write.operation.size(), " bytes: at most ",
                           kMostOperation);
  }
  using State = PendingWrite::State;
  std::unique_lock lock(queue_mutex_);
  queue_.push_back(&write);
  if (std::exchange(is_writing_, true)) {
    lock.unlock();
    write.state.wait(State::kWaits);
    lock.lock();
  }
  if (write.state != State::kDone) {  // it is the first in the queue, and writes
    std::size_t bytes = 0, size = 0;
    while (size < queue_.size() && bytes < kMostTogether) bytes += queue_[size++]->rows.size();
    const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(size);
    const std::vector<PendingWrite*> group(queue_.begin(), end);
    queue_.erase(queue_.begin(), end);
    lock.unlock();
    WriteGroup(group);
    lock.lock();  // they end after this one has let go of it
    for (PendingWrite* done : group) done->Enter(State::kDone);
    is_writing_ = !queue_.empty();
    if (is_writing_) queue_.front()->Enter(State::kWrites);
  }
  lock.unlock();
  HMANN_RETURN_IF_ERROR(write.status);
  return write.written;
}

void CollectionImpl::WriteGroup(std::span<PendingWrite* const> group) {
  const std::scoped_lock lock(writing_);
  auto next = std::make_shared<Moment>(*Now());
  changed_rows_.clear();
  operations_.clear();
  std::vector<PendingWrite*> resolved;
  absl::Status status;
  for (PendingWrite* write : group) {
    write->status = Resolve(*next, write);
    if (!write->status.ok() || write->is_repeat) continue;
    write->written.rows = write->entry.labels.size();
    resolved.push_back(write);
    if (status.ok()) status = Apply(*write, next.get());
    if (!write->entry.labels.empty()) {
      ++next->sequence;
      next->unmerged_bytes += write->entry.bytes();
    }
    write->written.sequence = next->sequence;
  }
  if (status.ok()) status = Commit(resolved);
  if (!status.ok()) {
    for (PendingWrite* write : resolved) write->status = status;
    return;
  }
  if (next->sequence > Now()->sequence) KeepRecord(next->sequence, /*sync=*/false);
  KeepChangedRows(next.get());
  next->sealed.Settle();
  Publish(std::move(next));
}

void CollectionImpl::KeepChangedRows(Moment* next) {
  next->rows_version = next->facts->rows.Change(changed_rows_);
  changed_rows_.clear();
}

absl::Status CollectionImpl::Commit(std::span<PendingWrite* const> group) {
  std::vector<const JournalEntry*> entries;
  std::vector<AttributeField> fields;
  for (const PendingWrite* write : group) {
    if (!write->entry.labels.empty() || !write->operation.empty()) entries.push_back(&write->entry);
    fields.insert(fields.end(), write->new_fields.begin(), write->new_fields.end());
  }
  if (entries.empty()) return absl::OkStatus();
  return journal_->Append(Now()->sequence + 1, entries, fields);
}

void CollectionImpl::Publish(std::shared_ptr<const Moment> next) {
  now_.store(std::move(next));
  Wake();
}

void CollectionImpl::Wake() {
  { const std::scoped_lock lock(wake_mutex_); }
  wake_.notify_all();
}

CollectionImpl::Place CollectionImpl::Locate(const Moment& moment, std::uint64_t label,
                                             std::uint32_t sealed_id) const {
  if (const auto changed = changed_rows_.find(label); changed != changed_rows_.end()) {
    if (!changed->second.has_value()) return Place{};
    return Place{Place::In::kDelta, *changed->second};
  }
  if (const auto row = moment.facts->rows.Find(label);
      row.has_value() && *row >= moment.tail.first())
    return Place{Place::In::kDelta, *row};
  if (sealed_id != kNoId && moment.sealed.Has(sealed_id))
    return Place{Place::In::kSealed, sealed_id};
  return Place{};
}

void CollectionImpl::Kill(Moment* moment, const Place& place) {
  if (place.in == Place::In::kSealed)
    moment->sealed.killed.push_back(static_cast<std::uint32_t>(place.row));
  if (place.in == Place::In::kDelta) moment->tail.Kill(place.row);
}

absl::Status CollectionImpl::CheckRoom(const Moment& next, const Growth& growth) {
  if (growth.rows == 0) return absl::OkStatus();  // deletions take a few bytes of what lived
  const std::uint64_t own = growth.heap + growth.labels * RowsByLabel::kEntryBytes;
  const std::uint64_t bytes = next.delta_bytes() + changed_rows_.size() * RowsByLabel::kEntryBytes;
  const std::uint64_t delta = bytes + own + next.tail.BytesWith(growth.rows) - next.tail.bytes();
  const std::uint64_t journal = next.unmerged_bytes + growth.journal;
  if (std::max(delta, journal) <= delta_limit_ && next.wasted_bytes() <= next.most_wasted())
    return next.CheckLive(growth.rows);
  const Tail empty(shape_->stride, delta_limit_);
  const std::uint64_t alone = std::max(own + empty.BytesWith(growth.rows), growth.journal);
  if (alone > delta_limit_) {
    return InvalidArgument("a write that takes ", FormatSize(alone),
                           ", where all rows beside the "
                           "sealed index may take ",
                           FormatSize(delta_limit_),
                           ": write fewer rows at once, or give them more memory (a server: "
                           "delta-memory of the index)");
  }
  wants_room_ = true;
  Wake();
  const std::string why = info().last_error;
  const std::string when = !options_.merges ? "run hmann compact (Compact)"
                           : !why.empty()   ? absl::StrCat("the last merge failed (", why, ")")
                           : merge_seconds_ > 0
                               ? absl::StrFormat("come again in about %.0f s, when they are merged",
                                                 std::ceil(merge_seconds_.load()))
                               : std::string("come again when they are merged");
  const bool is_waste = delta <= delta_limit_ && journal <= delta_limit_;
  return ResourceExhausted(
      is_waste ? "rows that were replaced or deleted since the last merge take "
               : "rows beside the sealed index take ",
      FormatSize(is_waste ? next.wasted_bytes() : std::max(bytes, next.unmerged_bytes)), " of the ",
      FormatSize(is_waste ? next.most_wasted() : delta_limit_), " that they may: ", when,
      is_waste ? "" : ", or give them more memory (a server: delta-memory of the index)");
}

absl::Status CollectionImpl::Resolve(Moment& next, PendingWrite* write) {
  write->entry = {};
  write->entry.operation = write->operation;
  write->entry.digest = write->digest;
  HMANN_RETURN_IF_ERROR(ResolveRepeat(write));
  if (write->is_repeat) return absl::OkStatus();
  if (write->filter != nullptr || write->deletes_all) return ResolveFilter(next, write);
  Growth growth{.rows = std::min(write->rows.size() / shape_->stride, write->changes.size())};
  HMANN_RETURN_IF_ERROR(CheckRoom(next, growth));
  growth = {};
  if (write->looked_in != next.sealed.segment) HMANN_RETURN_IF_ERROR(FindSealed(next, write));
  // Fields that came since then, once each, may be its new ones: it finds their places.
  if (!write->new_fields.empty() && write->known_fields != next.fields->size())
    HMANN_RETURN_IF_ERROR(ReadAttributes(*next.fields, write));
  auto fields = next.fields;
  if (!write->new_fields.empty()) {
    std::vector<AttributeField> all = *next.fields;
    all.insert(all.end(), write->new_fields.begin(), write->new_fields.end());
    fields = std::make_shared<const std::vector<AttributeField>>(std::move(all));
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < write->changes.size(); ++i) {
    PendingWrite::Change& change = write->changes[i];
    if (!change.name.empty()) {
      HMANN_ASSIGN_OR_RETURN(const std::string name, journal_->Name(change.label));
      if (!name.empty() && name != change.name) return SameNumber(change.name, name);
    }
    const Place place = Locate(next, change.label, change.sealed_id);
    change.had_row = place.in != Place::In::kNowhere;
    HMANN_RETURN_IF_ERROR(CheckCondition(change));
    if (change.kind == WriteBatch::Kind::kDelete && !change.had_row) continue;
    if (change.kind == WriteBatch::Kind::kUpdate)
      HMANN_RETURN_IF_ERROR(ResolveUpdate(next, *fields, place, write, i));
    if (change.kind != WriteBatch::Kind::kDelete) {
      change.cells.shrink_to_fit();
      ++growth.rows;
      growth.labels += place.in == Place::In::kDelta ? 0 : 1;
      growth.heap += HeapBytes(change.cells);
      growth.journal += shape_->vector_bytes + change.text.size() + change.name.size();
      // Updates bring their vectors along, which may be much.
      constexpr std::size_t kOften = 64;
      if (growth.rows % kOften == 0) HMANN_RETURN_IF_ERROR(CheckRoom(next, growth));
    }
    if (kept != i) write->changes[kept] = std::move(change);
    ++kept;
  }
  write->changes.resize(kept);
  MakeEntry(write);
  for (const AttributeField& field : write->new_fields)
    growth.heap += sizeof(field) + field.name.capacity();
  growth.journal = write->entry.bytes();
  HMANN_RETURN_IF_ERROR(CheckRoom(next, growth));
  next.fields = fields;
  return absl::OkStatus();
}

void CollectionImpl::MakeEntry(PendingWrite* write) const {
  JournalEntry& entry = write->entry;
  const bool has_attributes =
      std::any_of(write->changes.begin(), write->changes.end(),
                  [](const PendingWrite::Change& change) { return !change.cells.empty(); });
  for (const PendingWrite::Change& change : write->changes) {
    const bool is_put = change.kind != WriteBatch::Kind::kDelete;
    entry.labels.push_back(change.label);
    entry.puts.push_back(is_put ? 1 : 0);
    if (!is_put) continue;
    const auto row = write->rows.begin() + static_cast<std::ptrdiff_t>(change.row * shape_->stride);
    entry.vectors.insert(entry.vectors.end(), row,
                         row + static_cast<std::ptrdiff_t>(shape_->vector_bytes));
    if (has_attributes)
      entry.attributes.push_back(change.text.empty() ? "{}" : std::move(change.text));
    if (!change.name.empty()) entry.names.emplace_back(change.label, change.name);
  }
}

absl::Status CollectionImpl::ResolveRepeat(PendingWrite* write) {
  if (write->operation.empty()) return absl::OkStatus();
  const std::string id(write->operation);
  if (!operations_.insert(id).second)
    return absl::AbortedError("operation: a write of this name runs: try again");
  HMANN_ASSIGN_OR_RETURN(const auto known, journal_->Operation(id));
  if (!known.has_value()) return absl::OkStatus();
  if (known->digest != write->digest)
    return absl::AlreadyExistsError("operation: a write with other changes has this name");
  write->is_repeat = true;
  write->written = known->written;
  return absl::OkStatus();
}

absl::Status CollectionImpl::ResolveFilter(Moment& next, PendingWrite* write) {
  next.sealed.Settle();
  write->deleted.clear();
  const auto add = [&](std::uint64_t label, std::uint32_t id) {
    write->entry.labels.push_back(label);
    write->deleted.push_back(id);
  };
  const Segment* const sealed = next.sealed.segment.get();
  if (sealed != nullptr) {
    std::shared_ptr<const Matches> matches;
    if (write->filter != nullptr) {
      HMANN_ASSIGN_OR_RETURN(matches, sealed->Filtered(*write->filter, *next.fields));
    }
    HMANN_RETURN_IF_ERROR(sealed->index()->ForLabels([&](auto ids, auto labels) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        if ((matches == nullptr || matches->Has(ids[i])) && next.sealed.Has(ids[i]))
          add(labels[i], ids[i]);
    }));
  }
  std::optional<BoundNode> on_rows;
  if (write->filter != nullptr) {
    HMANN_ASSIGN_OR_RETURN(on_rows, BindFilter(*write->filter, *next.fields));
  }
  next.tail.ForLive([&](std::uint64_t row) {
    if (!on_rows.has_value() || on_rows->Holds(next.tail.Cells(row)))
      add(next.tail.Label(row), kNoId);
  });
  write->entry.puts.assign(write->deleted.size(), 0);
  return absl::OkStatus();
}

absl::Status CollectionImpl::ResolveUpdate(const Moment& next,
                                           const std::vector<AttributeField>& fields,
                                           const Place& place, PendingWrite* write, std::size_t i) {
  PendingWrite::Change& change = write->changes[i];
  std::vector<std::byte> vector(shape_->vector_bytes);
  AttributeCells cells;
  if (place.in == Place::In::kDelta) {
    std::memcpy(vector.data(), next.tail.Row(place.row), vector.size());
    cells = next.tail.Cells(place.row);
  } else {
    const Segment& sealed = *next.sealed.segment;
    HMANN_RETURN_IF_ERROR(Searcher(sealed.index()).Get({&change.label, 1}, vector.data()));
    HMANN_ASSIGN_OR_RETURN(cells, sealed.CellsOf(change.sealed_id, *next.fields));
  }
  change.row = write->rows.size() / shape_->stride;
  if (write->rows.size() > WriteBatch::kMostBytes)
    return InvalidArgument("label ", change.label, ": updates whose vectors take more than ",
                           FormatSize(WriteBatch::kMostBytes), ": update fewer rows at once");
  write->rows.resize(write->rows.size() + shape_->stride);
  HMANN_RETURN_IF_ERROR(EncodeRow(shape_->kernels, shape_->kernels.dtype, vector.data(),
                                  write->rows.data() + change.row * shape_->stride));
  std::erase_if(cells, [&](const AttributeCell& cell) {
    return std::ranges::binary_search(change.named, cell.field);
  });
  cells.insert(cells.end(), change.cells.begin(), change.cells.end());
  std::sort(cells.begin(), cells.end());
  change.cells = std::move(cells);
  const absl::Status set = SetText(fields, &change);
  if (set.ok()) return set;
  return {set.code(),
          absl::StrCat("row ", change.given_as, " (label ", change.label, "): ", set.message())};
}

absl::Status CollectionImpl::ApplyRow(const JournalRow& row, Moment* next) {
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> ids, FindSealed(*next, row.labels));
  HMANN_ASSIGN_OR_RETURN(JsonRows reader, JsonRows::Of(*next->fields));
  std::vector<std::byte> stored(shape_->stride);
  std::size_t puts = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t label = row.labels[i];
    const Place place = Locate(*next, label, ids[i]);
    Kill(next, place);
    if (row.puts[i] == 0) {
      changed_rows_[label] = std::nullopt;
      continue;
    }
    HMANN_RETURN_IF_ERROR(EncodeRow(shape_->kernels, shape_->kernels.dtype,
                                    row.vectors.data() + puts * shape_->vector_bytes,
                                    stored.data()));
    AttributeCells cells;
    if (!row.attributes.empty() && !row.attributes[puts].empty())
      HMANN_RETURN_IF_ERROR(reader.Read(row.attributes[puts], &cells));
    ++puts;
    changed_rows_[label] = next->tail.end();
    HMANN_RETURN_IF_ERROR(
        next->tail.Append(label, std::span(stored).first(shape_->kernels.row_bytes), cells));
  }
  if (reader.fields().size() != next->fields->size())
    return DataLoss(Journal::PathIn(folder_), ": a row has a field that the table fields has not");
  next->unmerged_bytes += row.bytes;
  return absl::OkStatus();
}

absl::Status CollectionImpl::Apply(const PendingWrite& write, Moment* next) {
  for (std::size_t i = 0; i < write.deleted.size(); ++i) {
    const std::uint64_t label = write.entry.labels[i];
    const Place place = Locate(*next, label, write.deleted[i]);
    Kill(next, place);
    if (place.in == Place::In::kDelta) changed_rows_[label] = std::nullopt;
  }
  if (!write.deleted.empty()) next->sealed.Settle();
  for (const PendingWrite::Change& change : write.changes) {
    Kill(next, Locate(*next, change.label, change.sealed_id));
    if (change.kind == WriteBatch::Kind::kDelete) {
      changed_rows_[change.label] = std::nullopt;
      continue;
    }
    changed_rows_[change.label] = next->tail.end();
    HMANN_RETURN_IF_ERROR(next->tail.Append(
        change.label,
        std::span(write.rows).subspan(change.row * shape_->stride, shape_->kernels.row_bytes),
        change.cells));
  }
  return absl::OkStatus();
}

}  // namespace hmann
