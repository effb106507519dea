#include "index/construct/import/import_hnswlib.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/construct/import/import_check.h"
#include "index/construct/import/import_reader.h"

namespace hmann {
namespace {

// saveIndex writes, packed: a header, `count` elements of level 0, then for each element
// u32 bytes and its lists of the levels above. An element is u16 link count, u8 marks, u8
// zero, u32 links[2M], the vector, u64 label.
constexpr std::uint64_t kLinkHeaderBytes = 4;
constexpr std::uint64_t kMarksAt = 2;
constexpr std::uint8_t kDeletedMark = 1;
constexpr std::uint64_t kLabelBytes = 8;

enum HeaderOffset : std::uint64_t {
  kLevel0At = 0,
  kCapacityAt = 8,
  kCountAt = 16,
  kElementBytesAt = 24,
  kLabelAt = 32,
  kVectorAt = 40,
  kTopLevelAt = 48,
  kEntryPointAt = 52,
  kDegreeAboveAt = 56,
  kDegree0At = 64,
  kMAt = 72,
  kEfConstructionAt = 88,
  kHeaderBytes = 96,
};

struct Header {
  NodeId count = 0;
  GraphParameters parameters;
  std::uint32_t top_level = 0;
  DType stored = DType::kF32;
  std::uint64_t vector_at = 0;  ///< in an element
  std::uint64_t label_at = 0;
  std::uint64_t element_bytes = 0;
};

absl::Status ExpectU64(const ImportReader& reader, const std::byte* header, std::uint64_t at,
                       const char* what, std::uint64_t expected) {
  const auto found = LoadAs<std::uint64_t>(header + at);
  return found == expected ? absl::OkStatus() : reader.Mismatch(at, what, expected, found);
}

/// Returns the type of the stored components. Only the size of a vector in the file tells
/// it.
absl::StatusOr<DType> StoredType(const ImportReader& reader, std::uint64_t vector_at,
                                 std::uint64_t label_at, const VectorFile& base, Metric metric) {
  if (label_at < vector_at)
    return reader.Corrupt(kLabelAt, "place of the label", absl::StrCat("above ", vector_at),
                          label_at);
  const std::uint64_t found = label_at - vector_at;
  const bool may_be_bytes = base.dtype() == DType::kU8 && metric == Metric::kL2;
  if (found == base.dim() * sizeof(float)) return DType::kF32;
  if (found == base.dim() && may_be_bytes) return DType::kU8;
  return reader.Mismatch(
      kLabelAt,
      absl::StrCat("bytes of a vector, for a base of ", std::string(Name(base.dtype())), " x ",
                   base.dim(), " under ", std::string(Name(metric))),
      absl::StrCat(base.dim() * sizeof(float),
                   may_be_bytes ? absl::StrCat(" or ", base.dim()) : ""),
      found);
}

/// Reads the header; every size in it follows from M and the base's dimension.
absl::StatusOr<Header> ReadHeader(ImportReader& reader, const VectorFile& base, Metric metric) {
  HMANN_ASSIGN_OR_RETURN(const ItemRun run,
                         reader.Take(kHeaderBytes, 1, "header of an hnswlib index"));
  const std::byte* bytes = run.data;
  const auto u64 = [bytes](std::uint64_t at) { return LoadAs<std::uint64_t>(bytes + at); };
  HMANN_RETURN_IF_ERROR(
      ExpectU64(reader, bytes, kLevel0At, "offset of level 0 (an hnswlib index)", 0));
  HMANN_RETURN_IF_ERROR(CheckM(reader, kMAt, u64(kMAt)));
  HMANN_RETURN_IF_ERROR(CheckEfConstruction(reader, kEfConstructionAt, u64(kEfConstructionAt)));
  HMANN_RETURN_IF_ERROR(
      ExpectU64(reader, bytes, kDegreeAboveAt, "degree of the levels above 0", u64(kMAt)));
  HMANN_RETURN_IF_ERROR(ExpectU64(reader, bytes, kDegree0At, "degree of level 0", 2 * u64(kMAt)));
  HMANN_RETURN_IF_ERROR(ExpectU64(reader, bytes, kCountAt, "elements", base.n()));
  if (u64(kCapacityAt) < base.n())
    return reader.Corrupt(kCapacityAt, "capacity", absl::StrCat("at least ", base.n()),
                          u64(kCapacityAt));

  Header header;
  header.count = static_cast<NodeId>(base.n());
  header.parameters = {static_cast<std::uint32_t>(u64(kMAt)),
                       static_cast<std::uint32_t>(u64(kEfConstructionAt))};
  header.vector_at = kLinkHeaderBytes + std::uint64_t{2} * header.parameters.m * sizeof(NodeId);
  header.label_at = u64(kLabelAt);
  HMANN_RETURN_IF_ERROR(
      ExpectU64(reader, bytes, kVectorAt, "place of the vector", header.vector_at));
  HMANN_ASSIGN_OR_RETURN(header.stored,
                         StoredType(reader, header.vector_at, header.label_at, base, metric));
  header.element_bytes = header.label_at + kLabelBytes;
  HMANN_RETURN_IF_ERROR(
      ExpectU64(reader, bytes, kElementBytesAt, "bytes of an element", header.element_bytes));

  const auto top_level = LoadAs<std::int32_t>(bytes + kTopLevelAt);
  if (top_level < 0) return reader.Corrupt(kTopLevelAt, "top level", "0 or more", top_level);
  header.top_level = static_cast<std::uint32_t>(top_level);
  const auto entry_point = LoadAs<NodeId>(bytes + kEntryPointAt);
  if (entry_point >= header.count)
    return reader.Corrupt(kEntryPointAt, "entry point", absl::StrCat("below ", header.count),
                          entry_point);
  return header;
}

/// Skips the levels above 0, whose lists are ignored. This proves that the file is whole.
absl::Status SkipUpperLevels(ImportReader& reader, const Header& header) {
  const std::uint64_t level_bytes = kLinkHeaderBytes + header.parameters.m * sizeof(NodeId);
  for (NodeId i = 0; i < header.count; ++i) {
    const std::uint64_t at = reader.offset();
    HMANN_ASSIGN_OR_RETURN(const auto bytes,
                           reader.Read<std::uint32_t>("bytes of an element's upper levels"));
    if (bytes % level_bytes != 0 || bytes / level_bytes > header.top_level) {
      return reader.Corrupt(
          at, absl::StrCat("bytes of the upper levels of element ", i),
          absl::StrCat("a multiple of ", level_bytes, " up to ", header.top_level * level_bytes),
          bytes);
    }
    HMANN_RETURN_IF_ERROR(reader.Take(bytes, 1, "upper levels").status());
  }
  return reader.ExpectEnd();
}

/// Returns every element's row of the base, which is its label. Checks that labels are a
/// permutation of the rows.
absl::StatusOr<std::vector<NodeId>> ReadRows(const ImportReader& reader, const Header& header,
                                             const ItemRun& elements) {
  std::vector<NodeId> rows(header.count);
  std::vector<bool> seen(header.count);
  for (NodeId i = 0; i < header.count; ++i) {
    const std::uint64_t at = i * header.element_bytes + header.label_at;
    const auto label = LoadAs<std::uint64_t>(elements.data + at);
    if (label >= header.count) {
      return reader.Mismatch(elements.offset + at, absl::StrCat("label of element ", i),
                             absl::StrCat("a row of the base, below ", header.count), label);
    }
    if (seen[label]) {
      return reader.Mismatch(elements.offset + at, absl::StrCat("label of element ", i),
                             "every row of the base once", absl::StrCat(label, " again"));
    }
    seen[label] = true;
    rows[i] = static_cast<NodeId>(label);
  }
  return rows;
}

/// Reads the link list of element `node` into `links`, in the file's ids, checked.
absl::Status ReadHnswlibLinks(const ImportReader& reader, const Header& header,
                              const ItemRun& elements, NodeId node, std::vector<NodeId>* links) {
  const std::uint64_t at = node * header.element_bytes;
  const std::byte* list = elements.data + at;
  const auto marks = std::to_integer<std::uint8_t>(list[kMarksAt]);
  if (marks == kDeletedMark) {
    return reader.Mismatch(elements.offset + at + kMarksAt, absl::StrCat("element ", node),
                           "not deleted", "marked deleted");
  }
  const auto unused = std::to_integer<std::uint8_t>(list[kMarksAt + 1]);
  if (marks != 0 || unused != 0) {
    return reader.Corrupt(elements.offset + at + kMarksAt, absl::StrCat("marks of element ", node),
                          0, marks + 256 * unused);
  }
  const auto count = LoadAs<std::uint16_t>(list);
  if (count > 2 * header.parameters.m) {
    return reader.Corrupt(elements.offset + at, absl::StrCat("links of element ", node),
                          absl::StrCat("at most ", 2 * header.parameters.m), count);
  }
  links->resize(count);
  for (std::uint32_t i = 0; i < count; ++i)
    (*links)[i] = LoadAs<NodeId>(list + kLinkHeaderBytes + i * sizeof(NodeId));
  return CheckLinks(reader, elements.offset + at + kLinkHeaderBytes, node, *links, header.count);
}

}  // namespace

absl::StatusOr<ImportedGraph> ImportHnswlib(const std::string& path, const VectorFile& base,
                                            Metric metric) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  file.Advise(MappedFile::Access::kSequential, 0, file.bytes().size());
  ImportReader reader(file);
  HMANN_ASSIGN_OR_RETURN(const Header header, ReadHeader(reader, base, metric));
  HMANN_ASSIGN_OR_RETURN(const ItemRun elements,
                         reader.Take(header.count, header.element_bytes, "elements of level 0"));
  HMANN_RETURN_IF_ERROR(SkipUpperLevels(reader, header));
  HMANN_ASSIGN_OR_RETURN(const std::vector<NodeId> rows, ReadRows(reader, header, elements));

  HMANN_ASSIGN_OR_RETURN(ImportedGraph graph, MakeUnlinked(header.count, header.parameters));
  StoredVectorCheck vectors(base, metric, header.stored);
  std::vector<NodeId> links;
  for (NodeId i = 0; i < header.count; ++i) {
    const std::uint64_t at = i * header.element_bytes + header.vector_at;
    HMANN_RETURN_IF_ERROR(vectors.Check(reader, rows[i], elements.data + at, elements.offset + at));
    HMANN_RETURN_IF_ERROR(ReadHnswlibLinks(reader, header, elements, i, &links));
    NodeId* to = graph.Links(rows[i]);
    for (NodeId link : links) *to++ = rows[link];
  }
  return graph;
}

absl::StatusOr<GraphParameters> ReadHnswlibParameters(const std::string& path,
                                                      const VectorFile& base, Metric metric) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  ImportReader reader(file);
  HMANN_ASSIGN_OR_RETURN(const Header header, ReadHeader(reader, base, metric));
  return header.parameters;
}

}  // namespace hmann
