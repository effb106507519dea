#include "tools/collection_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "tools/interrupt.h"

namespace hmann::tools {

absl::StatusOr<std::shared_ptr<Collection>> OpenFolder(const std::string& folder,
                                                       const OpenCollection& options,
                                                       Progress& progress) {
  if (!Collection::Is(folder)) {
    return NotFound(folder,
                    ": no collection: expected a folder with a file MANIFEST, as `hmann "
                    "create` makes it and `hmann backup` copies it");
  }
  return Collection::Open(folder, options, &progress);
}

CollectionWriter::CollectionWriter(Collection& collection, std::string from, std::uint64_t first,
                                   std::uint64_t total, std::size_t rows_a_write)
    : collection_(collection),
      from_(std::move(from)),
      first_(first),
      total_(total),
      rows_a_write_(rows_a_write),
      interrupted_(*CancelOnInterrupt()) {
  progress_.Start("write", total, "rows");
}

absl::StatusOr<WriteBatch*> CollectionWriter::Room(std::size_t bytes) {
  if (batch_.size() == rows_a_write_ || bytes_ + bytes > WriteBatch::kMostBytes)
    HMANN_RETURN_IF_ERROR(Flush());
  bytes_ += bytes;
  return &batch_;
}

absl::Status CollectionWriter::Flush() {
  if (batch_.size() == 0) return absl::OkStatus();
  const absl::StatusOr<Written> written = interrupted_ ? absl::CancelledError("stopped") : Write();
  if (!written.ok()) {
    return {written.status().code(),
            absl::StrCat(from_, "s ", first_ + done_, " to ", first_ + done_ + batch_.size() - 1,
                         ": ", written.status().message(), "; ", done_, " of ", total_,
                         " changes are in: the same command may be run again")};
  }
  done_ += batch_.size();
  rows_ += written->rows;
  progress_.Advance(batch_.size());
  if (done_ == total_) progress_.Finish();
  batch_ = {};
  bytes_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<Written> CollectionWriter::Write() {
  absl::StatusOr<Written> written = collection_.Write(batch_);
  if (!absl::IsResourceExhausted(written.status())) return written;
  Progress merging;
  HMANN_RETURN_IF_ERROR(collection_.Compact(merging, &interrupted_));
  return collection_.Write(batch_);
}

}  // namespace hmann::tools
