#include <hdf5.h>

#include <cmath>
#include <cstring>

#include "datasets/ground_truth.h"
#include "datasets/hdf5_file.h"
#include "datasets/testing/temp_folder.h"
#include "datasets/vector_file.h"
#include "gmock/gmock.h"

namespace hmann {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using u32 = std::uint32_t;

struct Layout {
  hsize_t chunk_rows = 0;  ///< 0: contiguous
  bool deflate = false;
};

void AddTable(hid_t file, const char* name, hid_t stored, hid_t memory, hsize_t n, hsize_t dim,
              const void* data, Layout layout = {}) {
  const hsize_t extent[2] = {n, dim};
  const hid_t space = H5Screate_simple(2, extent, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  if (layout.chunk_rows > 0) {
    const hsize_t chunk[2] = {layout.chunk_rows, dim};
    H5Pset_chunk(properties, 2, chunk);
    if (layout.deflate) H5Pset_deflate(properties, 6);
  }
  const hid_t set = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  if (data != nullptr) H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  H5Dclose(set);
  H5Pclose(properties);
  H5Sclose(space);
}

void AddDistance(hid_t file, const std::string& value, bool variable) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, variable ? H5T_VARIABLE : value.size());
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, "distance", type, space, H5P_DEFAULT, H5P_DEFAULT);
  const char* text = value.c_str();
  H5Awrite(attribute, type, variable ? static_cast<const void*>(&text) : text);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

float ComponentOf(const VectorFile& file, std::uint64_t i, u32 c) {
  float value;
  std::memcpy(&value, file.Row(i) + 4 * c, 4);
  return value;
}

TEST(Hdf5, ReadsContiguousChunkedPackedAndDoubles) {
  const TempFolder folder;
  constexpr hsize_t kRows = 100, kDim = 8;
  std::vector<double> values(kRows * kDim);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 4;
  const struct {
    const char* name;
    hid_t type;
    Layout layout;
  } cases[] = {
      {"contiguous", H5T_IEEE_F32LE, {}},       {"big_endian", H5T_IEEE_F32BE, {}},
      {"chunked", H5T_IEEE_F32LE, {16, false}}, {"packed", H5T_IEEE_F32LE, {16, true}},
      {"doubles", H5T_IEEE_F64LE, {}},          {"packed_doubles", H5T_IEEE_F64LE, {7, true}}};
  for (const auto& test : cases) {
    const std::string path = folder / (std::string(test.name) + ".hdf5");
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    AddTable(file, "train", test.type, H5T_NATIVE_DOUBLE, kRows, kDim, values.data(), test.layout);
    AddTable(file, "test", test.type, H5T_NATIVE_DOUBLE, 1, kDim, values.data() + kDim);
    H5Fclose(file);
    const auto train = VectorFile::Open(path);
    ASSERT_TRUE(train.ok()) << test.name << train.status();
    EXPECT_EQ(train->n(), kRows);
    EXPECT_EQ(train->dim(), kDim);
    for (hsize_t i = 0; i < kRows; ++i)
      EXPECT_EQ(ComponentOf(*train, i, 3), values[i * kDim + 3]) << test.name;
    const auto some = VectorFile::Open(path + ":train", 17);
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_EQ(some->n(), 17u);
    EXPECT_EQ(ComponentOf(*some, 16, 7), values[16 * kDim + 7]);
    const auto queries = VectorFile::Open(path + ":test");
    ASSERT_TRUE(queries.ok()) << queries.status();
    EXPECT_EQ(queries->n(), 1u);
    EXPECT_EQ(ComponentOf(*queries, 0, 0), values[kDim]);
    EXPECT_EQ(VectorFile::Open(path, kRows + 1).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(Hdf5, ReadsIdsOfBothWidthsAndSquaresEuclideanDistances) {
  const TempFolder folder;
  const std::int64_t ids[4] = {3, 1, 2, -1};
  const double distances[4] = {0.5, 2, 1, 3};
  const struct {
    hid_t ids, distances;
    const char* distance;
    bool variable;
    float second;
  } cases[] = {{H5T_STD_I32LE, H5T_IEEE_F32LE, "euclidean", false, 4},
               {H5T_STD_I64LE, H5T_IEEE_F64LE, "euclidean", true, 4},
               {H5T_STD_I64LE, H5T_IEEE_F32LE, "angular", true, 2}};
  for (const auto& test : cases) {
    const std::string path = folder / "t.hdf5";
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    AddTable(file, "neighbors", test.ids, H5T_NATIVE_INT64, 2, 2, ids);
    AddTable(file, "distances", test.distances, H5T_NATIVE_DOUBLE, 2, 2, distances, {1, false});
    AddDistance(file, test.distance, test.variable);
    H5Fclose(file);
    const auto truth = ReadGroundTruth(path);
    ASSERT_TRUE(truth.ok()) << truth.status();
    EXPECT_THAT(truth->ids, ElementsAre(3, 1, 2, kNoNeighbor));
    EXPECT_EQ(truth->distances[1], test.second);
    const auto metric = ReadHdf5Metric(path);
    ASSERT_TRUE(metric.ok());
    EXPECT_EQ(*metric, std::string(test.distance) == "euclidean" ? Metric::kL2 : Metric::kCosine);
  }
}

TEST(Hdf5, NamesWhatIsMalformed) {
  const TempFolder folder;
  const auto refused = [](const std::string& path, absl::StatusCode code, const std::string& part) {
    const absl::Status status = VectorFile::Open(path).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path.substr(0, path.rfind(':'))));
  };
  refused(folder / "absent.hdf5", absl::StatusCode::kNotFound, "absent");
  refused(folder.Write("foreign.hdf5", "no HDF5 at all"), absl::StatusCode::kInvalidArgument,
          "not an HDF5 file");
  const std::string path = folder / "a.hdf5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<std::int32_t> whole(16, 1);
  AddTable(file, "train", H5T_STD_I32LE, H5T_NATIVE_INT32, 4, 4, whole.data());
  AddTable(file, "test", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, hsize_t{1} << 31, 1 << 10, nullptr,
           {1, false});
  H5Fclose(file);
  refused(path, absl::StatusCode::kInvalidArgument, "another type than f32");
  refused(path + ":test", absl::StatusCode::kInvalidArgument,
          "0 bytes stored, not enough for 2147483648 x 1024");
  refused(path + ":other", absl::StatusCode::kInvalidArgument, "train or test expected");
  EXPECT_THAT(std::string(ReadGroundTruth(path).status().message()),
              HasSubstr("attribute distance"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_FALSE(VectorFile::Open(path).ok());
}

TEST(Hdf5, AnswersDamageWithAnError) {
  const TempFolder folder;
  const std::string path = folder / "a.hdf5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const std::vector<float> values(64, 1);
  AddTable(file, "train", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 16, 4, values.data());
  H5Fclose(file);
  const std::string whole = ReadAll(path);
  for (std::size_t cut = 0; cut < whole.size(); cut += 7) {
    const auto opened = VectorFile::Open(folder.Write("cut.hdf5", whole.substr(0, cut)));
    EXPECT_FALSE(opened.ok()) << cut;
  }
}

}  // namespace
}  // namespace hmann
