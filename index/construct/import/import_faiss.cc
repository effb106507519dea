#include "index/construct/import/import_faiss.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/construct/import/import_check.h"
#include "index/construct/import/import_reader.h"

namespace hmann {
namespace {

// write_index writes an IndexHNSWFlat, packed, as: "IHNf", index header, graph, then its
// storage: "IxF2" (L2), "IxFI" (inner product) or "IxFl" (either), index header, the
// vectors. Arrays ("vectors" of C++) are preceded by their u64 count.
constexpr std::int32_t kInnerProductMetric = 0;
constexpr std::int32_t kL2Metric = 1;

/// The arrays of the graph, as they lie in the file. A node's lists of all its levels,
/// level 0 first, are neighbors[offsets[i], offsets[i + 1]). A list shorter than its room
/// ends with -1.
struct Graph {
  ItemRun widths;     ///< i32; widths[l] = room for the lists of levels below l
  ItemRun levels;     ///< i32 per node: the number of its levels
  ItemRun offsets;    ///< u64, one more than nodes
  ItemRun neighbors;  ///< i32
  GraphParameters parameters;
};

absl::StatusOr<ItemRun> TakeArray(ImportReader& reader, std::uint64_t item_bytes,
                                  const char* what) {
  HMANN_ASSIGN_OR_RETURN(const auto count, reader.Read<std::uint64_t>(what));
  return reader.Take(count, item_bytes, what);
}

absl::StatusOr<ItemRun> TakeArrayOf(ImportReader& reader, std::uint64_t expected_count,
                                    std::uint64_t item_bytes, const char* what) {
  const std::uint64_t at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const ItemRun run, TakeArray(reader, item_bytes, what));
  if (run.count != expected_count)
    return reader.Corrupt(at, absl::StrCat("count of ", what), expected_count, run.count);
  return run;
}

absl::Status ReadFourcc(ImportReader& reader, std::initializer_list<absl::string_view> expected,
                        const char* what) {
  const std::uint64_t at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const ItemRun run, reader.Take(4, 1, what));
  const absl::string_view found(reinterpret_cast<const char*>(run.data), 4);
  if (std::find(expected.begin(), expected.end(), found) != expected.end()) return absl::OkStatus();
  return reader.Mismatch(at, what, *expected.begin(), absl::CHexEscape(found));
}

absl::Status CheckMetric(const ImportReader& reader, std::uint64_t at, std::int32_t found,
                         Metric metric) {
  const bool fits = (found == kL2Metric && metric != Metric::kInnerProduct) ||
                    (found == kInnerProductMetric && metric != Metric::kL2);
  if (fits) return absl::OkStatus();
  const char* expected = metric == Metric::kL2 ? "1 (L2)"
                         : metric == Metric::kInnerProduct
                             ? "0 (inner product)"
                             : "0 or 1 (inner product or L2, of unit vectors, for cosine)";
  return reader.Mismatch(at, "metric", expected, found);
}

/// Reads i32 dim, i64 n, two i64 without meaning, u8 trained, i32 metric.
absl::Status ReadIndexHeader(ImportReader& reader, const VectorFile& base, Metric metric) {
  std::uint64_t at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const auto dim, reader.Read<std::int32_t>("dimension"));
  if (dim != static_cast<std::int64_t>(base.dim()))
    return reader.Mismatch(at, "dimension", base.dim(), dim);
  at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const auto n, reader.Read<std::uint64_t>("vectors"));
  if (n != base.n()) return reader.Mismatch(at, "vectors", base.n(), n);
  HMANN_RETURN_IF_ERROR(reader.Take(2, sizeof(std::int64_t), "index header").status());
  at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const auto trained, reader.Read<std::uint8_t>("trained"));
  if (trained != 1) return reader.Corrupt(at, "trained", 1, static_cast<int>(trained));
  at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const auto recorded, reader.Read<std::int32_t>("metric"));
  return CheckMetric(reader, at, recorded, metric);
}

