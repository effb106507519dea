#include "index/tiers/mapped.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "index/base/buffer.h"
#include "index/base/checksum.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/tiers/region_builder.h"

namespace hmann {
namespace {

constexpr std::uint64_t kPage = 4_KiB;

void AdviseRandom(std::span<const std::byte> bytes) {
  if (!bytes.empty()) ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_RANDOM);
}

class MappedTier : public Tier {
 public:
  MappedTier() : Tier({.name = "mapped", .in_place = true, .granule = kPage}) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress&) const override {
    AdviseRandom(source.bytes);
    return RegionBuilder::InPlace(source.bytes);
  }
};

/// The last block of a copy; says what the bytes before it are.
struct CopyTrailer {
  char magic[16] = "hmann tier copy";
  std::uint64_t bytes = 0;     ///< that were copied; zeros fill up to the trailer
  std::uint64_t checksum = 0;  ///< of the section, as the index file's table has it
  std::uint64_t self = 0;      ///< XXH3 of the fields above

  CopyTrailer(std::uint64_t copied, std::uint64_t content) : bytes(copied), checksum(content) {
    self = Checksum(this, offsetof(CopyTrailer, self));
  }
};

class MappedCopyTier : public Tier {
 public:
  explicit MappedCopyTier(std::string path) : Tier({.name = absl::StrCat("mapped:", path), .granule = kPage}), path_(std::move(path)) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    if (source.bytes.empty()) return Region();
    const CopyTrailer wanted(source.bytes.size(), source.checksum);
    absl::StatusOr<MappedFile> file = MappedFile::Open(path_);
    if (!file.ok() && !absl::IsNotFound(file.status())) return file.status();
    if (!file.ok() || !HasTrailer(*file, wanted)) {
      if (file.ok() && !IsCopy(*file)) return Refusal(*file);
      HMANN_RETURN_IF_ERROR(Copy(source.bytes, wanted, progress));
      HMANN_ASSIGN_OR_RETURN(file, MappedFile::Open(path_));
    }
    AdviseRandom(file->bytes().first(source.bytes.size()));
    return RegionBuilder::OfFile(*std::move(file), source.bytes.size());
  }

 private:
  static std::optional<CopyTrailer> TrailerOf(const MappedFile& file) {
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() < kPage || bytes.size() % kPage != 0) return std::nullopt;
    CopyTrailer trailer(0, 0);
    std::memcpy(&trailer, bytes.data() + bytes.size() - kPage, sizeof(trailer));
    const bool is_one = std::memcmp(&trailer, "hmann tier copy", sizeof(trailer.magic)) == 0 &&
                        trailer.self == Checksum(&trailer, offsetof(CopyTrailer, self)) &&
                        RoundUp(trailer.bytes, kPage) + kPage == bytes.size();
    return is_one ? std::optional(trailer) : std::nullopt;
  }
  static bool IsCopy(const MappedFile& file) { return TrailerOf(file).has_value(); }
  static bool HasTrailer(const MappedFile& file, const CopyTrailer& wanted) {
    const std::optional<CopyTrailer> found = TrailerOf(file);
    return found.has_value() && found->self == wanted.self;
  }

  absl::Status Refusal(const MappedFile& file) const {
    return absl::AlreadyExistsError(absl::StrCat("tier ", traits().name, ": ", path_, " (", file.bytes().size(),
                                                 " bytes) is not a copy that hmann made; it is left alone: name another path"));
  }

  absl::Status Copy(std::span<const std::byte> bytes, const CopyTrailer& trailer, Progress& progress) const {
    constexpr std::size_t kStep = 4_MiB;
    HMANN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
    progress.Start(absl::StrCat("copy to ", path_), bytes.size(), "bytes");
    for (std::size_t at = 0; at < bytes.size(); at += kStep) {
      const std::size_t part = std::min(kStep, bytes.size() - at);
      HMANN_RETURN_IF_ERROR(file.Append(bytes.data() + at, part));
      progress.Advance(part);
    }
    HMANN_RETURN_IF_ERROR(file.ExtendTo(RoundUp(bytes.size(), kPage)));
    HMANN_RETURN_IF_ERROR(file.Append(&trailer, sizeof(trailer)));
    HMANN_RETURN_IF_ERROR(file.ExtendTo(RoundUp(bytes.size(), kPage) + kPage));
    HMANN_RETURN_IF_ERROR(file.Commit());
    progress.Finish();
    return absl::OkStatus();
  }

  std::string path_;
};

}  // namespace

std::unique_ptr<Tier> MakeMappedTier() { return std::make_unique<MappedTier>(); }
std::unique_ptr<Tier> MakeMappedCopyTier(std::string path) { return std::make_unique<MappedCopyTier>(std::move(path)); }

}  // namespace hmann
