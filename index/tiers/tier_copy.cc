#include "index/tiers/tier_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/checksum.h"
#include "index/base/chunked_checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

absl::Status Copy(const std::string& path, const PlacementSource& source,
                  const CopyTrailer& trailer, Progress& progress) {
  constexpr std::size_t kStep = 4_MiB;
  const std::span<const std::byte> bytes = source.bytes;
  ChunkedChecksum checksum;
  HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  progress.Start(absl::StrCat("copy to ", path), bytes.size(), "bytes");
  for (std::size_t at = 0; at < bytes.size(); at += kStep) {
    const std::size_t part = std::min(kStep, bytes.size() - at);
    checksum.Append(bytes.data() + at, part);
    HMANN_RETURN_IF_ERROR(file.Append(bytes.data() + at, part));
    progress.Advance(part);
  }
  HMANN_RETURN_IF_ERROR(source.Check(checksum.Digest()));
  HMANN_RETURN_IF_ERROR(file.ExtendTo(RoundUp(bytes.size(), CopyTrailer::kBytes)));
  HMANN_RETURN_IF_ERROR(file.Append(&trailer, sizeof(trailer)));
  HMANN_RETURN_IF_ERROR(
      file.ExtendTo(RoundUp(bytes.size(), CopyTrailer::kBytes) + CopyTrailer::kBytes));
  HMANN_RETURN_IF_ERROR(file.Commit());
  progress.Finish();
  return absl::OkStatus();
}

/// Valid only if the copy fills the file.
std::optional<CopyTrailer> TrailerOf(const MappedFile& file) {
  const std::optional<CopyTrailer> trailer = CopyTrailer::Find(file.bytes());
  const bool fits =
      trailer.has_value() &&
      RoundUp(trailer->bytes, CopyTrailer::kBytes) + CopyTrailer::kBytes == file.bytes().size();
  return fits ? trailer : std::nullopt;
}

}  // namespace

CopyTrailer::CopyTrailer(std::uint64_t copied, std::uint64_t content)
    : bytes(copied), checksum(content) {
  self = Checksum(this, offsetof(CopyTrailer, self));
}

std::optional<CopyTrailer> CopyTrailer::Find(std::span<const std::byte> bytes) {
  if (bytes.size() < kBytes || bytes.size() % kBytes != 0) return std::nullopt;
  CopyTrailer trailer(0, 0);
  const CopyTrailer sample = trailer;
  std::memcpy(&trailer, bytes.data() + bytes.size() - kBytes, sizeof(trailer));
  const bool is_one = std::memcmp(&trailer.magic, &sample.magic, sizeof(trailer.magic)) == 0 &&
                      trailer.self == Checksum(&trailer, offsetof(CopyTrailer, self)) &&
                      trailer.bytes <= bytes.size() - kBytes;
  return is_one ? std::optional(trailer) : std::nullopt;
}

absl::Status EnsureCopy(const std::string& tier, const std::string& path,
                        const PlacementSource& source, Progress& progress) {
  const CopyTrailer wanted(source.bytes.size(), source.checksum);
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok() && !absl::IsNotFound(file.status())) return file.status();
  if (file.ok()) {
    const std::optional<CopyTrailer> found = TrailerOf(*file);
    if (!found.has_value()) {
      return absl::AlreadyExistsError(absl::StrCat(
          "tier ", tier, ": ", path, " (", file->bytes().size(),
          " bytes) is not a copy that hmann made; it is left alone: name another path"));
    }
    if (found->self == wanted.self) return absl::OkStatus();
  }
  return Copy(path, source, wanted, progress);
}

}  // namespace hmann
