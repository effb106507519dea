#include "server/core/registry.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "hmann/tuned_table.h"
#include "index/base/clock.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "server/core/errors.h"
#include "spdlog/spdlog.h"

namespace hmann::server {
namespace {

std::string KindOf(const IndexInfo& info) {
  return absl::StrCat(info.dim, " x ", std::string(Name(info.dtype)), ", ",
                      std::string(Name(info.metric)));
}

absl::Status CheckKind(const std::string& path, const IndexInfo& info, const IndexInfo& before) {
  if (KindOf(info) == KindOf(before)) return absl::OkStatus();
  return FailedPrecondition(path, ": expected ", KindOf(before), ", as its name serves, found ",
                            KindOf(info), ": load it under another name");
}

/// Errors: FAILED_PRECONDITION for a file that cannot take the place of what is served,
/// `before`. (Tiers check the memory, before they take any.)
absl::Status CheckBeside(const std::string& path, const OpenOptions& options,
                         const IndexInfo& before) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(path));
  HMANN_RETURN_IF_ERROR(CheckKind(path, info, before));
  struct stat status {};
  if (options.slow.starts_with("dax:") && stat(options.slow.c_str() + 4, &status) == 0 &&
      S_ISCHR(status.st_mode) && info.content_hash != before.content_hash) {
    return FailedPrecondition("tier ", options.slow, ": the device holds one index, and that is ",
                              "served: unload it first");
  }
  return absl::OkStatus();
}

}  // namespace

FileStamp StampOf(const std::string& path) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0) return {};
  if (S_ISDIR(now.st_mode)) return {static_cast<std::int64_t>(now.st_ino)};
  return {static_cast<std::int64_t>(now.st_ino), now.st_size, now.st_mtim.tv_sec,
          now.st_mtim.tv_nsec};
}

