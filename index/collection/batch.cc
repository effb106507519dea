#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "index/attributes/field_table.h"
#include "index/attributes/json_rows.h"
#include "index/attributes/words.h"
#include "index/base/checksum.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/collection/pending_write.h"
#include "index/distance/check_norm.h"

namespace hmann {

VectorLabel::VectorLabel(std::string_view name)
    : number_(std::min(Checksum(name.data(), name.size()) | std::uint64_t{1} << 63,
                       ~std::uint64_t{0} - 1)),
      name_(name.data() == nullptr ? "" : name) {}

void WriteBatch::Add(Kind kind, const VectorLabel& label, const void* vector, std::size_t bytes,
                     std::string_view attributes, If when) {
  Change& change = changes_.emplace_back(Change{kind,
                                                label.number(),
                                                vectors_.size(),
                                                attributes_.size(),
                                                static_cast<std::uint32_t>(bytes),
                                                static_cast<std::uint32_t>(attributes.size()),
                                                {},
                                                when});
  const auto* first = static_cast<const std::byte*>(vector);
  vectors_.insert(vectors_.end(), first, first + bytes);
  attributes_ += attributes;
  if (!label.is_string()) return;
  change.name_bytes = static_cast<std::uint32_t>(label.name().size());
  attributes_ += label.name();
}

void WriteBatch::Put(const VectorLabel& label, const void* vector, std::size_t bytes,
                     std::string_view attributes, If when) {
  Add(Kind::kPut, label, vector, bytes, attributes, when);
}

void WriteBatch::Delete(const VectorLabel& label, If when) {
  Add(Kind::kDelete, label, nullptr, 0, {}, when);
}

void WriteBatch::Update(const VectorLabel& label, std::string_view attributes) {
  Add(Kind::kUpdate, label, nullptr, 0, attributes, If::kPresent);
}

WriteBatch::View WriteBatch::At(std::size_t i) const {
  const Change& change = changes_[i];
  const std::string_view texts = attributes_;
  View view{change.kind,
            change.label,
            {},
            std::span(vectors_).subspan(change.vector, change.vector_bytes),
            texts.substr(change.attributes, change.attributes_bytes),
            change.when};
  if (change.name_bytes.has_value())
    view.name = texts.substr(change.attributes + change.attributes_bytes, *change.name_bytes);
  return view;
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
    write_.operation = batch_.operation_;
    if (!write_.operation.empty()) write_.digest = Digest();
    for (std::size_t i = 0; i < batch_.changes_.size(); ++i) {
      const absl::Status status = Read(batch_.At(i));
      if (!status.ok())
        return {status.code(), absl::StrCat("row ", i, " (label ", batch_.changes_[i].label,
                                            "): ", status.message())};
      write_.changes[places_[batch_.changes_[i].label]].given_as = i;
    }
    return absl::OkStatus();
  }

 private:
  std::size_t Bytes() const { return batch_.vectors_.size() + batch_.attributes_.size(); }

  std::uint64_t Digest() const {
    std::vector<std::uint64_t> words = {
        Checksum(batch_.vectors_.data(), batch_.vectors_.size()),
        Checksum(batch_.attributes_.data(), batch_.attributes_.size())};
    for (const WriteBatch::Change& change : batch_.changes_) {
      words.insert(words.end(),
                   {static_cast<std::uint64_t>(change.kind), change.label, change.vector_bytes,
                    change.attributes_bytes, change.name_bytes.value_or(0)});
    }
    return Checksum(words.data(), words.size() * sizeof(words[0]));
  }

  absl::Status Read(const WriteBatch::View& from) {
    if (from.label == ~std::uint64_t{0}) return InvalidArgument("2^64 - 1 is no label");
    const auto [at, is_new] = places_.try_emplace(from.label, write_.changes.size());
    if (is_new) write_.changes.emplace_back();
    PendingWrite::Change& change = write_.changes[at->second];
    const std::string_view name = change.name;
    if (!is_new && from.kind == WriteBatch::Kind::kUpdate)
      return InvalidArgument("an update after another change of the same label: use two batches");
    change = {};
    change.kind = from.kind;
    change.label = from.label;
    change.when = from.when;
    change.attributes = from.attributes;
    if (from.name.has_value()) {
      change.name = *from.name;
      if (change.name.empty() || change.name.size() > VectorLabel::kMostBytes ||
          Utf8Prefix(change.name) != change.name.size()) {
        return InvalidArgument("a label of ", change.name.size(), " bytes: expected 1 to ",
                               VectorLabel::kMostBytes, " of UTF-8");
      }
      if (!is_new && name != change.name) return SameNumber(change.name, name);
    }
    return from.kind == WriteBatch::Kind::kPut ? Encode(from, &change) : absl::OkStatus();
  }

