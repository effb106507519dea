#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/collection/pending_write.h"

namespace hmann {

void WriteBatch::Put(std::uint64_t label, const void* vector, std::size_t bytes,
                     std::string_view attributes) {
  changes_.push_back({Kind::kPut, label, vectors_.size(), attributes_.size(),
                      static_cast<std::uint32_t>(bytes),
                      static_cast<std::uint32_t>(attributes.size())});
  const auto* first = static_cast<const std::byte*>(vector);
  vectors_.insert(vectors_.end(), first, first + bytes);
  attributes_ += attributes;
}

void WriteBatch::Delete(std::uint64_t label) {
  changes_.push_back({Kind::kDelete, label, 0, 0, 0, 0});
}

void WriteBatch::Update(std::uint64_t label, std::string_view attributes) {
  changes_.push_back({Kind::kUpdate, label, 0, attributes_.size(), 0,
                      static_cast<std::uint32_t>(attributes.size())});
  attributes_ += attributes;
}

/// Reads a WriteBatch.
class BatchReader {
 public:
  BatchReader(const WriteBatch& batch, const CollectionShape& shape, PendingWrite* write)
      : batch_(batch), shape_(shape), write_(*write) {}

  absl::Status Run() {
    if (batch_.changes_.size() > WriteBatch::kMostRows || Bytes() > WriteBatch::kMostBytes) {
      return InvalidArgument("a batch of ", batch_.changes_.size(), " changes and ", Bytes(),
                             " bytes: at most ", WriteBatch::kMostRows, " and ",
                             WriteBatch::kMostBytes);
    }
    for (std::size_t i = 0; i < batch_.changes_.size(); ++i) {
      const absl::Status status = Read(batch_.changes_[i]);
      if (!status.ok())
        return {status.code(), absl::StrCat("row ", i, " (label ", batch_.changes_[i].label,
                                            "): ", status.message())};
    }
    return absl::OkStatus();
  }

 private:
  std::size_t Bytes() const { return batch_.vectors_.size() + batch_.attributes_.size(); }

  absl::Status Read(const WriteBatch::Change& from) {
    if (from.label == ~std::uint64_t{0}) return InvalidArgument("2^64 - 1 is no label");
    const auto [at, is_new] = places_.try_emplace(from.label, write_.changes.size());
    if (is_new) write_.changes.emplace_back();
    PendingWrite::Change& change = write_.changes[at->second];
    if (!is_new && from.kind == WriteBatch::Kind::kUpdate)
      return InvalidArgument("an update after another change of the same label: use two batches");
    change = {};
    change.kind = from.kind;
    change.label = from.label;
    change.attributes =
        std::string_view(batch_.attributes_).substr(from.attributes, from.attributes_bytes);
    return from.kind == WriteBatch::Kind::kPut ? Encode(from, &change) : absl::OkStatus();
  }

  absl::Status Encode(const WriteBatch::Change& from, PendingWrite::Change* change) {
    const Kernels& kernels = shape_.kernels;
    const bool is_wide = kernels.dtype == DType::kF16 && from.vector_bytes == kernels.dim * 4;
    if (from.vector_bytes != shape_.vector_bytes && !is_wide) {
      return InvalidArgument("a vector of ", from.vector_bytes, " bytes, expected ", kernels.dim,
                             " x ", std::string(Name(kernels.dtype)));
    }
    change->row = write_.rows.size() / shape_.stride;
    write_.rows.resize(write_.rows.size() + shape_.stride);
    return EncodeRow(kernels, is_wide ? DType::kF32 : kernels.dtype,
                     batch_.vectors_.data() + from.vector,
                     write_.rows.data() + change->row * shape_.stride);
  }

  const WriteBatch& batch_;
  const CollectionShape& shape_;
  PendingWrite& write_;
  absl::flat_hash_map<std::uint64_t, std::size_t> places_;  ///< of changes, by label
};

absl::Status ReadBatch(const WriteBatch& batch, const CollectionShape& shape, PendingWrite* write) {
  return BatchReader(batch, shape, write).Run();
}

}  // namespace hmann
