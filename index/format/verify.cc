#include "index/format/verify.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/chunked_checksum.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/format/first_fault.h"
#include "index/format/label_order.h"
#include "index/format/link_list.h"
#include "index/format/reader.h"

namespace hmann {
namespace {

using Bytes = std::span<const std::byte>;

class Verifier {
 public:
  Verifier(const IndexFile& file, Progress& progress)
      : file_(file),
        layers_(file.layers()),
        records_(file.records()),
        progress_(progress),
        pool_(UsableCores()) {}

  absl::Status Run() {
    HMANN_RETURN_IF_ERROR(CheckChecksums());
    HMANN_RETURN_IF_ERROR(CheckGaps());
    for (std::uint32_t layer = layers_.top(); layer > 0; --layer)
      HMANN_RETURN_IF_ERROR(CheckLinks(layer));
    HMANN_RETURN_IF_ERROR(CheckLinks(0));
    HMANN_RETURN_IF_ERROR(CheckNodes());
    HMANN_RETURN_IF_ERROR(CheckLabelMarks());
    HMANN_RETURN_IF_ERROR(CheckCells());
    return CheckReachable();
  }

 private:
  static constexpr std::size_t kNodesPerStep = 4096;

  std::uint64_t OffsetOf(const std::byte* place) const {
    return static_cast<std::uint64_t>(place - file_.file().bytes().data());
  }

  /// Runs one pass over [0, n) on all threads with progress. Returns the first fault by
  /// file offset, if any.
  template <class Body>
  absl::Status ForEach(const char* phase, std::uint64_t n, std::size_t step, const char* unit,
                       const Body& body) {
    FirstFault fault;
    progress_.Start(absl::StrCat("verify ", phase), n, unit);
    pool_.ParallelFor(n, step, [&](std::size_t begin, std::size_t end, int) {
      body(begin, end, fault);
      progress_.Advance(end - begin);
    });
    progress_.Finish();
    return fault.ToStatus(file_.file().path());
  }

  absl::Status CheckChecksums() {
    for (const Section& section : file_.sections()) {
      const Bytes bytes = file_.Bytes(section);
      std::vector<std::uint64_t> digests(ChecksumChunks(bytes.size()));
      HMANN_RETURN_IF_ERROR(ForEach(
          "checksum", digests.size(), 1, "MiB", [&](std::size_t begin, std::size_t, FirstFault&) {
            const Bytes chunk = bytes.subspan(begin * kChecksumChunk);
            digests[begin] =
                Checksum(chunk.data(), std::min<std::size_t>(chunk.size(), kChecksumChunk));
          }));
      HMANN_RETURN_IF_ERROR(
          CompareChecksum({file_.file().path(), section.offset, Name(section), section.bytes},
                          section.checksum, ChunkedChecksum::Combine(digests)));
    }
    return absl::OkStatus();
  }

  /// Returns whether all bytes are zero. `what`: "between sections".
  bool CheckZero(Bytes bytes, const char* what, FirstFault& fault) const {
    const auto wrong =
        std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
    if (wrong == bytes.end()) return true;
    fault.Report(OffsetOf(&*wrong), absl::StrCat("padding ", what, ": expected 0; found ",
                                                 std::to_integer<int>(*wrong)));
    return false;
  }

  absl::Status CheckGaps() const {
    FirstFault fault;
    const Bytes all = file_.file().bytes();
    std::uint64_t end = kHeaderBytes;
    for (const Section& section : file_.sections()) {
      CheckZero(all.subspan(end, section.offset - end), "between sections", fault);
      end = section.offset + section.bytes;
    }
    CheckZero(all.subspan(end), "after the last section", fault);
    return fault.ToStatus(file_.file().path());
  }

  std::span<const NodeId> ListOf(std::uint32_t layer, NodeId id) const {
    const std::byte* place =
        layer == 0 ? file_.l0().data() + records_.Offset(id) + records_.LinksOffset(id)
                   : upper_.data() + std::size_t{id} * layers_.MaxDegree(layer) * sizeof(NodeId);
    return {reinterpret_cast<const NodeId*>(place), layers_.MaxDegree(layer)};
  }

  absl::Status CheckLinks(std::uint32_t layer) {
    if (layer > 0) upper_ = file_.upper_links(layer);
    std::atomic<std::uint64_t> link_count{0};
    const NodeId nodes = layers_.nodes[layer];
    HMANN_RETURN_IF_ERROR(ForEach(
        "links", nodes, kNodesPerStep, "lists",
        [&](std::size_t begin, std::size_t end, FirstFault& fault) {
          std::vector<NodeId> sorted;
          std::uint64_t count = 0;
          for (std::size_t id = begin; id < end; ++id) {
            const std::span<const NodeId> list = ListOf(layer, static_cast<NodeId>(id));
            const LinkFault wrong =
                CheckLinkList(list, static_cast<NodeId>(id), nodes, sorted, count);
            if (!wrong.ok()) {
              const auto* place = reinterpret_cast<const std::byte*>(&list[wrong.position]);
              fault.Report(
                  OffsetOf(place),
                  absl::StrCat("layer ", layer, ", node ", id, ", link ", wrong.position,
                               ": expected ", wrong.expected, "; found ", list[wrong.position]));
            }
          }
          link_count += count;
        }));
    const double mean = static_cast<double>(link_count.load()) / static_cast<double>(nodes);
    if (mean == file_.info().layers[layer].mean_degree) return absl::OkStatus();
    return DataLoss(file_.file().path(), ": header: mean degree of layer ", layer, ": expected ",
                    mean, "; found ", file_.info().layers[layer].mean_degree);
  }

