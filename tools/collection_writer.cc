#include "tools/collection_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "datasets/labels.h"
#include "index/base/errors.h"
#include "index/base/file.h"
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

absl::StatusOr<LabelList> ParseLabels(std::vector<std::string> words, const std::string& from) {
  LabelList labels{std::vector<std::uint64_t>(words.size()), std::move(words)};
  for (std::size_t i = 0; i < labels.names.size(); ++i) {
    std::string& name = labels.names[i];
    const bool is_number =
        !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number) {
      labels.numbers[i] = VectorLabel(name).number();
    } else if (absl::SimpleAtoi(name, &labels.numbers[i])) {
      name.clear();
    } else {
      return InvalidArgument(from, ": label ", name, ": expected a number below 2^64 - 1");
    }
  }
  return labels;
}

absl::StatusOr<LabelList> ReadLabelList(const std::string& path, std::optional<std::uint64_t> n) {
  LabelList labels;
  if (!path.ends_with(".txt")) {
    HMANN_ASSIGN_OR_RETURN(labels.numbers, ReadLabels(path, n));
    labels.names.resize(labels.numbers.size());
    return labels;
  }
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    if (lines.back().empty()) return InvalidArgument(path, ": line ", lines.size(), " is empty");
  }
  if (n.has_value() && *n != lines.size())
    return InvalidArgument(path, ": has ", lines.size(), " lines, expected ", *n, " labels");
  return ParseLabels(std::move(lines), path);
}

absl::StatusOr<LabelNames> NamesOf(const Collection& collection,
                                   const std::vector<std::uint64_t>& labels) {
  LabelNames named;
  HMANN_ASSIGN_OR_RETURN(std::vector<std::string> names, collection.Names(labels));
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (!names[i].empty()) named[labels[i]] = std::move(names[i]);
  return named;
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
