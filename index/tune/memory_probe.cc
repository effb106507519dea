#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "index/base/chunked_checksum.h"
#include "index/base/file.h"
#include "index/base/prefetch.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/tiers/tier.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::array<std::uint32_t, 9> kLoads = {1, 2, 4, 6, 8, 12, 16, 24, 32};
constexpr std::uint64_t kSteps = 256;  ///< of each chain, between looks at the clock

std::uint32_t Next(const std::byte* base, std::uint32_t line) {
  std::uint32_t next;
  std::memcpy(&next, base + line * kLine, sizeof next);
  return next;
}

/// What a thread reads: a chain of lines somewhere, and for an emulated tier the book of
/// what it has asked for.
struct Chain {
  std::shared_ptr<void> owner;
  const std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::unique_ptr<EmulatedLines> emulated;
  std::array<std::uint32_t, 32> at{};
  std::uint64_t read = 0;  ///< by the bandwidth probe

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

std::vector<double> TimeLoads(Chain& chain, std::uint32_t loads, Probes::Clock::duration slice) {
  return {NsPerUnit(slice, kSteps * loads, [&] {
    chain.emulated == nullptr ? StepPlain(chain, loads) : StepEmulated(chain, loads);
    Keep(chain.at);
  })};
}

/// GB/s: bytes per ns.
std::vector<double> TimeStream(Chain& chain, Probes::Clock::duration slice) {
  constexpr std::uint64_t kChunk = 1 << 16;
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
  return {1 / ns_per_byte};
}

/// The chain's bytes in 4 KiB pages, whatever the machine's setting.
absl::StatusOr<std::shared_ptr<Chain>> SmallPages(const Buffer& source) {
  void* memory =
      mmap(nullptr, source.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return ErrnoError(errno, "mmap", absl::StrCat(source.size(), " bytes for 4 KiB pages"));
  (void)madvise(memory, source.size(), MADV_NOHUGEPAGE);
  std::memcpy(memory, source.data(), source.size());
  auto chain = std::make_shared<Chain>();
  chain->owner = std::shared_ptr<void>(
      memory, [bytes = source.size()](void* address) { munmap(address, bytes); });
  chain->base = static_cast<const std::byte*>(memory);
  chain->bytes = source.size();
  return chain;
}

void Spread(Chain& chain) {
  for (std::size_t i = 0; i < chain.at.size(); ++i)
    chain.at[i] = static_cast<std::uint32_t>(i * chain.lines() / chain.at.size());
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
  auto chain = std::make_shared<Chain>();
  {
    auto keep = std::make_shared<std::pair<std::unique_ptr<Tier>, Region>>();
    ChunkedChecksum checksum;
    checksum.Append(source.data(), source.size());
    const PlacementSource placement{{source.data(), source.size()}, checksum.Digest()};
    HMANN_ASSIGN_OR_RETURN(keep->second, made->Place(placement, progress));
    chain->base = keep->second.data();
    chain->bytes = keep->second.size();
    if (keep->second.emulated() != nullptr)
      chain->emulated = std::make_unique<EmulatedLines>(keep->second.emulated());
    const std::optional<double> huge = keep->second.Where().huge;
    profile.dependent_load.push_back({huge.value_or(0) > 0.9   ? "2MiB"
                                      : huge.value_or(1) < 0.1 ? "4KiB"
                                                               : "as placed",
                                      {}});
    chain->owner = std::move(keep);
  }
  Spread(*chain);
  profile.tier = tier;
  std::shared_ptr<Chain> small;
  if (tier == "dram" && profile.dependent_load[0].page != "4KiB") {
    HMANN_ASSIGN_OR_RETURN(small, SmallPages(source));
    Spread(*small);
    profile.dependent_load.push_back({"4KiB", {}});
    probes.Add({&profile.dependent_load[1].dependent_load_ns},
               [small](auto slice) { return TimeLoads(*small, 1, slice); });
  }
  probes.Add({&profile.dependent_load[0].dependent_load_ns},
             [chain](auto slice) { return TimeLoads(*chain, 1, slice); });
  for (const std::uint32_t loads : kLoads) profile.in_flight.push_back({loads, {}});
  for (LoadsInFlight& point : profile.in_flight) {
    probes.Add({&point.ns_per_line}, [chain, loads = point.loads](auto slice) {
      return TimeLoads(*chain, loads, slice);
    });
  }
  probes.Add({&profile.bandwidth_gb_per_s},
             [chain](auto slice) { return TimeStream(*chain, slice); });
  return absl::OkStatus();
}

}  // namespace hmann
