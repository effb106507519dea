#include "index/construct/testing/import_samples.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ImportHnswlib, FloatGraphIsTheLibrarysOwn) {
  const TempFile base_file(".fbin"), index(".hnsw");
  const auto points = Points<float>::Make(500, 12);
  const VectorFile base = OpenBase(points, base_file);
  hnswlib::L2Space l2(12);
  const Lists by_l2 = WriteHnswlib(&l2, points.values, 500, index.path());
  ExpectGraph(ImportHnswlib(index.path(), base, Metric::kL2), by_l2);
  hnswlib::InnerProductSpace ip(12);
  const Lists by_ip = WriteHnswlib(&ip, points.values, 500, index.path());
  ExpectGraph(ImportHnswlib(index.path(), base, Metric::kInnerProduct), by_ip);
}

TEST(ImportHnswlib, IntegersMayBeStoredAsBytesOrFloats) {
  const TempFile u8_file(".u8bin"), i8_file(".i8bin"), index(".hnsw");
  const auto u8 = Points<std::uint8_t>::Make(300, 16);
  const auto i8 = Points<std::int8_t>::Make(300, 16);
  const VectorFile u8_base = OpenBase(u8, u8_file);
  const VectorFile i8_base = OpenBase(i8, i8_file);
  hnswlib::L2SpaceI bytes(16);
  hnswlib::L2Space floats(16);
  Lists expected = WriteHnswlib(&bytes, u8.values, 300, index.path());
  ExpectGraph(ImportHnswlib(index.path(), u8_base, Metric::kL2), expected);
  // hnswlib's byte space is unsigned, and L2 only.
  ExpectError(ImportHnswlib(index.path(), i8_base, Metric::kL2), kMismatch, index.path(),
              "bytes of a vector, for a base of ");
  ExpectError(ImportHnswlib(index.path(), u8_base, Metric::kInnerProduct), kMismatch, index.path(),
              "bytes of a vector, for a base of ");
  expected = WriteHnswlib(&floats, u8.Floats(), 300, index.path());
  ExpectGraph(ImportHnswlib(index.path(), u8_base, Metric::kL2), expected);
  expected = WriteHnswlib(&floats, i8.Floats(), 300, index.path());
  ExpectGraph(ImportHnswlib(index.path(), i8_base, Metric::kL2), expected);
  ExpectError(ImportHnswlib(index.path(), u8_base, Metric::kL2), kMismatch, index.path(), "of row");
}

TEST(ImportHnswlib, CosineWantsUnitVectors) {
  const TempFile base_file(".fbin"), i8_file(".i8bin"), index(".hnsw");
  auto points = Points<float>::Make(200, 10);
  const auto i8 = Points<std::int8_t>::Make(200, 10);
  hnswlib::InnerProductSpace ip(10);
  Lists expected = WriteHnswlib(&ip, i8.UnitFloats(), 200, index.path());
  ExpectGraph(ImportHnswlib(index.path(), OpenBase(i8, i8_file), Metric::kCosine), expected);
  expected = WriteHnswlib(&ip, points.UnitFloats(), 200, index.path());
  ExpectGraph(ImportHnswlib(index.path(), OpenBase(points, base_file), Metric::kCosine), expected);

  std::fill_n(points.values.begin() + 7 * 10, 10, 0.0f);
  const auto zero = ImportHnswlib(index.path(), OpenBase(points, base_file), Metric::kCosine);
  EXPECT_EQ(zero.status().code(), kMismatch);
  EXPECT_THAT(std::string(zero.status().message()),
              AllOf(HasSubstr(base_file.path()), HasSubstr("row 7"), HasSubstr("zero vector")));
  points = Points<float>::Make(200, 10);
  WriteHnswlib(&ip, points.values, 200, index.path());
  ExpectError(ImportHnswlib(index.path(), OpenBase(points, base_file), Metric::kCosine), kMismatch,
              index.path(), "divided by its norm");
}

