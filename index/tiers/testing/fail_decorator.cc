#include <atomic>

#include "absl/strings/str_cat.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/tiers/testing/decorator.h"

namespace hmann {
namespace {

/// Counts from 1; true for each `every`th.
struct Lot {
  std::uint64_t every;
  std::atomic<std::uint64_t> drawn{0};

  bool Draw() { return ++drawn % every == 0; }
};

class FailingReader : public DecoratedReader {
 public:
  FailingReader(std::unique_ptr<BlockReader> inner, std::shared_ptr<Lot> lot)
      : DecoratedReader(std::move(inner)),
        lot_(std::move(lot)),
        fails_at_(options().frames, kWell) {}

  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    HMANN_ASSIGN_OR_RETURN(const std::size_t taken, inner().Submit(reads));
    for (const BlockRead& read : reads.first(taken))
      fails_at_[read.frame] = lot_->Draw() ? read.offset : kWell;
    return taken;
  }
  absl::Status Wait(std::chrono::steady_clock::time_point deadline,
                    std::vector<BlockDone>* done) override {
    const std::size_t before = done->size();
    HMANN_RETURN_IF_ERROR(inner().Wait(deadline, done));
    for (BlockDone& one : std::span(*done).subspan(before)) {
      if (fails_at_[one.frame] == kWell) continue;
      one.status =
          DataLoss("fail:every=", lot_->every, ": offset ", fails_at_[one.frame], " of the region");
    }
    return absl::OkStatus();
  }

 private:
  static constexpr std::uint64_t kWell = ~std::uint64_t{0};

  std::shared_ptr<Lot> lot_;
  std::vector<std::uint64_t> fails_at_;  ///< by frame: offset of a read to fail
};

class Failer : public Decorator {
 public:
  explicit Failer(std::uint64_t every) : lot_(std::make_shared<Lot>(every)) {}

  std::unique_ptr<BlockReader> Wrap(std::unique_ptr<BlockReader> inner, std::weak_ptr<const void>,
                                    std::uint64_t) override {
    return std::make_unique<FailingReader>(std::move(inner), lot_);
  }
  std::string Note() const override { return absl::StrCat("failing every ", lot_->every); }
  absl::Status BeforePlace() override {
    return lot_->Draw() ? Unavailable("fails to place, as was asked for") : absl::OkStatus();
  }

 private:
  std::shared_ptr<Lot> lot_;
};

}  // namespace

std::unique_ptr<Decorator> MakeFailer(std::uint64_t every) {
  return std::make_unique<Failer>(every);
}

}  // namespace hmann