const char* Name(IndexState state) {
  constexpr const char* kNames[] = {"loading", "serving", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

Generation::Generation(std::string path, std::unique_ptr<FileGuard> guard)
    : number_([] {
        static std::atomic<std::uint64_t> last{0};
        return ++last;
      }()),
      path_(std::move(path)),
      tuned_(StampOf(TunedPath(path_))),
      guard_(std::move(guard)) {}

absl::StatusOr<std::shared_ptr<Generation>> Generation::Open(const std::string& path,
                                                             const OpenOptions& options, bool warm,
                                                             Progress* progress,
                                                             const IndexInfo* before,
                                                             const IndexSpec& spec) {
  const auto began = std::chrono::steady_clock::now();
  const bool is_collection = Collection::Is(path);
  std::unique_ptr<FileGuard> guard;
  if (!is_collection) {
    HMANN_ASSIGN_OR_RETURN(guard, FileGuard::Take(path));
    if (before != nullptr) HMANN_RETURN_IF_ERROR(CheckBeside(path, options, *before));
  }
  std::shared_ptr<Generation> generation(new Generation(path, std::move(guard)));
  HMANN_RETURN_IF_ERROR(is_collection ? generation->OpenCollection(options, spec, progress)
                                      : generation->OpenIndex(options, warm, progress));
  if (before != nullptr) HMANN_RETURN_IF_ERROR(CheckKind(path, generation->info(), *before));
  generation->load_seconds_ = SecondsSince(began);
  return generation;
}

absl::Status Generation::OpenIndex(const OpenOptions& options, bool warm, Progress* progress) {
  const auto watch = [&](std::span<const std::byte> bytes) { guard_->Watch(bytes); };
  HMANN_ASSIGN_OR_RETURN(index_, Index::Open(path_, options, progress, watch));
  index_->Warm(warm, progress);
  return guard_->CheckOpened();
}

absl::Status Generation::OpenCollection(const OpenOptions& options, const IndexSpec& spec,
                                        Progress* progress) {
  constexpr std::chrono::milliseconds kLook(500);  // a guess
  const hmann::OpenCollection open{.index = options,
                                   .read_only = spec.follow,
                                   .follow = spec.follow ? kLook : kLook * 0,
                                   .delta_bytes = spec.delta_bytes};
  // One that was unloaded just now may still be closing: 2 s are a guess.
  absl::StatusOr<std::shared_ptr<Collection>> opened = Collection::Open(path_, open, progress);
  for (int tries = 0; absl::IsFailedPrecondition(opened.status()) && tries < 20; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    opened = Collection::Open(path_, open, progress);
  }
  HMANN_ASSIGN_OR_RETURN(collection_, std::move(opened));
  const CollectionInfo info = collection_->info();
  shape_.dim = info.dim;
  shape_.dtype = info.dtype;
  shape_.metric = info.metric;
  return absl::OkStatus();
}

std::vector<Placement> Generation::Placements(bool where) const {
  if (collection_ == nullptr) return index_->Placements(where);
  std::vector<Placement> all;
  if (const auto sealed = SealedOf(*collection_->Now())) all = sealed->Placements(where);
  all.push_back({"delta", "dram", "", collection_->info().delta_bytes});
  return all;
}

absl::Status Generation::Check(const Probe& probe) const {
  if (probe.queries.empty()) return absl::OkStatus();
  const std::unique_ptr<AnySearcher> searcher = NewSearcher();
  if (collection_ == nullptr) {
    HMANN_ASSIGN_OR_RETURN(const ResolvedSearch search, index_->Resolve({.k = probe.k}));
    return probe.Check(path_, info(), [&](const void* query, Answer* answer) {
      return searcher->index->Search(query, search.params, answer);
    });
  }
  HMANN_ASSIGN_OR_RETURN(const auto prepared, hmann::Prepare(collection_->Now(), {.k = probe.k}));
  return probe.Check(path_, info(), [&](const void* query, Answer* answer) {
    return searcher->collection->Search(query, *prepared, answer);
  });
}

std::unique_ptr<AnySearcher> Generation::NewSearcher() const {
  auto searcher = std::make_unique<AnySearcher>();
  if (collection_ == nullptr) {
    searcher->index = std::make_unique<Searcher>(index_);
  } else {
    searcher->collection = std::make_unique<CollectionSearcher>();
  }
  return searcher;
}

std::unique_ptr<AnySearcher> Generation::TakeSearcher() {
  {
    const std::lock_guard lock(mutex_);
    if (withdrawn_.load(std::memory_order_relaxed)) return nullptr;
    ++lent_;
    if (!idle_.empty()) {
      std::unique_ptr<AnySearcher> searcher = std::move(idle_.back());
      idle_.pop_back();
      return searcher;
    }
  }
  return NewSearcher();
}

void Generation::GiveBack(std::unique_ptr<AnySearcher> searcher) {
  const std::lock_guard lock(mutex_);
  if (!retired_.load(std::memory_order_relaxed)) idle_.push_back(std::move(searcher));
  if (--lent_ == 0) returned_.notify_all();
}

bool Generation::Intact() const {
  // The lease of a retired generation is not watched for waiting writers any more.
  return (guard_ != nullptr && guard_->has_lease() && !retired_.load()) || !Changed();
}

void Generation::Prepare(Generation& before) {
  std::size_t count = 0;
  {
    const std::lock_guard lock(before.mutex_);
    count = before.idle_.size() + static_cast<std::size_t>(before.lent_);
  }
  // Every metric takes ones.
  const std::vector<float> floats(info().dim, 1);
  const std::vector<std::uint8_t> bytes(info().dim, 1);
  const void* const query = IsFloat(info().dtype) ? static_cast<const void*>(floats.data())
                                                  : static_cast<const void*>(bytes.data());
  while (collection_ == nullptr && idle_.size() < count) {
    std::unique_ptr<AnySearcher> searcher = NewSearcher();
    Answer answer;
    searcher->index->Search(query, SearchParams{}, &answer).IgnoreError();
    idle_.push_back(std::move(searcher));
  }
}

void Generation::Retire() {
  std::vector<std::unique_ptr<AnySearcher>> dropped;
  const std::lock_guard lock(mutex_);
  retired_.store(true);
  dropped.swap(idle_);
}

void Generation::Withdraw() {
  std::unique_lock lock(mutex_);
  withdrawn_.store(true);
  // A writer that broke a lease proceeds by itself after 45 s.
  constexpr std::chrono::seconds kMost(40);
  returned_.wait_for(lock, kMost, [this] { return lent_ == 0; });
  idle_.clear();
  if (guard_ != nullptr) guard_->Release();
}

Snapshot::Snapshot(ServedIndex* served)
    : served_(served->shared_from_this()), generation_(served->current_.load()) {
  if (generation_ == nullptr) return;
  if (generation_->collection() == nullptr) {
    index_ = generation_->index_;
  } else {
    moment_ = generation_->collection()->Now();
    index_ = SealedOf(*moment_);
  }
}

IndexInfo Snapshot::Describe() const {
  IndexInfo info = index_ == nullptr ? generation_->info() : index_->info();
  info.n = rows();
  return info;
}

bool Snapshot::current() const {
  return generation_->current() &&
         (moment_ == nullptr || SealedOf(*generation_->collection()->Now()) == index_);
}

absl::Status Snapshot::ForClients(const absl::Status& status) const {
  return WithoutFolder(status, generation_->path());
}

IndexSpec ServedIndex::spec() const {
  const std::lock_guard lock(mutex_);
  return spec_;
}

void ServedIndex::SetSpec(IndexSpec spec) {
  const std::lock_guard lock(mutex_);
  spec_ = std::move(spec);
}

absl::StatusOr<std::shared_ptr<Loading>> ServedIndex::BeginLoad(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (loading_ != nullptr || removed_) return LoadAborted(name(), removed_);
  return loading_ = std::make_shared<Loading>(path);
}

absl::StatusOr<Replaced> ServedIndex::Load(const std::string& path, const OpenOptions& options,
                                           bool warm, const Probe& probe) {
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<Loading> loading, BeginLoad(path));
  const Snapshot before(this);
  const bool beside = before.generation_ != nullptr;
  const bool is_same = before.moment_ != nullptr && before.generation().path() == path &&
                       !before.generation().collection()->info().behind_seconds.has_value();
  absl::StatusOr<std::shared_ptr<Generation>> opened =
      is_same ? FailedPrecondition(path, ": is served, and its merges need no swap")
              : Generation::Open(path, options, warm, &loading->progress,
                                 beside ? &before.generation().info() : nullptr, spec());
  if (opened.ok()) {
    if (absl::Status good = (*opened)->Check(probe); !good.ok()) opened = good;
  }
  if (opened.ok() && beside) (*opened)->Prepare(before.generation());
  const std::lock_guard lock(mutex_);
  loading_ = nullptr;
  if (opened.ok() && removed_) opened = LoadAborted(name(), true);
  refusal_ = opened.status();
  if (opened.ok()) {
    swaps_ += beside ? 1 : 0;
    std::shared_ptr<Generation> replaced = Flip(*std::move(opened));
    return Replaced{Snapshot(this), std::move(replaced)};
  }
  ++refusals_;
  if (!beside) {
    path_ = path;
    failure_ = opened.status();
    state_.store(IndexState::kFailed, std::memory_order_release);
  }
  return opened.status();
}

std::shared_ptr<Generation> ServedIndex::Flip(std::shared_ptr<Generation> next) {
  path_ = next->path();
  std::shared_ptr<Generation> before = current_.exchange(std::move(next));
  if (before != nullptr) before->Retire();
  state_.store(IndexState::kServing, std::memory_order_release);
  return before;
}

std::shared_ptr<Generation> ServedIndex::Remove() {
  const std::lock_guard lock(mutex_);
  removed_ = true;
  state_.store(IndexState::kFailed, std::memory_order_release);
  std::shared_ptr<Generation> before = current_.exchange(nullptr);
  if (before != nullptr) before->Retire();
  return before;
}

void ServedIndex::Fail(absl::Status why) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(why);
  state_.store(IndexState::kFailed, std::memory_order_release);
}

