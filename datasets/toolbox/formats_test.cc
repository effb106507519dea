#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "datasets/ground_truth.h"
#include "datasets/hdf5_file.h"
#include "datasets/labels.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/toolbox/answer_writer.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

namespace hmann {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using u32 = std::uint32_t;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

template <typename T>
std::vector<T> RowOf(const VectorFile& file, std::uint64_t i) {
  std::vector<T> row(file.dim());
  std::memcpy(row.data(), file.Row(i), row.size() * sizeof(T));
  return row;
}

/// Expects Open to fail with INVALID_ARGUMENT and a message that names the file and
/// `parts`.
void ExpectRefused(const std::string& path, std::vector<std::string> parts,
                   std::uint64_t rows = 0) {
  const auto file = VectorFile::Open(path, rows);
  ASSERT_FALSE(file.ok()) << path;
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
  parts.push_back(path);
  for (const std::string& part : parts) EXPECT_THAT(Message(file.status()), HasSubstr(part));
}

TEST(VectorFile, ReadsEveryBinFormat) {
  const TempFolder folder;
  const auto u8 = VectorFile::Open(
      folder.Write("a.u8bin", Bytes(u32{2}, u32{3}) + std::string("\x01\x02\x03\xfd\xfe\xff", 6)));
  ASSERT_TRUE(u8.ok()) << u8.status();
  EXPECT_EQ(u8->n(), 2u);
  EXPECT_EQ(u8->dim(), 3u);
  EXPECT_EQ(u8->dtype(), DType::kU8);
  EXPECT_THAT(RowOf<std::uint8_t>(*u8, 1), ElementsAre(253, 254, 255));
  const auto i8 = VectorFile::Open(folder.Write("a.i8bin", Bytes(u32{1}, u32{2}) + "\x80\x7f"));
  ASSERT_TRUE(i8.ok()) << i8.status();
  EXPECT_THAT(RowOf<std::int8_t>(*i8, 0), ElementsAre(-128, 127));
  const auto f32 = VectorFile::Open(folder.Write("a.fbin", Bytes(u32{2}, u32{1}, 0.5f, -2.0f)));
  ASSERT_TRUE(f32.ok()) << f32.status();
  EXPECT_THAT(RowOf<float>(*f32, 1), ElementsAre(-2.0f));
  const auto crop =
      VectorFile::Open(folder.Write("base.1B.u8bin.crop_nb_1", Bytes(u32{1}, u32{1}) + "x"));
  ASSERT_TRUE(crop.ok()) << crop.status();
  EXPECT_EQ(crop->dtype(), DType::kU8);
}

TEST(VectorFile, ReadsVecs) {
  const TempFolder folder;
  const auto f32 =
      VectorFile::Open(folder.Write("a.fvecs", Bytes(u32{2}, 1.0f, 2.0f, u32{2}, 3.0f, 4.0f)));
  ASSERT_TRUE(f32.ok()) << f32.status();
  EXPECT_EQ(f32->n(), 2u);
  EXPECT_THAT(RowOf<float>(*f32, 1), ElementsAre(3.0f, 4.0f));
  const auto u8 = VectorFile::Open(
      folder.Write("a.bvecs", Bytes(u32{1}) + "a" + Bytes(u32{1}) + "b" + Bytes(u32{1}) + "c"), 2);
  ASSERT_TRUE(u8.ok()) << u8.status();
  EXPECT_EQ(u8->n(), 2u);
  EXPECT_THAT(RowOf<std::uint8_t>(*u8, 1), ElementsAre('b'));
}

TEST(VectorFile, TakesATruncatedPrefixOnlyWhenRowsAreAskedFor) {
  const TempFolder folder;
  const std::string path =
      folder.Write("base.1B.u8bin", Bytes(u32{1'000'000'000}, u32{4}) + "aaaabbbbcc");
  ExpectRefused(path, {"18 bytes found", "4000000008 expected"});
  const auto two = VectorFile::Open(path, 2);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->n(), 2u);
  EXPECT_THAT(RowOf<char>(*two, 1), ElementsAre('b', 'b', 'b', 'b'));
  ExpectRefused(path, {"18 bytes found", "20 expected"}, 3);
  ExpectRefused(folder.Write("long.u8bin", Bytes(u32{2}, u32{1}) + "abc"),
                {"11 bytes found", "10 expected"}, 1);
}

TEST(VectorFile, NamesWhatIsMalformed) {
  const TempFolder folder;
  ExpectRefused(folder.Write("empty.u8bin", ""), {"0 bytes found", "header of 8"});
  ExpectRefused(folder.Write("header.u8bin", "abcdefg"), {"7 bytes found"});
  ExpectRefused(folder.Write("short.fbin", Bytes(u32{2}, u32{2}, 1.0f)),
                {"12 bytes found", "24 expected", "its content is .u8bin"});
  ExpectRefused(folder.Write("long.fbin", Bytes(u32{1}, u32{1}, 1.0f, 2.0f)),
                {"16 bytes found", "12 expected"});
  ExpectRefused(folder.Write("none.fbin", Bytes(u32{0}, u32{4})), {"0 vectors", "offset 0"});
  ExpectRefused(folder.Write("flat.fbin", Bytes(u32{4}, u32{0})),
                {"dimension 0 found", "offset 4"});
  ExpectRefused(folder.Write("huge.fbin", Bytes(~u32{0}, ~u32{0})),
                {"dimension 4294967295 found", "1 to 32768"});
  ExpectRefused(folder.Write("wide.fbin", Bytes(~u32{0}, u32{32768})),
                {"8 bytes found", "562949953290248 expected"});
  ExpectRefused(folder.Write("few.u8bin", Bytes(u32{2}, u32{1}) + "ab"),
                {"3 rows asked for", "holds 2"}, 3);
  ExpectRefused(folder.Write("empty.fvecs", ""), {"empty"});
  ExpectRefused(folder.Write("stub.fvecs", "abc"), {"3 bytes found"});
  ExpectRefused(folder.Write("flat.fvecs", Bytes(u32{0})), {"dimension 0 found"});
  ExpectRefused(folder.Write("rest.fvecs", Bytes(u32{1}, 1.0f) + "x"),
                {"9 bytes found", "multiple of 8"});
  ExpectRefused(folder.Write("mixed.fvecs", Bytes(u32{2}, 1.0f, 1.0f, u32{1}, 1.0f)),
                {"20 bytes found"});
  ExpectRefused(folder.Write("mixed.bvecs", Bytes(u32{4}) + "aaaa" + Bytes(u32{3}) + "bbbb"),
                {"row 1 has dimension 3", "offset 8"});
  ExpectRefused(folder.Write("ids.ibin", Bytes(u32{1}, u32{1}, u32{1})), {"ids, not vectors"});
  ExpectRefused(folder.Write("what.bin", Bytes(u32{1}, u32{1}, u32{1})), {"suffix '.bin' found"});
  EXPECT_EQ(VectorFile::Open(folder / "absent.fbin").status().code(), absl::StatusCode::kNotFound);
  ExpectRefused(folder.Write("a.npy", "x"), {"not a .npy file"});
  ExpectRefused(folder.Write("a.npz", "x"), {"expected one array"});
  ExpectRefused(folder.Write("a.hmann", "x"), {"an index found, vectors expected"});
}

TEST(VectorFile, FindsNotFiniteComponents) {
  const TempFolder folder;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const auto file = VectorFile::Open(
        folder.Write("bad.fbin", Bytes(u32{2}, u32{3}, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, bad)));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->CheckFinite(0, 1).ok());
    const absl::Status status = file->CheckFinite();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("row 1, component 2"));
  }
}

