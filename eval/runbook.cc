#include "eval/runbook.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "eval/results.h"
#include "hmann/collection.h"
#include "hmann/machine_load.h"
#include "index/base/clock.h"
#include "index/base/cpu.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"

namespace hmann::eval {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = RunbookStep::Kind;

constexpr std::size_t kClusters = 64;

/// Where the vectors of each cluster begin in an order by cluster, and where the last
/// ones end.
using Bounds = std::vector<std::uint64_t>;

class KMeans {
 public:
  explicit KMeans(const VectorFile& base)
      : base_(base), centers_(kClusters * base.dim()), row_(base.dim()) {
    constexpr std::uint64_t kSample = 20'000;
    constexpr int kRounds = 5;
    const std::uint64_t sample = std::min(base.n(), kSample);
    for (std::size_t c = 0; c < kClusters; ++c) Read(RandomBelow(1, c, base.n()), Center(c));
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> sums(centers_.size());
      std::vector<float> counts(kClusters);
      for (std::uint64_t i = 0; i < sample; ++i) {
        const std::size_t c = Nearest(RandomBelow(2, i, base.n()));
        ++counts[c];
        for (std::size_t d = 0; d < row_.size(); ++d) sums[c * row_.size() + d] += row_[d];
      }
      for (std::size_t i = 0; i < sums.size(); ++i)
        if (const float count = counts[i / row_.size()]; count > 0) centers_[i] = sums[i] / count;
    }
  }

  /// Reads the row and returns its cluster.
  std::size_t Nearest(std::uint64_t row) {
    Read(row, row_.data());
    std::pair best(std::numeric_limits<float>::infinity(), std::size_t{0});
    for (std::size_t c = 0; c < kClusters; ++c) {
      float sum = 0;
      for (std::size_t d = 0; d < row_.size(); ++d) {
        const float difference = row_[d] - Center(c)[d];
        sum += difference * difference;
      }
      best = std::min(best, std::pair(sum, c));
    }
    return best.second;
  }

 private:
  void Read(std::uint64_t row, float* out) const {
    ReadComponents(base_.dtype(), base_.Row(row), base_.dim(), out);
  }
  float* Center(std::size_t c) { return centers_.data() + c * row_.size(); }

  const VectorFile& base_;
  std::vector<float> centers_, row_;
};

/// Sorts the rows of the base by cluster.
Bounds OrderByCluster(const VectorFile& base, std::vector<std::uint32_t>* order) {
  KMeans clusters(base);
  std::vector<std::uint8_t> of(base.n());
  for (std::uint64_t i = 0; i < base.n(); ++i)
    of[i] = static_cast<std::uint8_t>(clusters.Nearest(i));
  order->resize(base.n());
  std::iota(order->begin(), order->end(), 0u);
  std::stable_sort(order->begin(), order->end(),
                   [&](std::uint32_t a, std::uint32_t b) { return of[a] < of[b]; });
  Bounds bounds;
  for (std::size_t c = 0; c <= kClusters; ++c) {
    const auto first = std::partition_point(order->begin(), order->end(),
                                            [&](std::uint32_t row) { return of[row] < c; });
    bounds.push_back(static_cast<std::uint64_t>(first - order->begin()));
  }
  return bounds;
}

/// A step under construction, of a file.
struct NamedStep {
  std::string operation;
  std::map<std::string, std::uint64_t> numbers;
};

absl::StatusOr<RunbookStep> StepOf(const NamedStep& named, std::uint64_t n) {
  const auto number = [&](const char* key) {
    const auto found = named.numbers.find(key);
    return found == named.numbers.end() ? n + 1 : found->second;  // one that is refused
  };
  RunbookStep step;
  std::uint64_t end = 0;  // of the vectors
  if (named.operation == "search") return step;
  if (named.operation == "insert" || named.operation == "delete") {
    step = {.kind = named.operation == "insert" ? Kind::kInsert : Kind::kDelete,
            .begin = number("start"),
            .end = number("end"),
            .from = number("start")};
    end = step.end;
  } else if (named.operation == "replace") {
    step = {.kind = Kind::kReplace,
            .begin = number("tags_start"),
            .end = number("tags_end"),
            .from = number("ids_start")};
    end = number("ids_end");
    if (end - step.from != step.end - step.begin)
      return InvalidArgument("expected as many ids as tags");
  } else {
    return InvalidArgument("operation: expected insert, delete, replace or search, found '",
                           named.operation, "'");
  }
  if (step.begin > step.end || std::max(end, step.end) > n)
    return InvalidArgument("expected a range within the ", n, " vectors of the base");
  return step;
}