TEST(ImportHnswlib, AnotherBaseIsRefused) {
  const TempFile base_file(".fbin"), index(".hnsw");
  auto points = Points<float>::Make(100, 8);
  hnswlib::L2Space l2(8);
  const Lists expected = WriteHnswlib(&l2, points.values, 100, index.path());
  const auto import_with = [&](const Points<float>& base, std::uint64_t rows = 0) {
    return ImportHnswlib(index.path(), OpenBase(base, base_file, rows), Metric::kL2);
  };
  auto longer =
      Points<float>::Make(101, 8);  // the same first hundred rows: values follow a counter
  ExpectGraph(import_with(longer, 100), expected);
  ExpectError(import_with(longer), kMismatch, index.path(), "elements: expected 101, found 100");
  ExpectError(import_with(Points<float>::Make(100, 9)), kMismatch, index.path(),
              "f32 x 9 under l2: expected 36, found 32");
  ExpectError(import_with(Points<float>::Make(100, 8, 2)), kMismatch, index.path(),
              "component 0 of row");
  points.values[41 * 8 + 5] = std::nextafter(points.values[41 * 8 + 5], 0.0f);
  ExpectError(import_with(points), kMismatch, index.path(), "component 5 of row 41 ");
}

TEST(ImportHnswlib, DeletedElementsAndForeignLabelsAreRefused) {
  const TempFile base_file(".fbin"), index(".hnsw");
  const auto points = Points<float>::Make(100, 8);
  const VectorFile base = OpenBase(points, base_file);
  hnswlib::L2Space l2(8);
  using Index = hnswlib::HierarchicalNSW<float>;
  WriteHnswlib<float>(&l2, points.values, 100, index.path(), [](Index& it) { it.markDelete(17); });
  ExpectError(ImportHnswlib(index.path(), base, Metric::kL2), kMismatch, index.path(),
              "marked deleted");
  WriteHnswlib<float>(&l2, points.values, 100, index.path(),
                      [](Index& it) { it.setExternalLabel(5, 100); });
  ExpectError(ImportHnswlib(index.path(), base, Metric::kL2), kMismatch, index.path(),
              "label of element 5");
  WriteHnswlib<float>(&l2, points.values, 100, index.path(),
                      [](Index& it) { it.setExternalLabel(5, it.getExternalLabel(4)); });
  ExpectError(ImportHnswlib(index.path(), base, Metric::kL2), kMismatch, index.path(), "again");
  WriteHnswlib<float>(&l2, points.values, 100, index.path(),
                      [](Index& it) { it.get_linklist0(9)[1] = 9; });
  ExpectError(ImportHnswlib(index.path(), base, Metric::kL2), kCorrupt, index.path(),
              "link 0 of node 9: expected another node");
  WriteHnswlib<float>(&l2, points.values, 100, index.path(),
                      [](Index& it) { it.get_linklist0(9)[2] = it.get_linklist0(9)[1]; });
  ExpectError(ImportHnswlib(index.path(), base, Metric::kL2), kCorrupt, index.path(),
              "link 1 of node 9: expected no node twice");
  WriteHnswlib<float>(&l2, points.values, 100, index.path(),
                      [](Index& it) { it.get_linklist0(9)[1] = 100; });
  ExpectError(ImportHnswlib(index.path(), base, Metric::kL2), kCorrupt, index.path(),
              "link 0 of node 9: expected below 100");
}

TEST(ImportFaiss, GraphIsTheLibrarysOwn) {
  const TempFile base_file(".fbin"), u8_file(".u8bin"), index(".faiss");
  const auto points = Points<float>::Make(500, 12);
  const VectorFile base = OpenBase(points, base_file);
  const Lists by_ip = WriteFaiss(points.values, 500, faiss::METRIC_INNER_PRODUCT, index.path());
  ExpectGraph(ImportFaiss(index.path(), base, Metric::kInnerProduct), by_ip);
  const Lists by_l2 = WriteFaiss(points.values, 500, faiss::METRIC_L2, index.path());
  ExpectGraph(ImportFaiss(index.path(), base, Metric::kL2), by_l2);

  std::string bytes = ReadBytes(index.path());
  const std::size_t storage = bytes.rfind("IxF2");
  ASSERT_NE(storage, std::string::npos);
  WriteBytes(index.path(), bytes.replace(storage, 4, "IxFl"));
  ExpectGraph(ImportFaiss(index.path(), base, Metric::kL2), by_l2);

  const auto u8 = Points<std::uint8_t>::Make(300, 12);
  const Lists by_value = WriteFaiss(u8.Floats(), 300, faiss::METRIC_L2, index.path());
  ExpectGraph(ImportFaiss(index.path(), OpenBase(u8, u8_file), Metric::kL2), by_value);
}

