/// Numpy's .npy and CSV, read and written.
#include <bit>
#include <string>
#include <vector>

#include "datasets/ground_truth.h"
#include "datasets/labels.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file as numpy writes it.
std::string Npy(const std::string& type, const std::string& shape, bool fortran,
                const std::string& data) {
  std::string head = "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
                     ", 'shape': " + shape + ", }";
  head.resize(117, ' ');
  return std::string("\x93NUMPY\x01\0\x76\0", 10) + head + "\n" + data;
}

std::vector<float> Values(const VectorFile& file, std::uint64_t i) {
  std::vector<float> row(file.dim());
  ReadComponents(file.dtype(), file.Row(i), file.dim(), row.data());
  return row;
}

std::string Refusal(const std::string& path) {
  const absl::Status status = VectorFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
  return std::string(status.message());
}

TEST(Npy, IsReadInEveryOrderAndType) {
  const TempFolder folder;
  const auto read = [&](const char* name, const std::string& bytes) {
    auto file = VectorFile::Open(folder.Write(name, bytes));
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  };
  const VectorFile floats =
      read("f4.npy", Npy("<f4", "(3, 2)", false, Bytes(1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f)));
  EXPECT_EQ(floats.n(), 3u);
  EXPECT_EQ(floats.dtype(), DType::kF32);
  EXPECT_THAT(Values(floats, 1), ElementsAre(3, 4));
  const VectorFile columns =
      read("fortran.npy", Npy("<f4", "(3, 2)", true, Bytes(1.0f, 3.0f, 5.0f, 2.0f, 4.0f, 6.0f)));
  EXPECT_THAT(Values(columns, 1), ElementsAre(3, 4));
  EXPECT_THAT(Values(read("f8.npy", Npy("<f8", "(1, 2)", false, Bytes(0.5, -3.0))), 0),
              ElementsAre(0.5f, -3));
  const auto swapped = [](double value) {
    return __builtin_bswap64(std::bit_cast<std::uint64_t>(value));
  };
  EXPECT_THAT(
      Values(read("big.npy", Npy(">f8", "(2, 1)", false, Bytes(swapped(7), swapped(-1)))), 1),
      ElementsAre(-1));
  const VectorFile halves = read(
      "f2.npy", Npy("<f2", "(1, 2)", false, Bytes(std::uint16_t{0x3c00}, std::uint16_t{0xc000})));
  EXPECT_EQ(halves.dtype(), DType::kF16);
  EXPECT_THAT(Values(halves, 0), ElementsAre(1, -2));
  EXPECT_THAT(Values(read("u1.npy", Npy("|u1", "(1, 3)", false, "\x01\x02\xff")), 0),
              ElementsAre(1, 2, 255));
  EXPECT_THAT(Values(read("i1.npy", Npy("|i1", "(1, 3)", false, "\x01\x02\xff")), 0),
              ElementsAre(1, 2, -1));
  EXPECT_EQ(VectorFile::Open(folder / "f4.npy", 2)->n(), 2u);
}

TEST(Npy, WhatIsNoTableOfNumbersIsRefusedByName) {
  const TempFolder folder;
  const std::string two = Bytes(1.0f, 2.0f);
  EXPECT_THAT(Refusal(folder.Write("flat.npy", Npy("<f4", "(2,)", false, two))),
              HasSubstr("of shape (n, dim), found f4 of shape (2,)"));
  EXPECT_THAT(Refusal(folder.Write("c.npy", Npy("<c8", "(1, 1)", false, two))), HasSubstr("c8"));
  EXPECT_THAT(Refusal(folder.Write("int.npy", Npy("<i4", "(1, 2)", false, two))), HasSubstr("i4"));
  EXPECT_THAT(Refusal(folder.Write("o.npy", Npy("|O", "(1, 1)", false, two))), HasSubstr("'|O'"));
  EXPECT_THAT(Refusal(folder.Write("3d.npy", Npy("<f4", "(1, 1, 2)", false, two))),
              HasSubstr("(1, 1, 2)"));
  EXPECT_THAT(Refusal(folder.Write("short.npy", Npy("<f4", "(2, 2)", false, two))),
              HasSubstr("136 bytes found"));
  EXPECT_THAT(Refusal(folder.Write("huge.npy", Npy("<f4", "(4294967297, 1)", false, two))),
              HasSubstr("more vectors"));
  EXPECT_THAT(Refusal(folder.Write("none.npy", Npy("<f4", "(0, 2)", false, ""))), HasSubstr("(0,"));
  EXPECT_THAT(Refusal(folder.Write("cut.npy", std::string("\x93NUMPY\x01\0\xff\xff{", 11))),
              HasSubstr("expected an array"));
  EXPECT_THAT(Refusal(folder.Write("stub.npy", "\x93NUMPY")), HasSubstr("not a .npy file"));
}