bool ServedIndex::WithdrawIfChanged() {
  if (state() != IndexState::kServing) return false;
  const Snapshot now(this);
  if (now.generation_ == nullptr || !now.generation().Changed()) return false;
  return Withdraw(
      now,
      FailedPrecondition(now.generation().path(),
                         ": changed while it was served; write a new file and rename it instead"));
}

bool ServedIndex::WantsCheck() {
  if (state() != IndexState::kServing) return false;
  const Snapshot now(this);
  return now.generation_ != nullptr && now.generation().Touched() &&
         !now.generation().checked_.exchange(true);
}

bool ServedIndex::WithdrawIfDamaged() {
  const Snapshot now(this);
  if (now.index() == nullptr || now.moment() != nullptr) return false;
  FileGuard& guard = *now.generation().guard_;
  const std::int64_t time = guard.TimeNow();
  const absl::Status same =
      now.index()->Scrub([&now](std::uint64_t) { return now.generation().current(); });
  guard.Trust(time);  // unless it can be read, the scrubber tries again
  now.generation().checked_ = false;
  if (absl::IsDataLoss(same)) return Withdraw(now, same);
  spdlog::info("index {}: its file has new times, its content is {}", name(),
               same.ok() ? "as it was" : std::string(same.message()));
  return false;
}

bool ServedIndex::Withdraw(const Snapshot& what, absl::Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (state() != IndexState::kServing || current_.load() != what.generation_) return false;
    failure_ = std::move(why);
    state_.store(IndexState::kFailed, std::memory_order_release);
  }
  what.generation_->Withdraw();
  return true;
}

