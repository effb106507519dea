/// The guarantees of every block tier to the users of its readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "index/tiers/testing/tier_fixture.h"

namespace hmann {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class EveryBlockTier : public TierByName {
 protected:
  static std::unique_ptr<BlockReader> Reader(const Region& region, const ReaderOptions& options) {
    auto reader = region.NewReader(options);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  /// The file from which the bytes are read.
  const std::string& File(const Source& source) const {
    return ReadsTheIndexFile() ? source.path() : copy_;
  }
  static bool ReadsTheIndexFile() { return GetParam().ends_with("nvme"); }
};

/// Reads every block of the region once, in a random order, through all frames. Returns
/// an empty string if all bytes were right.
std::string ReadAll(const Region& region, std::span<const std::byte> expected,
                    const ReaderOptions& options, std::uint64_t seed) {
  auto made = region.NewReader(options);
  if (!made.ok()) return made.status().ToString();
  BlockReader& reader = **made;
  const auto blocks =
      static_cast<std::uint32_t>((expected.size() + options.frame_bytes - 1) / options.frame_bytes);
  const std::uint64_t end = (expected.size() + 4095) / 4096 * 4096;
  const std::vector<std::uint32_t> order = RandomPermutation(blocks, seed);
  std::vector<std::uint32_t> idle(options.frames);
  for (std::uint32_t frame = 0; frame < options.frames; ++frame) idle[frame] = frame;
  std::set<std::uint64_t> seen;
  std::vector<BlockDone> done;
  for (std::size_t next = 0; seen.size() < blocks;) {
    std::vector<BlockRead> reads;
    for (std::size_t i = 0; i < idle.size() && next + i < blocks; ++i) {
      const std::uint64_t offset = std::uint64_t{order[next + i]} * options.frame_bytes;
      reads.push_back(
          {offset,
           static_cast<std::uint32_t>(std::min<std::uint64_t>(options.frame_bytes, end - offset)),
           idle[i], offset});
    }
    const std::uint32_t before = reader.InFlight();
    const auto taken = reader.Submit(reads);
    if (!taken.ok()) return taken.status().ToString();
    if (*taken != std::min<std::size_t>(reads.size(), options.depth - before))
      return "took another number than it had room for";
    if (reader.InFlight() != before + *taken) return "in flight are others than were taken";
    next += *taken;
    idle.erase(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(*taken));
    done.clear();
    if (const absl::Status status = reader.Wait(Clock::now() + std::chrono::minutes(1), &done);
        !status.ok())
      return status.ToString();
    if (done.empty()) return "nothing came";
    for (const BlockDone& one : done) {
      if (!one.status.ok()) return one.status.ToString();
      const std::size_t part =
          std::min<std::size_t>(options.frame_bytes, expected.size() - one.tag);
      if (!SameBytes({reader.Frame(one.frame), part}, expected.subspan(one.tag, part)))
        return absl::StrCat("wrong bytes at ", one.tag);
      if (!seen.insert(one.tag).second) return "done twice";
      idle.push_back(one.frame);
    }
  }
  return reader.InFlight() == 0 ? "" : "something is left in flight";
}

TEST_P(EveryBlockTier, ReadsInAnyOrderAtAnyDepth) {
  const Source source(3_MiB + 77);
  const Region region = Place(source);
  EXPECT_FALSE(tier_->traits().addressable);
  EXPECT_TRUE(region.bytes().empty());
  for (const ReaderOptions options : {ReaderOptions{1, 1, 4096}, ReaderOptions{8, 3, 4096},
                                      ReaderOptions{3, 64, 12288}, ReaderOptions{32, 256, 4096}}) {
    EXPECT_EQ(ReadAll(region, source.bytes(), options, options.depth), "")
        << "depth " << options.depth;
  }
}

TEST_P(EveryBlockTier, ServesManyThreadsEachItsOwnReader) {
  const Source source(1_MiB + 5);
  const Region region = Place(source);
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      wrong[t] = ReadAll(region, source.bytes(), {.depth = 4, .frames = 8, .frame_bytes = 4096}, t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& what : wrong) EXPECT_EQ(what, "");
}

TEST_P(EveryBlockTier, FramesAreAlignedAndApart) {
  const Source source(4096);
  const Region region = Place(source);
  const auto reader = Reader(region, {.depth = 2, .frames = 5, .frame_bytes = 8192});
  for (std::uint32_t frame = 0; frame < 5; ++frame) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reader->Frame(frame)) % 4096, 0u);
    const std::byte* previous = frame == 0 ? reader->Frame(0) - 8192 : reader->Frame(frame - 1);
    EXPECT_GE(reader->Frame(frame) - previous, 8192);
    std::fill_n(reader->Frame(frame), 8192, std::byte{1});
  }
}

TEST_P(EveryBlockTier, RefusesWhatIsNotARead) {
  const Source source(3 * 4096 + 5);
  const Region region = Place(source);
  const auto reader = Reader(region, {.depth = 4, .frames = 2, .frame_bytes = 8192});
  const std::vector<BlockRead> wrong = {
      {0, 0, 0, 0},        {1, 4096, 0, 0},           {0, 100, 0, 0},
      {0, 12288, 0, 0},    {0, 4096, 2, 0},           {16384, 4096, 0, 0},
      {12288, 8192, 0, 0}, {~0ull << 12, 8192, 0, 0}, {0, 4096, ~0u, 0},
  };
  for (const BlockRead& read : wrong) {
    const std::vector<BlockRead> reads = {{0, 4096, 1, 0}, read};
    const auto taken = reader->Submit(reads);
    EXPECT_THAT(taken.status().code(),
                AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kInternal))
        << read.bytes << " at " << read.offset << " into " << read.frame;
    EXPECT_EQ(reader->InFlight(), 0u) << "then nothing is started";
  }
  const std::vector<BlockRead> twice = {{0, 4096, 1, 0}, {4096, 4096, 1, 0}};
  EXPECT_FALSE(reader->Submit(twice).ok());
  EXPECT_EQ(reader->InFlight(), 0u);
  const BlockRead good{12288, 4096, 1, 9};
  ASSERT_TRUE(reader->Submit({&good, 1}).ok());
  EXPECT_FALSE(reader->Submit({&good, 1}).ok())
      << "its frame is in flight, as long as nobody waits";
  const auto done = WaitFor(*reader, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 9u);
  EXPECT_TRUE(done[0].status.ok())
      << "the last block may end before 4096 bytes: " << done[0].status;
}

