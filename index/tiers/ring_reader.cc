#include "index/tiers/ring_reader.h"

#include <liburing.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "index/base/buffer.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

using Clock = std::chrono::steady_clock;

/// Orders the users of a ring that has ended before the next user of its memory. liburing
/// maps and unmaps it by direct system calls, so ThreadSanitizer would not know without
/// this.
std::atomic<std::uint64_t> rings_ended{0};

/// Delivers completions when the thread asks for them, without interrupting it, if the
/// kernel supports that (5.19).
int InitRing(std::uint32_t entries, io_uring* ring) {
  int result =
      ::io_uring_queue_init(entries, ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
  if (result == -EINVAL) result = ::io_uring_queue_init(entries, ring, 0);
  rings_ended.load(std::memory_order_acquire);
  return result;
}

void ExitRing(io_uring* ring) {
  rings_ended.fetch_add(1, std::memory_order_release);
  ::io_uring_queue_exit(ring);
}

/// Registered frames and rings count against RLIMIT_MEMLOCK, for all processes of a user
/// together. Without CAP_IPC_LOCK, a reader takes only a small part of it, so that the
/// rings of other readers still fit.
bool MayRegister(std::size_t bytes) {
  constexpr std::size_t kShare = 16;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3] = {};
  const bool reported = ::syscall(SYS_capget, &header, capabilities) == 0;
  if (reported && (capabilities[0].effective & 1u << CAP_IPC_LOCK) != 0) return true;
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && bytes <= limit.rlim_cur / kShare;
}

class RingReader : public BlockReader {
 public:
  RingReader(const DirectExtent& extent, const ReaderOptions& options, Buffer frames)
      : BlockReader(options),
        extent_(extent),
        frames_(std::move(frames)),
        slots_(options.frames),
        in_flight_frame_(options.frames) {}

  absl::Status Open() {
    if (const int error = -InitRing(options().depth, &ring_); error != 0)
      return ErrnoError(error, "io_uring_queue_init", Path());
    open_ = true;
    const int fd = extent_.file->fd();
    if (const int error = -::io_uring_register_files(&ring_, &fd, 1); error != 0)
      return ErrnoError(error, "io_uring_register", Path());
    RegisterFrames();
    return absl::OkStatus();
  }

  ~RingReader() override {
    if (!open_) return;
    const auto patience = Clock::now() + std::chrono::seconds(1);
    std::vector<BlockDone> done;
    while (in_flight_ > 0 && Clock::now() < patience && Wait(patience, &done).ok()) {
    }
    ExitRing(&ring_);
    if (in_flight_ == 0) return;
    // The kernel may still write into these frames, so their memory stays mapped forever.
    alignas(Buffer) std::byte grave[sizeof(Buffer)];
    new (grave) Buffer(std::move(frames_));
  }