TEST(Npy, LabelsOfWholeNumbers) {
  const TempFolder folder;
  const auto read = [&](const std::string& bytes, std::uint64_t n) {
    return ReadLabels(folder.Write("labels.npy", bytes), n);
  };
  EXPECT_THAT(*read(Npy("<i8", "(2,)", false, Bytes(std::int64_t{5}, std::int64_t{1} << 40)), 2),
              ElementsAre(5, std::uint64_t{1} << 40));
  EXPECT_THAT(*read(Npy(">u4", "(1,)", false, Bytes(std::uint32_t{0x01000000})), 1),
              ElementsAre(1));
  const std::string negative = Npy("<i8", "(2,)", false, Bytes(std::int64_t{5}, std::int64_t{-3}));
  EXPECT_THAT(std::string(read(negative, 2).status().message()),
              HasSubstr("negative label found at 1"));
  EXPECT_THAT(std::string(read(negative, 3).status().message()), HasSubstr("expected 3"));
  EXPECT_FALSE(read(Npy("<f8", "(1,)", false, Bytes(1.0)), 1).ok());
}

TEST(Csv, IsReadWithAndWithoutAHeader) {
  const TempFolder folder;
  const VectorFile plain = *VectorFile::Open(folder.Write("a.csv", "1,2.5,-3e2\r\n4;5 ; 6\n\n"));
  EXPECT_EQ(plain.n(), 2u);
  EXPECT_THAT(Values(plain, 0), ElementsAre(1, 2.5f, -300));
  EXPECT_THAT(Values(plain, 1), ElementsAre(4, 5, 6));
  const VectorFile named = *VectorFile::Open(folder.Write("b.csv", "x\ty\n1\t2\n3\t4"));
  EXPECT_THAT(Values(named, 1), ElementsAre(3, 4));
  EXPECT_EQ(VectorFile::Open(folder / "b.csv", 1)->n(), 1u);
  EXPECT_THAT(Refusal(folder.Write("c.csv", "1,2\n3,x\n")), HasSubstr("line 2, column 2: 'x'"));
  EXPECT_THAT(Refusal(folder.Write("d.csv", "1,2\n3\n")), HasSubstr("line 2: 1 numbers found, 2"));
  EXPECT_THAT(Refusal(folder.Write("e.csv", "x,y\n")), HasSubstr("0 vectors found"));
  EXPECT_FALSE(VectorFile::Open(folder / "b.csv", 3).ok());
}

TEST(NpyAndCsv, AreWrittenAndReadBack) {
  const TempFolder folder;
  Progress quiet(Progress::Show::kNever);
  const VectorFile from = *VectorFile::Open(
      folder.Write("a.fbin", Bytes(2u, 2u, 0.1f, -1e-30f, 3.40282347e38f, 12345678.0f)));
  for (const char* name : {"b.npy", "b.csv"}) {
    ASSERT_TRUE(ConvertVectors(from, folder / name, quiet).ok());
    const VectorFile back = *VectorFile::Open(folder / name);
    ASSERT_EQ(back.n(), 2u);
    for (std::uint64_t i = 0; i < 2; ++i) EXPECT_EQ(Values(back, i), Values(from, i)) << name;
  }
  const VectorFile bytes = *VectorFile::Open(folder.Write("a.u8bin", Bytes(1u, 2u) + "\x07\xff"));
  ASSERT_TRUE(ConvertVectors(bytes, folder / "c.npy", quiet).ok());
  EXPECT_EQ(VectorFile::Open(folder / "c.npy")->dtype(), DType::kU8);
  EXPECT_THAT(Values(*VectorFile::Open(folder / "c.npy"), 0), ElementsAre(7, 255));
}

TEST(GroundTruth, IsWrittenUnderItsSuffixesOnly) {
  const TempFolder folder;
  const GroundTruth truth{.n = 1, .k = 1, .ids = {3}, .distances = {}};
  for (const char* name : {"a.gt", "a.gt100", "a.ibin", "a.ivecs"})
    EXPECT_TRUE(WriteGroundTruth(folder / name, truth).ok()) << name;
  for (const char* name : {"a.csv", "a.xyz", "a", "a.jsonl", "a.fbin"})
    EXPECT_FALSE(WriteGroundTruth(folder / name, truth).ok()) << name;
}

}  // namespace
}  // namespace hmann
