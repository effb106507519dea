#include "index/hmann.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/build/pipeline.h"
#include "index/format/reader.h"
#include "index/format/verify.h"
#include "index/index_impl.h"
#include "index/search/block_runner.h"
#include "index/search/query_runner.h"
#include "index/tune_index.h"

namespace hmann {

class SearcherImpl {
 public:
  explicit SearcherImpl(std::shared_ptr<const Index> index)
      : index_(std::move(index)), direct_(index_->impl().placed()), blocks_(index_->impl().placed()) {}

  absl::Status Search(const void* query, const SearchOptions& options, std::vector<Neighbour>* out, Counters* counters,
                      const SearchLimits& limits) {
    if (!index_->on_block_tier()) return direct_.Search(query, options, out, counters, limits);
    absl::Status outcome;
    HMANN_RETURN_IF_ERROR(blocks_.SearchMany(
        1, [query](std::size_t) { return query; }, options, 1,
        [&](std::size_t, const absl::Status& status, std::vector<Neighbour>& answer) {
          outcome = status;
          if (status.ok()) out->swap(answer);
        },
        counters, limits));
    return outcome;
  }

  absl::Status SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const SearchOptions& options,
                          std::uint32_t in_flight,
                          const std::function<void(std::size_t, const absl::Status&, std::vector<Neighbour>&)>& done, Counters* counters,
                          const SearchLimits& limits) {
    if (index_->on_block_tier()) return blocks_.SearchMany(n, query, options, in_flight, done, counters, limits);
    return direct_.SearchMany(n, query, options, in_flight, done, counters, limits);
  }

  bool cut_short() const { return index_->on_block_tier() ? blocks_.cut_short() : direct_.cut_short(); }

 private:
  std::shared_ptr<const Index> index_;
  QueryRunner direct_;
  BlockRunner blocks_;
};

absl::StatusOr<BuildReport> Build(const BuildOptions& options, Progress& progress) { return BuildIndex(options, progress); }

Index::Index(std::unique_ptr<IndexImpl> impl) : impl_(std::move(impl)) {}
Index::~Index() = default;

absl::StatusOr<std::shared_ptr<const Index>> Index::Open(const std::string& path, const OpenOptions& options, Progress* progress) {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(path));
  auto impl = std::make_unique<IndexImpl>(std::move(file));
  Progress quiet(Progress::Show::kNever);
  HMANN_RETURN_IF_ERROR(impl->Place(options, progress != nullptr ? *progress : quiet));
  impl->ReadTuned(options);
  return std::shared_ptr<const Index>(new Index(std::move(impl)));
}

const IndexInfo& Index::info() const { return impl_->info(); }
const Kernels& Index::kernels() const { return impl_->placed().kernels; }
std::vector<Placement> Index::Placements() const { return impl_->Placements(); }
std::vector<std::string> Index::Warnings() const { return impl_->Warnings(); }
void Index::Warm() const { impl_->Warm(); }
absl::StatusOr<SearchOptions> Index::Resolve(const SearchOptions& options) const { return options.CheckedFor(impl_->placed().Context()); }
absl::StatusOr<TunedSetting> Index::Choose(std::uint32_t k, const Target& target) const {
  HMANN_RETURN_IF_ERROR(impl_->tuned().status());
  return impl_->tuned()->Choose(impl_->placement(), k, target);
}
bool Index::on_block_tier() const { return impl_->placed().blocks != nullptr; }

absl::Status Index::SetCachePolicy(CachePolicy policy) const {
  if (impl_->cache() == nullptr) return absl::FailedPreconditionError("the index was opened without a cache");
  impl_->cache()->SetPolicy(policy);
  return absl::OkStatus();
}

Searcher::Searcher(std::shared_ptr<const Index> index) : impl_(std::make_unique<SearcherImpl>(std::move(index))) {}
Searcher::~Searcher() = default;
Searcher::Searcher(Searcher&&) noexcept = default;

absl::Status Searcher::Search(const void* query, const SearchOptions& options, std::vector<Neighbour>* out, Counters* counters,
                              const SearchLimits& limits) {
  return impl_->Search(query, options, out, counters, limits);
}

absl::Status Searcher::SearchMany(std::size_t n, const std::function<const void*(std::size_t)>& query, const SearchOptions& options,
                                  std::uint32_t in_flight,
                                  const std::function<void(std::size_t, const absl::Status&, std::vector<Neighbour>&)>& done,
                                  Counters* counters, const SearchLimits& limits) {
  return impl_->SearchMany(n, query, options, in_flight, done, counters, limits);
}

bool Searcher::cut_short() const { return impl_->cut_short(); }

absl::StatusOr<TuneReport> Tune(const TuneOptions& options, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(TuningRun run, TuneIndex(options, {}, progress));
  return std::move(run.report);
}

absl::StatusOr<IndexInfo> ReadInfo(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(path));
  return file.info();
}

absl::Status Verify(const std::string& path, Progress& progress) { return VerifyIndex(path, progress); }

}  // namespace hmann
