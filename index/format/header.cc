#include "index/format/header.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "index/base/check.h"
#include "index/base/checksum.h"
#include "index/base/status_macros.h"
#include "index/codes/code_layout.h"
#include "index/codes/scalar_quantizer.h"
#include "index/format/label_order.h"
#include "index/graph/cells.h"

namespace hmann {
namespace {

constexpr char kMagic[8] = {'\x89', 'h', 'm', 'a', 'n', 'n', '\r', '\n'};
constexpr std::uint32_t kEndianTag = 0x0a0b0c0d;

struct LayerEntry {
  std::uint32_t nodes, max_degree;
  double mean_degree;
};

/// The header as stored in the file; FORMAT.md uses the same names.
struct HeaderBytes {
  // The preamble: the same in every version.
  char magic[8];
  std::uint16_t format_major, format_minor;
  std::uint32_t reserved_0;
  std::uint32_t endian_tag, header_bytes;
  std::uint64_t reserved_1[2];
  std::uint64_t file_bytes, content_hash, header_checksum;
  // Metadata.
  std::uint64_t n, n1;
  std::uint32_t dim, row_bytes, m, ef_construction;
  std::uint8_t dtype, metric, label_bytes, code_place;
  std::uint32_t layer_count;
  std::uint64_t seed;
  std::uint32_t section_count;
  std::uint8_t code_bits, code_replicas;
  std::uint16_t code_bytes;
  std::uint32_t cell_count;
  float alpha;
  LayerEntry layers[kMaxLayers];
  std::uint8_t scalar_bits;
  std::byte reserved_2[255];
  Section sections[kMaxSections];
};
static_assert(sizeof(HeaderBytes) == kHeaderBytes && sizeof(Section) == 32 &&
              sizeof(LayerEntry) == 16);
static_assert(offsetof(HeaderBytes, header_checksum) == 56 && offsetof(HeaderBytes, n) == 64);
static_assert(offsetof(HeaderBytes, alpha) == 124 && offsetof(HeaderBytes, layers) == 128 &&
              offsetof(HeaderBytes, sections) == 1024);

std::uint64_t HeaderChecksum(HeaderBytes bytes) {
  bytes.header_checksum = 0;
  return Checksum(&bytes, sizeof(bytes));
}

/// Hash over the content of the sections, wherever they lie: kind, layer, bytes and
/// checksum of each.
std::uint64_t ContentHash(const std::vector<Section>& sections) {
  std::vector<std::uint64_t> words;
  for (const Section& section : sections) {
    words.insert(words.end(), {static_cast<std::uint64_t>(section.kind), section.layer,
                               section.bytes, section.checksum});
  }
  return Checksum(words.data(), words.size() * sizeof(std::uint64_t));
}

template <class... Parts>
absl::Status Corrupt(const std::string& path, const Parts&... parts) {
  return DataLoss(path, ": header: ", parts...);
}

absl::Status CheckMagic(const std::string& path, std::span<const std::byte> bytes) {
  const std::size_t shown = std::min(bytes.size(), sizeof(kMagic));
  if (shown > 0 && std::memcmp(bytes.data(), kMagic, shown) == 0) return absl::OkStatus();
  return InvalidArgument(path, ": not an hmann index, which `hmann build` makes",
                         shown == 0 ? " (an empty file)" : "");
}

absl::Status CheckVersion(const std::string& path, const HeaderBytes& raw, Formats formats) {
  const bool is_old = raw.format_major == kOldMajor && raw.format_minor <= kFormatMinor;
  if (is_old && formats == Formats::kAlsoOld) return absl::OkStatus();
  if (raw.format_major == kFormatMajor && raw.format_minor <= kFormatMinor) return absl::OkStatus();
  return Unimplemented(path, ": is format ", raw.format_major, ".", raw.format_minor,
                       "; this program reads ", kFormatMajor, ".", kFormatMinor,
                       is_old ? ": `hmann upgrade` converts it" : ": build it again");
}

/// Checks what can be checked before the version is known, and the version.
absl::Status CheckPreamble(const std::string& path, const HeaderBytes& raw,
                           std::uint64_t file_bytes, Formats formats) {
  if (raw.endian_tag == __builtin_bswap32(kEndianTag))
    return Unimplemented(path, ": a big-endian hmann index");
  if (const std::uint64_t found = HeaderChecksum(raw); found != raw.header_checksum) {
    return Corrupt(path, "offset 0: expected checksum ",
                   absl::Hex(raw.header_checksum, absl::kZeroPad16), "; found ",
                   absl::Hex(found, absl::kZeroPad16));
  }
  HMANN_RETURN_IF_ERROR(CheckVersion(path, raw, formats));
  if (raw.endian_tag != kEndianTag)
    return Corrupt(path, "offset 16: expected endian tag ", kEndianTag, "; found ", raw.endian_tag);
  if (raw.header_bytes != kHeaderBytes)
    return Corrupt(path, "offset 20: expected ", kHeaderBytes, " bytes; found ", raw.header_bytes);
  if (raw.file_bytes != file_bytes) {
    return DataLoss(path, file_bytes < raw.file_bytes ? ": truncated: " : ": grown: ", file_bytes,
                    " bytes found, ", raw.file_bytes,
                    " expected: copy the file anew or build it again");
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(const std::string& path, const HeaderBytes& raw, Header& header) {
  header.dtype = static_cast<DType>(raw.dtype);
  header.metric = static_cast<Metric>(raw.metric);
  header.dim = raw.dim;
  header.row_bytes = raw.row_bytes;
  header.ef_construction = raw.ef_construction;
  header.alpha = raw.alpha;
  header.seed = raw.seed;
  header.label_bytes = raw.label_bytes;
  header.old = raw.format_major == kOldMajor;
  if (raw.code_place == 1) {
    return Unimplemented(path,
                         ": header: offset 99: expected codes of nodes, found codes of links, "
                         "which are read no longer: build it again");
  }
  if (raw.code_place != 0)
    return Corrupt(path, "offset 99: code_place: expected 0; found ", raw.code_place);
  header.codes = {raw.code_bits, raw.code_replicas, raw.code_bytes};
  header.cell_count = raw.cell_count;
  header.scalar_bits = raw.scalar_bits;
  header.file_bytes = raw.file_bytes;
  header.content_hash = raw.content_hash;
  if (raw.n == 0 || raw.n > kMaxNodes)
    return Corrupt(path, "offset 64: n: expected 1 to ", kMaxNodes, "; found ", raw.n);
  if (raw.n1 >= raw.n)
    return Corrupt(path, "offset 72: n1: expected less than n = ", raw.n, "; found ", raw.n1);
  if (raw.m < 2 || raw.m > kMaxM)
    return Corrupt(path, "offset 88: m: expected 2 to ", kMaxM, "; found ", raw.m);
  header.layers = Layers::Make(static_cast<NodeId>(raw.n), static_cast<NodeId>(raw.n1), raw.m);
  const std::size_t layers = header.layers.nodes.size();
  if (raw.layer_count != layers)
    return Corrupt(path, "offset 100: layers: expected ", layers, "; found ", raw.layer_count);
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const LayerEntry& entry = raw.layers[layer];
    const std::size_t offset = offsetof(HeaderBytes, layers) + layer * sizeof(LayerEntry);
    if (entry.nodes != header.layers.nodes[layer] ||
        entry.max_degree != header.layers.MaxDegree(layer)) {
      return Corrupt(path, "offset ", offset, ": layer ", layer, ": expected ",
                     header.layers.nodes[layer], " nodes of at most ",
                     header.layers.MaxDegree(layer), " links; found ", entry.nodes, " of ",
                     entry.max_degree);
    }
    header.mean_degree.push_back(entry.mean_degree);
  }
  const absl::Status status = CheckMetadata(header);
  return status.ok() ? status : Corrupt(path, status.message());
}

/// Checks that the sections ascend, lie inside the file on block boundaries, and are
/// those that the metadata requires.
absl::Status ReadSections(const std::string& path, const HeaderBytes& raw, Header& header) {
  if (raw.section_count > kMaxSections) {
    return Corrupt(path, "offset 112: expected at most ", kMaxSections, " sections; found ",
                   raw.section_count);
  }
  const std::vector<Section> plan = PlanSections(header);
  std::uint64_t end = kHeaderBytes;
  for (std::uint32_t i = 0; i < raw.section_count; ++i) {
    const Section& section = raw.sections[i];
    const std::string place =
        absl::StrCat("offset ", offsetof(HeaderBytes, sections) + i * sizeof(Section), ": section ",
                     Name(section));
    if (section.offset % kBlockBytes != 0) {
      return Corrupt(path, place, ": expected an offset that is a multiple of ", kBlockBytes,
                     "; found ", section.offset);
    }
    if (section.offset < end)
      return Corrupt(path, place, ": expected to start at ", end, " or later; found ",
                     section.offset);
    if (section.offset > header.file_bytes || section.bytes > header.file_bytes - section.offset) {
      return Corrupt(path, place, ": expected to end within the file's ", header.file_bytes,
                     " bytes; found offset ", section.offset, " and ", section.bytes, " bytes");
    }
    end = section.offset + section.bytes;
    if (i == plan.size() || section.kind != plan[i].kind || section.layer != plan[i].layer) {
      return Corrupt(path, place, ": expected ",
                     i == plan.size() ? "no more sections" : Name(plan[i]));
    }
    if (section.bytes != plan[i].bytes)
      return Corrupt(path, place, ": expected ", plan[i].bytes, " bytes; found ", section.bytes);
    header.sections.push_back(section);
  }
  if (header.sections.size() != plan.size()) {
    return Corrupt(path, "offset 112: expected section ", Name(plan[header.sections.size()]),
                   "; found the end of the table");
  }
  const std::uint64_t hash = ContentHash(header.sections);
  if (hash != header.content_hash) {
    return Corrupt(path, "offset 48: expected content hash ", absl::Hex(hash, absl::kZeroPad16),
                   "; found ", absl::Hex(header.content_hash, absl::kZeroPad16));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Name(const Section& section) {
  static constexpr const char* kNames[] = {
      "fast_rows", "fast_labels", "l0", "cells",         "second_centroids", "code_mean",
      "codes",     "label_order", "",   "sorted_labels", "scalar_range",     "scalar_codes"};
  if (section.kind == SectionKind::kUpperLinks)
    return absl::StrCat("upper_links[", section.layer, "]");
  const auto kind = static_cast<std::uint32_t>(section.kind);
  const std::uint32_t place = kind - static_cast<std::uint32_t>(SectionKind::kFastRows);
  return place < std::size(kNames) ? kNames[place] : absl::StrCat("of kind ", kind);
}

std::string Header::Version() const {
  return absl::StrCat(old ? kOldMajor : kFormatMajor, ".", kFormatMinor);
}

RecordLayout Header::Records() const {
  return (old ? RecordLayout::MakeOld : RecordLayout::Make)(
      layers.n(), layers.n1(), layers.MaxDegree(0), row_bytes, label_bytes);
}

absl::Status CheckMetadata(const Header& header) {
  const auto wrong = [](const char* field, const auto& expected, const auto& found) {
    return InvalidArgument(field, ": expected ", expected, "; found ", found);
  };
  if (header.dtype > DType::kF16) return wrong("dtype", "0 to 3", static_cast<int>(header.dtype));
  if (header.metric > Metric::kCosine)
    return wrong("metric", "at most 2", static_cast<int>(header.metric));
  if (header.label_bytes != 4 && header.label_bytes != 8)
    return wrong("label_bytes", "4 or 8", header.label_bytes);
  HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                         ChooseKernels(header.dtype, header.metric, header.dim));
  if (header.row_bytes != kernels.row_bytes)
    return wrong("row_bytes", kernels.row_bytes, header.row_bytes);
  if (!(header.alpha >= 1 && header.alpha <= 2)) return wrong("alpha", "1 to 2", header.alpha);
  const bool has_codes = header.codes.bits > 0;
  if (header.codes != CodeInfo()) {
    if (!IsCodeBits(header.codes.bits)) return wrong("code_bits", "1, 2 or 4", header.codes.bits);
    if (header.codes.replicas < 1 || header.codes.replicas > 2)
      return wrong("code_replicas", "1 or 2", header.codes.replicas);
    const std::uint32_t bytes = CodeBytes(header.dim, header.codes.bits);
    if (header.codes.code_bytes != bytes)
      return wrong("code_bytes", bytes, header.codes.code_bytes);
  }
  if (header.scalar_bits != 0 && header.scalar_bits != 4 && header.scalar_bits != 8)
    return wrong("scalar_bits", "0, 4 or 8", header.scalar_bits);
  const Layers& layers = header.layers;
  if (layers.nodes.empty() || layers.n() == 0 || layers.n() > kMaxNodes) {
    return wrong("n", absl::StrCat("1 to ", kMaxNodes), layers.nodes.empty() ? 0 : layers.n());
  }
  if (layers.m < 2 || layers.m > kMaxM) return wrong("m", absl::StrCat("2 to ", kMaxM), layers.m);
  if (layers.nodes != Layers::Make(layers.n(), layers.n1(), layers.m).nodes)
    return wrong("layers", "N_{i+1} = N_i / m", "other sizes");
  const NodeId n1 = layers.n1();
  if (has_codes && n1 <= header.codes.replicas - 1)
    return wrong("n1", "a centroid for each assignment", n1);
  if (has_codes ? header.cell_count < 1 || header.cell_count > n1 : header.cell_count != 0)
    return wrong("cell_count", has_codes ? absl::StrCat("1 to ", n1) : "0", header.cell_count);
  if (header.mean_degree.size() != layers.nodes.size())
    return wrong("mean_degree", "one per layer", header.mean_degree.size());
  for (std::uint32_t layer = 0; layer <= layers.top(); ++layer) {
    const double mean = header.mean_degree[layer];
    if (!(mean >= 0 && mean <= layers.MaxDegree(layer))) {
      return wrong("mean_degree",
                   absl::StrCat("0 to ", layers.MaxDegree(layer), " in layer ", layer), mean);
    }
  }
  return absl::OkStatus();
}

std::vector<Section> PlanSections(const Header& header) {
  const Layers& layers = header.layers;
  std::vector<Section> sections;
  std::uint64_t offset = kHeaderBytes;
  const auto add = [&](SectionKind kind, std::uint32_t layer, std::uint64_t bytes) {
    sections.push_back({.kind = kind, .layer = layer, .offset = offset, .bytes = bytes});
    offset += RoundUp(bytes, kBlockBytes);
  };
  for (std::uint32_t layer = 1; layer <= layers.top(); ++layer) {
    add(SectionKind::kUpperLinks, layer,
        std::uint64_t{layers.nodes[layer]} * layers.MaxDegree(layer) * sizeof(NodeId));
  }
  add(SectionKind::kFastRows, 0, std::uint64_t{layers.n1()} * FastRowStride(header.row_bytes));
  add(SectionKind::kFastLabels, 0, std::uint64_t{layers.n1()} * header.label_bytes);
  const bool has_codes = header.codes.bits > 0;
  const std::uint64_t others = layers.n() - layers.n1();
  if (has_codes) add(SectionKind::kCells, 0, header.cell_count * sizeof(CellEntry));
  if (header.codes.replicas == 2) add(SectionKind::kSecondCentroids, 0, others * sizeof(NodeId));
  if (has_codes) add(SectionKind::kCodeMean, 0, header.dim * sizeof(float));
  if (has_codes) add(SectionKind::kCodes, 0, others * header.codes.code_bytes);
  add(SectionKind::kLabelOrder, 0, layers.n() * sizeof(NodeId));
  if (header.label_bytes == 8) {
    const std::uint64_t n = layers.n();
    add(SectionKind::kSortedLabels, 0, (n + LabelMarks(n)) * sizeof(std::uint64_t));
  }
  add(SectionKind::kL0, 0, header.Records().TotalBytes());
  if (header.scalar_bits > 0) {
    add(SectionKind::kScalarRange, 0, ScalarRangeSize(header.dim) * sizeof(float));
    add(SectionKind::kScalarCodes, 0,
        layers.n() * std::uint64_t{ScalarCodeBytes(header.dim, header.scalar_bits)});
  }
  return sections;
}

std::vector<std::byte> EncodeHeader(const Header& header) {
  HMANN_CHECK(header.layers.nodes.size() <= kMaxLayers && header.sections.size() <= kMaxSections);
  HeaderBytes raw{};
  std::memcpy(raw.magic, kMagic, sizeof(kMagic));
  raw.format_major = kFormatMajor;
  raw.format_minor = kFormatMinor;
  raw.endian_tag = kEndianTag;
  raw.header_bytes = kHeaderBytes;
  raw.file_bytes = header.file_bytes;
  raw.content_hash = ContentHash(header.sections);
  raw.n = header.layers.n();
  raw.n1 = header.layers.n1();
  raw.dim = header.dim;
  raw.row_bytes = header.row_bytes;
  raw.m = header.layers.m;
  raw.ef_construction = header.ef_construction;
  raw.alpha = header.alpha;
  raw.dtype = static_cast<std::uint8_t>(header.dtype);
  raw.metric = static_cast<std::uint8_t>(header.metric);
  raw.label_bytes = static_cast<std::uint8_t>(header.label_bytes);
  raw.layer_count = static_cast<std::uint32_t>(header.layers.nodes.size());
  raw.seed = header.seed;
  raw.section_count = static_cast<std::uint32_t>(header.sections.size());
  raw.code_bits = static_cast<std::uint8_t>(header.codes.bits);
  raw.code_replicas = static_cast<std::uint8_t>(header.codes.replicas);
  raw.code_bytes = static_cast<std::uint16_t>(header.codes.code_bytes);
  raw.cell_count = header.cell_count;
  raw.scalar_bits = static_cast<std::uint8_t>(header.scalar_bits);
  for (std::uint32_t layer = 0; layer < raw.layer_count; ++layer) {
    raw.layers[layer] = {header.layers.nodes[layer], header.layers.MaxDegree(layer),
                         header.mean_degree[layer]};
  }
  std::copy(header.sections.begin(), header.sections.end(), raw.sections);
  raw.header_checksum = HeaderChecksum(raw);
  std::vector<std::byte> bytes(sizeof(raw));
  std::memcpy(bytes.data(), &raw, sizeof(raw));
  return bytes;
}

absl::StatusOr<Header> DecodeHeader(const std::string& path, std::span<const std::byte> bytes,
                                    std::uint64_t file_bytes, Formats formats) {
  HMANN_RETURN_IF_ERROR(CheckMagic(path, bytes));
  if (bytes.size() < kHeaderBytes) {
    return Corrupt(path, "offset 0: expected ", kHeaderBytes, " bytes; found a file of ",
                   file_bytes, " (truncated)");
  }
  HeaderBytes raw;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  HMANN_RETURN_IF_ERROR(CheckPreamble(path, raw, file_bytes, formats));
  Header header;
  HMANN_RETURN_IF_ERROR(ReadMetadata(path, raw, header));
  HMANN_RETURN_IF_ERROR(ReadSections(path, raw, header));
  return header;
}

}  // namespace hmann
