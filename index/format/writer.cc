#include "index/format/writer.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/format/header.h"
#include "index/format/label_order.h"
#include "index/format/reader.h"
#include "index/format/scalar_codes.h"
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

/// Writes `order`: ids by label.
absl::Status WriteLabelOrder(const IndexContents& contents, const Ticker& ticker,
                             std::vector<NodeId>& order, SectionWriter& out) {
  const NodeId n = contents.layers.n();
  const auto check = [&ticker] { return ticker.CheckCancelled(); };
  HMANN_ASSIGN_OR_RETURN(order, contents.user_labels ? OrderByLabel(n, contents.label, check)
                                                     : OrderByRow(n, contents.label, check));
  return WriteArray(order, out);
}

absl::Status WriteSortedLabels(const IndexContents& contents, const Ticker& ticker,
                               const std::vector<NodeId>& order, SectionWriter& out) {
  std::vector<std::uint64_t> marks;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t label = contents.label(order[i]);
    if (i % kLabelsPerMark == 0) {
      marks.push_back(label);
      HMANN_RETURN_IF_ERROR(ticker.CheckCancelled());
    }
    HMANN_RETURN_IF_ERROR(out.Append(&label, sizeof(label)));
  }
  return WriteArray(marks, out);
}

absl::Status WriteL0(const IndexContents& contents, const RecordLayout& layout, NodeEncoder& nodes,
                     Ticker& ticker, SectionWriter& out) {
  std::vector<NodeId> links(layout.max_links);
  std::vector<std::byte> unit;
  std::uint64_t begin = 0;
  const auto write = [&] {
    const absl::Status status =
        unit.empty() ? absl::OkStatus() : out.AppendZeros(begin - out.bytes());
    return status.ok() ? out.Append(unit.data(), unit.size()) : status;
  };
  for (NodeId id = 0; id < contents.layers.n(); ++id) {
    HMANN_RETURN_IF_ERROR(ticker.Tick(id));
    const bool full = id >= layout.n1;
    const std::byte* row = full ? contents.row(id) : nullptr;
    if (full && row == nullptr) continue;  // the next record, or the end, leaves the hole
    const std::uint64_t place = layout.ExtentOf(layout.UnitOf(id)).begin;
    if (unit.empty() || place != begin) {
      HMANN_RETURN_IF_ERROR(write());
      begin = place;
      unit.assign(layout.UnitBytes(full), std::byte{0});
    }
    std::byte* const record = unit.data() + (layout.Offset(id) - begin);
    if (full) std::memcpy(record, row, layout.row_bytes);
    HMANN_RETURN_IF_ERROR(nodes.PutLinks(0, id, reinterpret_cast<std::byte*>(links.data())));
    layout.Pack(links.data(), record + layout.LinksOffset(id));
    if (full) nodes.PutLabel(id, record + layout.LabelOffset(id));
  }
  HMANN_RETURN_IF_ERROR(write());
  return out.AppendZeros(layout.TotalBytes() - out.bytes());
}