TEST(VectorFile, FindsARowOfOtherDimensionBetweenTheSampledOnes) {
  const TempFolder folder;
  std::string content;
  constexpr u32 kRows = 20'000, kBad = 7'001;
  for (u32 i = 0; i < kRows; ++i) content += Bytes(i == kBad ? u32{2} : u32{1}) + "x";
  const auto file = VectorFile::Open(folder.Write("a.bvecs", content));
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = file->CheckFinite();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("row 7001 has dimension 2"));
}

TEST(VectorWriter, WritesWhatVectorFileReads) {
  const TempFolder folder;
  Progress progress(Progress::Show::kNever);
  const std::vector<float> values = {0, 1, 255, 3, 4, 5};
  const auto first =
      VectorFile::Open(folder.Write("in.fbin", Bytes(u32{2}, u32{3}) + BytesOf(values)));
  ASSERT_TRUE(first.ok());
  for (const char* name : {"out.fvecs", "out.bvecs", "out.u8bin", "out.fbin"}) {
    ASSERT_TRUE(ConvertVectors(*first, folder / name, progress).ok()) << name;
    const auto there = VectorFile::Open(folder / name);
    ASSERT_TRUE(there.ok()) << there.status();
    EXPECT_TRUE(there->CheckFinite().ok());
    ASSERT_TRUE(ConvertVectors(*there, folder / "back.fbin", progress).ok());
    EXPECT_EQ(ReadAll(folder / "back.fbin"), ReadAll(folder / "in.fbin")) << name;
  }
  const absl::Status status = ConvertVectors(*first, folder / "out.i8bin", progress);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              HasSubstr("row 0, component 2: 255 found, a value that i8 holds exactly"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.i8bin"));
}

TEST(VectorWriter, ConvertsOnlyWhatStaysExact) {
  const TempFolder folder;
  Progress progress(Progress::Show::kNever);
  const auto file = VectorFile::Open(folder.Write("in.fbin", Bytes(u32{1}, u32{1}, 0.5f)));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(ConvertVectors(*file, folder / "a.u8bin", progress).code(),
            absl::StatusCode::kInvalidArgument);
  const auto low =
      VectorFile::Open(folder.Write("low.fbin", Bytes(u32{1}, u32{2}, -128.0f, 127.0f)));
  ASSERT_TRUE(low.ok());
  ASSERT_TRUE(ConvertVectors(*low, folder / "low.i8bin", progress).ok());
  EXPECT_EQ(ReadAll(folder / "low.i8bin"), Bytes(u32{1}, u32{2}) + "\x80\x7f");
}

TEST(VectorWriter, RefusesAnEmptyFile) {
  const TempFolder folder;
  auto writer = VectorWriter::Create(folder / "a.fbin", 3);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->Commit().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(VectorWriter::Create(folder / "a.fbin", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Labels, ReadsRawAndIdFiles) {
  const TempFolder folder;
  const auto raw =
      ReadLabels(folder.Write("l.bin", Bytes(std::uint64_t{1} << 40, std::uint64_t{7})), 2);
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_THAT(*raw, ElementsAre(std::uint64_t{1} << 40, 7));
  const auto bin = ReadLabels(folder.Write("l.ibin", Bytes(u32{2}, u32{1}, u32{5}, u32{6})), 2);
  ASSERT_TRUE(bin.ok()) << bin.status();
  EXPECT_THAT(*bin, ElementsAre(5, 6));
  const auto vecs = ReadLabels(folder.Write("l.ivecs", Bytes(u32{1}, u32{5}, u32{1}, u32{6})), 2);
  ASSERT_TRUE(vecs.ok()) << vecs.status();
  EXPECT_THAT(*vecs, ElementsAre(5, 6));
  EXPECT_THAT(Message(ReadLabels(folder / "l.bin", 3).status()),
              HasSubstr("16 bytes found, 3 labels"));
  EXPECT_THAT(Message(ReadLabels(folder / "l.ibin", 3).status()),
              HasSubstr("2 labels found, 3 expected"));
  EXPECT_THAT(
      Message(ReadLabels(folder.Write("m.ibin", Bytes(u32{1}, u32{1}, ~u32{0})), 1).status()),
      HasSubstr("label 4294967295 (-1"));
  EXPECT_THAT(
      Message(
          ReadLabels(folder.Write("w.ibin", Bytes(u32{1}, u32{2}, u32{0}, u32{0})), 1).status()),
      HasSubstr("dimension 2 found"));
}

TEST(GroundTruth, IsToldBySizeWhateverTheName) {
  const TempFolder folder;
  const std::string ids = Bytes(u32{2}, u32{2}, u32{1}, u32{2}, u32{3}, ~u32{0});
  for (const char* name : {"t.gt", "t.gt100", "t.ibin", "bigann-10M"}) {
    const auto bare = ReadGroundTruth(folder.Write(name, ids));
    ASSERT_TRUE(bare.ok()) << bare.status();
    EXPECT_EQ(bare->n, 2u);
    EXPECT_EQ(bare->k, 2u);
    EXPECT_THAT(bare->ids, ElementsAre(1, 2, 3, kNoNeighbor));
    EXPECT_THAT(bare->distances, IsEmpty());
    const auto full = ReadGroundTruth(folder.Write(name, ids + Bytes(0.5f, 1.0f, 1.5f, 2.0f)));
    ASSERT_TRUE(full.ok()) << full.status();
    EXPECT_THAT(full->Ids(1), ElementsAre(3, kNoNeighbor));
    EXPECT_THAT(full->Distances(1), ElementsAre(1.5f, 2.0f));
  }
  const auto vecs = ReadGroundTruth(
      folder.Write("t.ivecs", Bytes(u32{2}, u32{1}, u32{2}, u32{2}, u32{3}, u32{4})));
  ASSERT_TRUE(vecs.ok()) << vecs.status();
  EXPECT_THAT(vecs->ids, ElementsAre(1, 2, 3, 4));
}

TEST(GroundTruth, NamesWhatIsMalformed) {
  const TempFolder folder;
  const auto refused = [&folder](const std::string& content, const std::string& part) {
    const absl::Status status = ReadGroundTruth(folder.Write("t.gt", content)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(Message(status), HasSubstr(part));
  };
  refused("abc", "3 bytes found");
  refused(Bytes(u32{1}, u32{1}), "8 bytes found, 12 (ids), 16 (ids and distances) or 20 ");
  refused(Bytes(u32{1}, u32{1}, 1, 1, 1, 1), "24 bytes found");
  refused(Bytes(u32{0}, u32{1}), "0 queries with 1");
  refused(Bytes(u32{1}, u32{0}), "1 queries with 0");
  refused(Bytes(~u32{0}, ~u32{0}), "4294967295");
  refused(Bytes(~u32{0}, u32{1} << 24), "8 bytes found");
  refused(Bytes(u32{1}, u32{1}, u32{0}, std::nanf("")), "query 0, neighbor 0: the distance is NaN");
  EXPECT_EQ(ReadGroundTruth(folder / "absent.gt").status().code(), absl::StatusCode::kNotFound);
}

TEST(GroundTruth, RoundTripsInEveryFormat) {
  const TempFolder folder;
  GroundTruth truth{.n = 2,
                    .k = 2,
                    .ids = {4, 3, 2, kNoNeighbor},
                    .distances = {1, 2, 3, std::numeric_limits<float>::infinity()}};
  for (const char* name : {"t.gt", "t.gt100", "t.ibin", "t.ivecs"}) {
    ASSERT_TRUE(WriteGroundTruth(folder / name, truth).ok()) << name;
    const auto back = ReadGroundTruth(folder / name);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ids, truth.ids);
    EXPECT_EQ(back->distances.empty(), !absl::StartsWith(name, "t.gt")) << name;
    if (!back->distances.empty()) {
      EXPECT_EQ(back->distances, truth.distances);
    }
  }
  truth.ids[0] = std::uint64_t{1} << 31;
  EXPECT_TRUE(WriteGroundTruth(folder / "t.gt", truth).ok());
  EXPECT_EQ(WriteGroundTruth(folder / "t.ibin", truth).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteGroundTruth(folder / "t.gt", GroundTruth{}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GroundTruth, KeepsIdsOf64Bits) {
  const TempFolder folder;
  constexpr std::uint64_t kLargest = ~std::uint64_t{0} >> 1;
  GroundTruth truth{.n = 2,
                    .k = 2,
                    .ids = {kLargest, 0xffffffff, 2, kNoNeighbor},
                    .distances = {1, 2, 3, std::numeric_limits<float>::infinity()}};
  ASSERT_TRUE(WriteGroundTruth(folder / "t.gt", truth).ok());
  EXPECT_EQ(ReadAll(folder / "t.gt").size(), 8u + 4 * 12);
  const auto back = ReadGroundTruth(folder / "t.gt");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->ids, truth.ids);
  EXPECT_EQ(back->distances, truth.distances);
  for (const char* name : {"t.ibin", "t.ivecs"}) {
    const absl::Status refused = WriteGroundTruth(folder / name, truth);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(refused), HasSubstr("9223372036854775807 found, at most 2147483647"));
  }
  truth.distances.clear();
  EXPECT_EQ(WriteGroundTruth(folder / "t.gt", truth).code(), absl::StatusCode::kInvalidArgument);
  const std::string whole = ReadAll(folder / "t.gt");
  for (std::size_t bytes = 9; bytes < whole.size(); ++bytes) {
    const auto read = ReadGroundTruth(folder.Write("cut.gt", whole.substr(0, bytes)));
    EXPECT_EQ(read.ok(), bytes == 8 + 4 * 4) << bytes;  // the size of ids of 32 bits alone
  }
}

TEST(AnswerWriter, WritesThreeFormats) {
  const TempFolder folder;
  for (const char* name : {"a.ibin", "a.gt", "a.jsonl"}) {
    auto writer = AnswerWriter::Create(folder / name, 2, 2);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(
        writer->Append(std::vector<std::uint64_t>{5, 6}, std::vector<float>{0.5f, 1.5f}).ok());
    ASSERT_TRUE(writer->Append(std::vector<std::uint64_t>{7}, std::vector<float>{2.5f}).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  const auto ids = ReadGroundTruth(folder / "a.ibin");
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(ids->ids, ElementsAre(5, 6, 7, kNoNeighbor));
  EXPECT_THAT(ids->distances, IsEmpty());
  const auto both = ReadGroundTruth(folder / "a.gt");
  ASSERT_TRUE(both.ok());
  EXPECT_THAT(both->distances,
              ElementsAre(0.5f, 1.5f, 2.5f, std::numeric_limits<float>::infinity()));
  const std::string lines = ReadAll(folder / "a.jsonl");
  const auto second = nlohmann::json::parse(lines.substr(lines.find('\n') + 1));
  EXPECT_EQ(second, nlohmann::json::parse(R"({"query": 1, "ids": [7], "distances": [2.5]})"));
}

TEST(AnswerWriter, KeepsLabelsOf64BitsOrNamesTheFormatThatDoes) {
  const TempFolder folder;
  const std::vector<std::uint64_t> label = {~std::uint64_t{0} >> 1};
  const std::vector<float> distance = {1};
  for (const char* name : {"a.ibin", "a.gt", "a.jsonl"}) {
    auto writer = AnswerWriter::Create(folder / name, 1, 1);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Append(label, distance).ok());
    const absl::Status status = writer->Commit();
    EXPECT_EQ(status.ok(), name != std::string("a.ibin"));
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("9223372036854775807 found"));
    EXPECT_THAT(Message(status), HasSubstr(".gt"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a.ibin"));
  EXPECT_EQ(ReadGroundTruth(folder / "a.gt")->ids, label);
  EXPECT_THAT(ReadAll(folder / "a.jsonl"), HasSubstr("9223372036854775807"));
  EXPECT_EQ(AnswerWriter::Create(folder / "a.csv", 1, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Sample, IsWhole) {
  const auto base = VectorFile::Open("datasets/sample/base.u8bin");
  const auto query = VectorFile::Open("datasets/sample/query.u8bin");
  const auto truth = ReadGroundTruth("datasets/sample/query.gt100");
  ASSERT_TRUE(base.ok() && query.ok() && truth.ok());
  EXPECT_EQ(base->n(), 10'000u);
  EXPECT_EQ(base->dim(), 128u);
  EXPECT_EQ(query->n(), truth->n);
  EXPECT_EQ(truth->k, 100u);
  EXPECT_EQ(truth->distances.size(), truth->ids.size());
}

}  // namespace
}  // namespace hmann