/// Level 0 must have room for 2M links, where M is the room of a level above.
absl::StatusOr<std::uint32_t> ReadM(const ImportReader& reader, const ItemRun& widths) {
  if (widths.count < 2)
    return reader.Corrupt(widths.offset, "count of widths of levels", "at least 2", widths.count);
  if (widths.Get<std::int32_t>(0) != 0)
    return reader.Corrupt(widths.offset, "width below level 0", 0, widths.Get<std::int32_t>(0));
  for (std::uint64_t l = 1; l < widths.count; ++l) {
    if (widths.Get<std::int32_t>(l) < widths.Get<std::int32_t>(l - 1)) {
      return reader.Corrupt(widths.offset + l * sizeof(std::int32_t), "width up to a level",
                            absl::StrCat("at least ", widths.Get<std::int32_t>(l - 1)),
                            widths.Get<std::int32_t>(l));
    }
  }
  const auto width0 = static_cast<std::uint32_t>(widths.Get<std::int32_t>(1));
  const std::uint64_t at = widths.offset + sizeof(std::int32_t);
  HMANN_RETURN_IF_ERROR(CheckM(reader, at, width0 / 2));
  if (width0 % 2 != 0) return reader.Mismatch(at, "room of level 0", "2M, an even number", width0);
  if (widths.count > 2 &&
      static_cast<std::uint32_t>(widths.Get<std::int32_t>(2)) - width0 != width0 / 2) {
    return reader.Mismatch(at + sizeof(std::int32_t), "width up to level 1",
                           absl::StrCat("3M = ", width0 / 2 * 3), widths.Get<std::int32_t>(2));
  }
  return width0 / 2;
}

/// Reads everything before the storage.
absl::StatusOr<Graph> ReadGraph(ImportReader& reader, const VectorFile& base, Metric metric) {
  HMANN_RETURN_IF_ERROR(ReadFourcc(reader, {"IHNf"}, "type of the index (IndexHNSWFlat)"));
  HMANN_RETURN_IF_ERROR(ReadIndexHeader(reader, base, metric));
  const std::uint64_t n = base.n();
  Graph graph;
  HMANN_RETURN_IF_ERROR(TakeArray(reader, sizeof(double), "probabilities of levels").status());
  HMANN_ASSIGN_OR_RETURN(graph.widths, TakeArray(reader, sizeof(std::int32_t), "widths of levels"));
  HMANN_ASSIGN_OR_RETURN(graph.parameters.m, ReadM(reader, graph.widths));
  HMANN_ASSIGN_OR_RETURN(graph.levels, TakeArrayOf(reader, n, sizeof(std::int32_t), "levels"));
  HMANN_ASSIGN_OR_RETURN(graph.offsets,
                         TakeArrayOf(reader, n + 1, sizeof(std::uint64_t), "offsets of neighbors"));
  HMANN_ASSIGN_OR_RETURN(graph.neighbors, TakeArray(reader, sizeof(NodeId), "neighbors"));
  std::uint64_t at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const auto entry_point, reader.Read<std::uint32_t>("entry point"));
  if (entry_point >= n)
    return reader.Corrupt(at, "entry point", absl::StrCat("below ", n), entry_point);
  at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(const auto max_level, reader.Read<std::uint32_t>("top level"));
  if (max_level >= graph.widths.count - 1) {
    return reader.Corrupt(at, "top level", absl::StrCat("below ", graph.widths.count - 1),
                          max_level);
  }
  at = reader.offset();
  HMANN_ASSIGN_OR_RETURN(graph.parameters.ef_construction,
                         reader.Read<std::uint32_t>("efConstruction"));
  HMANN_RETURN_IF_ERROR(CheckEfConstruction(reader, at, graph.parameters.ef_construction));
  HMANN_RETURN_IF_ERROR(reader.Take(2, sizeof(std::int32_t), "efSearch and beam").status());
  return graph;
}

