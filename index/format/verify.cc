#include "index/format/verify.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/chunked_checksum.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/codes/scalar_quantizer.h"
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
    HMANN_RETURN_IF_ERROR(RunLists());
    HMANN_RETURN_IF_ERROR(CheckNodes());
    HMANN_RETURN_IF_ERROR(CheckSortedLabels());
    HMANN_RETURN_IF_ERROR(CheckCells());
    HMANN_RETURN_IF_ERROR(CheckScalarCodes());
    return CheckReachable();
  }

  absl::Status RunLists() {
    HMANN_RETURN_IF_ERROR(CheckChecksums());
    HMANN_RETURN_IF_ERROR(CheckGaps());
    for (std::uint32_t layer = layers_.top(); layer > 0; --layer)
      HMANN_RETURN_IF_ERROR(CheckLinks(layer));
    return CheckLinks(0);
  }

 private:
  static constexpr std::size_t kNodesPerStep = 4096;

  std::uint64_t OffsetOf(const void* place) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(place) -
                                      file_.file().bytes().data());
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

  /// The list and its first byte. `scratch` has room for those of L0.
  std::pair<std::span<const NodeId>, const std::byte*> ListOf(std::uint32_t layer, NodeId id,
                                                              NodeId* scratch) const {
    const std::size_t most = layers_.MaxDegree(layer);
    if (layer > 0) {
      const std::byte* place = upper_.data() + std::size_t{id} * most * sizeof(NodeId);
      return {{reinterpret_cast<const NodeId*>(place), most}, place};
    }
    const std::byte* place = file_.l0().data() + records_.Offset(id) + records_.LinksOffset(id);
    records_.UnpackPadded(place, scratch);
    return {{scratch, most}, place};
  }

  absl::Status CheckLinks(std::uint32_t layer) {
    if (layer > 0) upper_ = file_.upper_links(layer);
    std::atomic<std::uint64_t> link_count{0};
    const NodeId nodes = layers_.nodes[layer];
    HMANN_RETURN_IF_ERROR(ForEach(
        "links", nodes, kNodesPerStep, "lists",
        [&](std::size_t begin, std::size_t end, FirstFault& fault) {
          std::vector<NodeId> sorted, scratch(records_.max_links);
          std::uint64_t count = 0;
          for (std::size_t id = begin; id < end; ++id) {
            const auto [list, first] = ListOf(layer, static_cast<NodeId>(id), scratch.data());
            const LinkFault wrong =
                CheckLinkList(list, static_cast<NodeId>(id), nodes, sorted, count);
            if (!wrong.ok()) {
              const std::uint32_t bits = layer > 0 ? 32 : records_.link_bits;
              fault.Report(
                  OffsetOf(first + wrong.position * bits / 8),
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
    if (user_labels) labels_.resize(layers_.n());
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
    fault.Report(OffsetOf(&order[row]), absl::StrCat("order of labels: expected node ", id,
                                                     ", of label ", row, "; found ", order[row]));
  }

  /// Checks the order of the user labels.
  absl::Status CheckSortedLabels() {
    FirstFault fault;
    LabelOrderFault wrong;
    const std::span<const NodeId> order = file_.label_order();
    const std::span<const std::uint64_t> sorted = file_.sorted_labels();
    if (labels_.empty() || CheckLabelOrder(labels_, order, sorted, &wrong)) return absl::OkStatus();
    fault.Report(wrong.in_sorted ? OffsetOf(&sorted[wrong.place]) : OffsetOf(&order[wrong.place]),
                 wrong.in_sorted
                     ? absl::StrCat("sorted labels, entry ", wrong.place, ": expected ",
                                    wrong.expected, "; found ", sorted[wrong.place])
                     : absl::StrCat("order of labels, entry ", wrong.place,
                                    ": expected a node whose label "
                                    "and id come after those of the entry before; found ",
                                    order[wrong.place]));
    return fault.ToStatus(file_.file().path());
  }

  /// Checks that scalar codes are those of the vectors.
  absl::Status CheckScalarCodes() {
    const IndexInfo& info = file_.info();
    if (info.scalar_bits == 0) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(const Kernels kernels, ChooseKernels(info.dtype, info.metric, info.dim));
    const auto quantizer =
        ScalarQuantizer::FromRange(kernels, info.scalar_bits, file_.scalar_range());
    if (!quantizer.ok()) {
      return DataLoss(file_.file().path(), ": offset ", OffsetOf(file_.scalar_range().data()),
                      ": scalar range: ", quantizer.status().message());
    }
    const std::size_t bytes = quantizer->code_bytes();
    return ForEach(
        "scalar codes", layers_.n(), kNodesPerStep, "vectors",
        [&](std::size_t begin, std::size_t end, FirstFault& fault) {
          ScalarQuantizer::Scratch scratch;
          std::vector<std::byte> expected(bytes);
          for (std::size_t id = begin; id < end; ++id) {
            const std::byte* code = file_.scalar_codes().data() + id * bytes;
            quantizer->Encode(file_.Row(static_cast<NodeId>(id)), expected.data(), scratch);
            if (std::equal(expected.begin(), expected.end(), code)) continue;
            fault.Report(OffsetOf(code),
                         absl::StrCat("scalar code of node ", id, ": not that of its vector"));
          }
        });
  }

  /// Checks the row and padding of a promoted node, and the padding of its link record.
  /// Returns its label.
  Bytes CheckPromoted(NodeId id, FirstFault& fault) const {
    const Bytes row =
        file_.fast_rows().subspan(id * file_.fast_row_stride(), file_.fast_row_stride());
    CheckRow(id, row.first(records_.row_bytes), fault);
    CheckZero(row.subspan(records_.row_bytes), "after a vector", fault);
    CheckPadding(id, fault);
    return file_.fast_labels().subspan(std::size_t{id} * records_.label_bytes,
                                       records_.label_bytes);
  }

  Bytes CheckFullRecord(NodeId id, FirstFault& fault) const {
    const Bytes record = file_.l0().subspan(records_.Offset(id));
    CheckRow(id, record.first(records_.row_bytes), fault);
    CheckPadding(id, fault);
    return record.subspan(records_.LabelOffset(id), records_.label_bytes);
  }

  /// Checks what lies between the parts of a record and, of the last one of a unit, all
  /// that no record uses; of the last one of a region, up to the region's end.
  void CheckPadding(NodeId id, FirstFault& fault) const {
    const bool full = id >= records_.n1;
    const RecordLayout::Region& region = records_.regions[full];
    const auto [begin, bytes] = records_.ExtentOf(records_.UnitOf(id));
    const bool last_of_region = id + std::uint64_t{1} == (full ? records_.n : records_.n1);
    const std::uint64_t end = !last_of_region ? begin + bytes
                              : full          ? records_.TotalBytes()
                                              : records_.regions[1].begin;
    const Bytes unit = file_.l0().subspan(begin, end - begin);
    const auto zero = [&](std::uint64_t from, std::uint64_t to, const char* what) {
      CheckZero(unit.subspan(from, to - from), what, fault);
    };
    const std::uint64_t row = records_.Offset(id) - begin, tail = row + records_.LinksOffset(id),
                        tails = region.tails.begin - region.begin,
                        row_end = full ? row + RoundUp(records_.row_bytes, sizeof(float)) : tails;
    if (full) zero(row + records_.row_bytes, row_end, "after a vector");
    const std::uint32_t used = records_.max_links * records_.link_bits % 8;
    const std::byte* last = &unit[tail + records_.list_bytes - 1];
    if (used > 0 && std::to_integer<unsigned>(*last) >> used != 0)
      fault.Report(OffsetOf(last), "padding after a list: expected 0 bits");
    if (records_.SlotOf(id) + 1 < region.per_unit && !last_of_region) return;
    zero(row_end, tails, "of unused rows");
    zero(tail + records_.list_bytes + (full ? records_.label_bytes : 0), unit.size(),
         "after the last record of a unit");
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
          OffsetOf(&cells[at]),
          absl::StrCat("cell ", wrong, ": expected a centroid below ", n1,
                       " of its own and a first node that ascends from ", n1, "; found centroid ",
                       cells[at].centroid, ", first ", cells[at].first));
    }
    for (const NodeId& centroid : file_.second_centroids()) {
      if (centroid < n1) continue;
      fault.Report(OffsetOf(&centroid),
                   absl::StrCat("second centroid: expected less than ", n1, "; found ", centroid));
      break;
    }
    for (const float& mean : file_.code_mean()) {
      if (!std::isfinite(mean))
        fault.Report(OffsetOf(&mean), absl::StrCat("mean: expected a finite number; found ", mean));
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
    std::vector<NodeId> scratch(records_.max_links);
    std::uint64_t count = 0;
    progress_.Start("verify reach", n, "nodes");
    while (!frontier.empty()) {
      count += frontier.size();
      progress_.Advance(frontier.size());
      next.clear();
      for (const NodeId node : frontier) {
        for (const NodeId link : ListOf(0, node, scratch.data()).first) {
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

absl::Status VerifyLists(const IndexFile& file, Progress& progress) {
  file.file().Advise(MappedFile::Access::kSequential, 0, file.file().bytes().size());
  return Verifier(file, progress).RunLists();
}

}  // namespace hmann
