#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/collection/collection_impl.h"
#include "index/format/verify.h"

namespace hmann {

bool Collection::Is(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(Manifest::PathIn(path), error);
}

absl::StatusOr<std::shared_ptr<Collection>> Collection::Open(const std::string& folder,
                                                             const OpenCollection& options,
                                                             Progress* progress) {
  return CollectionImpl::Open(folder, options, progress);
}

absl::StatusOr<std::shared_ptr<CollectionImpl>> CollectionImpl::Open(const std::string& folder,
                                                                     const OpenCollection& options,
                                                                     Progress* progress) {
  if (options.merge_threads.value_or(0) < 0)
    return InvalidArgument("merge_threads: ", *options.merge_threads, " found, expected 0 or more");
  std::shared_ptr<CollectionImpl> opened(new CollectionImpl(folder, options));
  if (!options.read_only) HMANN_RETURN_IF_ERROR(opened->Lock());
  const Record record = opened->ReadRecord();
  absl::Status status = opened->Load(progress);
  // A process that writes may have swapped a merged index in between: look again.
  for (int tries = 0; !status.ok() && options.read_only && tries < 5; ++tries) {
    const absl::StatusOr<Manifest> now = Manifest::Read(folder);
    if (!now.ok() || now->covered == opened->manifest_.covered) break;
    status = opened->Load(progress);
  }
  while (absl::IsResourceExhausted(status) && !options.read_only && opened->Now() != nullptr &&
         opened->Now()->sequence > opened->manifest_.covered) {
    const std::uint64_t covered = opened->manifest_.covered;
    status = opened->ReplayMore(progress);
    if (opened->manifest_.covered == covered) break;  // the merge failed
  }
  if (!status.ok()) {
    opened->lock_ = {};  // what is in the folder stays as it is
    return status;
  }
  const std::uint64_t found = opened->Now()->sequence;
  opened->lost_writes_ = record.lost + record.sequence - std::min(record.sequence, found);
  if (!options.read_only) opened->KeepRecord(found, /*sync=*/true);
  opened->refreshed_at_ = std::chrono::steady_clock::now();
  if (!options.read_only) opened->RemoveOrphans();
  opened->counted_rows_ = opened->Now()->tail.end();
  opened->StartThreads();
  return opened;
}

CollectionImpl::~CollectionImpl() {
  StopThreads();
  if (lock_.fd() < 0 || now_.load() == nullptr) return;
  KeepGraph(*Now(), 1);
  KeepRecord(Now()->sequence, /*sync=*/true);
}

CollectionImpl::Record CollectionImpl::ReadRecord() const {
  Record record;
  const absl::StatusOr<std::string> text = ReadTextFile(folder_ + "/LOCK", 4096);
  if (!text.ok() ||
      std::sscanf(text->c_str(), "%" SCNu64 " %" SCNu64, &record.sequence, &record.lost) != 2)
    return {};
  return record;
}

void CollectionImpl::KeepRecord(std::uint64_t sequence, bool sync) const {
  // The journal has the write already. If this fails or is lost, an older number stays.
  const std::string text = absl::StrFormat("%020d %020d\n", sequence, lost_writes_);
  if (::pwrite(lock_.fd(), text.data(), text.size(), 0) > 0 && sync) ::fdatasync(lock_.fd());
}

absl::Status CollectionImpl::Lock() {
  const std::string path = folder_ + "/LOCK";
  HMANN_RETURN_IF_ERROR(Manifest::Read(folder_).status());
  absl::StatusOr<FileLock> lock = FileLock::Take(path);
  const absl::Status status = lock.status();
  if (status.ok()) lock_ = *std::move(lock);
  if (!absl::IsUnavailable(status)) return status;
  return FailedPrecondition(
      folder_, ": another process writes to it, or this one does: close it there first");
}

absl::Status CollectionImpl::Load(Progress* progress) {
  HMANN_ASSIGN_OR_RETURN(manifest_, Manifest::Read(folder_));
  if (shape_ == nullptr) {
    shape_ = std::make_shared<CollectionShape>();
    shape_->folder = folder_;
    shape_->id = manifest_.id;
    HMANN_ASSIGN_OR_RETURN(shape_->kernels,
                           ChooseKernels(manifest_.dtype, manifest_.build.metric, manifest_.dim));
    shape_->vector_bytes = manifest_.dim * SizeOf(manifest_.dtype);
    shape_->stride = RoundUp(shape_->kernels.row_bytes, 64);
    HMANN_ASSIGN_OR_RETURN(journal_, Journal::Open(folder_, manifest_.id, options_.read_only));
    HMANN_ASSIGN_OR_RETURN(names_, Journal::Open(folder_, manifest_.id, true));
  }
  auto moment = std::make_shared<Moment>();
  moment->shape = shape_;
  moment->sequence = manifest_.covered;
  covered_ = manifest_.covered;
  HMANN_RETURN_IF_ERROR(OpenSealed(moment.get(), progress));
  HMANN_RETURN_IF_ERROR(ReadFields(moment.get()));
  if (usable_ == 0) usable_ = UsableMemoryBytes();
  delta_limit_ = options_.delta_bytes > 0 ? options_.delta_bytes : usable_ / 4;
  moment->tail = Tail(shape_->stride, delta_limit_);
  moment->graphs.push_back(std::make_shared<DeltaGraph>(0));
  resumable_ = InterruptedMerge();
  merge_end_ = merge_bytes_ = 0;
  absl::Status replayed = Replay(moment.get());
  if (!replayed.ok() && (options_.read_only || !absl::IsResourceExhausted(replayed)))
    return replayed;
  if (resumable_ > moment->sequence) resumable_ = 0;
  if (replayed.ok()) {
    const DeltaGraph& oldest = *moment->graphs.front();
    moment->graphs.front()->Read(moment->tail, shape_->kernels, DeltaGraph::PathIn(folder_));
    kept_rows_ = {oldest.first(), oldest.end()};
  }
  Publish(std::move(moment));
  return replayed;
}

absl::Status CollectionImpl::ReplayMore(Progress* progress) {
  Progress quiet(Progress::Show::kNever);
  HMANN_RETURN_IF_ERROR(Merge(progress == nullptr ? quiet : *progress, stop_, /*is_asked=*/true));
  auto next = std::make_shared<Moment>(*Now());
  absl::Status replayed = Replay(next.get());
  Publish(std::move(next));
  return replayed;
}

absl::Status CollectionImpl::OpenSealed(Moment* moment, Progress* progress) {
  if (manifest_.rows == 0) return absl::OkStatus();
  const std::string path = manifest_.Sealed(folder_);
  absl::StatusOr<std::shared_ptr<const Index>> index = Index::Open(path, options_.index, progress);
  if (!index.ok()) {
    const bool is_missing = absl::IsNotFound(index.status());
    return absl::Status(is_missing ? absl::StatusCode::kDataLoss : index.status().code(),
                        absl::StrCat(index.status().message(),
                                     is_missing ? ": MANIFEST names it: restore a backup" : ""));
  }
  const IndexInfo& info = (*index)->info();
  if (info.content_hash != manifest_.content_hash || info.n != manifest_.rows) {
    return DataLoss(path, ": is not the index that MANIFEST names (", info.n, " vectors, expected ",
                    manifest_.rows, "): restore a backup");
  }
  auto segment = std::make_shared<Segment>(*std::move(index), path);
  if (!options_.read_only) HMANN_RETURN_IF_ERROR(segment->RememberLabels());
  moment->sealed.segment = std::move(segment);
  return absl::OkStatus();
}

absl::Status CollectionImpl::ReadFields(Moment* moment) const {
  HMANN_ASSIGN_OR_RETURN(std::vector<AttributeField> fields, journal_->Fields());
  moment->fields = std::make_shared<const std::vector<AttributeField>>(std::move(fields));
  return absl::OkStatus();
}

absl::Status CollectionImpl::Refresh() {
  const std::scoped_lock lock(writing_);
  const auto start = std::chrono::steady_clock::now();
  HMANN_ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Read(folder_));
  if (manifest.id != manifest_.id) {
    return FailedPrecondition(folder_, ": is now the collection ", manifest.id, ", was ",
                              manifest_.id, ": open it again");
  }
  if (manifest.generation != manifest_.generation) {
    const Manifest before = manifest_;
    if (absl::Status loaded = Load(nullptr); !loaded.ok()) {
      manifest_ = before;
      return loaded;
    }
  } else {
    HMANN_ASSIGN_OR_RETURN(const std::uint64_t last, journal_->Last());
    if (last > Now()->sequence) {
      auto next = std::make_shared<Moment>(*Now());
      HMANN_RETURN_IF_ERROR(ReadFields(next.get()));
      HMANN_RETURN_IF_ERROR(Replay(next.get()));
      Publish(std::move(next));
    }
  }
  refreshed_at_ = start;
  return absl::OkStatus();
}