/// Every node's room must match its levels and follow that of the node before. After this
/// check offsets can be trusted.
absl::Status CheckOffsets(const ImportReader& reader, const Graph& graph) {
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < graph.offsets.count; ++i) {
    const std::uint64_t at = graph.offsets.offset + i * sizeof(std::uint64_t);
    const auto found = graph.offsets.Get<std::uint64_t>(i);
    if (found != expected)
      return reader.Corrupt(at, absl::StrCat("offset of the neighbors of node ", i), expected,
                            found);
    if (i == graph.levels.count) break;
    const auto level = graph.levels.Get<std::int32_t>(i);
    if (level < 1 || static_cast<std::uint64_t>(level) >= graph.widths.count) {
      return reader.Corrupt(graph.levels.offset + i * sizeof(std::int32_t),
                            absl::StrCat("levels of node ", i),
                            absl::StrCat("1 to ", graph.widths.count - 1), level);
    }
    expected += static_cast<std::uint64_t>(graph.widths.Get<std::int32_t>(level));
  }
  if (expected == graph.neighbors.count) return absl::OkStatus();
  return reader.Corrupt(graph.neighbors.offset - sizeof(std::uint64_t), "count of neighbors",
                        expected, graph.neighbors.count);
}

/// Reads the level-0 list of `node` into `links`, checked.
absl::Status ReadLinks(const ImportReader& reader, const Graph& graph, NodeId node,
                       std::vector<NodeId>* links) {
  const auto first = graph.offsets.Get<std::uint64_t>(node);
  const std::uint64_t at = graph.neighbors.offset + first * sizeof(NodeId);
  links->clear();
  bool ended = false;
  for (std::uint32_t i = 0; i < 2 * graph.parameters.m; ++i) {
    const auto link = graph.neighbors.Get<NodeId>(first + i);
    if (link == kNoNode) {
      ended = true;
    } else if (ended) {
      return reader.Corrupt(at + i * sizeof(NodeId), absl::StrCat("link ", i, " of node ", node),
                            "-1 to the end of the list", link);
    } else {
      links->push_back(link);
    }
  }
  return CheckLinks(reader, at, node, *links, static_cast<NodeId>(graph.levels.count));
}

absl::StatusOr<ItemRun> ReadStorage(ImportReader& reader, const VectorFile& base, Metric metric) {
  HMANN_RETURN_IF_ERROR(ReadFourcc(reader, {"IxF2", "IxFI", "IxFl"}, "type of the storage (flat)"));
  HMANN_RETURN_IF_ERROR(ReadIndexHeader(reader, base, metric));
  HMANN_ASSIGN_OR_RETURN(const ItemRun vectors,
                         TakeArrayOf(reader, base.n() * base.dim(), sizeof(float), "components"));
  HMANN_RETURN_IF_ERROR(reader.ExpectEnd());
  return vectors;
}

}  // namespace

absl::StatusOr<ImportedGraph> ImportFaiss(const std::string& path, const VectorFile& base,
                                          Metric metric) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  file.Advise(MappedFile::Access::kSequential, 0, file.bytes().size());
  ImportReader reader(file);
  HMANN_ASSIGN_OR_RETURN(const Graph graph, ReadGraph(reader, base, metric));
  HMANN_RETURN_IF_ERROR(CheckOffsets(reader, graph));
  HMANN_ASSIGN_OR_RETURN(const ItemRun vectors, ReadStorage(reader, base, metric));

  HMANN_ASSIGN_OR_RETURN(ImportedGraph imported,
                         MakeUnlinked(static_cast<NodeId>(base.n()), graph.parameters));
  StoredVectorCheck check(base, metric, DType::kF32);
  const std::uint64_t vector_bytes = base.dim() * sizeof(float);
  std::vector<NodeId> links;
  for (std::uint64_t i = 0; i < base.n(); ++i) {
    HMANN_RETURN_IF_ERROR(
        check.Check(reader, i, vectors.data + i * vector_bytes, vectors.offset + i * vector_bytes));
    HMANN_RETURN_IF_ERROR(ReadLinks(reader, graph, static_cast<NodeId>(i), &links));
    std::copy(links.begin(), links.end(), imported.Links(i));
  }
  return imported;
}

absl::StatusOr<GraphParameters> ReadFaissParameters(const std::string& path, const VectorFile& base,
                                                    Metric metric) {
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  ImportReader reader(file);
  HMANN_ASSIGN_OR_RETURN(const Graph graph, ReadGraph(reader, base, metric));
  return graph.parameters;
}

}  // namespace hmann
