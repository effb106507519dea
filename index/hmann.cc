#include "hmann/hmann.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "hmann/target.h"
#include "index/base/status_macros.h"
#include "index/format/reader.h"
#include "index/format/verify.h"
#include "index/index_impl.h"
#include "index/search/executor.h"
#include "index/search/label_lookup.h"
#include "index/search/timed_runs.h"

namespace hmann {

Index::Index(std::unique_ptr<IndexImpl> impl) : impl_(std::move(impl)) {}
Index::~Index() = default;

const IndexImpl& ImplOf(const Index& index) { return *index.impl_; }

absl::StatusOr<std::shared_ptr<const Index>> Index::Open(const std::string& path,
                                                         const OpenOptions& options,
                                                         Progress* progress,
                                                         const OnMapped& on_mapped) {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(path, Formats::kCurrent, on_mapped));
  auto impl = std::make_unique<IndexImpl>(std::move(file));
  Progress quiet(Progress::Show::kNever);
  HMANN_RETURN_IF_ERROR(impl->Place(options, progress != nullptr ? *progress : quiet));
  return std::shared_ptr<const Index>(new Index(std::move(impl)));
}

const IndexInfo& Index::info() const { return impl_->info(); }
const Kernels& Index::kernels() const { return impl_->placed().kernels; }
std::vector<Placement> Index::Placements(bool where) const { return impl_->Placements(where); }
std::vector<std::string> Index::Choices() const { return impl_->Choices(); }
std::vector<std::string> Index::Warnings() const { return impl_->Warnings(); }
void Index::Warm(bool requested, Progress* progress) const {
  Progress quiet(Progress::Show::kNever);
  impl_->Warm(requested, progress != nullptr ? *progress : quiet);
}
std::uint64_t Index::bytes_in_place() const { return impl_->BytesInPlace(); }
absl::Status Index::ForLabels(
    const std::function<void(std::span<const std::uint32_t>, std::span<const std::uint64_t>)>&
        visit) const {
  return impl_->ForLabels(visit);
}
absl::Status Index::ForRows(
    const std::function<absl::Status(std::span<const std::uint32_t>, std::span<const std::uint64_t>,
                                     std::span<const std::byte>)>& visit) const {
  return impl_->ForRows(visit);
}
absl::Status Index::Find(std::span<const std::uint64_t> labels,
                         std::span<std::uint32_t> ids) const {
  static_assert(kNoId == kNoNode);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    HMANN_ASSIGN_OR_RETURN(ids[i], FindId(impl_->placed(), labels[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Attributes>> Index::attributes() const {
  return impl_->attributes();
}
absl::StatusOr<std::shared_ptr<const Matches>> Index::Filtered(const Filter& filter) const {
  return impl_->Filtered(filter);
}

absl::Status Index::Scrub(const std::function<bool(std::uint64_t)>& pace) const {
  return impl_->Scrub(pace);
}

namespace {

/// Defaults if no parameter is given, and their expected results if those were measured.
absl::StatusOr<ResolvedSearch> ResolveOpen(const SearchParams& options,
                                           const SearchContext& context) {
  ResolvedSearch resolved;
  HMANN_ASSIGN_OR_RETURN(resolved.params, options.Resolve(context));
  const bool scans = resolved.params.mode == SearchMode::kScan && !options.names_params();
  // Where L0 is slow, codes stand in for vectors, with the error bound of the search for
  // which the scan stands in.
  const bool by_codes = context.has_codes && (context.far || context.block_tier) &&
                        !resolved.params.is_exact && !options.VisitsAll(context);
  if (scans) resolved.calibrated_recall = by_codes ? options.recall.value_or(kDefaultRecall) : 1;
  if (scans || context.calibration == nullptr || options.names_params()) return resolved;
  const double wanted = options.recall.value_or(kDefaultRecall);
  const auto found = context.calibration->Find(WayOf(resolved.params, context),
                                               options.Widened(context).k, wanted);
  if (found.has_value() && found->measured) {
    resolved.calibrated_recall = found->recall;
    resolved.predicted_for = KindOfQueries(context.calibration->origin);
  }
  if (options.recall.has_value() && !found.has_value()) {
    const std::string sq =
        context.scalar_bits > 0 ? absl::StrCat(" --sq ", context.scalar_bits) : "";
    return FailedPrecondition(
        "recall: searches of this kind were not calibrated: run hmann tune INDEX", " --k ",
        options.k, sq);
  }
  if (options.recall.has_value() && found->recall < wanted) {
    return absl::OutOfRangeError(absl::StrFormat(
        "recall %g is beyond the calibrated %.4f: run hmann tune INDEX --queries Q --k %d "
        "--recall %g; in a collection give epsilon or ef instead of a target",
        wanted, found->recall, options.k, wanted));
  }
  return resolved;
}

/// What a target of latency chooses from where nothing is tuned: settings of the
/// calibration, each with the time that some vectors of the index take as queries. In
/// place of Equation 3.1, whose times per distance would have to be measured here, too.
/// The numbers of recalls and queries and the times are guesses.
absl::StatusOr<TunedEntry> TimeSettings(const IndexImpl& index, const SearchContext& context,
                                        std::uint32_t k) {
  constexpr double kRecalls[] = {0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99};
  constexpr std::size_t kEach = 40;
  constexpr std::chrono::milliseconds kWarm(1000), kMost(20);
  std::vector<TunedSetting> settings;
  for (const double recall : kRecalls) {
    const absl::StatusOr<ResolvedSearch> found = ResolveOpen({.k = k, .recall = recall}, context);
    if (absl::IsOutOfRange(found.status()) && !settings.empty()) break;
    HMANN_RETURN_IF_ERROR(found.status());
    const double expected = found->calibrated_recall.value_or(recall);
    settings.push_back({.params = found->params, .recall = expected, .recall_low = expected});
  }
  // Each setting has its own queries. The widest search touches all that others will: the
  // first time those of a mapped file wait for the drive.
  const std::uint64_t n = index.info().n, count = kEach * settings.size();
  std::vector<std::byte> rows;
  for (std::uint64_t i = 0; i < count; ++i)
    index.file().AppendQuery(static_cast<NodeId>(i * n / count), rows);
  TimedRuns timing(index.placed(),
                   {count, [&](std::uint64_t i) { return rows.data() + i * (rows.size() / count); },
                    [&](std::uint64_t i) -> SearchLimits {
                      return {.excluded = static_cast<NodeId>(i * n / count),
                              .distinct_reads = false};
                    }});
  HMANN_RETURN_IF_ERROR(timing.Run(settings.back().params, 0, count, kWarm).status());
  std::vector<Offer> offers;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    TunedSetting& setting = settings[i];
    HMANN_ASSIGN_OR_RETURN(const Timed timed, timing.Run(setting.params, i * kEach, kEach, kMost));
    setting.mean_us = timed.mean_us;
    setting.p95_us = timed.p95_us;
    setting.p99_us = timed.p99_us;
    offers.push_back({setting.mean_us, setting.recall, setting.recall});
  }
  TunedEntry entry;
  entry.placement = index.placement();
  entry.k = k;
  entry.queries = kEach;
  entry.origin = context.calibration->origin;
  for (const std::size_t place : OfferFront(offers)) entry.settings.push_back(settings[place]);
  return entry;
}

}  // namespace

absl::StatusOr<ResolvedSearch> Index::Resolve(const SearchParams& options) const {
  SearchContext context = impl_->placed().Context();
  context.content_hash = info().content_hash;
  const IndexImpl::Table held = impl_->tuned();
  const absl::StatusOr<TunedTable>& table = *held;
  if (table.ok() && table->calibration.has_value()) context.calibration = &*table->calibration;
  const bool exact = options.VisitsAll(context);
  if (options.matches != nullptr && options.has_target() &&
      (options.latency.has_value() || !(exact || context.calibration != nullptr))) {
    return FailedPrecondition(
        "with matches a target is a recall, and the index has to be calibrated: hmann promote");
  }
  const TunedEntry* const tuned = options.matches == nullptr && table.ok()
                                      ? table->Find(impl_->placement(), options.k)
                                      : nullptr;
  if (!options.has_target() || (!options.latency.has_value() &&
                                (exact || (tuned == nullptr && context.calibration != nullptr)))) {
    absl::StatusOr<ResolvedSearch> resolved = ResolveOpen(options, context);
    if (resolved.ok()) resolved->in_flight = impl_->InFlight(options.k);
    return resolved;
  }
  HMANN_RETURN_IF_ERROR(options.Validate(context.n));
  HMANN_RETURN_IF_ERROR(table.status());
  ResolvedSearch resolved;
  std::shared_ptr<const TunedTable> timed;
  if (tuned == nullptr && context.calibration != nullptr) {
    HMANN_ASSIGN_OR_RETURN(timed, impl_->Timed(held, options.k, [&] {
      return TimeSettings(*impl_, context, options.k);
    }));
  }
  const TunedTable& known = timed != nullptr ? *timed : *table;
  HMANN_ASSIGN_OR_RETURN(resolved.tuned,
                         known.Choose(impl_->placement(), options.k, TargetOf(options)));
  resolved.predicted_for = KindOfQueries(known.Find(impl_->placement(), options.k)->origin);
  // The table comes from a file; parameters given next to the target take precedence.
  SearchParams chosen = ParamsOf(resolved.tuned->params);
  chosen.max_distance = options.max_distance;
  for (const ParamInfo& param : ParamTable()) {
    if (const std::optional<double> requested = param.requested(options); requested.has_value())
      param.ask(chosen, *requested);
  }
  HMANN_ASSIGN_OR_RETURN(resolved.params, chosen.Resolve(context));
  resolved.in_flight = impl_->InFlight(options.k);
  return resolved;
}

absl::Status Index::ReadTuned() const { return impl_->ReadTuned(); }

bool Index::on_block_tier() const { return impl_->placed().blocks != nullptr; }

Searcher::Searcher(std::shared_ptr<const Index> index)
    : index_(std::move(index)), executor_(MakeExecutor(ImplOf(*index_).placed())) {}
Searcher::~Searcher() = default;
Searcher::Searcher(Searcher&&) noexcept = default;

absl::Status Searcher::Search(const void* query, const ResolvedParams& params, Answer* answer,
                              Counters* counters, const SearchLimits& limits) {
  absl::Status outcome;
  const auto done = [&](std::size_t, const absl::Status& status, Answer& found) {
    outcome = status;
    if (status.ok()) std::swap(*answer, found);
  };
  HMANN_RETURN_IF_ERROR(executor_->Run(
      {1, 1, [query](std::size_t) { return query; }, params, std::ref(done), counters, limits}));
  return outcome;
}

absl::Status Searcher::Search(const void* query, const SearchParams& options, Answer* answer,
                              Counters* counters) {
  HMANN_ASSIGN_OR_RETURN(const ResolvedSearch resolved, index_->Resolve(options));
  SearchLimits limits;
  limits.budget = options.budget.value_or(limits.budget);
  return Search(query, resolved.params, answer, counters, limits);
}

absl::Status Searcher::SearchMany(
    std::size_t n, const std::function<const void*(std::size_t)>& query,
    const ResolvedParams& params, std::uint32_t in_flight,
    const std::function<void(std::size_t, const absl::Status&, Answer&)>& done, Counters* counters,
    const SearchLimits& limits) {
  return executor_->Run({n, in_flight, query, params, done, counters, limits});
}

absl::Status Searcher::Get(std::span<const std::uint64_t> labels, void* vectors, Counters* counters,
                           const SearchLimits& limits) {
  return GetVectors(ImplOf(*index_).placed(), *executor_, labels, static_cast<std::byte*>(vectors),
                    counters, limits);
}

absl::StatusOr<IndexInfo> ReadInfo(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(path));
  return file.info();
}

absl::Status Verify(const std::string& path, Progress& progress) {
  return VerifyIndex(path, progress);
}

}  // namespace hmann