absl::StatusOr<bool> ServedIndex::ReloadTuned(bool requested) {
  const Snapshot now(this);
  if (state() != IndexState::kServing || now.generation_ == nullptr) return false;
  if (now.moment() != nullptr) return false;  // its merges measure
  Generation& served = now.generation();
  const FileStamp stamp = StampOf(TunedPath(served.path()));
  const bool changed = std::exchange(served.tuned_, stamp) != stamp;
  if (!changed && !requested) return false;
  HMANN_RETURN_IF_ERROR(now.index()->ReadTuned());
  return changed;
}

void ServedIndex::LookAtCollection() {
  const Snapshot now(this);
  if (state() != IndexState::kServing || now.moment() == nullptr) return;
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(now.generation().path(), error);
  free_disk_bytes_ = error ? 0 : disk.available;
  const std::string complaint = now.generation().collection()->info().last_error;
  if (std::exchange(complaint_, complaint) == complaint) return;
  if (complaint.empty()) {
    spdlog::info("index {}: what failed in the background succeeds again", name());
  } else {
    spdlog::error("index {}: in the background: {}", name(), complaint);
  }
}

ServedFacts ServedIndex::facts() const {
  ServedFacts facts;
  if (const std::shared_ptr<Generation> now = current_.load(); now != nullptr)
    facts.placements = now->Placements(false);
  const std::lock_guard lock(mutex_);
  facts.path = path_;
  facts.failure = failure_;
  facts.refusal = refusal_;
  facts.swaps = swaps_;
  facts.refusals = refusals_;
  facts.loading = loading_;
  return facts;
}

absl::StatusOr<Snapshot> ServedIndex::Get() {
  if (state() == IndexState::kServing) {
    // Only a removed name has none.
    if (Snapshot now(this); now.generation_ != nullptr) return now;
  } else if (state() == IndexState::kLoading) {
    return IndexLoading(name());
  }
  const std::lock_guard lock(mutex_);
  if (removed_) return UnknownIndex(name(), "");
  return IndexFailed(name(), WithoutFolder(failure_, path_));
}

Registry::Registry(const std::vector<IndexSpec>& specs, Aliases aliases)
    : aliases_(std::move(aliases)) {
  for (const IndexSpec& spec : specs) Add(spec).IgnoreError();
}

Registry::Indexes Registry::indexes() const {
  const std::shared_lock lock(mutex_);
  return indexes_;
}

absl::StatusOr<std::shared_ptr<ServedIndex>> Registry::Add(const IndexSpec& spec) {
  HMANN_RETURN_IF_ERROR(spec.Validate());
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ServedIndex>& index = by_name_[spec.name];
  if (index != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("index '", spec.name, "' is there: swap its file, or unload it first"));
  }
  index = std::make_shared<ServedIndex>(spec);
  indexes_.push_back(index);
  return index;
}

std::shared_ptr<Generation> Registry::Remove(const ServedIndex& index) {
  std::shared_ptr<ServedIndex> removed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(index.name());
    if (found == by_name_.end() || found->second.get() != &index) return nullptr;
    removed = std::move(found->second);
    by_name_.erase(found);
    std::erase(indexes_, removed);
  }
  return removed->Remove();
}

/// With the mutex held.
std::shared_ptr<ServedIndex> Registry::Lookup(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::shared_ptr<ServedIndex> Registry::Exact(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  return Lookup(name);
}

std::shared_ptr<ServedIndex> Registry::Named(const std::string& name) const {
  const std::shared_lock lock(mutex_);
  if (std::shared_ptr<ServedIndex> found = Lookup(name); found != nullptr) return found;
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? nullptr : Lookup(alias->second);
}

Aliases Registry::aliases() const {
  const std::shared_lock lock(mutex_);
  return aliases_;
}

void Registry::SetAliases(Aliases aliases) {
  const std::lock_guard lock(mutex_);
  aliases_.swap(aliases);
}

absl::StatusOr<std::shared_ptr<ServedIndex>> Registry::Find(const std::string& name) const {
  if (std::shared_ptr<ServedIndex> found = Named(name); found != nullptr) return found;
  std::string known;
  for (const auto& index : hides_names_ ? Indexes() : indexes()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", index->name());
    if (known.size() > 64) break;
  }
  return UnknownIndex(name, known);
}

absl::StatusOr<Snapshot> Registry::Get(const std::string& name) const {
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<ServedIndex> served, Find(name));
  return served->Get();
}

}  // namespace hmann::server
