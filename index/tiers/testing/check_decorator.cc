#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/testing/decorator.h"

namespace hmann {
namespace {

class CheckedReader : public DecoratedReader {
 public:
  CheckedReader(std::unique_ptr<BlockReader> inner, std::weak_ptr<const void> region,
                std::uint64_t bytes)
      : DecoratedReader(std::move(inner)),
        region_(std::move(region)),
        end_(RoundUp(bytes, 4_KiB)),
        started_(options().frames) {}

  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    const std::size_t room = options().depth - InFlight();
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const char* wrong = Wrong(reads[i]);
      for (std::size_t j = 0; wrong == nullptr && j < i; ++j) {
        if (reads[j].frame == reads[i].frame) wrong = "its frame is named twice";
      }
      if (wrong != nullptr) {
        return Internal("check: read of ", reads[i].bytes, " bytes at ", reads[i].offset, " of ",
                        end_, " into frame ", reads[i].frame, ": ", wrong);
      }
      if (i < room) std::memset(Frame(reads[i].frame), 0xa5, reads[i].bytes);
    }
    HMANN_ASSIGN_OR_RETURN(const std::size_t taken, inner().Submit(reads));
    if (taken != std::min(room, reads.size())) {
      return Internal("check: the reader took ", taken, " of ", reads.size(),
                      " reads, and had room for ", room);
    }
    for (const BlockRead& read : reads.first(taken)) started_[read.frame] = {true, read.tag};
    return taken;
  }

  absl::Status Wait(std::chrono::steady_clock::time_point deadline,
                    std::vector<BlockDone>* done) override {
    const std::size_t before = done->size();
    HMANN_RETURN_IF_ERROR(inner().Wait(deadline, done));
    for (const BlockDone& one : std::span(*done).subspan(before)) {
      if (one.frame >= started_.size() || !started_[one.frame].first ||
          started_[one.frame].second != one.tag) {
        return Internal("check: the reader says that frame ", one.frame, ", tag ", one.tag,
                        ", is done, which was not in flight");
      }
      started_[one.frame].first = false;
    }
    return absl::OkStatus();
  }

 private:
  const char* Wrong(const BlockRead& read) const {
    if (region_.expired()) return "its region is gone";
    if (read.bytes == 0 || read.bytes % 512 != 0 || read.offset % 512 != 0)
      return "not a multiple of 512";
    if (read.offset >= end_ || read.bytes > end_ - read.offset) return "outside the region";
    if (read.frame >= options().frames || read.bytes > options().frame_bytes)
      return "not in a frame";
    return started_[read.frame].first ? "its frame is in flight" : nullptr;
  }

  std::weak_ptr<const void> region_;
  std::uint64_t end_;
  std::vector<std::pair<bool, std::uint64_t>> started_;  ///< by frame: in flight, tag
};

class Checker : public Decorator {
 public:
  std::unique_ptr<BlockReader> Wrap(std::unique_ptr<BlockReader> inner,
                                    std::weak_ptr<const void> region,
                                    std::uint64_t bytes) override {
    return std::make_unique<CheckedReader>(std::move(inner), std::move(region), bytes);
  }
  std::string Note() const override { return "checked"; }
};

}  // namespace

std::unique_ptr<Decorator> MakeChecker() { return std::make_unique<Checker>(); }

}  // namespace hmann
