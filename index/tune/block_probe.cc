#include <array>

#include "hmann/tier.h"
#include "index/base/file.h"
#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/tiers/direct_file.h"
#include "index/tune/probes.h"

namespace hmann {
namespace {

constexpr std::array<std::uint32_t, 7> kDepths = {1, 2, 4, 8, 16, 32, 64};

struct PlacedFile {
  MappedFile file;
  Region region;
};

/// Reads blocks at random, always with as many in flight as the reader allows.
struct RandomReads {
  std::shared_ptr<const PlacedFile> region;  ///< outlives the reader
  std::unique_ptr<BlockReader> reader;
  std::uint64_t blocks = 0, counter = 0;
  std::vector<Probes::Clock::time_point> begun;  ///< by frame
  std::vector<BlockDone> done;

  absl::Status Begin(std::uint32_t frame) {
    const BlockRead read{RandomBelow(reader->options().depth, counter++, blocks) * kDirectBlock,
                         kDirectBlock, frame, frame};
    begun[frame] = Probes::Clock::now();
    HMANN_ASSIGN_OR_RETURN(const std::size_t taken, reader->Submit({&read, 1}));
    return taken == 1 ? absl::OkStatus() : Internal("a reader with a free place took no read");
  }

  /// Returns microseconds per read.
  absl::StatusOr<double> Time(Probes::Clock::duration slice) {
    const auto end = Probes::Clock::now() + slice;
    const auto patience = end + std::chrono::seconds(30);
    double us = 0;
    std::uint64_t reads = 0;
    for (std::uint32_t frame = 0; frame < reader->options().depth; ++frame)
      HMANN_RETURN_IF_ERROR(Begin(frame));
    while (reader->InFlight() > 0) {
      done.clear();
      HMANN_RETURN_IF_ERROR(reader->Wait(patience, &done));
      if (done.empty())
        return absl::DeadlineExceededError("the device answered no read within 30 s");
      const auto now = Probes::Clock::now();
      for (const BlockDone& one : done) {
        HMANN_RETURN_IF_ERROR(one.status);
        // The tail, with fewer in flight, does not count.
        if (now < end || reads == 0) {
          us += std::chrono::duration<double, std::micro>(now - begun[one.frame]).count();
          ++reads;
        }
        if (now < end) HMANN_RETURN_IF_ERROR(Begin(one.frame));
      }
    }
    return us / static_cast<double>(reads);
  }
};

}  // namespace

absl::Status AddBlockProbes(const std::string& tier, const std::string& path, BlockProfile& profile,
                            Probes& probes) {
  HMANN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const std::uint64_t blocks = file.bytes().size() / kDirectBlock;
  if (blocks < 1024) {
    return InvalidArgument(path, ": expected a file of at least 4 MiB to read at random, found ",
                           file.bytes().size(), " bytes");
  }
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> made, MakeTier("nvme"));
  auto placed = std::make_shared<PlacedFile>();
  placed->file = std::move(file);
  Progress quiet(Progress::Show::kNever);
  const PlacementSource source{placed->file.bytes().first(blocks * kDirectBlock), 0, path, 0};
  HMANN_ASSIGN_OR_RETURN(placed->region, made->Place(source, quiet));
  profile.tier = tier;
  profile.device = placed->region.Where().device;
  profile.file_bytes = blocks * kDirectBlock;
  for (const std::uint32_t depth : kDepths) profile.depths.push_back({depth, {}});
  for (BlockDepth& point : profile.depths) {
    auto reads = std::make_shared<RandomReads>();
    HMANN_ASSIGN_OR_RETURN(reads->reader,
                           placed->region.NewReader({point.depth, point.depth, kDirectBlock}));
    reads->region = placed;
    reads->blocks = blocks;
    reads->begun.resize(point.depth);
    probes.Add(&point.read_us, [reads](auto slice) { return reads->Time(slice); });
  }
  return absl::OkStatus();
}

}  // namespace hmann