  absl::Status Encode(const WriteBatch::View& from, PendingWrite::Change* change) {
    const Kernels& kernels = shape_.kernels;
    const bool is_wide =
        kernels.dtype == DType::kF16 && from.vector.size() == std::size_t{kernels.dim} * 4;
    if (from.vector.size() != shape_.vector_bytes && !is_wide) {
      return InvalidArgument("a vector of ", from.vector.size(), " bytes, expected ", kernels.dim,
                             " x ", std::string(Name(kernels.dtype)));
    }
    if (kernels.dtype == DType::kF32) HMANN_RETURN_IF_ERROR(CheckScale(from.vector));
    change->row = write_.rows.size() / shape_.stride;
    write_.rows.resize(write_.rows.size() + shape_.stride);
    return EncodeRow(kernels, is_wide ? DType::kF32 : kernels.dtype, from.vector.data(),
                     write_.rows.data() + change->row * shape_.stride);
  }

  /// Builds refuse vectors that are all so small.
  absl::Status CheckScale(std::span<const std::byte> vector) const {
    double square = 0;
    for (std::size_t at = 0; at < vector.size(); at += sizeof(float)) {
      float x;
      std::memcpy(&x, vector.data() + at, sizeof(x));
      square += double{x} * x;
    }
    if (!Vanishes(DType::kF32, shape_.kernels.metric, square)) return absl::OkStatus();
    return InvalidArgument("squared norm: expected 0, or at least ", kLeastSquaredNorm,
                           ", so that f32 distances do not vanish; found ", square,
                           ": scale the vectors");
  }

  const WriteBatch& batch_;
  const CollectionShape& shape_;
  PendingWrite& write_;
  absl::flat_hash_map<std::uint64_t, std::size_t> places_;  ///< of changes, by label
};

absl::Status SameNumber(std::string_view name, std::string_view other) {
  return InvalidArgument("label \"", std::string(name), "\" stands for the same number as \"",
                         std::string(other), "\": use another label");
}

absl::Status SetText(const std::vector<AttributeField>& fields, PendingWrite::Change* change) {
  change->text = JsonOf(fields, change->cells);
  // JsonRows, which reads it again, counts tags and bytes so.
  const auto tags = std::ranges::count_if(
      change->cells, [&](const AttributeCell& cell) { return IsTag(fields[cell.field].type); });
  if (static_cast<std::size_t>(tags) > kMostRowTags)
    return InvalidArgument("attributes: expected at most ", kMostRowTags, " tags, found ", tags);
  if (change->text.size() <= kMostLineBytes) return absl::OkStatus();
  return InvalidArgument("attributes: expected at most ", kMostLineBytes, " bytes as JSON, found ",
                         change->text.size());
}

absl::Status ReadAttributes(const std::vector<AttributeField>& fields, PendingWrite* write) {
  write->known_fields = fields.size();
  write->new_fields.clear();
  std::optional<JsonRows> rows;
  for (PendingWrite::Change& change : write->changes) {
    if (change.attributes.empty() && change.kind != WriteBatch::Kind::kUpdate) continue;
    if (!rows.has_value()) {
      HMANN_ASSIGN_OR_RETURN(rows, JsonRows::Of(fields));
    }
    absl::Status read = rows->Read(change.attributes, &change.cells, &change.named);
    if (read.ok() && change.kind == WriteBatch::Kind::kPut) read = SetText(rows->fields(), &change);
    if (!read.ok())
      return {read.code(), absl::StrCat("row ", change.given_as, " (label ", change.label,
                                        "): ", read.message())};
  }
  if (rows.has_value()) {
    write->new_fields.assign(rows->fields().begin() + static_cast<std::ptrdiff_t>(fields.size()),
                             rows->fields().end());
  }
  return absl::OkStatus();
}

absl::Status ReadBatch(const WriteBatch& batch, const CollectionShape& shape,
                       const std::vector<AttributeField>& fields, PendingWrite* write) {
  HMANN_RETURN_IF_ERROR(BatchReader(batch, shape, write).Run());
  return ReadAttributes(fields, write);
}

}  // namespace hmann
