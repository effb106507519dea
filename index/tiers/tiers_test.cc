/// The conformance suite, which every tier passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_split.h"
#include "index/tiers/testing/tier_fixture.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> AddressableTiers() {
  std::vector<std::string> specs = {"dram",
                                    "numa:0",
                                    "mapped",
                                    "mapped:PATH",
                                    "emulated:lat=300ns,bw=6GB/s",
                                    "emulated:cxl,lines=16",
                                    "fail:every=1000000+dram"};
  // Tiers of this machine, such as "dax:/mnt/pmem/copy numa:1": the additional ones of
  // the test in a virtual machine.
  if (const char* more = std::getenv("HMANN_TEST_TIERS"); more != nullptr) {
    for (const absl::string_view spec : absl::StrSplit(more, ' ', absl::SkipEmpty()))
      specs.emplace_back(spec);
  }
  return specs;
}

std::vector<std::string> AllTiers() {
  std::vector<std::string> specs = AddressableTiers();
  for (const char* block : {"nvme", "nvme:PATH", "pread nvme", "pread nvme:PATH", "check+nvme",
                            "count+check+nvme:PATH", "check+delay:min=10us,max=900us,seed=3+nvme",
                            "fail:every=1000000+nvme", "check+stall:after=1000000+nvme"}) {
    specs.emplace_back(block);
  }
  return specs;
}

class EveryTier : public TierByName {};
class EveryAddressableTier : public TierByName {};

TEST_P(EveryTier, HoldsTheBytesOfTheSource) {
  EXPECT_EQ(tier_->traits().name, spec_);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                  std::size_t{2_MiB}, std::size_t{9_MiB + 123}}) {
    const Source source(bytes);
    Region region = Place(source);
    ASSERT_EQ(region.size(), bytes);
    EXPECT_TRUE(SameBytes(ReadRange(region, 0, bytes), source.bytes())) << bytes;
    EXPECT_EQ(region.data() != nullptr, tier_->traits().addressable);
    const Region moved = std::move(region);
    EXPECT_EQ(region.size(), 0u);
    EXPECT_TRUE(SameBytes(ReadRange(moved, 0, bytes), source.bytes()));
    EXPECT_TRUE(SameBytes(ReadRange(moved, bytes / 2, bytes - bytes / 2),
                          source.bytes().subspan(bytes / 2)));
  }
}

TEST_P(EveryTier, AnEmptySourceGivesAnEmptyRegion) {
  const Source source(0);
  const Region region = Place(source);
  EXPECT_EQ(region.size(), 0u);
  EXPECT_EQ(region.Where().ToString(), "empty");
  EXPECT_EQ(region.warning(), "");
  EXPECT_FALSE(region.NewReader({}).ok());
}

TEST_P(EveryTier, GivesItsMemoryBack) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
  };
  const Source source(4_MiB);
  const auto use = [&] {
    const Region region = Place(source);
    EXPECT_EQ(region.NewReader({.depth = 8, .frames = 16, .frame_bytes = 64_KiB}).ok(),
              !tier_->traits().addressable);
  };
  use();
  const auto before = mappings();
  for (int i = 0; i < 20; ++i) use();
  EXPECT_LE(mappings(), before + 6);
}

TEST_P(EveryTier, KeepsOneSectionUnderAPath) {
  EXPECT_EQ(tier_->traits().one_section,
            absl::StrContains(GetParam(), "PATH") || absl::StartsWith(GetParam(), "dax:"));
}

INSTANTIATE_TEST_SUITE_P(Tiers, EveryTier, ::testing::ValuesIn(AllTiers()), NameOfTest);

TEST_P(EveryAddressableTier, GivesPointers) {
  const Source source(3_MiB + 5);
  const Region region = Place(source);
  EXPECT_TRUE(SameBytes(region.bytes(), source.bytes()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % 4_KiB, 0u);
  EXPECT_EQ(region.data() == source.bytes().data(), GetParam() == "mapped");
  EXPECT_EQ(region.NewReader({}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(region.emulated() != nullptr, absl::StartsWith(GetParam(), "emulated:"));
}

TEST_P(EveryAddressableTier, IsReadOnly) {
  const Source source(3_MiB + 5);
  const Region region = Place(source);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1_MiB}, region.size() - 1}) {
    auto* place = const_cast<std::byte*>(region.data()) + offset;
    EXPECT_EQ(
        FateOfChild([&] { return *const_cast<volatile std::byte*>(place) = std::byte{1}, 0; }),
        SIGSEGV)
        << offset;
    EXPECT_EQ(FateOfChild([&] {
                return *const_cast<volatile std::byte*>(place) == source.bytes()[offset] ? 0 : 1;
              }),
              1000);
  }
}

TEST_P(EveryAddressableTier, SaysWhereTheBytesAre) {
  const Source source(8_MiB);
  const Region region = Place(source);
  std::uint64_t sum = 0;
  for (const std::byte b : region.bytes()) sum += std::to_integer<std::uint64_t>(b);
  EXPECT_GT(sum, 0u);
  const MemoryResidency where = region.Where();
  EXPECT_EQ(where.bytes, 8_MiB);
  EXPECT_EQ(where.file_backed, absl::StartsWith(GetParam(), "mapped"));
  EXPECT_EQ(!where.device.empty(), absl::StartsWith(GetParam(), "dax:")) << where.device;
  EXPECT_EQ(absl::StartsWith(where.ToString(), "emulated lat="), region.emulated() != nullptr)
      << where.ToString();
  if (!where.error.empty() || (!where.device.empty() && where.nodes.empty()))
    GTEST_SKIP() << where.ToString();
  EXPECT_EQ(where.present, 1.0) << "all was read just now";
  double share = 0;
  for (const auto& [node, part] : where.nodes) share += part;
  EXPECT_NEAR(share, 1.0, 1e-9);
  ASSERT_TRUE(where.huge.has_value() && where.locked.has_value());
  EXPECT_GE(*where.huge, 0.0);
  EXPECT_LE(*where.huge, 1.0);
  if (!where.file_backed && where.device.empty() && kMlockWorks) {
    EXPECT_EQ(*where.locked, region.warning().empty() ? 1.0 : 0.0) << region.warning();
  }
  if (absl::StartsWith(GetParam(), "numa:")) {
    EXPECT_THAT(where.ToString(),
                HasSubstr(absl::StrCat("node ", GetParam().substr(5), ": 100 %")));
  }
  EXPECT_THAT(where.ToString(), HasSubstr("node "));
}

INSTANTIATE_TEST_SUITE_P(Tiers, EveryAddressableTier, ::testing::ValuesIn(AddressableTiers()),
                         NameOfTest);

TEST(MakeTier, NamesWhatThereIs) {
  for (const char* wrong : {"", "DRAM", "dram:1", "dax", "dax:", "nvme:", "emulated",
                            "mapped:", "numa", "check:nvme", "weigh+nvme", "check+"}) {
    const absl::Status status = MakeTier(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    for (const char* name :
         {"dram", "numa:N", "mapped[:PATH]", "dax:PATH", "nvme[:PATH]", "emulated:"}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(name)) << wrong;
    }
  }
  for (const char* wrong : {"numa:", "numa:-1", "numa:4096", "numa:x", "numa:99999999999999"}) {
    const absl::Status status = MakeTier(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("expected a node that this process may use, which are"))
        << wrong;
  }
}

}  // namespace
}  // namespace hmann
