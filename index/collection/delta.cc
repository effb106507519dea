#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "hmann/build.h"
#include "index/base/status_macros.h"
#include "index/collection/collection_impl.h"
#include "index/collection/row_collector.h"

namespace hmann {
namespace {

/// A scan of this many bytes takes about as long as a search in a graph: a guess, from
/// 4,096 rows of 128 bytes (35 us).
constexpr std::size_t kTailBytes = 512 << 10;
constexpr std::uint64_t kLeastTail = 256;  ///< a guess
/// A graph is made anew together with those before it that are smaller than this many
/// times its rows, so that there are few. A guess; each row is then in some five
/// builds, which cost about 0.1 ms each on 128 bytes.
constexpr std::uint64_t kGrowth = 8;

/// Removes an index in the folder, which is still served from memory.
void RemoveIndexFiles(const std::string& path) {
  std::error_code error;
  for (const char* suffix : {"", ".tuned", ".attrs"}) std::filesystem::remove(path + suffix, error);
}

}  // namespace

Segment::~Segment() {
  if (superseded_) RemoveIndexFiles(path_);
}

bool CollectionImpl::WantsGraph(const Moment& moment) const {
  const std::uint64_t rows = std::max(kLeastTail, kTailBytes / shape_->stride);
  return moment.tail.end() - moment.tail.first() >= rows;
}

void CollectionImpl::MakeGraphs() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);
  while (true) {
    {
      std::unique_lock lock(wake_mutex_);
      wake_.wait(lock, [&] { return stop_ || WantsGraph(*Now()); });
      if (stop_) return;
    }
    const std::scoped_lock lock(graph_mutex_);
    Note(MakeGraph());
  }
}

void CollectionImpl::Note(const absl::Status& status) {
  if (status.ok() || stop_) return;
  {
    const std::scoped_lock lock(facts_mutex_);
    last_error_ = std::string(status.message());
  }
  // The next attempt may succeed. 10 s are a guess.
  std::unique_lock lock(wake_mutex_);
  wake_.wait_for(lock, std::chrono::seconds(10), [&] { return stop_.load(); });
}

absl::Status CollectionImpl::MakeGraph() {
  std::shared_ptr<const Moment> moment;
  std::uint64_t merge_end = 0;
  {
    const std::scoped_lock lock(writing_);
    moment = Now();
    merge_end = merge_end_;
  }
  std::uint64_t rows = moment->tail.live(), first = moment->tail.first();
  // A merge takes the rows below merge_end, so no graph has rows on both sides.
  std::uint64_t end = moment->tail.end();
  if (first < merge_end && merge_end < end) end = merge_end;
  std::size_t kept = moment->graphs.size();
  if (first >= merge_end) {
    for (; kept > 0; --kept) {
      const Moment::Part& last = moment->graphs[kept - 1];
      if (last.segment->first() < merge_end || last.rows() >= kGrowth * rows) break;
      rows += last.rows();
      first = last.segment->first();
    }
  }
  const std::span absorbed = std::span(moment->graphs).subspan(kept);
  Moment::Part made;
  std::uint64_t after = moment->sequence;
  HMANN_ASSIGN_OR_RETURN(made.segment, BuildGraph(*moment, first, end, absorbed));
  if (made.segment != nullptr) HMANN_RETURN_IF_ERROR(KillChanged(&after, &made));
  const std::scoped_lock lock(writing_);
  if (end <= merged_end_) return absl::OkStatus();  // a merge was faster
  auto next = std::make_shared<Moment>(*Now());
  if (made.segment != nullptr) HMANN_RETURN_IF_ERROR(KillChanged(&after, &made));
  std::erase_if(next->graphs, [&](const Moment::Part& graph) {
    return graph.segment->first() >= first && graph.segment->end() <= end;
  });
  next->tail.DropBefore(end);
  if (made.segment != nullptr) next->graphs.push_back(std::move(made));
  Publish(std::move(next));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Segment>> CollectionImpl::BuildGraph(
    const Moment& moment, std::uint64_t first, std::uint64_t end,
    std::span<const Moment::Part> absorbed) {
  RowCollector rows(*shape_);
  for (const Moment::Part& graph : absorbed)
    HMANN_RETURN_IF_ERROR(rows.AddGraph(graph, *moment.fields));
  rows.AddTail(moment.tail, end);
  rows.Sort();
  if (rows.labels().empty()) return nullptr;
  const std::string path = absl::StrCat(folder_, "/delta-", first, "-", end, ".hmann");
  BuildCall call;
  call.build = manifest_.build;
  call.build.bits = 0;
  call.build.out = path;
  call.build.threads = 1;
  call.build.cancelled = &stop_;
  call.build.vectors = rows.View();
  call.build.label_values = rows.labels();
  call.calibrate.wanted = false;
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(const CalibratedBuild built, Build(call, quiet));
  // A small graph needs no more effort than a large one for a recall.
  if (moment.sealed.segment != nullptr) {
    const IndexInfo& sealed = moment.sealed.segment->index()->info();
    auto table = ReadTunedTable(moment.sealed.segment->path(), sealed.content_hash, sealed.n);
    if (table.ok() && table->calibration.has_value()) {
      HMANN_RETURN_IF_ERROR(
          WriteTunedTable(path, {built.report.info.content_hash, {}, table->calibration}));
    }
  }
  auto index = Index::Open(path, {.fast = "dram", .slow = "dram", .sq_bits = 0});
  RemoveIndexFiles(path);
  HMANN_RETURN_IF_ERROR(index.status());
  std::vector<AttributeCells> cells;
  if (rows.has_cells()) {
    cells.resize((*index)->info().n);
    HMANN_RETURN_IF_ERROR((*index)->ForLabels([&](auto ids, auto labels) {
      for (std::size_t i = 0; i < ids.size(); ++i) cells[ids[i]] = rows.CellsOf(labels[i]);
    }));
  }
  return std::make_shared<const Segment>(*std::move(index), first, end, std::move(cells));
}

absl::Status CollectionImpl::KillChanged(std::uint64_t* after, Moment::Part* part) const {
  std::vector<std::uint64_t> changed;
  HMANN_RETURN_IF_ERROR(journal_->ReadLabels(after, &changed));
  std::vector<std::uint32_t> ids(changed.size());
  HMANN_RETURN_IF_ERROR(part->segment->index()->Find(changed, ids));
  for (const std::uint32_t id : ids)
    if (id != kNoId && part->Has(id)) part->killed.push_back(id);
  part->Settle();
  return absl::OkStatus();
}

}  // namespace hmann
