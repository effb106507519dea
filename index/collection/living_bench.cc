/// What a collection costs: durable writes, the first answer after a sudden end, searches
/// next to a delta and dead rows, a merge, and minutes of inserts and deletes. For ./dev
/// soak-living; prints a line for each figure.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_format.h"
#include "datasets/vector_file.h"
#include "hmann/collection.h"
#include "index/base/check.h"
#include "index/base/clock.h"
#include "index/base/file.h"
#include "index/base/units.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

void Need(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}
template <typename T>
T Need(absl::StatusOr<T> value) {
  Need(value.status());
  return *std::move(value);
}

struct Options {
  std::string folder, index, fresh, queries, slow = "dram";
  std::uint32_t rate = 500;
  double minutes = 0.5, recall = 0.95;
  std::uint64_t delta = 100'000;
  std::optional<int> merge_threads = {};
};

/// Writes and searches one collection.
class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        fresh_(Need(VectorFile::Open(options.fresh))),
        queries_(Need(VectorFile::Open(options.queries))) {}

  void Run() {
    std::filesystem::remove_all(options_.folder);
    auto start = Clock::now();
    Need(Collection::Create(options_.folder, {.from = options_.index}));
    Say("create --from", SecondsSince(start), "s");
    Open(false);
    sealed_ = collection_->info().sealed_rows;
    Search("fresh");
    DiskRate();
    Singles(1, 3);
    Singles(64, 3);
    Batches();
    DeleteRows(sealed_ / 10);
    Reopen();
    Settle();
    const CollectionInfo info = collection_->info();
    Say("delta rows", static_cast<double>(info.delta_rows), "");
    Say("delta bytes a row",
        static_cast<double>(info.delta_bytes) / static_cast<double>(info.delta_rows), "B");
    Search("10 % delta, 10 % dead");
    if (options_.minutes == 0) return;
    start = Clock::now();
    Progress quiet(Progress::Show::kNever);
    Need(collection_->Compact(quiet));
    Say("compact", SecondsSince(start), "s");
    Search("compacted");
    Stream();
  }

 private:
  static void Say(const std::string& what, double value, const char* unit) {
    std::printf("%-34s %12.3f %s\n", what.c_str(), value, unit);
    std::fflush(stdout);
  }

  void Open(bool merges) {
    collection_.reset();
    collection_ =
        Need(Collection::Open(options_.folder, {.index = {.slow = options_.slow},
                                                .merges = merges,
                                                .merge_threads = options_.merge_threads}));
  }

  const std::byte* Fresh(std::uint64_t i) const { return fresh_.Row(i % fresh_.n()); }
  void Put(WriteBatch& batch, std::uint64_t label) {
    batch.Put(label, Fresh(label), fresh_.row_bytes());
  }

  /// Rate of writes of 4 KiB with fdatasync.
  void DiskRate() {
    FileDescriptor file =
        Need(FileDescriptor::Open(options_.folder + "/probe", O_RDWR | O_CREAT, 0644));
    const std::string block(4096, 'x');
    const auto start = Clock::now();
    for (int i = 0; i < 300; ++i) {
      HMANN_CHECK(::pwrite(file.fd(), block.data(), block.size(), i * 4096) == 4096);
      HMANN_CHECK(::fdatasync(file.fd()) == 0);
    }
    Say("disk", 300 / SecondsSince(start), "syncs/s");
    std::filesystem::remove(options_.folder + "/probe");
  }

  void Singles(int threads, double seconds) {
    std::vector<std::thread> writers;
    std::atomic<std::uint64_t> done = 0;
    const auto start = Clock::now();
    for (int t = 0; t < threads; ++t) {
      writers.emplace_back([&] {
        while (SecondsSince(start) < seconds) {
          WriteBatch batch;
          Put(batch, next_++);
          Need(collection_->Write(batch).status());
          ++done;
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    Say(absl::StrFormat("single puts, %d threads", threads),
        static_cast<double>(done) / SecondsSince(start), "rows/s");
  }

  void Batches() {
    const auto start = Clock::now();
    const std::uint64_t first = next_;
    while (collection_->info().delta_rows < options_.delta) {
      WriteBatch batch;
      for (int i = 0; i < 256; ++i) Put(batch, next_++);
      Need(collection_->Write(batch).status());
    }
    Say("puts in batches of 256", static_cast<double>(next_ - first) / SecondsSince(start),
        "rows/s");
  }

  void DeleteRows(std::uint64_t rows) {
    std::mt19937_64 random(5);
    const auto start = Clock::now();
    std::uint64_t gone = 0;
    while (gone < rows) {
      WriteBatch batch;
      for (int i = 0; i < 256; ++i) batch.Delete(random() % sealed_);
      gone += Need(collection_->Write(batch)).rows;
    }
    Say("deletes in batches of 256", static_cast<double>(gone) / SecondsSince(start), "rows/s");
  }

  void Reopen() {
    collection_.reset();
    const auto start = Clock::now();
    Open(false);
    Answer answer;
    CollectionSearcher searcher;
    Need(searcher.Search(queries_.Row(0), *Need(Prepare(collection_->Now(), {})), &answer));
    Say("first answer after opening", SecondsSince(start), "s");
  }

  /// Waits until the graphs over the delta are made.
  void Settle() {
    const auto start = Clock::now();
    while (collection_->info().loose_rows > 64)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Say("graphs of the delta made", SecondsSince(start), "s");
  }

  /// Mean time and recall@10 of searches at the target, by one thread, compared with
  /// exact ones.
  void Search(const std::string& when) {
    const std::shared_ptr<const Moment> now = collection_->Now();
    const auto exact = Need(Prepare(now, {.mode = SearchMode::kScan}));
    const auto target = Need(Prepare(now, {.recall = options_.recall}));
    const std::uint64_t queries = std::min<std::uint64_t>(queries_.n(), 300);
    std::vector<Answer> truth(queries), found(queries);
    CollectionSearcher searcher;
    for (std::uint64_t q = 0; q < queries; ++q)
      Need(searcher.Search(queries_.Row(q), *exact, &truth[q]));
    double best = 1e9;
    Counters counters;
    for (int round = 0; round < 5; ++round) {
      counters = {};
      const auto start = Clock::now();
      for (std::uint64_t q = 0; q < queries; ++q)
        Need(searcher.Search(queries_.Row(q), *target, &found[q], &counters));
      best = std::min(best, SecondsSince(start) / static_cast<double>(queries));
    }
    std::uint64_t right = 0;
    for (std::uint64_t q = 0; q < queries; ++q)
      for (const Neighbor& neighbor : found[q].nearest)
        right += neighbor.distance <= truth[q].nearest.back().distance ? 1 : 0;
    Say("search, " + when, best * 1e6, "us");
    Say("  recall", static_cast<double>(right) / static_cast<double>(queries * 10), "");
    Say("  reads", static_cast<double>(counters.io_reads) / static_cast<double>(queries), "");
  }

  std::vector<std::uint64_t> SealedLabels() const {
    std::vector<std::uint64_t> all;
    const auto index = Need(Index::Open(collection_->info().sealed_file, {.fast = "mapped"}));
    Need(index->ForLabels(
        [&](auto, auto labels) { all.insert(all.end(), labels.begin(), labels.end()); }));
    return all;
  }

  /// Replaces random vectors by new ones at a rate, in writes of a hundredth of a second,
  /// with merges.
  void Stream() {
    std::vector<std::uint64_t> live = SealedLabels();
    Open(true);
    std::mt19937_64 random(9);
    const auto start = Clock::now();
    std::uint64_t written = 0, errors = 0, searches = 0;
    double most = 0, late = 0, slowest = 0;
    const std::uint64_t some = std::max<std::uint32_t>(options_.rate / 100, 1);
    CollectionSearcher searcher;
    while (SecondsSince(start) < options_.minutes * 60) {
      WriteBatch batch;
      for (std::uint64_t i = 0; i < some; ++i) {
        batch.Delete(std::exchange(live[random() % live.size()], next_));
        Put(batch, next_++);
      }
      const auto status = collection_->Write(batch);
      errors += status.ok() ? 0 : 1;
      if (!status.ok()) std::printf("%s\n", std::string(status.status().message()).c_str());
      written += some;
      const auto at = Clock::now();
      Answer answer;
      const auto prepared = Need(Prepare(collection_->Now(), {.recall = options_.recall}));
      Need(searcher.Search(queries_.Row(searches++ % queries_.n()), *prepared, &answer));
      slowest = std::max(slowest, SecondsSince(at));
      const CollectionInfo info = collection_->info();
      most = std::max(most, static_cast<double>(info.delta_rows) / static_cast<double>(info.live));
      const double due = static_cast<double>(written) / options_.rate;
      late = SecondsSince(start) - due;
      if (late < 0) std::this_thread::sleep_for(std::chrono::duration<double>(-late));
    }
    const CollectionInfo info = collection_->info();
    Say(absl::StrFormat("stream of %d + %d a second, for", options_.rate, options_.rate),
        options_.minutes, "min");
    Say("  writes that failed", static_cast<double>(errors), "");
    Say("  behind at the end", std::max(late, 0.0), "s");
    Say("  delta at most", most * 100, "% of the rows");
    Say("  merges", static_cast<double>(info.merges), "");
    Say("  slowest search", slowest * 1e3, "ms");
    if (!info.last_error.empty()) std::printf("  last error: %s\n", info.last_error.c_str());
  }

  const Options options_;
  const VectorFile fresh_, queries_;
  std::shared_ptr<Collection> collection_;
  std::uint64_t sealed_ = 0;
  std::atomic<std::uint64_t> next_ = 10'000'000;  ///< label of the next new row
};

}  // namespace
}  // namespace hmann

int main(int argc, char** argv) {
  CLI::App app("what a collection costs");
  hmann::Options options;
  app.add_option("folder", options.folder, "of the collection; removed first")->required();
  app.add_option("--index", options.index, "finished index to adopt")->required();
  app.add_option("--fresh", options.fresh, "vectors to insert")->required();
  app.add_option("--queries", options.queries)->required();
  app.add_option("--slow", options.slow);
  app.add_option("--rate", options.rate, "inserts, and deletes, a second");
  app.add_option("--minutes", options.minutes, "of inserts and deletes; 0: no merge either");
  app.add_option("--recall", options.recall);
  app.add_option("--delta", options.delta, "rows");
  app.add_option("--merge-threads", options.merge_threads);
  CLI11_PARSE(app, argc, argv);
  hmann::Bench(options).Run();
}