TEST_P(EveryBlockTier, RefusesOptionsThatCannotBe) {
  const Source source(4096);
  const Region region = Place(source);
  for (const ReaderOptions wrong :
       {ReaderOptions{0, 1, 4096}, ReaderOptions{1, 0, 4096}, ReaderOptions{1, 1, 0},
        ReaderOptions{1, 1, 1000}, ReaderOptions{1u << 20, 1, 4096},
        ReaderOptions{1, ~0u, 1u << 20}}) {
    EXPECT_EQ(region.NewReader(wrong).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_P(EveryBlockTier, WaitsForNothingWhenNothingIsInFlight) {
  const Source source(4096);
  const Region region = Place(source);
  const auto reader = Reader(region, {});
  std::vector<BlockDone> done;
  EXPECT_TRUE(reader->Wait(Clock::time_point::max(), &done).ok());
  EXPECT_TRUE(reader->Wait(Clock::time_point::min(), &done).ok());
  EXPECT_TRUE(done.empty());
  const auto taken = reader->Submit({});
  EXPECT_TRUE(taken.ok() && *taken == 0);
}

TEST_P(EveryBlockTier, MayGoAwayWithReadsInFlight) {
  const Source source(1_MiB);
  const Region region = Place(source);
  for (int i = 0; i < 10; ++i) {
    const auto reader = Reader(region, {.depth = 16, .frames = 16, .frame_bytes = 65536});
    std::vector<BlockRead> reads;
    for (std::uint32_t frame = 0; frame < 16; ++frame)
      reads.push_back({frame * std::uint64_t{65536}, 65536, frame, frame});
    const auto taken = reader->Submit(reads);
    EXPECT_TRUE(taken.ok() && *taken == 16);
  }
  EXPECT_EQ(ReadAll(region, source.bytes(), {}, 1), "");
}

TEST_P(EveryBlockTier, AFileThatShrankIsDataLoss) {
  const Source source(64 * std::size_t{4096});
  const Region region = Place(source);
  const auto reader = Reader(region, {.depth = 4, .frames = 4, .frame_bytes = 8192});
  const std::uint64_t begin = ReadsTheIndexFile() ? Source::kBegin : 0;
  ASSERT_EQ(::truncate(File(source).c_str(), static_cast<off_t>(begin + 4096)), 0);
  const std::vector<BlockRead> reads = {{0, 4096, 0, 0}, {0, 8192, 1, 1}, {4096, 4096, 2, 2}};
  ASSERT_TRUE(reader->Submit(reads).ok());
  std::map<std::uint64_t, absl::Status> by_tag;
  for (const BlockDone& done : WaitFor(*reader, 3)) by_tag[done.tag] = done.status;
  EXPECT_TRUE(by_tag[0].ok()) << by_tag[0];
  EXPECT_EQ(by_tag[1],
            absl::DataLossError(absl::StrCat(File(source), ": offset ", begin,
                                             ": expected 8192 bytes, found 4096 bytes")));
  EXPECT_EQ(by_tag[2], absl::DataLossError(absl::StrCat(File(source), ": offset ", begin + 4096,
                                                        ": expected 4096 bytes, found 0 bytes")));
}

TEST_P(EveryBlockTier, SaysWhereTheBytesAre) {
  const Source source(1_MiB + 5);
  const Region region = Place(source);
  EXPECT_EQ(ReadAll(region, source.bytes().first(0), {}, 1), "");
  EXPECT_EQ(ReadRange(region, 0, region.size()).size(), region.size());
  const MemoryResidency where = region.Where();
  EXPECT_EQ(where.bytes, region.size());
  EXPECT_FALSE(where.file_backed);
  EXPECT_THAT(where.device, HasSubstr(absl::StrCat(" (file ", File(source), ")")));
  EXPECT_THAT(where.ToString(), HasSubstr("O_DIRECT from "));
  if (!absl::StrContains(where.device, "/dev/")) GTEST_SKIP() << where.ToString() << ": not a disk";
  ASSERT_TRUE(where.cached.has_value());
  // The kernel keeps a page or two that another CPU is still using.
  EXPECT_LT(*where.cached, 0.05) << "reading went past the page cache";
  EXPECT_THAT(where.ToString(), HasSubstr(" % in the page cache"));
  std::vector<char> text(region.size());
  std::ifstream(File(source), std::ios::binary)
      .read(text.data(), static_cast<std::streamsize>(text.size()));
  EXPECT_GT(*region.Where().cached, 0.9) << "the kernel was asked";
}

INSTANTIATE_TEST_SUITE_P(Tiers, EveryBlockTier,
                         ::testing::Values("nvme", "nvme:PATH", "pread nvme", "pread nvme:PATH",
                                           "check+nvme", "count+check+nvme:PATH",
                                           "check+delay:min=10us,max=900us,seed=3+nvme",
                                           "fail:every=1000000+nvme",
                                           "check+stall:after=1000000+nvme"),
                         NameOfTest);

}  // namespace
}  // namespace hmann
