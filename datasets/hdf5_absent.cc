#include "datasets/hdf5_file.h"
#include "index/base/errors.h"

namespace hmann {
namespace {

absl::Status NotBuilt(const std::string& path) {
  return Unimplemented(path, ": this hmann was built without HDF5");
}

}  // namespace

absl::StatusOr<FileVectors> ReadHdf5Vectors(const std::string& path, const std::string&,
                                            std::uint64_t) {
  return NotBuilt(path);
}
absl::StatusOr<Hdf5Neighbors> ReadHdf5Neighbors(const std::string& path) { return NotBuilt(path); }
absl::StatusOr<Metric> ReadHdf5Metric(const std::string& path) { return NotBuilt(path); }

}  // namespace hmann
