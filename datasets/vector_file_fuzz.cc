/// libFuzzer over the readers of vector, ground-truth and label files. The input's first
/// byte chooses the format, its second the number of rows to request. The rest is the
/// file. Whatever a reader accepts is read to the last byte. HDF5 files are left out:
/// their parser is not ours.
///
/// Canary: with HMANN_FUZZ_CANARY=1 the target aborts as soon as a file with two rows of
/// a `.?vecs` format passes. A fuzzer that does not find one within seconds is not
/// fuzzing.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "datasets/ground_truth.h"
#include "datasets/labels.h"
#include "datasets/vector_file.h"
#include "index/base/check.h"

namespace hmann {
namespace {

constexpr const char* kSuffixes[] = {".fbin", ".f16bin", ".u8bin", ".i8bin",  ".fvecs", ".bvecs",
                                     ".ibin", ".ivecs",  ".gt",    ".labels", ".npy",   ".csv"};

/// A file in memory, under a name with the suffix that selects the reader.
class NamedMemory {
 public:
  NamedMemory(const char* suffix, const std::uint8_t* data, std::size_t bytes)
      : fd_(::memfd_create("vector_file_fuzz", 0)) {
    HMANN_CHECK(fd_ >= 0 && ::write(fd_, data, bytes) == static_cast<ssize_t>(bytes));
    path_ = "/tmp/vector_file_fuzz." + std::to_string(::getpid()) + suffix;
    ::unlink(path_.c_str());
    HMANN_CHECK(::symlink(("/proc/self/fd/" + std::to_string(fd_)).c_str(), path_.c_str()) == 0);
  }
  ~NamedMemory() {
    ::unlink(path_.c_str());
    ::close(fd_);
  }
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

std::uint64_t ReadVectors(const std::string& path, std::uint64_t rows) {
  const auto file = VectorFile::Open(path, rows);
  if (!file.ok()) return 0;
  HMANN_CHECK(file->n() > 0 && file->dim() > 0 && (rows == 0 || file->n() == rows));
  const bool vecs = path.ends_with("vecs");
  if (std::getenv("HMANN_FUZZ_CANARY") != nullptr && vecs && file->n() > 1) std::abort();
  std::uint64_t sum = file->CheckFinite().ok() ? 1 : 0;
  for (std::uint64_t i = 0; i < file->n(); ++i) {
    for (std::size_t j = 0; j < file->row_bytes(); ++j)
      sum += std::to_integer<std::uint64_t>(file->Row(i)[j]);
  }
  return sum;
}

std::uint64_t ReadTruth(const std::string& path) {
  const auto truth = ReadGroundTruth(path);
  if (!truth.ok()) return 0;
  HMANN_CHECK(truth->ids.size() == std::uint64_t{truth->n} * truth->k && truth->n > 0 &&
              truth->k > 0);
  HMANN_CHECK(truth->distances.empty() || truth->distances.size() == truth->ids.size());
  return truth->Ids(truth->n - 1).back() + truth->Distances(truth->n - 1).size();
}

}  // namespace
}  // namespace hmann

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes < 2) return 0;
  const hmann::NamedMemory file(hmann::kSuffixes[data[0] % std::size(hmann::kSuffixes)], data + 2,
                                bytes - 2);
  volatile std::uint64_t sink =
      hmann::ReadVectors(file.path(), data[1]) + hmann::ReadTruth(file.path());
  const auto labels = hmann::ReadLabels(file.path(), data[1]);
  HMANN_CHECK(!labels.ok() || labels->size() == data[1]);
  (void)sink;
  return 0;
}
