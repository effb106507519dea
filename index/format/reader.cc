#include "index/format/reader.h"

#include <algorithm>
#include <cstring>

#include "index/base/check.h"
#include "index/base/status_macros.h"

namespace hmann {

absl::StatusOr<IndexFile> IndexFile::Open(
    const std::string& path, Formats formats,
    const std::function<void(std::span<const std::byte>)>& on_mapped) {
  IndexFile index;
  HMANN_ASSIGN_OR_RETURN(index.file_, MappedFile::Open(path));
  const std::span<const std::byte> bytes = index.file_.bytes();
  if (on_mapped) on_mapped(bytes);
  HMANN_ASSIGN_OR_RETURN(
      Header header,
      DecodeHeader(path, bytes.first(std::min<std::size_t>(bytes.size(), kHeaderBytes)),
                   bytes.size(), formats));
  index.info_ = header.Info();
  index.records_ = header.Records();
  index.is_old_ = header.old;
  index.sections_ = std::move(header.sections);
  index.metadata_ = std::move(header);
  return index;
}

template <typename T>
std::span<const T> IndexFile::Optional(SectionKind kind) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(),
                                  [kind](const Section& s) { return s.kind == kind; });
  if (found == sections_.end()) return {};
  const std::span<const std::byte> bytes = Bytes(*found);
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

std::span<const CellEntry> IndexFile::cells() const {
  return Optional<CellEntry>(SectionKind::kCells);
}
std::span<const NodeId> IndexFile::second_centroids() const {
  return Optional<NodeId>(SectionKind::kSecondCentroids);
}
std::span<const float> IndexFile::code_mean() const {
  return Optional<float>(SectionKind::kCodeMean);
}
std::span<const std::byte> IndexFile::codes() const {
  return Optional<std::byte>(SectionKind::kCodes);
}

std::span<const NodeId> IndexFile::label_order() const {
  return Optional<NodeId>(SectionKind::kLabelOrder);
}
std::span<const std::uint64_t> IndexFile::sorted_labels() const {
  return Optional<std::uint64_t>(SectionKind::kSortedLabels);
}

std::span<const float> IndexFile::scalar_range() const {
  return Optional<float>(SectionKind::kScalarRange);
}
std::span<const std::byte> IndexFile::scalar_codes() const {
  return Optional<std::byte>(SectionKind::kScalarCodes);
}

const Section& IndexFile::Find(SectionKind kind, std::uint32_t layer) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) {
    return s.kind == kind && s.layer == layer;
  });
  HMANN_CHECK(found != sections_.end());
  return *found;
}

const std::byte* IndexFile::Row(NodeId id) const {
  if (id < records_.n1) return fast_rows().data() + id * fast_row_stride();
  return l0().data() + records_.Offset(id);
}

void IndexFile::AppendQuery(NodeId id, std::vector<std::byte>& rows) const {
  const std::byte* row = Row(id);
  if (!IsFloat(info_.dtype)) {
    rows.insert(rows.end(), row, row + info_.dim * SizeOf(info_.dtype));
    return;
  }
  std::vector<float> components(info_.dim);
  ReadComponents(info_.dtype, row, info_.dim, components.data());
  const auto* bytes = reinterpret_cast<const std::byte*>(components.data());
  rows.insert(rows.end(), bytes, bytes + info_.dim * sizeof(float));
}

std::uint64_t IndexFile::Label(NodeId id) const {
  const std::byte* place = id < records_.n1
                               ? fast_labels().data() + std::size_t{id} * records_.label_bytes
                               : l0().data() + records_.Offset(id) + records_.LabelOffset(id);
  std::uint64_t label = 0;
  std::memcpy(&label, place, records_.label_bytes);
  return label;
}

}  // namespace hmann
