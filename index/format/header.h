#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hmann/info.h"
#include "index/base/buffer.h"
#include "index/base/prefetch.h"
#include "index/format/layout.h"
#include "index/graph/layers.h"

namespace hmann {

static_assert(std::endian::native == std::endian::little,
              "index files are little-endian and mapped as they are");

constexpr std::uint16_t kFormatMajor = 4, kFormatMinor = 0;
/// The format before, which only UpgradeIndex reads.
constexpr std::uint16_t kOldMajor = 3;
/// Which formats a caller takes.
enum class Formats : std::uint8_t { kCurrent, kAlsoOld };
constexpr std::uint64_t kHeaderBytes = kBlockBytes;
constexpr std::uint32_t kMaxLayers = 40;
constexpr std::uint32_t kMaxSections = 96;
/// Limits M, so that sizes computed from a hostile header cannot overflow.
constexpr std::uint32_t kMaxM = 4096;

enum class SectionKind : std::uint32_t {
  kUpperLinks = 1,
  kFastRows = 2,
  kFastLabels = 3,
  kL0 = 4,
  kCells = 5,
  kSecondCentroids = 6,
  kCodeMean = 7,
  kCodes = 8,
  kLabelOrder = 9,
  kSortedLabels = 11,
  kScalarRange = 12,
  kScalarCodes = 13,
};

/// One entry of the section table, 32 bytes in the file.
struct Section {
  SectionKind kind{};
  std::uint32_t layer = 0;     ///< of kUpperLinks; 0 for other kinds
  std::uint64_t offset = 0;    ///< from the start of the file, a multiple of kBlockBytes
  std::uint64_t bytes = 0;     ///< without the zeros up to the next section
  std::uint64_t checksum = 0;  ///< see ChunkedChecksum
};

/// "upper_links[2]", "fast_rows", "fast_labels", "cells", "second_centroids",
/// "code_mean", "codes", "label_order", "sorted_labels", "scalar_range", ..., "l0".
std::string Name(const Section& section);

/// Each promoted vector starts on a cache line.
constexpr std::size_t FastRowStride(std::uint32_t row_bytes) {
  return RoundUp(row_bytes, kCacheLineBytes);
}

/// What the builder states about an index.
struct IndexMetadata {
  DType dtype = DType::kF32;
  Metric metric = Metric::kL2;
  std::uint32_t dim = 0;
  std::uint32_t row_bytes = 0;  ///< Kernels::row_bytes
  Layers layers;
  std::uint32_t ef_construction = 0;
  float alpha = 1;  ///< see IndexInfo
  std::uint64_t seed = 0;
  CodeInfo codes;
  std::uint32_t scalar_bits = 0;  ///< 4 or 8; 0: no scalar codes
};

/// The decoded header: everything in an index file outside its sections.
struct Header : IndexMetadata {
  std::vector<double> mean_degree;  ///< one per layer
  std::uint32_t label_bytes = 4;
  bool old = false;              ///< format 3, which has its own records
  std::uint32_t cell_count = 0;  ///< promoted nodes that are the centroid of some node
  std::uint64_t file_bytes = 0;
  std::uint64_t content_hash = 0;
  std::vector<Section> sections;

  /// "4.0".
  std::string Version() const;
  RecordLayout Records() const;
  /// What the file shows of itself: the bytes, next to the formulas of section 7 of
  /// doc/paper.md.
  IndexInfo Info() const;
};

/// The sections that `header` requires, in file order, with offsets and sizes; checksums
/// are 0.
std::vector<Section> PlanSections(const Header& header);

/// The 4096 bytes of the header. Computes the content hash and the checksum.
std::vector<std::byte> EncodeHeader(const Header& header);

/// Reads and checks the header of a file of `file_bytes` bytes that starts with `bytes`
/// (it looks at no more than kHeaderBytes). `path` is for messages. Errors: see
/// IndexFile::Open.
absl::StatusOr<Header> DecodeHeader(const std::string& path, std::span<const std::byte> bytes,
                                    std::uint64_t file_bytes, Formats formats = Formats::kCurrent);

/// Errors: INVALID_ARGUMENT naming the field, for metadata that no index can have (n, n1,
/// m, dim, row_bytes, layers, enums).
absl::Status CheckMetadata(const Header& header);

}  // namespace hmann