void CollectionImpl::Follow() {
  std::unique_lock lock(wake_mutex_);
  while (!wake_.wait_for(lock, options_.follow, [&] { return stop_.load(); })) {
    lock.unlock();
    const absl::Status status = Refresh();
    {
      const std::scoped_lock facts(facts_mutex_);
      last_error_ = std::string(status.message());
    }
    lock.lock();
  }
}

absl::Status CollectionImpl::Replay(Moment* moment) {
  // Readers that follow keep what they have if this ends early.
  const std::shared_ptr<const Moment> served = options_.read_only ? Now() : nullptr;
  const bool is_served = served != nullptr && served->facts == moment->facts;
  absl::Status replayed = journal_->ForEach(
      moment->sequence, shape_->vector_bytes, [&](std::uint64_t seq, const JournalRow& row) {
        const std::uint64_t rows = row.vectors.size() / shape_->vector_bytes;
        const std::uint64_t bytes = moment->delta_bytes() + moment->tail.BytesWith(rows) -
                                    moment->tail.bytes() + rows * RowsByLabel::kEntryBytes;
        if (rows > 0 && bytes > delta_limit_ && moment->tail.end() > moment->tail.first()) {
          return ResourceExhausted(
              folder_, ": its journal needs more than the ", FormatSize(delta_limit_),
              " that rows beside the sealed index may take: run hmann compact, or give them more "
              "memory (a server: delta-memory of the index)");
        }
        HMANN_RETURN_IF_ERROR(ApplyRow(row, moment));
        moment->sequence = seq;
        if (!is_served) KeepChangedRows(moment);
        if (seq == resumable_) {
          merge_end_ = moment->tail.end();
          merge_bytes_ = moment->unmerged_bytes;
          moment->graphs.back()->Close(merge_end_);
          moment->graphs.push_back(std::make_shared<DeltaGraph>(merge_end_));
        }
        return absl::OkStatus();
      });
  if (is_served && replayed.ok()) KeepChangedRows(moment);
  changed_rows_.clear();
  moment->sealed.Settle();
  return replayed;
}

