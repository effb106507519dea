#include "index/format/writer.h"

#include <cstring>
#include <vector>

#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/format/header.h"
#include "index/format/label_order.h"
#include "index/format/section_writer.h"

namespace hmann {
namespace {

/// Copies nodes from IndexContents into record buffers, checks them, and counts links.
class NodeEncoder {
 public:
  NodeEncoder(const IndexContents& contents, std::uint32_t label_bytes)
      : contents_(contents), label_bytes_(label_bytes), link_count_(contents.layers.nodes.size()) {}

  /// Writes MaxDegree(layer) x u32 to `place`, the unused end filled with kNoNode.
  absl::Status PutLinks(std::uint32_t layer, NodeId id, std::byte* place) {
    const std::span<const NodeId> links = contents_.links(layer, id);
    const std::uint32_t most = contents_.layers.MaxDegree(layer);
    if (links.size() > most) {
      return InvalidArgument("node ", id, ": expected at most ", most, " links in layer ", layer,
                             "; found ", links.size());
    }
    if (!links.empty()) std::memcpy(place, links.data(), links.size_bytes());
    std::memset(place + links.size_bytes(), 0xff, (most - links.size()) * sizeof(NodeId));
    link_count_[layer] += links.size();
    return absl::OkStatus();
  }

  void PutLabel(NodeId id, std::byte* place) const {
    const std::uint64_t label = contents_.label(id);
    std::memcpy(place, &label, label_bytes_);
  }

  double MeanDegree(std::uint32_t layer) const {
    return static_cast<double>(link_count_[layer]) /
           static_cast<double>(contents_.layers.nodes[layer]);
  }

 private:
  const IndexContents& contents_;
  std::uint32_t label_bytes_;
  std::vector<std::uint64_t> link_count_;
};

/// Steps the progress line and checks for cancellation.
class Ticker {
 public:
  Ticker(Progress& progress, const std::atomic<bool>* cancelled)
      : progress_(progress), cancelled_(cancelled) {}

  absl::Status Tick(NodeId id) {
    if (id % kStep != 0 || id == 0) return absl::OkStatus();
    progress_.Advance(kStep);
    return CheckCancelled();
  }
  absl::Status CheckCancelled() const {
    if (cancelled_ == nullptr || !cancelled_->load(std::memory_order_relaxed))
      return absl::OkStatus();
    return absl::CancelledError("writing the index was cancelled");
  }

