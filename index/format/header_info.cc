#include "index/codes/scalar_quantizer.h"
#include "index/format/header.h"
#include "index/format/label_order.h"
#include "index/graph/cells.h"

namespace hmann {
namespace {

std::vector<StructureBytes> BytesByStructure(const Header& header) {
  const Layers& layers = header.layers;
  const std::uint64_t n = layers.n(), n1 = layers.n1(), upper_links = layers.UpperLinkBytes();
  const std::uint64_t vector_bytes = header.dim * SizeOf(header.dtype);
  const bool has_norms = header.metric == Metric::kCosine && !IsFloat(header.dtype);
  const std::uint64_t l0_links = n * layers.MaxDegree(0) * sizeof(NodeId);
  const RecordLayout records = header.Records();
  std::vector<StructureBytes> lines = {
      {"upper_links", "fast", upper_links, upper_links},
      {"fast_vectors", "fast", n1 * vector_bytes, n1 * vector_bytes},
      {"l0_links", "slow", n * records.list_bytes, l0_links},
      {"slow_vectors", "slow", (n - n1) * vector_bytes, (n - n1) * vector_bytes},
      {"labels", "both", n * header.label_bytes, 0},
      {"norms", "both", has_norms ? n * sizeof(float) : 0, 0},
      {"header", "file", kHeaderBytes, 0},
  };
  if (header.codes.bits > 0) {
    const std::uint64_t codes = (n - n1) * header.codes.code_bytes;
    const std::uint64_t formula = (n - n1) * CodeBytes(header.dim, header.codes.bits);
    const std::uint64_t centroids = header.cell_count * sizeof(CellEntry) +
                                    (header.codes.replicas == 2 ? (n - n1) * sizeof(NodeId) : 0);
    lines.insert(lines.end() - 1, {{"codes", "fast", codes, formula},
                                   {"cells", "fast", centroids, 0},
                                   {"code_mean", "fast", header.dim * sizeof(float), 0}});
  }
  const std::uint64_t sorted = header.label_bytes == 8 ? n + LabelMarks(n) : 0;
  lines.insert(lines.end() - 1,
               {"label_order", "file", n * sizeof(NodeId) + sorted * sizeof(std::uint64_t), 0});
  if (header.scalar_bits > 0) {
    const std::uint64_t codes = n * ScalarCodeBytes(header.dim, header.scalar_bits);
    lines.insert(lines.end() - 1,
                 {"scalar_codes", "fast", codes + ScalarRangeSize(header.dim) * sizeof(float), 0});
  }
  std::uint64_t used = 0;
  for (const StructureBytes& line : lines) used += line.bytes;
  lines.insert(lines.end() - 1, {"padding", "file", header.file_bytes - used, 0});
  return lines;
}

}  // namespace

IndexInfo Header::Info() const {
  IndexInfo info;
  info.n = layers.n();
  info.dim = dim;
  info.dtype = dtype;
  info.metric = metric;
  info.m = layers.m;
  info.ef_construction = ef_construction;
  info.alpha = alpha;
  for (std::uint32_t layer = 0; layer <= layers.top(); ++layer) {
    info.layers.push_back({layers.nodes[layer], layers.MaxDegree(layer), mean_degree[layer]});
  }
  info.promote = static_cast<double>(layers.n1()) / static_cast<double>(layers.n());
  info.bytes = BytesByStructure(*this);
  info.content_hash = content_hash;
  info.seed = seed;
  info.version = Version();
  info.file_bytes = file_bytes;
  info.codes = codes;
  info.scalar_bits = scalar_bits;
  info.user_labels = label_bytes == 8;
  return info;
}

}  // namespace hmann
