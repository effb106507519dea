#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "hmann/collection.h"
#include "index/collection/journal.h"
#include "index/collection/moment.h"

namespace hmann {

/// A write on its way. Everything that needs no lock is done before it is queued.
struct PendingWrite {
  /// A change of one label; each label has one.
  struct Change {
    WriteBatch::Kind kind = WriteBatch::Kind::kDelete;
    std::uint64_t label = 0;
    std::uint64_t row = 0;             ///< of `rows`, for a put
    std::string_view name;             ///< if the label is a string
    std::string_view attributes;       ///< as the user gave them
    std::size_t given_as = 0;          ///< place in the batch
    std::uint32_t sealed_id = kNoId;   ///< in `looked_in`
    AttributeCells cells;              ///< of a put; of an update those that it gives
    std::vector<std::uint32_t> named;  ///< fields that an update replaces, ascending
    std::string text;                  ///< JsonOf the cells of a put
    WriteBatch::If when = WriteBatch::If::kAny;
    bool had_row = false;  ///< the label had a vector
  };

  const Filter* filter = nullptr;      ///< delete what it holds for, instead of changes
  bool deletes_all = false;            ///< delete all, instead of changes
  std::vector<std::uint32_t> deleted;  ///< the ids of these, as Change::sealed_id
  std::vector<Change> changes;
  std::vector<std::byte> rows;  ///< stored vectors, `stride` bytes each
  std::shared_ptr<const Segment> looked_in;

  std::string_view operation;  ///< its name, and what it changes
  std::uint64_t digest = 0;
  bool is_repeat = false;  ///< of a write that is on disk

  JournalEntry entry;
  std::size_t known_fields = 0;  ///< of the collection, when attributes were read
  std::vector<AttributeField> new_fields;
  absl::Status status;
  Written written;

  /// Waits for others, writes for all that wait, or is on disk (or refused).
  enum class State : std::uint8_t { kWaits, kWrites, kDone };
  std::atomic<State> state = State::kWaits;
  void Enter(State next) {
    state = next;
    state.notify_one();
  }
};

/// The error for strings with the same number.
absl::Status SameNumber(std::string_view name, std::string_view other);

/// Checks a batch, encodes its vectors and reads its attributes. Of changes of one
/// label, the last is left; an update joins what precedes it. Errors: INVALID_ARGUMENT
/// naming the row.
absl::Status ReadBatch(const WriteBatch& batch, const CollectionShape& shape,
                       const std::vector<AttributeField>& fields, PendingWrite* write);

/// Reads the attributes of all changes, with these fields of the collection and new
/// ones. Errors: INVALID_ARGUMENT naming the row.
absl::Status ReadAttributes(const std::vector<AttributeField>& fields, PendingWrite* write);

/// Sets `text` of a change from its cells. Errors: INVALID_ARGUMENT for more than a row
/// may have.
absl::Status SetText(const std::vector<AttributeField>& fields, PendingWrite::Change* change);

}  // namespace hmann