  /// Checks vectors, labels and padding of every node; if labels are row numbers, also
  /// their order.
  absl::Status CheckNodes() {
    const bool user_labels = file_.info().user_labels;
    std::vector<std::atomic<std::uint64_t>> seen(user_labels ? 0 : layers_.n() / 64 + 1);
    if (user_labels && !file_.label_order().empty()) labels_.resize(layers_.n());
    FirstFault in_order;
    HMANN_RETURN_IF_ERROR(ForEach("vectors", layers_.n(), kNodesPerStep, "vectors",
                                  [&](std::size_t begin, std::size_t end, FirstFault& fault) {
                                    for (std::size_t i = begin; i < end; ++i) {
                                      const auto id = static_cast<NodeId>(i);
                                      const Bytes label = id < layers_.n1()
                                                              ? CheckPromoted(id, fault)
                                                              : CheckFullRecord(id, fault);
                                      if (!labels_.empty())
                                        std::memcpy(&labels_[id], label.data(), label.size());
                                      if (!user_labels && CheckRowNumber(id, label, seen, fault))
                                        CheckPlace(id, in_order);
                                    }
                                  }));
    return in_order.ToStatus(file_.file().path());
  }

  /// Checks that the row number of `id` leads back to it.
  void CheckPlace(NodeId id, FirstFault& fault) const {
    const std::span<const NodeId> order = file_.label_order();
    const std::uint64_t row = file_.Label(id);
    if (order.empty() || order[row] == id) return;
    fault.Report(OffsetOf(reinterpret_cast<const std::byte*>(&order[row])),
                 absl::StrCat("order of labels: expected node ", id, ", of label ", row, "; found ",
                              order[row]));
  }

  /// Checks the order of the user labels.
  absl::Status CheckLabelMarks() {
    FirstFault fault;
    LabelOrderFault wrong;
    const std::span<const NodeId> order = file_.label_order();
    const std::span<const std::uint64_t> marks = file_.label_marks();
    if (labels_.empty() || CheckLabelOrder(labels_, order, marks, &wrong)) return absl::OkStatus();
    if (wrong.in_marks) {
      fault.Report(OffsetOf(reinterpret_cast<const std::byte*>(&marks[wrong.place])),
                   absl::StrCat("mark ", wrong.place, " of the labels: expected ",
                                labels_[order[wrong.place * kLabelsPerMark]], "; found ",
                                marks[wrong.place]));
    } else {
      fault.Report(OffsetOf(reinterpret_cast<const std::byte*>(&order[wrong.place])),
                   absl::StrCat("order of labels, entry ", wrong.place,
                                ": expected a node whose label and id come after those of the "
                                "entry before; found ",
                                order[wrong.place]));
    }
    return fault.ToStatus(file_.file().path());
  }

  /// Checks the row and padding of a promoted node, and the padding of its link record.
  /// Returns its label.
  Bytes CheckPromoted(NodeId id, FirstFault& fault) const {
    const Bytes row =
        file_.fast_rows().subspan(id * file_.fast_row_stride(), file_.fast_row_stride());
    CheckRow(id, row.first(records_.row_bytes), fault);
    CheckZero(row.subspan(records_.row_bytes), "after a vector", fault);
    CheckZero(Slot(id).subspan(records_.LinksEnd(id)), "after a link record", fault);
    return file_.fast_labels().subspan(std::size_t{id} * records_.label_bytes,
                                       records_.label_bytes);
  }

  Bytes CheckFullRecord(NodeId id, FirstFault& fault) const {
    const Bytes slot = Slot(id);
    const std::size_t links_end = records_.LinksEnd(id);
    CheckRow(id, slot.subspan(records_.row_offset, records_.row_bytes), fault);
    CheckZero(slot.subspan(records_.row_bytes, records_.links_offset - records_.row_bytes),
              "in a record", fault);
    CheckZero(slot.subspan(links_end, records_.label_offset - links_end), "in a record", fault);
    CheckZero(slot.subspan(records_.label_offset + records_.label_bytes), "after a record", fault);
    return slot.subspan(records_.label_offset, records_.label_bytes);
  }

  /// A record and all bytes up to the next one.
  Bytes Slot(NodeId id) const {
    const std::uint64_t begin = records_.Offset(id);
    const std::uint64_t end =
        id + std::uint64_t{1} < records_.n ? records_.Offset(id + 1) : records_.TotalBytes();
    return file_.l0().subspan(begin, end - begin);
  }

