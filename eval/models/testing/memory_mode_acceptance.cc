#include "eval/models/testing/memory_mode_acceptance.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "index/base/random.h"

namespace hmann::eval {
namespace {

/// Accesses of `request` alone, after `before`.
template <typename Cache>
MemoryAccesses Alone(Cache cache, void (*before)(Cache&), void (*request)(Cache&)) {
  before(cache);
  const MemoryAccesses start = cache.accesses();
  request(cache);
  return cache.accesses() - start;
}

/// With one line of capacity, the second line evicts the first, in either model.
template <typename Cache>
std::vector<RequestRow> Requests(const Cache& empty) {
  using Step = void (*)(Cache&);
  const Step read0 = [](Cache& c) { c.Read(0); };
  const Step write0 = [](Cache& c) { c.Write(0); };
  const Step read1 = [](Cache& c) { c.Read(1); };
  const Step write1 = [](Cache& c) { c.Write(1); };
  const Step back0 = [](Cache& c) { c.WriteBack(0); };
  return {{"read hit", {1, 0, 0, 0}, Alone(empty, read0, read0)},
          {"read miss, victim clean", {1, 1, 1, 0}, Alone(empty, read0, read1)},
          {"read miss, victim dirty", {1, 1, 1, 1}, Alone(empty, write0, read1)},
          {"write hit", {1, 1, 0, 0}, Alone(empty, write0, write0)},
          {"write miss, victim clean", {1, 2, 1, 0}, Alone(empty, read0, write1)},
          {"write miss, victim dirty", {1, 2, 1, 1}, Alone(empty, write0, write1)},
          {"write back after read-modify-write (DDO)", {0, 1, 0, 0}, Alone(empty, read0, back0)}};
}

// C of the loops: every share below is a whole number of lines.
constexpr std::uint64_t kCacheLines = 10'000;

enum class Kind { kRead, kWrite };

/// Accesses per request of a pass over lines [from, to).
double Pass(DirectMappedCache& cache, Kind kind, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t start = cache.accesses().Sum();
  for (std::uint64_t line = from; line < to; ++line)
    kind == Kind::kRead ? cache.Read(line) : cache.Write(line);
  return static_cast<double>(cache.accesses().Sum() - start) / static_cast<double>(to - from);
}

/// A loop over `share` of the capacity, in its steady state.
double Loop(Kind kind, double share) {
  DirectMappedCache cache(kCacheLines);
  const auto lines = static_cast<std::uint64_t>(std::lround(share * kCacheLines));
  for (int lap = 0; lap < 3; ++lap) Pass(cache, kind, 0, lines);
  return Pass(cache, kind, 0, lines);
}

/// Accesses per request over the first and the last tenth of C of a pass.
struct Ends {
  double first = 0, last = 0;
};

/// A pass over 2.2 C of one kind after laps of the other.
Ends PassAfter(Kind before, Kind kind) {
  DirectMappedCache cache(kCacheLines);
  constexpr std::uint64_t kAll = kCacheLines * 22 / 10, kTenth = kCacheLines / 10;
  for (int lap = 0; lap < 3; ++lap) Pass(cache, before, 0, kAll);
  Ends ends;
  ends.first = Pass(cache, kind, 0, kTenth);
  Pass(cache, kind, kTenth, kAll - kTenth);
  ends.last = Pass(cache, kind, kAll - kTenth, kAll);
  return ends;
}

double HitsOfAliases() {
  DirectMappedCache cache(kCacheLines);
  for (int i = 0; i < 1000; ++i) {
    cache.Read(7);
    cache.Read(7 + kCacheLines);
  }
  return static_cast<double>(cache.hits());
}

constexpr std::uint64_t kLinesOfAPage = 64;

/// Hit rate of random lines over `pages` pages, placed by `frame_of`, in the steady
/// state.
double HitRate(std::uint64_t cache_pages, std::uint64_t pages, std::uint64_t seed,
               const std::function<std::uint64_t(std::uint64_t page)>& frame_of) {
  DirectMappedCache cache(cache_pages * kLinesOfAPage);
  const std::uint64_t lines = pages * kLinesOfAPage,
                      requests = 4 * std::max(lines, cache_pages * kLinesOfAPage);
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < 2 * requests; ++i) {  // the first half fills the cache
    if (i == requests) hits = cache.hits();
    const std::uint64_t line = RandomBelow(seed, i, lines);
    cache.Read(frame_of(line / kLinesOfAPage) * kLinesOfAPage + line % kLinesOfAPage);
  }
  return static_cast<double>(cache.hits() - hits) / static_cast<double>(requests);
}

void AddHitRates(std::uint64_t seed, std::vector<AcceptanceRow>* rows) {
  constexpr std::uint64_t kPages = 2048;
  for (const double share : {0.5, 1.5, 3.0}) {
    const auto pages = static_cast<std::uint64_t>(share * kPages);
    const std::string text = share == 0.5 ? "0.5" : share == 1.5 ? "1.5" : "3";
    rows->push_back({"random lines over " + text + " C, contiguous: hit rate",
                     std::min(1.0, 1 / share),
                     HitRate(kPages, pages, seed, [](std::uint64_t page) { return page; }), 0.005});
    // 2^40 bytes of frames; each page gets a random frame.
    rows->push_back(
        {"random lines over " + text + " C, pages scattered: hit rate",
         (1 - std::exp(-share)) / share,
         HitRate(kPages, pages, seed,
                 [seed](std::uint64_t page) { return RandomBelow(seed + 1, page, 1u << 28); }),
         0.02});
  }
}

}  // namespace

std::vector<RequestRow> RequestTable(bool fully_associative) {
  return fully_associative ? Requests(LruCache(1, 2)) : Requests(DirectMappedCache(1));
}

std::vector<AcceptanceRow> AcceptanceList(std::uint64_t seed) {
  const Ends reads = PassAfter(Kind::kWrite, Kind::kRead),
             writes = PassAfter(Kind::kRead, Kind::kWrite);
  std::vector<AcceptanceRow> rows = {
      {"read loop over 0.27 C: accesses per read", 1, Loop(Kind::kRead, 0.27)},
      {"non-temporal writes of 0.27 C: accesses per write", 2, Loop(Kind::kWrite, 0.27)},
      {"read loop over 2.2 C: accesses per read", 3, Loop(Kind::kRead, 2.2)},
      {"write loop over 2.2 C: accesses per write", 5, Loop(Kind::kWrite, 2.2)},
      {"read pass over 2.2 C after writes: it starts at", 4, reads.first},
      {"read pass over 2.2 C after writes: it ends at", 3, reads.last},
      {"write pass over 2.2 C after reads: it starts at", 4, writes.first},
      {"write pass over 2.2 C after reads: it ends at", 5, writes.last},
      {"two lines equal modulo C, in turn: hits of 2000", 0, HitsOfAliases()},
  };
  AddHitRates(seed, &rows);
  return rows;
}

}  // namespace hmann::eval
