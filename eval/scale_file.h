/// scale.jsonl: what a run follows from, and a line for each size that is done.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "eval/contestant.h"

namespace hmann {

// NOLINTNEXTLINE(bugprone-exception-escape): moving json throws in assertions only.
class ScaleFile {
 public:
  /// Opens <folder>/scale.jsonl, or begins one in a folder that is empty or not there.
  /// Errors: FAILED_PRECONDITION for a folder with something else in it, or a first line
  /// that differs from `head`, naming key, expected and found; INVALID_ARGUMENT naming
  /// the line that cannot be read; those of the file.
  static absl::StatusOr<ScaleFile> Open(const std::string& folder, const Json& head);

  const std::string& path() const { return path_; }
  /// nullptr: not done.
  const Json* Find(std::uint64_t n) const;
  /// Adds a line, `n` being its "n"; the file is written whole or not at all.
  absl::Status Add(const Json& line);

 private:
  absl::Status Write() const;

  std::string path_;
  Json head_;
  std::map<std::uint64_t, Json> lines_;  ///< by "n"
};

}  // namespace hmann
