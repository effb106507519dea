#include "datasets/file_vectors.h"

#include "index/base/cpu.h"
#include "index/base/errors.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {

absl::Status FileVectors::Allocate(const std::string& path, const char* why) {
  const std::uint64_t bytes = layout.n * layout.stride;
  if (const std::uint64_t usable = UsableMemoryBytes(); bytes > usable) {
    return ResourceExhausted(path, ": ", why,
                             ", so it must be read into memory: ", FormatSize(bytes), " needed, ",
                             FormatSize(usable), " usable");
  }
  HMANN_ASSIGN_OR_RETURN(memory, Buffer::Allocate(bytes));
  return absl::OkStatus();
}

}  // namespace hmann
