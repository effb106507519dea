// One flipped bit in each section of an index file. Open rejects it if the section is
// copied; Scrub finds it if the section is read in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "hmann/hmann.h"
#include "index/format/reader.h"
#include "index/format/testing/ring_index.h"

namespace hmann {
namespace {

using testing::HasSubstr;

bool Unpaced(std::uint64_t) { return true; }

class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    RingIndex ring({.m = 8, .bits = 4, .replicas = 2});
    Progress quiet(Progress::Show::kNever);
    EXPECT_TRUE(WriteIndex(path_, ring.contents, quiet).ok());
    good_ = ReadBytes(path_);
    sections_ = IndexFile::Open(path_)->sections();
  }

  absl::StatusOr<std::shared_ptr<const Index>> Open(const std::string& fast,
                                                    const std::string& slow) const {
    return Index::Open(path_, {.fast = fast, .slow = slow});
  }
  /// Writes the file with a bit of `section` flipped.
  void Damage(const Section& section, std::uint64_t at, int bit) {
    std::vector<std::byte> bytes = good_;
    bytes[section.offset + at] ^= static_cast<std::byte>(1 << bit);
    WriteBytes(path_, bytes);
  }
  bool NvmeWorks() const {
    return !absl::StrContains(Open("dram", "nvme").status().message(), "refuses O_DIRECT");
  }

  TemporaryPath path_{testing::TempDir(), "damage"};
  std::vector<std::byte> good_;
  std::vector<Section> sections_;
};

TEST_F(DamageTest, AnIntactFileIsFoundIntactOnEveryTier) {
  const std::uint64_t order = 200 * sizeof(NodeId);
  for (const auto& [slow, in_place] :
       {std::pair("dram", false), {"emulated:lat=1ns", false}, {"mapped", true}, {"nvme", true}}) {
    if (std::string_view(slow) == "nvme" && !NvmeWorks()) continue;
    const auto index = Open("dram", slow);
    ASSERT_TRUE(index.ok()) << slow << ": " << index.status();
    EXPECT_EQ((*index)->bytes_in_place(), order + (in_place ? sections_.back().bytes : 0)) << slow;
    EXPECT_EQ((*index)->Scrub(Unpaced), absl::OkStatus()) << slow;
  }
}

TEST_F(DamageTest, AFlippedBitIsFoundOnEveryTier) {
  for (const char* slow : {"dram", "mapped", "nvme"}) {
    if (std::string_view(slow) == "nvme" && !NvmeWorks()) continue;
    for (const char* fast : {"dram", "mapped"}) {
      for (const Section& section : sections_) {
        for (const std::uint64_t at : {std::uint64_t{0}, section.bytes / 2, section.bytes - 1}) {
          Damage(section, at, static_cast<int>(at % 8));
          const auto index = Open(fast, slow);
          const absl::Status status = index.ok() ? (*index)->Scrub(Unpaced) : index.status();
          EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
          EXPECT_THAT(std::string(status.message()), HasSubstr(Name(section))) << fast << slow;
          EXPECT_THAT(std::string(status.message()), HasSubstr(path_.str()));
          if (std::string_view(fast) == "dram" && section.kind != SectionKind::kL0 &&
              section.kind != SectionKind::kLabelOrder) {
            EXPECT_FALSE(index.ok()) << Name(section) << " is copied, and was not looked at";
          }
        }
      }
    }
  }
}

TEST_F(DamageTest, ACopyIsNotMadeOfDamage) {
  Damage(sections_.back(), sections_.back().bytes / 3, 1);
  const std::string copy = absl::StrCat(path_.str(), ".copy");
  for (const char* kind : {"mapped:", "nvme:"}) {
    EXPECT_EQ(Open("dram", absl::StrCat(kind, copy)).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(MappedFile::Open(copy).ok());
  }
}

TEST_F(DamageTest, AScrubCanBeEnded) {
  const auto index = Open("mapped", "mapped");
  ASSERT_TRUE(index.ok()) << index.status();
  std::uint64_t bytes = 0;
  const absl::Status status = (*index)->Scrub([&](std::uint64_t piece) {
    bytes += piece;
    return bytes < sections_.front().bytes;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

}  // namespace
}  // namespace hmann
