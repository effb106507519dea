#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "hmann/tier.h"
#include "index/base/chunked_checksum.h"
#include "index/base/cpu.h"
#include "index/base/prefetch.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/tiers/emulation.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::array<std::uint32_t, 9> kLoads = {1, 2, 4, 6, 8, 12, 16, 24, 32};
constexpr std::uint64_t kSteps = 256;      ///< steps of each chain between looks at the clock
constexpr std::uint64_t kChunk = 1 << 16;  ///< bytes of a stream between looks

std::uint32_t Next(const std::byte* base, std::uint32_t line) {
  std::uint32_t next;
  std::memcpy(&next, base + line * kLine, sizeof next);
  return next;
}

/// The memory that a thread reads: a chain of lines somewhere and, for an emulated tier,
/// the record of its requests.
struct Chain {
  std::shared_ptr<void> owner;
  const std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::unique_ptr<EmulatedLines> emulated;
  std::array<std::uint32_t, 32> at{};
  std::uint64_t read = 0;  ///< bytes read by the bandwidth probe

  std::uint64_t lines() const { return bytes / kLine; }
};

void StepPlain(Chain& chain, std::uint32_t loads) {
  std::array<std::uint32_t, 32> at = chain.at;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t i = 0; i < loads; ++i) at[i] = Next(chain.base, at[i]);
  }
  chain.at = at;
}

void StepEmulated(Chain& chain, std::uint32_t loads) {
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (std::uint32_t i = 0; i < loads; ++i) {
      chain.emulated->Fetch(chain.base + chain.at[i] * kLine, kLine);
      PrefetchLines(chain.base + chain.at[i] * kLine, kLine);
    }
    for (std::uint32_t i = 0; i < loads; ++i) {
      chain.emulated->Use(chain.base + chain.at[i] * kLine, kLine);
      chain.at[i] = Next(chain.base, chain.at[i]);
    }
  }
}

double TimeLoads(Chain& chain, std::uint32_t loads, Probes::Clock::duration slice) {
  return NsPerUnit(slice, kSteps * loads, [&] {
    chain.emulated == nullptr ? StepPlain(chain, loads) : StepEmulated(chain, loads);
    Keep(chain.at);
  });
}

/// Returns GB/s: bytes per ns.
double TimeStream(Chain& chain, Probes::Clock::duration slice) {
  const double ns_per_byte = NsPerUnit(slice, kChunk, [&] {
    const std::byte* begin = chain.base + chain.read;
    if (chain.emulated != nullptr) chain.emulated->Use(begin, kChunk);
    std::array<std::uint64_t, 8> sums{};
    for (std::uint64_t offset = 0; offset < kChunk; offset += sizeof sums) {
      std::array<std::uint64_t, 8> words;
      std::memcpy(words.data(), begin + offset, sizeof words);
      for (std::size_t i = 0; i < words.size(); ++i) sums[i] += words[i];
    }
    Keep(sums);
    chain.read = (chain.read + kChunk) % (chain.bytes / kChunk * kChunk);
  });
  return 1 / ns_per_byte;
}

/// Returns GB/s of a thread for each chain, all at once.
double TimeStreams(std::vector<Chain>& chains, Probes::Clock::duration slice) {
  std::vector<double> each(chains.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < chains.size(); ++i)
    threads.emplace_back([&, i] { each[i] = TimeStream(chains[i], slice); });
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

}  // namespace

absl::StatusOr<Buffer> MakeLoadChain(std::uint64_t bytes) {
  HMANN_ASSIGN_OR_RETURN(Buffer chain, Buffer::Allocate(bytes));
  const auto lines = static_cast<std::uint32_t>(bytes / kLine);
  const std::vector<std::uint32_t> order = RandomPermutation(lines, 1);
  for (std::uint32_t i = 0; i < lines; ++i) {
    std::memcpy(chain.data() + order[i] * kLine, &order[i + 1 < lines ? i + 1 : 0],
                sizeof(std::uint32_t));
  }
  return chain;
}

absl::Status AddMemoryProbes(const std::string& tier, const Buffer& source, MemoryProfile& profile,
                             Probes& probes, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> made, MakeTier(tier));
  ChunkedChecksum checksum;
  checksum.Append(source.data(), source.size());
  const PlacementSource placement{{source.data(), source.size()}, checksum.Digest()};
  HMANN_ASSIGN_OR_RETURN(Region placed, made->Place(placement, progress));
  const auto region = std::make_shared<Region>(std::move(placed));
  // One for each core, each at a place of its own.
  auto chains = std::make_shared<std::vector<Chain>>(static_cast<std::size_t>(UsableCores()));
  for (std::size_t i = 0; i < chains->size(); ++i) {
    Chain& one = (*chains)[i];
    one.owner = region;
    one.base = region->data();
    one.bytes = region->size();
    one.read = i * (one.bytes / kChunk / chains->size()) * kChunk;
    if (region->emulated() != nullptr)
      one.emulated = std::make_unique<EmulatedLines>(region->emulated());
  }
  const std::shared_ptr<Chain> chain(chains, chains->data());
  for (std::size_t i = 0; i < chain->at.size(); ++i)
    chain->at[i] = static_cast<std::uint32_t>(i * chain->lines() / chain->at.size());
  profile.tier = tier;
  for (const std::uint32_t loads : kLoads) profile.in_flight.push_back({loads, {}});
  for (LoadsInFlight& point : profile.in_flight) {
    probes.Add(&point.ns_per_line, [chain, loads = point.loads](auto slice) {
      return TimeLoads(*chain, loads, slice);
    });
  }
  probes.Add(&profile.bandwidth_gb_per_s,
             [chain](auto slice) { return TimeStream(*chain, slice); });
  probes.Add(&profile.peak_gb_per_s, [chains](auto slice) { return TimeStreams(*chains, slice); });
  return absl::OkStatus();
}

}  // namespace hmann