  void CheckRow(NodeId id, Bytes row, FirstFault& fault) const {
    const IndexInfo& info = file_.info();
    const auto report = [&](std::size_t at, const char* what, float found) {
      fault.Report(OffsetOf(&row[at]),
                   absl::StrCat("vector of node ", id, ": expected ", what, "; found ", found));
    };
    float x;
    if (IsFloat(info.dtype)) {
      for (std::size_t at = 0; at < row.size(); at += SizeOf(info.dtype)) {
        ReadComponents(info.dtype, &row[at], 1, &x);
        if (!std::isfinite(x)) return report(at, "a finite number", x);
      }
    } else if (info.metric == Metric::kCosine) {
      const std::size_t at = row.size() - sizeof(x);
      CheckZero(row.subspan(info.dim, at - info.dim), "between a vector and its norm", fault);
      std::memcpy(&x, &row[at], sizeof(x));
      if (!(x > 0) || !std::isfinite(x)) report(at, "a finite 1/|v| above 0", x);
    }
  }

  bool CheckRowNumber(NodeId id, Bytes place, std::vector<std::atomic<std::uint64_t>>& seen,
                      FirstFault& fault) const {
    std::uint32_t label;
    std::memcpy(&label, place.data(), sizeof(label));
    if (label >= layers_.n()) {
      fault.Report(OffsetOf(place.data()),
                   absl::StrCat("label of node ", id, ": expected a row number below ", layers_.n(),
                                "; found ", label));
      return false;
    }
    if ((seen[label / 64].fetch_or(std::uint64_t{1} << label % 64) >> label % 64 & 1) != 0) {
      fault.Report(OffsetOf(place.data()),
                   absl::StrCat("label of node ", id, ": expected a row number of its own; found ",
                                label, " again"));
      return false;
    }
    return true;
  }

  absl::Status CheckCells() const {
    FirstFault fault;
    const std::span<const CellEntry> cells = file_.cells();
    const NodeId n = layers_.n(), n1 = layers_.n1();
    const CodeInfo& codes = file_.info().codes;
    if (codes.bits == 0) return absl::OkStatus();
    if (const std::int64_t wrong = CellFault(n, n1, cells); wrong >= 0) {
      const auto at = std::min(static_cast<std::size_t>(wrong), cells.size() - 1);
      fault.Report(
          OffsetOf(reinterpret_cast<const std::byte*>(&cells[at])),
          absl::StrCat("cell ", wrong, ": expected a centroid below ", n1,
                       " of its own and a first node that ascends from ", n1, "; found centroid ",
                       cells[at].centroid, ", first ", cells[at].first));
    }
    for (const NodeId& centroid : file_.second_centroids()) {
      if (centroid < n1) continue;
      fault.Report(OffsetOf(reinterpret_cast<const std::byte*>(&centroid)),
                   absl::StrCat("second centroid: expected less than ", n1, "; found ", centroid));
      break;
    }
    for (const float& mean : file_.code_mean()) {
      if (!std::isfinite(mean))
        fault.Report(OffsetOf(reinterpret_cast<const std::byte*>(&mean)),
                     absl::StrCat("mean: expected a finite number; found ", mean));
    }
    return fault.ToStatus(file_.file().path());
  }

  /// Breadth-first search over L0. The lists were checked before, so every link is in
  /// range.
  absl::Status CheckReachable() {
    const NodeId n = layers_.n();
    std::vector<bool> reached(n);
    std::vector<NodeId> frontier = {0}, next;
    reached[0] = true;
    std::uint64_t count = 0;
    progress_.Start("verify reach", n, "nodes");
    while (!frontier.empty()) {
      count += frontier.size();
      progress_.Advance(frontier.size());
      next.clear();
      for (const NodeId node : frontier) {
        for (const NodeId link : ListOf(0, node)) {
          if (link == kNoNode) break;
          if (reached[link]) continue;
          reached[link] = true;
          next.push_back(link);
        }
      }
      frontier.swap(next);
    }
    progress_.Finish();
    if (count == n) return absl::OkStatus();
    const auto first =
        static_cast<NodeId>(std::find(reached.begin(), reached.end(), false) - reached.begin());
    return DataLoss(file_.file().path(), ": offset ",
                    OffsetOf(file_.l0().data() + records_.Offset(first)),
                    ": section l0: expected all ", n, " nodes to be reachable from node 0; found ",
                    n - count, " that are not, the first of them node ", first);
  }

  const IndexFile& file_;
  const Layers& layers_;
  const RecordLayout& records_;
  Progress& progress_;
  ThreadPool pool_;
  Bytes upper_;                        ///< links of the upper layer that is being checked
  std::vector<std::uint64_t> labels_;  ///< user labels by id, if they have an order
};

}  // namespace

absl::Status VerifyIndex(const std::string& path, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const IndexFile file, IndexFile::Open(path));
  file.file().Advise(MappedFile::Access::kSequential, 0, file.file().bytes().size());
  return Verifier(file, progress).Run();
}

}  // namespace hmann