 private:
  static constexpr NodeId kStep = 4096;
  Progress& progress_;
  const std::atomic<bool>* cancelled_;
};

absl::Status WriteUpperLinks(std::uint32_t layer, const Layers& layers, NodeEncoder& nodes,
                             Ticker& ticker, SectionWriter& out) {
  std::vector<std::byte> list(layers.MaxDegree(layer) * sizeof(NodeId));
  for (NodeId id = 0; id < layers.nodes[layer]; ++id) {
    HMANN_RETURN_IF_ERROR(nodes.PutLinks(layer, id, list.data()));
    HMANN_RETURN_IF_ERROR(out.Append(list.data(), list.size()));
    HMANN_RETURN_IF_ERROR(ticker.Tick(id));
  }
  return absl::OkStatus();
}

absl::Status WriteFastRows(const IndexContents& contents, Ticker& ticker, SectionWriter& out) {
  std::vector<std::byte> row(FastRowStride(contents.row_bytes));
  for (NodeId id = 0; id < contents.layers.n1(); ++id) {
    const std::byte* stored = contents.row(id);
    if (stored == nullptr)
      return InvalidArgument("node ", id, ": a promoted node without a vector");
    std::memcpy(row.data(), stored, contents.row_bytes);
    HMANN_RETURN_IF_ERROR(out.Append(row.data(), row.size()));
    HMANN_RETURN_IF_ERROR(ticker.Tick(id));
  }
  return absl::OkStatus();
}

absl::Status WriteFastLabels(NodeId n1, std::uint32_t label_bytes, NodeEncoder& nodes,
                             SectionWriter& out) {
  std::byte label[sizeof(std::uint64_t)];
  for (NodeId id = 0; id < n1; ++id) {
    nodes.PutLabel(id, label);
    HMANN_RETURN_IF_ERROR(out.Append(label, label_bytes));
  }
  return absl::OkStatus();
}

absl::Status WriteCodes(const IndexContents& contents, Ticker& ticker, SectionWriter& out) {
  for (NodeId id = contents.layers.n1(); id < contents.layers.n(); ++id) {
    HMANN_RETURN_IF_ERROR(out.Append(contents.code(id), contents.codes.code_bytes));
    HMANN_RETURN_IF_ERROR(ticker.Tick(id));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status WriteArray(const std::vector<T>& values, SectionWriter& out) {
  return out.Append(values.data(), values.size() * sizeof(T));
}

/// Writes ids by label; sets `marks` to the content of label_marks.
absl::Status WriteLabelOrder(const IndexContents& contents, const Ticker& ticker,
                             std::vector<std::uint64_t>& marks, SectionWriter& out) {
  const NodeId n = contents.layers.n();
  const auto check = [&ticker] { return ticker.CheckCancelled(); };
  HMANN_ASSIGN_OR_RETURN(const std::vector<NodeId> order,
                         contents.user_labels ? OrderByLabel(n, contents.label, check)
                                              : OrderByRow(n, contents.label, check));
  for (NodeId i = 0; contents.user_labels && i < n; i += kLabelsPerMark)
    marks.push_back(contents.label(order[i]));
  return WriteArray(order, out);
}

absl::Status WriteL0(const IndexContents& contents, const RecordLayout& layout, NodeEncoder& nodes,
                     Ticker& ticker, SectionWriter& out) {
  std::vector<std::byte> link_record(layout.regions[0].record_bytes),
      full_record(layout.regions[1].record_bytes);
  for (NodeId id = 0; id < contents.layers.n(); ++id) {
    HMANN_RETURN_IF_ERROR(ticker.Tick(id));
    const bool full = id >= layout.n1;
    const std::byte* row = full ? contents.row(id) : nullptr;
    if (full && row == nullptr) continue;  // the next record, or the end, leaves the hole
    std::vector<std::byte>& record = full ? full_record : link_record;
    HMANN_RETURN_IF_ERROR(nodes.PutLinks(0, id, record.data() + layout.LinksOffset(id)));
    if (full) {
      std::memcpy(record.data() + layout.row_offset, row, layout.row_bytes);
      nodes.PutLabel(id, record.data() + layout.label_offset);
    }
    HMANN_RETURN_IF_ERROR(out.AppendZeros(layout.Offset(id) - out.bytes()));
    HMANN_RETURN_IF_ERROR(out.Append(record.data(), record.size()));
  }
  return out.AppendZeros(layout.TotalBytes() - out.bytes());
}

absl::Status WriteSection(const Section& section, const IndexContents& contents,
                          const Header& header, NodeEncoder& nodes, Ticker& ticker,
                          std::vector<std::uint64_t>& marks, SectionWriter& out) {
  switch (section.kind) {
    case SectionKind::kUpperLinks:
      return WriteUpperLinks(section.layer, contents.layers, nodes, ticker, out);
    case SectionKind::kFastRows:
      return WriteFastRows(contents, ticker, out);
    case SectionKind::kFastLabels:
      return WriteFastLabels(contents.layers.n1(), header.label_bytes, nodes, out);
    case SectionKind::kCells:
      return WriteArray(contents.cells, out);
    case SectionKind::kSecondCentroids:
      return WriteArray(contents.second_centroids, out);
    case SectionKind::kCodeMean:
      return WriteArray(contents.code_mean, out);
    case SectionKind::kCodes:
      return WriteCodes(contents, ticker, out);
    case SectionKind::kLabelOrder:
      return WriteLabelOrder(contents, ticker, marks, out);
    case SectionKind::kLabelMarks:
      return WriteArray(marks, out);
    case SectionKind::kL0:
      return WriteL0(contents, header.Records(), nodes, ticker, out);
  }
  return Internal("a section of no kind was planned");
}

absl::Status CheckCodes(const IndexContents& contents) {
  if (contents.codes.bits == 0) return absl::OkStatus();
  if (contents.code_mean.size() != contents.dim)
    return InvalidArgument("codes: expected a mean for each dimension");
  const NodeId n = contents.layers.n(), n1 = contents.layers.n1();
  const std::size_t seconds = contents.codes.replicas == 2 ? n - n1 : 0;
  if (CellFault(n, n1, contents.cells) >= 0)
    return InvalidArgument("cells: expected ranges that ascend and a centroid each");
  if (contents.second_centroids.size() != seconds)
    return InvalidArgument("codes: expected a second centroid for each node");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IndexInfo> WriteIndex(const std::string& path, const IndexContents& contents,
                                     Progress& progress, const std::atomic<bool>* cancelled) {
  Header header;
  static_cast<IndexMetadata&>(header) = contents;
  header.mean_degree.resize(contents.layers.nodes.size());
  header.label_bytes = contents.user_labels ? 8 : 4;
  header.cell_count = static_cast<std::uint32_t>(contents.cells.size());
  HMANN_RETURN_IF_ERROR(CheckMetadata(header));
  HMANN_RETURN_IF_ERROR(CheckCodes(contents));
  header.sections = PlanSections(header);

  const NodeId n1 = header.layers.n1();
  std::uint64_t steps = n1 + (header.codes.bits > 0 ? header.layers.n() - n1 : 0);
  for (const NodeId nodes : header.layers.nodes) steps += nodes;
  progress.Start("write", steps, "records");
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  const std::vector<std::byte> blank(kHeaderBytes);
  HMANN_RETURN_IF_ERROR(file.Append(blank.data(), blank.size()));
  NodeEncoder nodes(contents, header.label_bytes);
  Ticker ticker(progress, cancelled);
  std::vector<std::uint64_t> marks;
  for (Section& section : header.sections) {
    HMANN_RETURN_IF_ERROR(ticker.CheckCancelled());
    SectionWriter out(file);
    HMANN_RETURN_IF_ERROR(WriteSection(section, contents, header, nodes, ticker, marks, out));
    HMANN_RETURN_IF_ERROR(out.Finish(kBlockBytes));
    section.checksum = out.checksum();
  }
  for (std::uint32_t layer = 0; layer <= header.layers.top(); ++layer)
    header.mean_degree[layer] = nodes.MeanDegree(layer);
  header.file_bytes = file.size();
  const std::vector<std::byte> bytes = EncodeHeader(header);
  HMANN_RETURN_IF_ERROR(file.WriteAt(0, bytes.data(), bytes.size()));
  HMANN_RETURN_IF_ERROR(file.Commit());
  progress.Finish();
  HMANN_ASSIGN_OR_RETURN(const Header written, DecodeHeader(path, bytes, header.file_bytes));
  return written.Info();
}

}  // namespace hmann