/// Runs one runbook.
class Run {
 public:
  Run(const Runbook& book, const RunbookOptions& options, const Benchmark& benchmark,
      const VectorFile& base, const VectorFile& queries, std::vector<Json>* lines)
      : book_(book),
        options_(options),
        benchmark_(benchmark),
        base_(base),
        queries_(queries),
        lines_(*lines),
        recalls_(benchmark.targets.size()) {}

  absl::Status All(const Say& say) {
    const std::string folder = benchmark_.job.folder + "/collection";
    std::filesystem::remove_all(folder);
    BuildOptions build;
    build.metric = benchmark_.job.metric;
    HMANN_RETURN_IF_ERROR(Collection::Create(
        folder,
        {.dtype = base_.dtype(), .dim = base_.dim(), .build = build, .queries = options_.learn}));
    HMANN_ASSIGN_OR_RETURN(collection_,
                           Collection::Open(folder, {.index = {.slow = options_.slow}}));
    MemorySampler memory;
    const std::uint64_t before = AnonymousBytes();
    memory.TakePeak();
    for (std::size_t i = 0; i < book_.steps.size(); ++i) {
      HMANN_RETURN_IF_ERROR(Step(i));
      if (book_.steps[i].kind == Kind::kSearch)
        say(absl::StrFormat("  %s: step %d of %d, %d vectors", book_.name, i + 1,
                            book_.steps.size(), LiveRows(*collection_->Now())));
    }
    const std::uint64_t peak = memory.TakePeak();
    for (std::size_t t = 0; t < recalls_.size(); ++t) {
      const std::vector<double>& of = recalls_[t];
      if (of.empty()) continue;
      lines_.push_back(
          {{"kind", "runbook"},
           {"system", book_.name},
           {"target", benchmark_.targets[t]},
           {"recall", std::reduce(of.begin(), of.end()) / static_cast<double>(of.size())},
           {"least_recall", *std::min_element(of.begin(), of.end())},
           {"update_seconds", update_seconds_},
           {"search_seconds", search_seconds_},
           {"merges", collection_->info().merges},
           {"peak_anonymous_bytes", peak - std::min(before, peak)}});
    }
    collection_.reset();
    std::filesystem::remove_all(folder);
    return absl::OkStatus();
  }

 private:
  const std::byte* Vector(std::uint64_t i) const {
    return base_.Row(book_.order.empty() ? i : book_.order[i]);
  }

  absl::Status CheckCancelled() const {
    const std::atomic<bool>* cancelled = benchmark_.job.cancelled;
    return cancelled != nullptr && *cancelled ? absl::CancelledError("cancelled")
                                              : absl::OkStatus();
  }

  absl::Status Step(std::size_t i) {
    const RunbookStep& step = book_.steps[i];
    if (step.kind == Kind::kSearch) return Search(i);
    constexpr std::uint64_t kBatch = 1000;
    const auto start = Clock::now();
    for (std::uint64_t label = step.begin; label < step.end;) {
      WriteBatch batch;
      const std::uint64_t end = std::min(step.end, label + kBatch);
      for (; label < end; ++label) {
        if (step.kind == Kind::kDelete) batch.Delete(label);
        if (step.kind != Kind::kDelete)
          batch.Put(label, Vector(step.from + label - step.begin), base_.row_bytes());
      }
      HMANN_RETURN_IF_ERROR(Write(batch));
    }
    update_seconds_ += SecondsSince(start);
    return absl::OkStatus();
  }