void CollectionImpl::RemoveOrphans() {
  const absl::flat_hash_set<std::string> own = {
      "MANIFEST",           "LOCK",        "journal.sqlite", "journal.sqlite-wal",
      "journal.sqlite-shm", "delta-graph", "merge",          manifest_.queries};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename();
    const std::optional<std::uint64_t> generation = Manifest::GenerationOf(name);
    if (IsTemporaryName(name)) {
      RemoveIfDead(entry.path());
    } else if (!generation.has_value() || *generation > manifest_.generation + 1) {
      if (!own.contains(name)) other_files_.push_back(name);
    } else if (*generation != manifest_.generation || manifest_.rows == 0) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

void CollectionImpl::StartThreads() {
  is_open_ = true;
  grapher_ = std::thread([this] { MakeGraphs(); });
  if (options_.read_only && options_.follow.count() > 0)
    follower_ = std::thread([this] { Follow(); });
  if (!options_.read_only) merger_ = std::thread([this] { MergeWhenDue(); });
}

void CollectionImpl::StopThreads() {
  {
    const std::scoped_lock lock(wake_mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (follower_.joinable()) follower_.join();
  if (grapher_.joinable()) grapher_.join();
  if (merger_.joinable()) merger_.join();
}

absl::StatusOr<std::vector<std::string>> CollectionImpl::Names(
    std::span<const std::uint64_t> labels) const {
  std::vector<std::string> names(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >> 63 != 0) {
      HMANN_ASSIGN_OR_RETURN(names[i], names_->Name(labels[i]));
    }
  }
  return names;
}

CollectionInfo CollectionImpl::info() const {
  const std::shared_ptr<const Moment> now = Now();
  CollectionInfo info;
  info.dtype = shape_->kernels.dtype;
  info.metric = shape_->kernels.metric;
  info.dim = shape_->kernels.dim;
  info.sequence = now->sequence;
  info.live = now->live();
  if (now->sealed.segment != nullptr) {
    info.sealed_rows = now->sealed.segment->n();
    info.sealed_dead = info.sealed_rows - now->sealed.rows();
    info.sealed_file = now->sealed.segment->path();
  }
  info.delta_rows = now->tail.live();
  info.loose_rows = info.delta_rows;
  for (const auto& graph : now->graphs) {
    now->tail.ForSet(now->tail.words(), std::max(graph->first(), now->tail.first()),
                     std::min(graph->end(), now->tail.end()),
                     [&info](std::uint64_t) { --info.loose_rows; });
  }
  info.delta_bytes = now->delta_bytes();
  info.delta_limit = delta_limit_;
  info.dead_bytes = now->tail.dead_bytes();
  info.journal_bytes = journal_->bytes();
  info.id = shape_->id;
  info.covered = covered_;
  info.merges = merges_;
  info.merge_failures = merge_failures_;
  info.lost_writes = lost_writes_;
  info.other_files = other_files_;
  info.merge_seconds = merge_seconds_;
  const double since = SecondsSince(counted_at_);
  if (info.delta_rows > 0) info.unmerged_seconds = since;
  if (follower_.joinable()) info.behind_seconds = SecondsSince(refreshed_at_);
  const std::scoped_lock lock(facts_mutex_);
  info.last_error = last_error_;
  if (merging_ == nullptr) return info;
  const Progress::State at = merging_->Now();
  info.merging_seconds = since;
  info.merge_phase = at.phase;
  info.merge_done = at.done;
  info.merge_total = at.total;
  return info;
}

absl::Status CollectionImpl::Verify(Progress& progress) const {
  const std::shared_ptr<const Moment> now = Now();
  if (now->sealed.segment != nullptr) {
    HMANN_RETURN_IF_ERROR(VerifyIndex(now->sealed.segment->path(), progress));
    const auto& attributes = now->sealed.segment->index()->attributes();
    if (attributes.ok()) HMANN_RETURN_IF_ERROR((*attributes)->Verify());
    if (!attributes.ok() && !absl::IsNotFound(attributes.status())) return attributes.status();
  }
  HMANN_RETURN_IF_ERROR(journal_->CheckPages());
  std::uint64_t covered = 0;
  {
    const std::scoped_lock lock(writing_);
    covered = manifest_.covered;
  }
  HMANN_RETURN_IF_ERROR(
      journal_->ForEach(covered, shape_->vector_bytes,
                        [](std::uint64_t, const JournalRow&) { return absl::OkStatus(); }));
  if (lost_writes_ == 0) return absl::OkStatus();
  return DataLoss(Journal::PathIn(folder_), ": ", lost_writes_,
                  " writes that were on disk are not in it: restore a backup, or close the "
                  "collection and remove ",
                  folder_, "/LOCK to do without them");
}

}  // namespace hmann
