/// Corrupt files: each is rejected with a specific error, and none crashes the reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "index/format/reader.h"
#include "index/format/testing/reseal.h"
#include "index/format/testing/ring_index.h"
#include "index/format/verify.h"

namespace hmann {
namespace {

using ::testing::HasSubstr;
using namespace header_offset;

class Corruption : public ::testing::Test {
 protected:
  void SetUp() override { Make({}); }

  void Make(RingIndex::Shape shape) {
    RingIndex index(shape);
    Progress silent(Progress::Show::kNever);
    ASSERT_TRUE(WriteIndex(path_, index.contents, silent).ok());
    good_ = ReadBytes(path_);
    const auto file = IndexFile::Open(path_);
    ASSERT_TRUE(file.ok());
    sections_ = file->sections();
    records_ = file->records();
  }

  absl::Status Open(std::span<const std::byte> bytes) {
    WriteBytes(path_, bytes);
    return IndexFile::Open(path_).status();
  }
  absl::Status Verify(std::span<const std::byte> bytes) {
    WriteBytes(path_, bytes);
    Progress silent(Progress::Show::kNever);
    return VerifyIndex(path_, silent);
  }
  /// Opens a file with one header field changed and every checksum right.
  template <class T>
  absl::Status OpenWith(std::size_t offset, T value) {
    std::vector<std::byte> bytes = good_;
    Poke(std::span(bytes), offset, value);
    ResealHeader(bytes);
    return Open(bytes);
  }
  /// Verifies a file with a value of a section changed and every checksum right.
  template <class T>
  std::string VerifyWith(std::uint64_t offset, T value) {
    std::vector<std::byte> bytes = good_;
    Poke(std::span(bytes), offset, value);
    Reseal(bytes);
    const absl::Status status = Verify(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  }
  std::uint64_t L0(NodeId id) const { return sections_.back().offset + records_.Offset(id); }

  TemporaryPath path_{::testing::TempDir(), "corrupt"};
  std::vector<std::byte> good_;
  std::vector<Section> sections_;
  RecordLayout records_;
};

TEST_F(Corruption, ForeignFilesAreNamedSo) {
  const auto text = [](std::string_view t) {
    return std::span(reinterpret_cast<const std::byte*>(t.data()), t.size());
  };
  for (const std::string_view foreign : {"", "x", "hello, this is no index", "\x89PNG\r\n\x1a\n"}) {
    const absl::Status status = Open(text(foreign));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << foreign;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not an hmann index"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_.str()));
  }
  EXPECT_EQ(Open(std::vector<std::byte>(100'000)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(IndexFile::Open(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument)
      << "a folder";
  EXPECT_EQ(IndexFile::Open(absl::StrCat(path_.str(), ".not_there")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(Corruption, EveryTruncationIsNoticed) {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 1; length < 140; ++length) lengths.push_back(length);
  for (std::size_t length = 0; length < good_.size(); length += 512)
    lengths.insert(lengths.end(), {length + 1, length + 511, length + 512});
  for (const Section& s : sections_)
    lengths.insert(lengths.end(), {s.offset - 1, s.offset, s.offset + 1, s.offset + s.bytes - 1});
  for (const std::size_t length : lengths) {
    if (length >= good_.size()) continue;
    const absl::Status status = Open(std::span(good_).first(length));
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << length << ": " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr("truncated")) << length;
  }
  std::vector<std::byte> longer = good_;
  longer.resize(longer.size() + 1);
  EXPECT_EQ(Open(longer).code(), absl::StatusCode::kDataLoss);
}

TEST_F(Corruption, EveryHeaderByteIsCheckedAtOpen) {
  for (std::size_t offset = 0; offset < kBlockBytes; ++offset) {
    std::vector<std::byte> bytes(good_.begin(), good_.begin() + kBlockBytes);
    bytes[offset] ^= static_cast<std::byte>(1u << offset % 8);
    const absl::Status status = DecodeHeader("x", bytes, good_.size()).status();
    ASSERT_EQ(status.code(),
              offset < 8 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kDataLoss)
        << offset << ": " << status;
  }
}

TEST_F(Corruption, EveryPartOfTheFileIsCheckedByVerify) {
  ASSERT_EQ(Verify(good_), absl::OkStatus());
  std::vector<std::size_t> offsets;
  for (std::size_t offset = kBlockBytes; offset < good_.size(); offset += 61)
    offsets.push_back(offset);
  for (const Section& s : sections_) {
    for (const std::size_t offset : {s.offset, s.offset + s.bytes - 1, s.offset + s.bytes}) {
      if (offset < good_.size()) offsets.push_back(offset);
    }
  }
  for (const std::size_t offset : offsets) {
    std::vector<std::byte> bytes = good_;
    bytes[offset] ^= std::byte{0x10};
    ASSERT_EQ(Open(bytes), absl::OkStatus()) << offset << ": opening reads the header alone";
    const absl::Status status = Verify(bytes);
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << offset << ": " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr("offset"));
  }
}

TEST_F(Corruption, OtherVersionsAreNamed) {
  for (const auto& [major, minor] :
       {std::pair<std::uint16_t, std::uint16_t>(1, 0), {1, 3}, {2, 2}, {3, 1}, {4, 1}, {5, 0}}) {
    std::vector<std::byte> bytes = good_;
    Poke(std::span(bytes), kMajor, major);
    Poke(std::span(bytes), kMinor, minor);
    EXPECT_EQ(Open(bytes).code(), absl::StatusCode::kDataLoss)
        << "with the checksum of another header it is damage";
    ResealHeader(bytes);
    const absl::Status status = Open(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_EQ(status.message(), absl::StrCat(path_.str(), ": is format ", major, ".", minor,
                                             "; this program reads 4.0: build it again"));
  }
  const absl::Status swapped =
      OpenWith(kEndianTag, __builtin_bswap32(Peek<std::uint32_t>(good_, kEndianTag)));
  EXPECT_EQ(swapped.code(), absl::StatusCode::kUnimplemented) << swapped;
  EXPECT_THAT(std::string(swapped.message()), HasSubstr("big-endian"));
}

TEST_F(Corruption, HostileMetadataIsRefused) {
  const auto huge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::pair<absl::Status, const char*>> cases = {
      {OpenWith(kEndianTag, std::uint32_t{1}), "endian tag"},
      {OpenWith(kHeaderSize, std::uint32_t{8192}), "4096 bytes; found 8192"},
      {OpenWith(kFileBytes, huge), "truncated"},
      {OpenWith(kN, std::uint64_t{0}), "n: expected 1 to"},
      {OpenWith(kN, huge), "n: expected 1 to"},
      {OpenWith(kN, std::uint64_t{kMaxNodes}), "layer 0"},
      {OpenWith(kN1, std::uint64_t{200}), "n1: expected less than n"},
      {OpenWith(kN1, huge), "n1: expected less than n"},
      {OpenWith(kN1, std::uint64_t{31}), "layer 1: expected 31 nodes"},
      {OpenWith(kM, std::uint32_t{0}), "m: expected 2"},
      {OpenWith(kM, ~std::uint32_t{0}), "m: expected 2"},
      {OpenWith(kM, std::uint32_t{4000}), "layers"},
      {OpenWith(kDim, std::uint32_t{0}), "dimension"},
      {OpenWith(kDim, ~std::uint32_t{0}), "dimension"},
      {OpenWith(kDim, std::uint32_t{21}), "row_bytes"},
      {OpenWith(kRowBytes, ~std::uint32_t{0}), "row_bytes"},
      {OpenWith(kDType, std::uint8_t{4}), "dtype"},
      {OpenWith(kMetric, std::uint8_t{255}), "metric"},
      {OpenWith(kLabelBytes, std::uint8_t{0}), "label_bytes"},
      {OpenWith(kLabelBytes, std::uint8_t{8}), "expected 256 bytes; found 128"},
      {OpenWith(kLayerCount, std::uint32_t{3}), "layers: expected 4; found 3"},
      {OpenWith(kLayerCount, ~std::uint32_t{0}), "layers: expected 4"},
      {OpenWith(kLayers + 16, std::uint32_t{40}), "layer 1: expected 32 nodes"},
      {OpenWith(kLayers + 16 + 4, std::uint32_t{9}), "layer 1: expected 32 nodes"},
      {OpenWith(kLayers + 8, 8.5), "mean_degree"},
      {OpenWith(kLayers + 8, std::numeric_limits<double>::quiet_NaN()), "mean_degree"},
      {OpenWith(kAlpha, 0.0f), "alpha: expected 1 to 2; found 0"},
      {OpenWith(kAlpha, 0.5f), "alpha: expected 1 to 2; found 0.5"},
      {OpenWith(kAlpha, -1.2f), "alpha: expected 1 to 2"},
      {OpenWith(kAlpha, 2.5f), "alpha: expected 1 to 2"},
      {OpenWith(kAlpha, std::numeric_limits<float>::quiet_NaN()), "alpha: expected 1 to 2"},
      {OpenWith(kSectionCount, ~std::uint32_t{0}), "at most 96 sections"},
      {OpenWith(kSectionCount, std::uint32_t{6}), "expected section l0; found the end"},
      {OpenWith(kSectionCount, std::uint32_t{8}), "section of kind 0: expected to start at"},
  };
  for (const auto& [status, what] : cases) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST_F(Corruption, HostileSectionsAreRefused) {
  const auto entry = [](std::size_t i) { return kSections + i * sizeof(Section); };
  const auto with = [&](std::size_t i, auto change) {
    Section section = sections_[i];
    change(section);
    return OpenWith(entry(i), section);
  };
  std::vector<std::byte> swapped = good_;
  Poke(std::span(swapped), entry(0), sections_[1]);
  Poke(std::span(swapped), entry(1), sections_[0]);
  ResealHeader(swapped);
  const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::pair<absl::Status, const char*>> cases = {
      {with(0, [](Section& s) { s.offset = 0; }), "expected to start at 4096"},
      {with(0, [](Section& s) { s.offset += 64; }), "a multiple of 4096"},
      {with(1, [&](Section& s) { s.offset = sections_[0].offset; }), "expected to start at"},
      {with(6, [&](Section& s) { s.offset = good_.size(); }), "within the file"},
      {with(6, [&](Section& s) { s.offset = huge / kBlockBytes * kBlockBytes; }),
       "within the file"},
      {with(6, [&](Section& s) { s.bytes = huge; }), "within the file"},
      {with(6, [&](Section& s) { s.bytes = huge - s.offset + 1 + kBlockBytes; }),
       "within the file"},
      {with(0, [](Section& s) { s.bytes -= 4; }), "expected 1024 bytes; found 1020"},
      {with(0, [](Section& s) { s.layer = 2; }), "expected upper_links[1]"},
      {with(3, [](Section& s) { s.kind = SectionKind::kFastLabels; }), "expected fast_rows"},
      {with(3, [](Section& s) { s.kind = static_cast<SectionKind>(99); }), "of kind 99"},
      {Open(swapped), "section"},
  };
  for (const auto& [status, what] : cases) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST_F(Corruption, ASectionTooManyIsRefused) {
  std::vector<std::byte> bytes = good_;
  bytes.resize(bytes.size() + kBlockBytes);
  Poke(std::span(bytes), kFileBytes, std::uint64_t{bytes.size()});
  Poke(std::span(bytes), kSectionCount, std::uint32_t{8});
  Poke(std::span(bytes), kSections + 7 * sizeof(Section),
       Section{.kind = static_cast<SectionKind>(99), .offset = good_.size(), .bytes = 10});
  ResealHeader(bytes);
  const absl::Status status = Open(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("section of kind 99: expected no more sections"));
}

/// A file with codes and two centroids a node.
class CodesCorruption : public Corruption {
 protected:
  void SetUp() override { Make({.bits = 2, .replicas = 2}); }
  std::uint64_t Place(SectionKind kind) const {
    for (const Section& s : sections_) {
      if (s.kind == kind) return s.offset;
    }
    return 0;
  }
};

TEST_F(CodesCorruption, EveryPartOfTheFileIsCheckedByVerify) {
  ASSERT_EQ(Verify(good_), absl::OkStatus());
  for (std::size_t offset = kBlockBytes; offset < good_.size(); offset += 53) {
    std::vector<std::byte> bytes = good_;
    bytes[offset] ^= std::byte{0x04};
    ASSERT_EQ(Open(bytes), absl::OkStatus()) << offset;
    ASSERT_EQ(Verify(bytes).code(), absl::StatusCode::kDataLoss) << offset;
  }
  for (std::size_t offset = kSectionCount; offset < kAlpha; ++offset) {
    std::vector<std::byte> bytes = good_;
    bytes[offset] ^= std::byte{0x01};
    ResealHeader(bytes);
    EXPECT_EQ(Open(bytes).code(), absl::StatusCode::kDataLoss) << "header byte " << offset;
  }
  EXPECT_EQ(OpenWith(kCodePlace, std::uint8_t{2}).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(OpenWith(kBits, std::uint8_t{3}).message()),
              HasSubstr("code_bits: expected 1, 2 or 4; found 3"));
}

TEST_F(CodesCorruption, CodesOfLinksAreOfAnEarlierTime) {
  const absl::Status status = OpenWith(kCodePlace, std::uint8_t{1});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found codes of links"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("build it again"));
}

TEST_F(CodesCorruption, CellsThatBreakTheirRulesAreFound) {
  const std::uint64_t cells = Place(SectionKind::kCells),
                      seconds = Place(SectionKind::kSecondCentroids),
                      mean = Place(SectionKind::kCodeMean);
  EXPECT_THAT(VerifyWith(cells, NodeId{32}), HasSubstr("a centroid below 32"));
  EXPECT_THAT(VerifyWith(cells + 8, NodeId{1}), HasSubstr("cell 1"));
  EXPECT_THAT(VerifyWith(cells + 4, NodeId{31}), HasSubstr("first node that ascends from 32"));
  EXPECT_THAT(VerifyWith(cells + 12, NodeId{32}), HasSubstr("cell 1"));
  EXPECT_THAT(VerifyWith(cells + 12, NodeId{200}), HasSubstr("cell 1"));
  EXPECT_THAT(VerifyWith(seconds + 40, NodeId{32}),
              HasSubstr("second centroid: expected less than 32"));
  EXPECT_THAT(VerifyWith(mean + 4, std::numeric_limits<float>::infinity()),
              HasSubstr("mean: expected a finite number"));
}

/// A file with scalar codes and sorted labels.
class ScalarCorruption : public CodesCorruption {
 protected:
  void SetUp() override { Make({.dtype = DType::kF32, .user_labels = true, .scalar_bits = 4}); }
};

TEST_F(ScalarCorruption, EveryPartOfTheNewSectionsIsChecked) {
  ASSERT_EQ(Verify(good_), absl::OkStatus());
  for (const SectionKind kind :
       {SectionKind::kSortedLabels, SectionKind::kScalarRange, SectionKind::kScalarCodes}) {
    for (const Section& s : sections_) {
      if (s.kind != kind) continue;
      for (std::uint64_t offset = s.offset; offset < s.offset + s.bytes; offset += 7) {
        std::vector<std::byte> bytes = good_;
        bytes[offset] ^= std::byte{0x04};
        ASSERT_EQ(Open(bytes), absl::OkStatus()) << offset;
        const absl::Status status = Verify(bytes);
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << offset;
        ASSERT_THAT(std::string(status.message()), HasSubstr(Name(s)));
      }
    }
  }
  for (const int bits : {1, 2, 3, 5, 255}) {
    EXPECT_THAT(std::string(OpenWith(kScalarBits, static_cast<std::uint8_t>(bits)).message()),
                HasSubstr(absl::StrCat("scalar_bits: expected 0, 4 or 8; found ", bits)));
  }
  EXPECT_THAT(std::string(OpenWith(kScalarBits, std::uint8_t{8}).message()),
              HasSubstr("scalar_codes: expected 4000 bytes; found 2400"));
  EXPECT_THAT(std::string(OpenWith(kScalarBits, std::uint8_t{0}).message()),
              HasSubstr("scalar_range: expected no more sections"));
}

TEST_F(ScalarCorruption, WithEveryChecksumRightWrongCodesAreFound) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::uint64_t range = Place(SectionKind::kScalarRange),
                      codes = Place(SectionKind::kScalarCodes);
  for (const auto& [place, value] : {std::pair<std::uint64_t, float>(0, 0.0f),
                                     {0, -1.0f},
                                     {0, nan},
                                     {4, -1.0f},
                                     {8, 2.0f},
                                     {12, nan}})
    EXPECT_THAT(VerifyWith(range + place, value), HasSubstr("scalar range: expected 27 finite"));
  EXPECT_THAT(VerifyWith(range, 1.0f), HasSubstr("scalar code of node 0"));
  EXPECT_THAT(
      VerifyWith(codes + 87, static_cast<std::uint8_t>(Peek<std::uint8_t>(good_, codes + 87) ^ 1)),
      HasSubstr("scalar code of node 7: not that of its vector"));
}

TEST_F(Corruption, LinkListsThatBreakTheirRulesAreFound) {
  const std::uint64_t slow = L0(150) + records_.LinksOffset(150),
                      upper = sections_[0].offset + 5 * 8 * 4;
  // 200 nodes: links of eight bits, of which all ones is none.
  ASSERT_EQ(records_.link_bits, 8u);
  const std::uint64_t fast = L0(3);
  EXPECT_THAT(VerifyWith(slow, std::uint8_t{200}),
              HasSubstr("layer 0, node 150, link 0: expected a node of this layer; found 200"));
  EXPECT_THAT(VerifyWith(slow, std::uint8_t{150}),
              HasSubstr("another node than itself; found 150"));
  EXPECT_THAT(VerifyWith(slow + 1, std::uint8_t{151}), HasSubstr("no link twice; found 151"));
  EXPECT_THAT(VerifyWith(slow + 2, std::uint8_t{255}),
              HasSubstr("link 3: expected no link after the end of the list"));
  EXPECT_THAT(VerifyWith(slow + 7, std::uint8_t{255}), HasSubstr("mean degree of layer 0"));
  EXPECT_THAT(VerifyWith(fast, std::uint8_t{3}), HasSubstr("layer 0, node 3, link 0"));
  EXPECT_THAT(VerifyWith(upper, NodeId{32}),
              HasSubstr("layer 1, node 5, link 0: expected a node of this layer; found 32"));
  EXPECT_THAT(VerifyWith(slow, std::uint8_t{200}), HasSubstr(absl::StrCat("offset ", slow)));
}

TEST_F(Corruption, NodesThatCannotBeReachedAreFound) {
  std::vector<std::byte> bytes = good_;
  for (NodeId id = 0; id < 200;
       ++id) {  // nodes linked to 170 are linked to the opposite node instead
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint64_t place = L0(id) + records_.LinksOffset(id) + i;
      if (Peek<std::uint8_t>(bytes, place) == 170)
        Poke(std::span(bytes), place, static_cast<std::uint8_t>((id + 100) % 200));
    }
  }
  Reseal(bytes);
  EXPECT_THAT(std::string(Verify(bytes).message()),
              HasSubstr("found 1 that are not, the first of them node 170"));
}

TEST_F(Corruption, VectorsLabelsAndPaddingAreChecked) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::uint64_t record = L0(150), fast_rows = sections_[3].offset,
                      fast_labels = sections_[4].offset;
  EXPECT_THAT(VerifyWith(record + 20, nan),
              HasSubstr("vector of node 150: expected a finite 1/|v|"));
  EXPECT_THAT(VerifyWith(record + 20, -1.0f), HasSubstr("vector of node 150"));
  EXPECT_THAT(VerifyWith(fast_rows + 2 * 64 + 20, 0.0f), HasSubstr("vector of node 2"));
  EXPECT_THAT(VerifyWith(fast_rows + 2 * 64 + 24, std::byte{1}),
              HasSubstr("padding after a vector"));
  const std::uint64_t end_a = sections_.back().offset + records_.regions[1].begin;
  EXPECT_THAT(VerifyWith(end_a - 1, std::byte{1}), HasSubstr("padding after the last record"));
  EXPECT_THAT(VerifyWith(L0(199) + 24, std::byte{1}), HasSubstr("padding of unused rows"));
  EXPECT_THAT(VerifyWith(sections_[1].offset - 1, std::byte{1}),
              HasSubstr("padding between sections"));
  EXPECT_THAT(VerifyWith(record + records_.LabelOffset(150), std::uint32_t{200}),
              HasSubstr("label of node 150: expected a row number below 200"));
  EXPECT_THAT(VerifyWith(fast_labels, Peek<std::uint32_t>(good_, fast_labels + 4)),
              HasSubstr("again"));
}

}  // namespace
}  // namespace hmann
