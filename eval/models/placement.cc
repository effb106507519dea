#include "eval/models/placement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "eval/models/first_touch.h"
#include "eval/models/memory_mode.h"
#include "index/base/errors.h"

namespace hmann::eval {
namespace {

constexpr std::uint64_t kLinesOfPage = 4096 / 64;

class Uniform : public PlacementModel {
 public:
  explicit Uniform(bool slow) : slow_(slow) {}
  bool Slow(Part, std::uint32_t, std::uint64_t) override { return slow_; }

 private:
  bool slow_;
};

class FastUpper : public PlacementModel {
 public:
  explicit FastUpper(std::vector<bool> in_upper) : in_upper_(std::move(in_upper)) {}
  bool Slow(Part part, std::uint32_t node, std::uint64_t) override {
    if (part == Part::kVector) return !in_upper_[node];
    return part == Part::kLinks || part == Part::kLabel;
  }

 private:
  std::vector<bool> in_upper_;
};

/// A model that knows only lines. `Memory` has bool Touch(line), which returns whether
/// the line was fast.
template <typename Memory>
class ByLine : public PlacementModel {
 public:
  ByLine(std::uint64_t lines, bool learns, Memory memory)
      : told_(lines, 0), learns_(learns), memory_(std::move(memory)) {}

  void NewQuery() override { ++query_; }
  bool Slow(Part, std::uint32_t, std::uint64_t line) override {
    std::uint32_t& reported = told_[line];
    if (reported >> 1 != query_) reported = query_ << 1 | (memory_.Touch(line) ? 0 : 1);
    return (reported & 1) != 0;
  }
  bool Learns() const override { return learns_; }

 private:
  std::vector<std::uint32_t> told_;  ///< by line: query << 1 | slow
  std::uint32_t query_ = 1;
  bool learns_;
  Memory memory_;
};

template <typename Cache>
struct Cached {
  Cache cache;
  bool Touch(std::uint64_t line) { return cache.Read(line); }
};

struct Paged {
  FirstTouch memory;
  bool Touch(std::uint64_t line) { return memory.Touch(line / kLinesOfPage); }
};

template <typename Memory>
std::unique_ptr<PlacementModel> Make(std::uint64_t lines, bool learns, Memory memory) {
  return std::make_unique<ByLine<Memory>>(lines, learns, std::move(memory));
}

}  // namespace

std::uint64_t FastLines(const PlacementRequest& request) {
  if (request.name == "dram") return request.lines;
  if (request.name == "slow" || request.name == "fast-upper") return 0;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(
                                        request.fast_share * static_cast<double>(request.lines))));
}

absl::StatusOr<std::unique_ptr<PlacementModel>> MakePlacement(const PlacementRequest& request) {
  const std::string& name = request.name;
  if (!(request.fast_share > 0 && request.fast_share <= 1))
    return InvalidArgument("fast_share: expected a share in (0, 1], found ", request.fast_share);
  const std::uint64_t lines = request.lines, fast = FastLines(request);
  if (name == "dram" || name == "slow") return std::make_unique<Uniform>(name == "slow");
  if (name == "fast-upper") return std::make_unique<FastUpper>(request.in_upper);
  if (name == "memory-mode")
    return Make(lines, true, Cached<DirectMappedCache>{DirectMappedCache(fast)});
  if (name == "memory-mode-lru") return Make(lines, true, Cached<LruCache>{LruCache(fast, lines)});
  const std::uint64_t pages = lines / kLinesOfPage + 1;
  const Paged empty = {FirstTouch(pages, (fast + kLinesOfPage - 1) / kLinesOfPage)};
  if (name == "first-touch-queries") return Make(lines, true, empty);
  if (name == "first-touch") {
    Paged loaded = empty;
    for (std::uint64_t page = 0; page < pages; ++page) loaded.memory.Touch(page);
    return Make(lines, false, std::move(loaded));
  }
  return InvalidArgument("placement: expected one of ", absl::StrJoin(kPlacements, ", "),
                         ", found '", name, "'");
}

}  // namespace hmann::eval