absl::Status WriteSection(const Section& section, const IndexContents& contents,
                          const Header& header, NodeEncoder& nodes, Ticker& ticker,
                          std::vector<NodeId>& label_order, SectionWriter& out) {
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
      return WriteLabelOrder(contents, ticker, label_order, out);
    case SectionKind::kSortedLabels:
      return WriteSortedLabels(contents, ticker, label_order, out);
    case SectionKind::kL0:
      return WriteL0(contents, header.Records(), nodes, ticker, out);
    case SectionKind::kScalarRange:
    case SectionKind::kScalarCodes:
      break;
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

/// Appends the sections of scalar codes, if any pay, to a file that is complete without
/// them.
absl::Status AddScalarCodes(const IndexContents& contents, Header& header, Progress& progress,
                            const Ticker& ticker, AtomicFile& file) {
  HMANN_ASSIGN_OR_RETURN(const std::string written, file.Written());
  HMANN_ASSIGN_OR_RETURN(const IndexFile index, IndexFile::Open(written));
  std::optional<ScalarQuantizer> codes;
  const auto row = [&](NodeId id) { return index.Row(id); };
  if (contents.choose_scalar) {
    HMANN_ASSIGN_OR_RETURN(codes, ChooseScalarCodes(index));
  } else {
    HMANN_ASSIGN_OR_RETURN(const Kernels kernels,
                           ChooseKernels(header.dtype, header.metric, header.dim));
    HMANN_ASSIGN_OR_RETURN(codes,
                           LearnScalarCodes(kernels, contents.scalar_bits, header.layers.n(), row));
  }
  if (!codes.has_value()) return absl::OkStatus();
  header.scalar_bits = codes->bits();
  const std::vector<Section> planned = PlanSections(header);
  header.sections.insert(header.sections.end(), planned.end() - 2, planned.end());
  const std::size_t n = header.layers.n(), bytes = codes->code_bytes();
  progress.Start("scalar codes", n, "vectors");
  SectionWriter range(file);
  HMANN_RETURN_IF_ERROR(WriteArray(codes->range(), range));
  HMANN_RETURN_IF_ERROR(range.Finish(kBlockBytes));
  header.sections.end()[-2].checksum = range.checksum();
  SectionWriter out(file);
  constexpr std::size_t kAtOnce = 1 << 16;
  std::vector<std::byte> buffer(std::min(n, kAtOnce) * bytes);
  ThreadPool pool(UsableCores());
  for (std::size_t first = 0; first < n; first += kAtOnce) {
    HMANN_RETURN_IF_ERROR(ticker.CheckCancelled());
    const std::size_t count = std::min(kAtOnce, n - first);
    pool.ParallelFor(count, 4096, [&](std::size_t begin, std::size_t end, int) {
      ScalarQuantizer::Scratch scratch;
      for (std::size_t i = begin; i < end; ++i)
        codes->Encode(row(static_cast<NodeId>(first + i)), buffer.data() + i * bytes, scratch);
    });
    progress.Advance(count);
    HMANN_RETURN_IF_ERROR(out.Append(buffer.data(), count * bytes));
  }
  HMANN_RETURN_IF_ERROR(out.Finish(kBlockBytes));
  header.sections.back().checksum = out.checksum();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::byte>> WriteHeader(Header& header, AtomicFile& file) {
  header.file_bytes = file.size();
  std::vector<std::byte> bytes = EncodeHeader(header);
  HMANN_RETURN_IF_ERROR(file.WriteAt(0, bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace

absl::StatusOr<IndexInfo> WriteIndex(const std::string& path, const IndexContents& contents,
                                     Progress& progress, const std::atomic<bool>* cancelled) {
  Header header;
  static_cast<IndexMetadata&>(header) = contents;
  header.mean_degree.resize(contents.layers.nodes.size());
  header.label_bytes = contents.user_labels ? 8 : 4;
  header.cell_count = static_cast<std::uint32_t>(contents.cells.size());
  header.scalar_bits = 0;  // until the rest is there
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
  std::vector<NodeId> label_order;
  for (Section& section : header.sections) {
    HMANN_RETURN_IF_ERROR(ticker.CheckCancelled());
    SectionWriter out(file);
    HMANN_RETURN_IF_ERROR(WriteSection(section, contents, header, nodes, ticker, label_order, out));
    HMANN_RETURN_IF_ERROR(out.Finish(kBlockBytes));
    section.checksum = out.checksum();
  }
  for (std::uint32_t layer = 0; layer <= header.layers.top(); ++layer)
    header.mean_degree[layer] = nodes.MeanDegree(layer);
  progress.Finish();
  HMANN_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, WriteHeader(header, file));
  if (contents.choose_scalar || contents.scalar_bits > 0) {
    HMANN_RETURN_IF_ERROR(AddScalarCodes(contents, header, progress, ticker, file));
    HMANN_ASSIGN_OR_RETURN(bytes, WriteHeader(header, file));
  }
  HMANN_RETURN_IF_ERROR(file.Commit());
  HMANN_ASSIGN_OR_RETURN(const Header written, DecodeHeader(path, bytes, header.file_bytes));
  return written.Info();
}

}  // namespace hmann