TEST(ImportFaiss, MetricIsAsRecorded) {
  const TempFile base_file(".fbin"), index(".faiss");
  const auto points = Points<float>::Make(200, 12);
  const VectorFile base = OpenBase(points, base_file);
  for (const faiss::MetricType metric : {faiss::METRIC_INNER_PRODUCT, faiss::METRIC_L2}) {
    const Lists expected = WriteFaiss(points.UnitFloats(), 200, metric, index.path());
    ExpectGraph(ImportFaiss(index.path(), base, Metric::kCosine), expected);
    const Metric other = metric == faiss::METRIC_L2 ? Metric::kInnerProduct : Metric::kL2;
    ExpectError(ImportFaiss(index.path(), base, other), kMismatch, index.path(),
                "metric: expected ");
    WriteFaiss(points.values, 200, metric, index.path());
    ExpectError(ImportFaiss(index.path(), base, Metric::kCosine), kMismatch, index.path(),
                "divided by its norm");
  }
  WriteFaiss(points.values, 200, faiss::METRIC_L1, index.path());
  ExpectError(ImportFaiss(index.path(), base, Metric::kL2), kMismatch, index.path(),
              "metric: expected 1 (L2), found 2");
}

TEST(ImportFaiss, AnotherBaseIsRefused) {
  const TempFile base_file(".fbin"), index(".faiss");
  auto points = Points<float>::Make(100, 8);
  const Lists expected = WriteFaiss(points.values, 100, faiss::METRIC_L2, index.path());
  const auto import_with = [&](const Points<float>& base, std::uint64_t rows = 0) {
    return ImportFaiss(index.path(), OpenBase(base, base_file, rows), Metric::kL2);
  };
  ExpectGraph(import_with(Points<float>::Make(101, 8), 100), expected);
  ExpectError(import_with(Points<float>::Make(101, 8)), kMismatch, index.path(),
              "vectors: expected 101, found 100");
  ExpectError(import_with(Points<float>::Make(100, 9)), kMismatch, index.path(),
              "dimension: expected 9, found 8");
  points.values[41 * 8 + 5] = std::nextafter(points.values[41 * 8 + 5], 0.0f);
  ExpectError(import_with(points), kMismatch, index.path(), "component 5 of row 41 ");
}

TEST(ImportFaiss, LinksAreChecked) {
  const TempFile base_file(".fbin"), index(".faiss");
  const auto points = Points<float>::Make(100, 8);
  const VectorFile base = OpenBase(points, base_file);
  const auto import_changed = [&](const std::function<void(faiss::HNSW&, std::size_t)>& change) {
    faiss::IndexHNSWFlat it(8, kM);
    it.add(100, points.values.data());
    change(it.hnsw, it.hnsw.offsets[9]);
    faiss::write_index(&it, index.path().c_str());
    return ImportFaiss(index.path(), base, Metric::kL2);
  };
  const std::string& path = index.path();
  ExpectError(import_changed([](faiss::HNSW& it, std::size_t at) { it.neighbors[at] = 9; }),
              kCorrupt, path, "link 0 of node 9: expected another");
  ExpectError(import_changed(
                  [](faiss::HNSW& it, std::size_t at) { it.neighbors[at] = it.neighbors[at + 1]; }),
              kCorrupt, path, "again");
  ExpectError(import_changed([](faiss::HNSW& it, std::size_t at) { it.neighbors[at] = 100; }),
              kCorrupt, path, "expected below 100");
  ExpectError(import_changed([](faiss::HNSW& it, std::size_t at) { it.neighbors[at] = -2; }),
              kCorrupt, path, "expected below 100");
  ExpectError(import_changed([](faiss::HNSW& it, std::size_t at) { it.neighbors[at] = -1; }),
              kCorrupt, path, "-1 to the end");
  ExpectError(import_changed([](faiss::HNSW& it, std::size_t) { it.offsets[3] -= 1; }), kCorrupt,
              path, "of node 3");
  ExpectError(import_changed([](faiss::HNSW& it, std::size_t) { it.levels[3] = 99; }), kCorrupt,
              path, "levels of node 3");
}

TEST(ImportFaiss, AnotherStorageIsNamed) {
  const TempFile base_file(".fbin"), index(".faiss");
  const auto points = Points<float>::Make(300, 8);
  faiss::IndexHNSWSQ quantized(8, faiss::ScalarQuantizer::QT_8bit, kM);
  quantized.train(300, points.values.data());
  quantized.add(300, points.values.data());
  faiss::write_index(&quantized, index.path().c_str());
  ExpectError(ImportFaiss(index.path(), OpenBase(points, base_file), Metric::kL2), kMismatch,
              index.path(), "expected IHNf, found IHNs");
}

}  // namespace
}  // namespace hmann
