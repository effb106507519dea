#include <atomic>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/tiers/testing/decorator.h"

namespace hmann {
namespace {

struct Counts {
  std::atomic<std::uint64_t> reads{0}, bytes{0}, failed{0};
};

class CountedReader : public DecoratedReader {
 public:
  CountedReader(std::unique_ptr<BlockReader> inner, std::shared_ptr<Counts> counts)
      : DecoratedReader(std::move(inner)), counts_(std::move(counts)) {}

  absl::StatusOr<std::size_t> Submit(std::span<const BlockRead> reads) override {
    HMANN_ASSIGN_OR_RETURN(const std::size_t taken, inner().Submit(reads));
    counts_->reads += taken;
    for (const BlockRead& read : reads.first(taken)) counts_->bytes += read.bytes;
    return taken;
  }
  absl::Status Wait(std::chrono::steady_clock::time_point deadline,
                    std::vector<BlockDone>* done) override {
    const std::size_t before = done->size();
    HMANN_RETURN_IF_ERROR(inner().Wait(deadline, done));
    for (const BlockDone& one : std::span(*done).subspan(before))
      counts_->failed += one.status.ok() ? 0 : 1;
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Counts> counts_;
};

class Counter : public Decorator {
 public:
  std::unique_ptr<BlockReader> Wrap(std::unique_ptr<BlockReader> inner, std::weak_ptr<const void>,
                                    std::uint64_t) override {
    return std::make_unique<CountedReader>(std::move(inner), counts_);
  }
  std::string Note() const override {
    return absl::StrCat("counted ", counts_->reads.load(), " reads, ", counts_->bytes.load(),
                        " bytes, ", counts_->failed.load(), " failed");
  }

 private:
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace

std::unique_ptr<Decorator> MakeCounter() { return std::make_unique<Counter>(); }

}  // namespace hmann