  std::byte* Frame(std::uint32_t frame) const override {
    return const_cast<std::byte*>(frames_.data()) + std::size_t{frame} * options().frame_bytes;
  }
  std::uint32_t InFlight() const override { return in_flight_; }

  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    const std::size_t count = std::min<std::size_t>(reads.size(), options().depth - in_flight_);
    HMANN_RETURN_IF_ERROR(extent_.Reserve(reads.first(count), options(), &in_flight_frame_));
    for (const BlockRead& read : reads.first(count)) {
      slots_[read.frame] = {read, 0};
      Queue(read.frame);
    }
    in_flight_ += static_cast<std::uint32_t>(count);
    if (count > 0) HMANN_RETURN_IF_ERROR(Judge(::io_uring_submit(&ring_)));
    return count;
  }

  absl::Status Wait(Clock::time_point deadline, std::vector<BlockDone>* done) override {
    const std::size_t before = done->size();
    while (in_flight_ > 0) {
      Reap(done);
      if (done->size() > before) break;
      const auto now = Clock::now();
      if (now >= deadline) break;
      const auto left =
          std::min<std::chrono::nanoseconds>(deadline - now, std::chrono::hours(1)).count();
      __kernel_timespec patience{left / 1000000000, left % 1000000000};
      io_uring_cqe* first = nullptr;
      HMANN_RETURN_IF_ERROR(
          Judge(::io_uring_submit_and_wait_timeout(&ring_, &first, 1, &patience, nullptr)));
    }
    // Reads that had to be restarted, or that the ring did not accept at once.
    if (::io_uring_sq_ready(&ring_) > 0) HMANN_RETURN_IF_ERROR(Judge(::io_uring_submit(&ring_)));
    return absl::OkStatus();
  }

 private:
  struct Slot {
    BlockRead read;
    std::uint8_t begun_again = 0;
  };
  static constexpr std::uint8_t kMostBeginnings = 100;
  static constexpr std::size_t kRegisteredBytes =
      256_MiB;  // the kernel takes up to 1 GiB as one buffer

  const std::string& Path() const { return extent_.file->path(); }

  void RegisterFrames() {
    frames_a_buffer_ = std::max<std::size_t>(1, kRegisteredBytes / options().frame_bytes);
    const std::size_t step = frames_a_buffer_ * options().frame_bytes;
    std::vector<iovec> buffers;
    for (std::size_t at = 0; at < frames_.size(); at += step)
      buffers.push_back({frames_.data() + at, std::min(step, frames_.size() - at)});
    registered_ = MayRegister(frames_.size()) &&
                  ::io_uring_register_buffers(&ring_, buffers.data(),
                                              static_cast<unsigned>(buffers.size())) == 0;
  }

  void Queue(std::uint32_t frame) {
    const BlockRead& read = slots_[frame].read;
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);  // the ring has `depth` entries
    if (registered_) {
      ::io_uring_prep_read_fixed(entry, 0, Frame(frame), read.bytes, extent_.begin + read.offset,
                                 static_cast<int>(frame / frames_a_buffer_));
    } else {
      ::io_uring_prep_read(entry, 0, Frame(frame), read.bytes, extent_.begin + read.offset);
    }
    entry->flags |= IOSQE_FIXED_FILE;
    ::io_uring_sqe_set_data64(entry, frame);
  }

  void Reap(std::vector<BlockDone>* done) {
    std::array<io_uring_cqe*, 64> entries;
    while (const unsigned count =
               ::io_uring_peek_batch_cqe(&ring_, entries.data(), entries.size())) {
      for (unsigned i = 0; i < count; ++i) {
        const auto frame = static_cast<std::uint32_t>(entries[i]->user_data);
        Slot& slot = slots_[frame];
        const int result = entries[i]->res;
        if ((result == -EAGAIN || result == -EINTR) && slot.begun_again++ < kMostBeginnings) {
          Queue(frame);
          continue;
        }
        in_flight_frame_[frame] = false;
        --in_flight_;
        done->push_back(
            {slot.read.tag, frame, extent_.Judge(slot.read.offset, slot.read.bytes, result)});
      }
      ::io_uring_cq_advance(&ring_, count);
    }
  }

  /// A busy or interrupted ring keeps what is queued for the next call.
  absl::Status Judge(int result) const {
    if (result >= 0 || result == -EAGAIN || result == -EBUSY || result == -EINTR ||
        result == -ETIME)
      return absl::OkStatus();
    return Internal("io_uring_enter ", Path(), ": ", std::strerror(-result));
  }

  DirectExtent extent_;
  Buffer frames_;
  std::vector<Slot> slots_;  ///< by frame, as the next
  std::vector<bool> in_flight_frame_;
  io_uring ring_{};
  bool open_ = false;
  bool registered_ = false;
  std::size_t frames_a_buffer_ = 1;  ///< registered as one
  std::uint32_t in_flight_ = 0;
};

}  // namespace

absl::Status RingUsable() {
  io_uring ring{};
  const int error = -InitRing(2, &ring);
  if (error == ENOSYS || error == EPERM || error == EACCES || error == ENOMEM)
    return Unavailable("io_uring: ", std::strerror(error));
  if (error != 0) return ErrnoError(error, "io_uring_queue_init", "a ring");
  const bool waits = (ring.features & IORING_FEAT_EXT_ARG) != 0;
  ExitRing(&ring);
  return waits ? absl::OkStatus()
               : Unavailable("io_uring: this kernel's cannot wait with a deadline");
}

absl::StatusOr<std::unique_ptr<BlockReader>> NewRingReader(const DirectExtent& extent,
                                                           const ReaderOptions& options) {
  HMANN_ASSIGN_OR_RETURN(Buffer frames,
                         Buffer::Allocate(std::size_t{options.frames} * options.frame_bytes));
  auto reader = std::make_unique<RingReader>(extent, options, std::move(frames));
  HMANN_RETURN_IF_ERROR(reader->Open());
  return reader;
}

}  // namespace hmann
