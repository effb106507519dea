#include "eval/disk.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "index/base/progress.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/tiers/tier.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBlock = 4096;

/// One thread that keeps `depth` reads in flight.
class Loop {
 public:
  Loop(const Region& region, std::uint32_t depth, std::uint64_t seed)
      : region_(region), depth_(depth), seed_(seed) {}

  absl::Status Open() {
    if (depth_ == 0) return absl::OkStatus();
    HMANN_ASSIGN_OR_RETURN(reader_, region_.NewReader({depth_, depth_, kBlock}));
    return absl::OkStatus();
  }

  /// Reads until `end`; counts what is done after `from`.
  absl::Status Run(Clock::time_point from, Clock::time_point end,
                   const std::atomic<bool>* cancelled) {
    if (depth_ == 0) return absl::OkStatus();
    std::vector<Clock::time_point> started(depth_);
    std::vector<BlockRead> next;
    for (std::uint32_t frame = 0; frame < depth_; ++frame) next.push_back(Read(frame));
    std::vector<BlockDone> done;
    while (true) {
      const Clock::time_point now = Clock::now();
      const bool over = now >= end || (cancelled != nullptr && cancelled->load());
      if (!over) {
        for (const BlockRead& read : next) started[read.frame] = now;
        HMANN_ASSIGN_OR_RETURN(const std::size_t taken, reader_->Submit(next));
        next.erase(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(taken));
      } else if (reader_->InFlight() == 0) {
        return absl::OkStatus();
      }
      done.clear();
      HMANN_RETURN_IF_ERROR(reader_->Wait(Clock::now() + std::chrono::milliseconds(200), &done));
      const Clock::time_point seen = Clock::now();
      for (const BlockDone& read : done) {
        HMANN_RETURN_IF_ERROR(read.status);
        if (seen >= from && seen < end)
          seconds_.push_back(std::chrono::duration<float>(seen - started[read.frame]).count());
        next.push_back(Read(read.frame));
      }
    }
  }

  const std::vector<float>& seconds() const { return seconds_; }

 private:
  BlockRead Read(std::uint32_t frame) {
    return {RandomBelow(seed_, counter_++, region_.size() / kBlock) * kBlock, kBlock, frame, frame};
  }

  const Region& region_;
  std::uint32_t depth_;
  std::uint64_t seed_, counter_ = 0;
  std::unique_ptr<BlockReader> reader_;
  std::vector<float> seconds_;
};

/// The seconds of each read that was done in the last nine tenths of `time`, of all
/// threads.
absl::StatusOr<std::vector<float>> ReadFor(std::chrono::nanoseconds time, const Region& region,
                                           std::uint32_t depth, const DiskOptions& options) {
  std::vector<Loop> loops;
  const auto threads = static_cast<std::uint32_t>(options.threads);
  for (std::uint32_t t = 0; t < threads; ++t) {
    loops.emplace_back(region, depth / threads + (t < depth % threads ? 1 : 0),
                       Random(options.seed, std::uint64_t{depth} * threads + t));
    HMANN_RETURN_IF_ERROR(loops.back().Open());
  }
  const Clock::time_point start = Clock::now(), from = start + time / 10, end = start + time;
  std::vector<absl::Status> statuses(threads);
  std::vector<std::thread> others;
  for (std::uint32_t t = 1; t < threads; ++t) {
    others.emplace_back([&, t] { statuses[t] = loops[t].Run(from, end, options.cancelled); });
  }
  statuses[0] = loops[0].Run(from, end, options.cancelled);
  for (std::thread& thread : others) thread.join();
  std::vector<float> seconds;
  for (std::uint32_t t = 0; t < threads; ++t) {
    HMANN_RETURN_IF_ERROR(statuses[t]);
    seconds.insert(seconds.end(), loops[t].seconds().begin(), loops[t].seconds().end());
  }
  if (options.cancelled != nullptr && options.cancelled->load())
    return absl::CancelledError("cancelled");
  return seconds;
}

/// A shared disk stalls for longer than a short time: then the time doubles, a few times.
absl::StatusOr<DepthFigures> MeasureDepth(const Region& region, std::uint32_t depth,
                                          const DiskOptions& options) {
  constexpr int kDoublings = 6;
  std::chrono::nanoseconds time = options.time;
  HMANN_ASSIGN_OR_RETURN(std::vector<float> seconds, ReadFor(time, region, depth, options));
  for (int i = 0; seconds.empty() && i < kDoublings; ++i) {
    time *= 2;
    HMANN_ASSIGN_OR_RETURN(seconds, ReadFor(time, region, depth, options));
  }
  if (seconds.empty()) {
    return absl::DeadlineExceededError(absl::StrCat("depth ", depth, ": no read was done within ",
                                                    time / std::chrono::milliseconds(1), " ms"));
  }
  DepthFigures figures;
  figures.depth = depth;
  figures.reads = seconds.size();
  figures.seconds = std::chrono::duration<double>(time - time / 10).count();
  figures.iops = static_cast<double>(figures.reads) / figures.seconds;
  figures.latency = SummariseLatency(std::move(seconds));
  return figures;
}

}  // namespace

double DiskFigures::most_iops() const {
  double most = 0;
  for (const DepthFigures& depth : depths) most = std::max(most, depth.iops);
  return most;
}

absl::StatusOr<DiskFigures> MeasureDisk(const std::string& path, const DiskOptions& options) {
  if (options.depths.empty() || std::count(options.depths.begin(), options.depths.end(), 0u) > 0) {
    return absl::InvalidArgumentError("disk: expected depths of at least 1");
  }
  if (options.threads < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("disk: expected at least one thread, found ", options.threads));
  HMANN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  DiskFigures figures;
  figures.path = path;
  figures.tier = "nvme";
  figures.threads = options.threads;
  figures.blocks = file.bytes().size() / kBlock;
  if (figures.blocks == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected at least a block of ", kBlock,
                                                   " bytes, found ", file.bytes().size()));
  }
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> tier, MakeTier(figures.tier));
  Progress quiet(Progress::Show::kNever);
  HMANN_ASSIGN_OR_RETURN(
      const Region region,
      tier->Place({file.bytes().first(figures.blocks * kBlock), 0, path, 0}, quiet));
  for (const std::uint32_t depth : options.depths) {
    HMANN_ASSIGN_OR_RETURN(const DepthFigures at, MeasureDepth(region, depth, options));
    figures.depths.push_back(at);
  }
  return figures;
}

}  // namespace hmann
