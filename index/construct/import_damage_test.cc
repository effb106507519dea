#include <fcntl.h>

#include "index/construct/testing/import_samples.h"

namespace hmann {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using ImportFunction = absl::StatusOr<ImportedGraph> (*)(const std::string&, const VectorFile&,
                                                         Metric);

/// A small file of each library, with its importer and its base.
struct Sample {
  const char* name;
  ImportFunction import;
  void (*write)(const Points<float>& points, const std::string& path);
};

const Sample kSamples[] = {
    {"hnswlib", ImportHnswlib,
     [](const Points<float>& points, const std::string& path) {
       hnswlib::L2Space l2(points.dim);
       WriteHnswlib(&l2, points.values, points.n, path);
     }},
    {"faiss", ImportFaiss,
     [](const Points<float>& points, const std::string& path) {
       WriteFaiss(points.values, points.n, faiss::METRIC_L2, path);
     }},
};

class ImportDamaged : public ::testing::TestWithParam<Sample> {
 protected:
  ImportDamaged()
      : points_(Points<float>::Make(40, 3)),
        base_file_(".fbin"),
        index_(".index"),
        base_(OpenBase(points_, base_file_)) {
    GetParam().write(points_, index_.path());
    whole_ = ReadBytes(index_.path());
    fd_ = ::open(index_.path().c_str(), O_WRONLY | O_CLOEXEC);
  }
  ~ImportDamaged() override { ::close(fd_); }

  absl::StatusOr<ImportedGraph> Import() {
    return GetParam().import(index_.path(), base_, Metric::kL2);
  }

  /// Imports with one byte changed in place, and restores it.
  absl::StatusOr<ImportedGraph> ImportFlipped(std::size_t at, int mask) {
    Write(at, static_cast<char>(whole_[at] ^ mask));
    absl::StatusOr<ImportedGraph> graph = Import();
    Write(at, whole_[at]);
    return graph;
  }

  void Write(std::size_t at, char byte) {
    ASSERT_EQ(::pwrite(fd_, &byte, 1, static_cast<off_t>(at)), 1);
  }
  void Cut(std::size_t length) { ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(length)), 0); }

  Points<float> points_;
  TempFile base_file_, index_;
  VectorFile base_;
  std::string whole_;
  int fd_ = -1;
};

TEST_P(ImportDamaged, CutAtAnyLengthIsDataLoss) {
  Write(whole_.size(), 'x');
  ExpectError(Import(), kCorrupt, index_.path(),
              "expected the end of the file, found 1 bytes more");
  Cut(whole_.size());
  EXPECT_TRUE(Import().ok()) << Import().status();
  for (std::size_t length = whole_.size(); length-- > 0;) {
    Cut(length);
    ASSERT_NO_FATAL_FAILURE(
        ExpectError(Import(), kCorrupt, index_.path(), "to the end of the file"))
        << length;
  }
}

TEST_P(ImportDamaged, FlippedBytesAreNamedOrHarmless) {
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole_.size(); ++at) {
    for (const int mask : {0x01, 0x40, 0x80, 0xff}) {
      const auto graph = ImportFlipped(at, mask);
      if (graph.ok()) {
        ASSERT_TRUE(IsSound(*graph, points_.n)) << at << " ^ " << mask;
        continue;
      }
      ++refused;
      ASSERT_TRUE(graph.status().code() == kMismatch || graph.status().code() == kCorrupt)
          << graph.status();
      ASSERT_THAT(std::string(graph.status().message()),
                  AllOf(HasSubstr(index_.path()), HasSubstr("expected "), HasSubstr("found ")));
    }
  }
  // At least a quarter: the rest is upper levels, unused room, search parameters, or a
  // link turned to another node.
  EXPECT_GT(refused, whole_.size());
}

TEST_P(ImportDamaged, EveryFlipInAVectorIsRefused) {
  std::size_t found = 0;
  for (std::uint32_t row = 0; row < points_.n; ++row) {
    const std::string vector(reinterpret_cast<const char*>(&points_.values[row * points_.dim]),
                             points_.dim * sizeof(float));
    const std::size_t begin = whole_.find(vector);
    if (begin == std::string::npos) continue;
    ++found;
    for (std::size_t at = begin; at < begin + vector.size(); ++at) {
      ExpectError(ImportFlipped(at, 1), kMismatch, index_.path(),
                  absl::StrCat("of row ", row, " of ", base_file_.path()));
    }
  }
  EXPECT_EQ(found, points_.n);
}

TEST_P(ImportDamaged, ForeignFilesAreNamed) {
  for (const Sample& other : kSamples) {
    if (other.import == GetParam().import) continue;
    other.write(points_, index_.path());
    ExpectError(Import(), kMismatch, index_.path(), "offset 0");
  }
  ::unlink(index_.path().c_str());
  EXPECT_EQ(Import().status().code(), absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Libraries, ImportDamaged, ::testing::ValuesIn(kSamples),
                         [](const ::testing::TestParamInfo<Sample>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace hmann