  /// Waits for room while merges make some.
  absl::Status Write(const WriteBatch& batch) {
    while (true) {
      HMANN_RETURN_IF_ERROR(CheckCancelled());
      const absl::Status status = collection_->Write(batch).status();
      if (!absl::IsResourceExhausted(status) || !collection_->info().last_error.empty())
        return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  /// The distances of the kth neighbors, by exact searches of several threads.
  absl::StatusOr<std::vector<float>> Truth(const std::shared_ptr<const Moment>& now) const {
    HMANN_ASSIGN_OR_RETURN(const auto exact,
                           Prepare(now, {.k = benchmark_.job.k, .mode = SearchMode::kScan}));
    std::vector<float> farthest(queries_.n(), std::numeric_limits<float>::infinity());
    std::atomic<std::uint64_t> next = 0;
    std::vector<absl::Status> ends(static_cast<std::size_t>(UsableCores()));
    {
      std::vector<std::jthread> threads;
      threads.reserve(ends.size());
      for (absl::Status& end : ends) {
        threads.emplace_back([&] {
          CollectionSearcher searcher;
          Answer answer;
          for (std::uint64_t q = next++; q < queries_.n() && end.ok(); q = next++) {
            end = CheckCancelled();
            if (end.ok()) end = searcher.Search(queries_.Row(q), *exact, &answer);
            if (end.ok() && answer.nearest.size() == benchmark_.job.k)
              farthest[q] = answer.nearest.back().distance;
          }
        });
      }
    }
    for (const absl::Status& end : ends) HMANN_RETURN_IF_ERROR(end);
    return farthest;
  }

  absl::Status Search(std::size_t step) {
    const std::shared_ptr<const Moment> now = collection_->Now();
    HMANN_ASSIGN_OR_RETURN(const std::vector<float> farthest, Truth(now));
    const auto wanted =
        static_cast<double>(std::clamp<std::uint64_t>(LiveRows(*now), 1, benchmark_.job.k));
    for (std::size_t t = 0; t < recalls_.size(); ++t) {
      const double target = benchmark_.targets[t];
      const MachineLoad machine;
      HMANN_ASSIGN_OR_RETURN(const auto prepared,
                             Prepare(now, {.k = benchmark_.job.k, .recall = target}));
      CollectionSearcher searcher;
      std::vector<Answer> found(queries_.n());
      const auto start = Clock::now();
      for (std::uint64_t q = 0; q < queries_.n(); ++q)
        HMANN_RETURN_IF_ERROR(searcher.Search(queries_.Row(q), *prepared, &found[q]));
      const double seconds = SecondsSince(start);
      search_seconds_ += seconds;
      std::uint64_t right = 0;
      for (std::uint64_t q = 0; q < queries_.n(); ++q)
        for (const Neighbor& neighbor : found[q].nearest)
          right += neighbor.distance <= farthest[q] ? 1 : 0;
      const OthersShare others = machine.Others();
      const auto queries = static_cast<double>(queries_.n());
      recalls_[t].push_back(static_cast<double>(right) / (queries * wanted));
      Json line = {{"kind", "step"},
                   {"system", book_.name},
                   {"step", step + 1},
                   {"vectors", LiveRows(*now)},
                   {"target", target},
                   {"recall", recalls_[t].back()},
                   {"qps", queries / seconds},
                   {"others_busy", others.busy},
                   {"others_steal", others.steal}};
      if (!others.quiet()) line["noisy"] = true;
      lines_.push_back(std::move(line));
    }
    return CheckCancelled();
  }

  const Runbook& book_;
  const RunbookOptions& options_;
  const Benchmark& benchmark_;
  const VectorFile &base_, &queries_;
  std::vector<Json>& lines_;
  std::shared_ptr<Collection> collection_;
  double update_seconds_ = 0, search_seconds_ = 0;
  std::vector<std::vector<double>> recalls_;  ///< by target, of each search
};

}  // namespace

absl::StatusOr<Runbook> ReadRunbook(const std::string& path, std::uint64_t n) {
  constexpr std::uint64_t kMost = 64 << 20;
  HMANN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMost));
  std::map<std::uint64_t, NamedStep> steps;
  NamedStep* step = nullptr;
  int number = 0;
  bool is_in_set = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const absl::string_view words = absl::StripAsciiWhitespace(line);
    if (words.empty()) continue;
    if (line[0] != ' ' && std::exchange(is_in_set, true)) break;  // the next data set
    if (line[0] != ' ') continue;
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(words, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(
        absl::StripSuffix(absl::StripPrefix(absl::StripAsciiWhitespace(pair.second), "\""), "\""));
    std::uint64_t parsed = 0;
    if (value.empty() && absl::SimpleAtoi(pair.first, &parsed)) {
      step = &steps[parsed];
    } else if (pair.first == "operation" && step != nullptr) {
      step->operation = std::string(value);
    } else if (absl::SimpleAtoi(value, &parsed)) {
      if (step != nullptr) step->numbers[std::string(pair.first)] = parsed;
    } else if (step != nullptr || value.empty()) {
      return InvalidArgument(path, ":", number, ": expected a step, an operation or a number");
    }
  }
  Runbook book{.name = std::filesystem::path(path).stem().string(), .steps = {}, .order = {}};
  for (const auto& [at, named] : steps) {
    const absl::StatusOr<RunbookStep> read = StepOf(named, n);
    if (!read.ok()) return InvalidArgument(path, ": step ", at, ": ", read.status().message());
    book.steps.push_back(*read);
  }
  if (book.steps.empty()) return InvalidArgument(path, ": expected steps, found none");
  return book;
}

