#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/info.h"
#include "index/base/file.h"
#include "index/format/header.h"
#include "index/format/layout.h"
#include "index/graph/cells.h"
#include "index/graph/layers.h"

namespace hmann {

/// A mapped index file. Opening reads only the header. It ensures that every section lies
/// inside the file and has exactly the size that the layers and the record layout
/// require. VerifyIndex, not this class, checks the content of the sections. Move-only.
/// Spans point into the mapping and stay valid while the object (or the one it was moved
/// into) lives. Thread-safe once open.
class IndexFile {
 public:
  /// Errors: as open(2); INVALID_ARGUMENT "not an hmann index" for a foreign file;
  /// UNIMPLEMENTED for another version of the format; DATA_LOSS naming offset, expected
  /// and found for a truncated or corrupt file. `on_mapped`, if given, gets the bytes of
  /// the file before they are read.
  static absl::StatusOr<IndexFile> Open(
      const std::string& path, Formats formats = Formats::kCurrent,
      const std::function<void(std::span<const std::byte>)>& on_mapped = nullptr);

  bool is_old() const { return is_old_; }  ///< format 3
  const IndexMetadata& metadata() const { return metadata_; }
  const IndexInfo& info() const { return info_; }
  const Layers& layers() const { return metadata_.layers; }
  const RecordLayout& records() const { return records_; }

  /// The stored vectors of the n1 promoted nodes, node i at i * fast_row_stride().
  std::span<const std::byte> fast_rows() const { return Bytes(SectionKind::kFastRows, 0); }
  std::size_t fast_row_stride() const { return FastRowStride(records_.row_bytes); }
  /// N_layer x M_layer u32, unused = kNoNode; layer in 1..top.
  std::span<const std::byte> upper_links(std::uint32_t layer) const {
    return Bytes(SectionKind::kUpperLinks, layer);
  }
  /// n1 x label_bytes.
  std::span<const std::byte> fast_labels() const { return Bytes(SectionKind::kFastLabels, 0); }
  /// cells x {centroid, first}; empty without codes.
  std::span<const CellEntry> cells() const;
  /// The second centroid of each node n1 + i; empty unless codes().replicas is 2.
  std::span<const NodeId> second_centroids() const;
  /// dim f32; empty without codes.
  std::span<const float> code_mean() const;
  /// (n - n1) x code_bytes; empty without codes.
  std::span<const std::byte> codes() const;
  /// n ids by label (see label_order.h).
  std::span<const NodeId> label_order() const;
  /// User labels in that order, n, then their marks; empty if labels are row numbers.
  std::span<const std::uint64_t> sorted_labels() const;
  /// ScalarQuantizer::range(), and n codes; empty without scalar codes.
  std::span<const float> scalar_range() const;
  std::span<const std::byte> scalar_codes() const;
  /// See RecordLayout.
  std::span<const std::byte> l0() const { return Bytes(SectionKind::kL0, 0); }
  /// Stored vector of a node, promoted or not.
  const std::byte* Row(NodeId id) const;
  /// Appends a stored vector as a query: dim components of QueryType(dtype).
  void AppendQuery(NodeId id, std::vector<std::byte>& rows) const;
  /// Label of a node, promoted or not; its row number if the user gave no labels.
  std::uint64_t Label(NodeId id) const;

  /// In file order.
  const std::vector<Section>& sections() const { return sections_; }
  std::span<const std::byte> Bytes(const Section& section) const {
    return file_.bytes().subspan(section.offset, section.bytes);
  }
  const MappedFile& file() const { return file_; }

 private:
  const Section& Find(SectionKind kind, std::uint32_t layer) const;
  template <typename T>
  std::span<const T> Optional(SectionKind kind) const;
  std::span<const std::byte> Bytes(SectionKind kind, std::uint32_t layer) const {
    return Bytes(Find(kind, layer));
  }

  MappedFile file_;
  IndexInfo info_;
  IndexMetadata metadata_;
  bool is_old_ = false;
  RecordLayout records_;
  std::vector<Section> sections_;
};

}  // namespace hmann
