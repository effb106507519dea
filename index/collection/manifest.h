#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hmann/build_options.h"

namespace hmann {

/// The file MANIFEST of a collection: what its builds are like, and which sealed index
/// serves. It is written whole, so that one of two states holds after any sudden end.
struct Manifest {
  std::string id;  ///< of the collection and its copies; the journal has it, too
  DType dtype = DType::kF32;
  std::uint32_t dim = 0;
  BuildOptions build;   ///< parameters only
  std::string queries;  ///< file in the folder; empty: none

  std::uint64_t generation = 0;              ///< number of the last merge
  std::uint64_t content_hash = 0, rows = 0;  ///< of the sealed index; 0: there is none
  std::uint64_t covered = 0;                 ///< writes of the journal up to this one are in it

  static std::string PathIn(const std::string& folder) { return folder + "/MANIFEST"; }
  static std::string SealedIn(const std::string& folder, std::uint64_t generation);
  /// The number of the merge that makes a file of this name: SealedIn, or what belongs to
  /// it. Absent: none does.
  static std::optional<std::uint64_t> GenerationOf(std::string_view name);
  std::string Sealed(const std::string& folder) const { return SealedIn(folder, generation); }

  /// Errors: NOT_FOUND; UNIMPLEMENTED (a newer version); DATA_LOSS naming the key.
  static absl::StatusOr<Manifest> Read(const std::string& folder);
  /// Errors: those of AtomicFile.
  absl::Status Write(const std::string& folder) const;
};

}  // namespace hmann