absl::StatusOr<Runbook> MakeRunbook(const std::string& name, const VectorFile& base) {
  if (base.n() < kClusters)
    return InvalidArgument(base.path(), ": expected at least ", kClusters, " vectors, found ",
                           base.n());
  Runbook book{.name = name, .steps = {}, .order = {}};
  const auto step = [&](Kind kind, std::uint64_t begin, std::uint64_t end, std::uint64_t from) {
    book.steps.push_back({kind, begin, end, from});
  };
  if (name == "window") {
    constexpr std::uint64_t kParts = 32, kStay = 16;
    const auto part = [&](std::uint64_t i) { return base.n() * i / kParts; };
    for (std::uint64_t i = 0; i < kParts; ++i) {
      step(Kind::kInsert, part(i), part(i + 1), part(i));
      if (i >= kStay) step(Kind::kDelete, part(i - kStay), part(i - kStay + 1), 0);
      if (i % 4 == 3) step(Kind::kSearch, 0, 0, 0);
    }
    return book;
  }
  if (name != "simple" && name != "delete" && name != "replace")
    return InvalidArgument("runbook '", name,
                           "': expected simple, delete, replace, window or a file");
  const Bounds at = OrderByCluster(base, &book.order);
  const std::size_t inserted = name == "replace" ? kClusters / 2 : kClusters;
  for (std::size_t c = 0; c < inserted; ++c) {
    constexpr std::size_t kStay = 16;
    step(Kind::kInsert, at[c], at[c + 1], at[c]);
    if (name == "delete" && c >= kStay) step(Kind::kDelete, at[c - kStay], at[c - kStay + 1], 0);
    if (c % 8 == 7) step(Kind::kSearch, 0, 0, 0);
  }
  for (std::size_t c = 0; c < kClusters - inserted; ++c) {
    const std::uint64_t vectors = at[inserted + c + 1] - at[inserted + c];
    step(Kind::kReplace, at[c], std::min(at[c + 1], at[c] + vectors), at[inserted + c]);
    if (c % 4 == 3) step(Kind::kSearch, 0, 0, 0);
  }
  return book;
}

absl::StatusOr<std::vector<Json>> RunRunbooks(const RunbookOptions& options,
                                              const Benchmark& benchmark, const Say& say) {
  const BenchmarkData& job = benchmark.job;
  HMANN_ASSIGN_OR_RETURN(const VectorFile base, VectorFile::Open(job.base, job.rows));
  HMANN_ASSIGN_OR_RETURN(VectorFile queries, VectorFile::Open(job.queries, job.query_rows));
  constexpr std::uint64_t kQueries = 1000;
  if (job.query_rows == 0 && queries.n() > kQueries) {
    HMANN_ASSIGN_OR_RETURN(queries, VectorFile::Open(job.queries, kQueries));
  }
  HMANN_RETURN_IF_ERROR(queries.FitQueries(base.dim(), base.dtype(), base.path()));
  HMANN_RETURN_IF_ERROR(MakeFolders(job.folder));
  Benchmark shown = benchmark;
  shown.title = "Vectors that come and go";
  shown.targets.clear();
  shown.rounds = 1;
  std::vector<Json> lines = {HeadLine(shown, {{"base", job.base},
                                              {"queries", job.queries},
                                              {"n", base.n()},
                                              {"dim", base.dim()},
                                              {"dtype", std::string(Name(base.dtype()))},
                                              {"metric", std::string(Name(job.metric))},
                                              {"k", job.k},
                                              {"query_count", queries.n()}})};
  std::vector<Runbook> books;
  for (const std::string& name : options.runbooks) {
    const bool is_file = std::filesystem::exists(name);
    HMANN_ASSIGN_OR_RETURN(Runbook book,
                           is_file ? ReadRunbook(name, base.n()) : MakeRunbook(name, base));
    books.push_back(std::move(book));
  }
  for (const Runbook& book : books)
    HMANN_RETURN_IF_ERROR(Run(book, options, benchmark, base, queries, &lines).All(say));
  HMANN_RETURN_IF_ERROR(WriteResults(job.folder + "/results.jsonl", lines));
  return lines;
}

}  // namespace hmann::eval
