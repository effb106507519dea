#include <limits>
#include <string>

#include "datasets/testing/temp_folder.h"
#include "datasets/vector_file.h"
#include "datasets/vector_writer.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

std::vector<float> RowOf(const VectorFile& file, std::uint64_t i) {
  std::vector<float> row(file.dim());
  ReadComponents(file.dtype(), file.Row(i), file.dim(), row.data());
  return row;
}

VectorFile MustOpen(const std::string& path) {
  auto file = VectorFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

TEST(HalfFile, ReadsAndNamesWhatIsMalformed) {
  const TempFolder folder;
  const VectorFile file = MustOpen(folder.Write(
      "a.f16bin", Bytes(u32{2}, u32{2}, u16{0x3c00}, u16{0xc000}, u16{0x0001}, u16{0x7bff})));
  EXPECT_EQ(file.dtype(), DType::kF16);
  EXPECT_EQ(file.row_bytes(), 4u);
  EXPECT_THAT(RowOf(file, 0), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(RowOf(file, 1), ElementsAre(0x1p-24f, 65504.0f));
  EXPECT_TRUE(file.CheckFinite().ok());
  const auto refusal = [&](const char* name, const std::string& bytes) {
    const absl::Status status = VectorFile::Open(folder.Write(name, bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("short.f16bin", Bytes(u32{2}, u32{2}, u16{1}, u16{1}, u16{1})),
              AllOf(HasSubstr("14 bytes found"), HasSubstr("16 expected")));
  EXPECT_THAT(refusal("halves.fbin", Bytes(u32{1}, u32{2}, u16{1}, u16{1})),
              HasSubstr("12 bytes found, 16 expected: its content is .f16bin"));
  EXPECT_THAT(refusal("floats.f16bin", Bytes(u32{1}, u32{1}, 1.0f)),
              HasSubstr("12 bytes found, 10 expected"));
  for (const u16 bad : {u16{0x7c00}, u16{0xfc00}, u16{0x7e01}}) {
    const VectorFile infinite =
        MustOpen(folder.Write("bad.f16bin", Bytes(u32{2}, u32{2}, u16{1}, u16{1}, u16{1}, bad)));
    EXPECT_TRUE(infinite.CheckFinite(0, 1).ok());
    EXPECT_THAT(std::string(infinite.CheckFinite().message()),
                AllOf(HasSubstr("row 1, component 1"), HasSubstr("a finite number expected")));
  }
}

TEST(HalfFile, IsConvertedToAndFrom) {
  const TempFolder folder;
  Progress quiet(Progress::Show::kNever);
  const VectorFile floats =
      MustOpen(folder.Write("a.fbin", Bytes(u32{2}, u32{2}, 0.1f, 1.0f, -65504.0f, 2049.0f)));
  ASSERT_TRUE(ConvertVectors(floats, folder / "b.f16bin", quiet).ok());
  const VectorFile halves = MustOpen(folder / "b.f16bin");
  EXPECT_THAT(RowOf(halves, 0), ElementsAre(0.0999755859375f, 1.0f));
  EXPECT_THAT(RowOf(halves, 1), ElementsAre(-65504.0f, 2048.0f)) << "of two the even one";
  ASSERT_TRUE(ConvertVectors(halves, folder / "c.fvecs", quiet).ok());
  EXPECT_EQ(RowOf(MustOpen(folder / "c.fvecs"), 0), RowOf(halves, 0));
  EXPECT_THAT(std::string(ConvertVectors(halves, folder / "d.u8bin", quiet).message()),
              HasSubstr("row 0, component 0: 0.0999756 found, a value that u8 holds"));
  const auto refusal = [&](float a, float b) {
    const VectorFile from = MustOpen(folder.Write("x.fbin", Bytes(u32{1}, u32{2}, a, b)));
    return std::string(ConvertVectors(from, folder / "x.f16bin", quiet).message());
  };
  EXPECT_THAT(refusal(1, 1e5f), AllOf(HasSubstr("x.fbin: row 0, component 1"), HasSubstr("65504"),
                                      HasSubstr("found 100000")));
  EXPECT_THAT(refusal(1e-20f, 0), HasSubstr("row 0, norm"));
  EXPECT_THAT(refusal(0, -std::numeric_limits<float>::infinity()), HasSubstr("row 0, component 1"));
}

TEST(HalfFile, AsQueriesIsWidened) {
  const TempFolder folder;
  VectorFile halves =
      MustOpen(folder.Write("a.f16bin", Bytes(u32{2}, u32{1}, u16{0x3c00}, u16{0xc000})));
  ASSERT_TRUE(halves.FitQueries(1, DType::kF16, "the index").ok());
  EXPECT_EQ(halves.dtype(), DType::kF32);
  EXPECT_EQ(halves.n(), 2u);
  EXPECT_THAT(RowOf(halves, 1), ElementsAre(-2.0f));
  VectorFile floats = MustOpen(folder.Write("a.fbin", Bytes(u32{1}, u32{1}, 1e20f)));
  EXPECT_TRUE(floats.FitQueries(1, DType::kF16, "the index").ok());
  EXPECT_EQ(floats.dtype(), DType::kF32);
  VectorFile again = MustOpen(folder / "a.f16bin");
  EXPECT_THAT(std::string(again.FitQueries(1, DType::kF32, "the index").message()),
              HasSubstr("expected vectors of 1 x f32 as in the index, found 1 x f16"));
  EXPECT_FALSE(again.FitQueries(2, DType::kF16, "the index").ok());
}

}  // namespace
}  // namespace hmann
