#include "index/tiers/pread_reader.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "index/base/buffer.h"
#include "index/base/status_macros.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

/// State that the reader and its threads share; it lives as long as the last of them.
struct Shared {
  DirectExtent extent;
  PreadFunction pread = nullptr;
  Buffer frames;
  std::uint32_t frame_bytes = 0;

  std::mutex mutex;
  std::condition_variable work, news;
  std::deque<BlockRead> waiting;
  std::vector<BlockDone> done;
  std::uint32_t reading = 0;
  std::uint32_t threads = 0;
  bool closing = false;

  std::byte* Frame(std::uint32_t frame) { return frames.data() + std::size_t{frame} * frame_bytes; }

  absl::Status Read(const BlockRead& read) {
    std::int64_t got = 0;
    do {
      got = pread(extent.file->fd(), Frame(read.frame), read.bytes,
                  static_cast<off_t>(extent.begin + read.offset));
    } while (got < 0 && errno == EINTR);
    return extent.Judge(read.offset, read.bytes, got < 0 ? -errno : got);
  }

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [&] { return closing || !waiting.empty(); });
      if (closing) break;
      const BlockRead read = waiting.front();
      waiting.pop_front();
      ++reading;
      lock.unlock();
      absl::Status status = Read(read);
      lock.lock();
      --reading;
      done.push_back({read.tag, read.frame, std::move(status)});
      news.notify_one();
    }
    --threads;
    news.notify_one();
  }
};

class PreadReader : public BlockReader {
 public:
  PreadReader(const ReaderOptions& options, std::shared_ptr<Shared> shared)
      : BlockReader(options), shared_(std::move(shared)), in_flight_frame_(options.frames) {}

  absl::Status Start() {
    const std::uint32_t wanted = std::min(options().depth, kPreadThreads);
    for (std::uint32_t i = 0; i < wanted; ++i) {
      const std::lock_guard lock(shared_->mutex);
      try {
        threads_.emplace_back([shared = shared_] { shared->Run(); });
        ++shared_->threads;
      } catch (const std::system_error& error) {
        if (i > 0) break;
        return ResourceExhausted("a thread to read ", shared_->extent.file->path(), ": ",
                                 error.what());
      }
    }
    return absl::OkStatus();
  }

  ~PreadReader() override {
    bool all_ended = false;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->closing = true;
      shared_->waiting.clear();
      shared_->work.notify_all();
      all_ended = shared_->news.wait_for(lock, std::chrono::seconds(1),
                                         [&] { return shared_->threads == 0; });
    }
    for (std::thread& thread : threads_) all_ended ? thread.join() : thread.detach();
  }

  std::byte* Frame(std::uint32_t frame) const override { return shared_->Frame(frame); }
  std::uint32_t InFlight() const override { return in_flight_; }

  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    const std::size_t count = std::min<std::size_t>(reads.size(), options().depth - in_flight_);
    HMANN_RETURN_IF_ERROR(
        shared_->extent.Reserve(reads.first(count), options(), &in_flight_frame_));
    in_flight_ += static_cast<std::uint32_t>(count);
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->waiting.insert(shared_->waiting.end(), reads.begin(),
                              reads.begin() + static_cast<std::ptrdiff_t>(count));
    }
    for (std::size_t i = 0; i < std::min(count, threads_.size()); ++i) shared_->work.notify_one();
    return count;
  }

  absl::Status Wait(Clock::time_point deadline, std::vector<BlockDone>* done) override {
    if (in_flight_ == 0) return absl::OkStatus();
    std::unique_lock lock(shared_->mutex);
    while (shared_->done.empty()) {
      const auto now = Clock::now();
      if (now >= deadline) return absl::OkStatus();
      shared_->news.wait_for(lock,
                             std::min<Clock::duration>(deadline - now, std::chrono::hours(1)));
    }
    for (BlockDone& one : shared_->done) {
      in_flight_frame_[one.frame] = false;
      --in_flight_;
      done->push_back(std::move(one));
    }
    shared_->done.clear();
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  std::vector<bool> in_flight_frame_;
  std::uint32_t in_flight_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockReader>> NewPreadReader(const DirectExtent& extent,
                                                            const ReaderOptions& options,
                                                            PreadFunction pread) {
  auto shared = std::make_shared<Shared>();
  shared->extent = extent;
  shared->pread = pread;
  shared->frame_bytes = options.frame_bytes;
  HMANN_ASSIGN_OR_RETURN(shared->frames,
                         Buffer::Allocate(std::size_t{options.frames} * options.frame_bytes));
  auto reader = std::make_unique<PreadReader>(options, std::move(shared));
  HMANN_RETURN_IF_ERROR(reader->Start());
  return reader;
}

}  // namespace hmann
