#include <sys/mman.h>

#include "absl/strings/str_cat.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"
#include "index/tiers/kinds.h"
#include "index/tiers/region_builder.h"
#include "index/tiers/tier_copy.h"

namespace hmann {
namespace {

void AdviseRandom(std::span<const std::byte> bytes) {
  if (!bytes.empty()) ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_RANDOM);
}

class MappedTier : public Tier {
 public:
  MappedTier() : Tier({.name = "mapped"}) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress&) const override {
    AdviseRandom(source.bytes);
    return RegionBuilder::InPlace(source.bytes);
  }
};

class MappedCopyTier : public Tier {
 public:
  explicit MappedCopyTier(std::string path)
      : Tier({.name = absl::StrCat("mapped:", path), .one_section = true}),
        path_(std::move(path)) {}

  absl::StatusOr<Region> Place(const PlacementSource& source, Progress& progress) const override {
    if (source.bytes.empty()) return Region();
    HMANN_RETURN_IF_ERROR(EnsureCopy(traits().name, path_, source, progress));
    HMANN_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path_));
    if (file.bytes().size() < source.bytes.size()) {
      return DataLoss("tier ", traits().name, ": ", path_, ": expected ", source.bytes.size(),
                      " bytes, found ", file.bytes().size());
    }
    AdviseRandom(file.bytes().first(source.bytes.size()));
    return RegionBuilder::OfFile(std::move(file), source.bytes.size());
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<Tier> MakeMappedTier() { return std::make_unique<MappedTier>(); }
std::unique_ptr<Tier> MakeMappedCopyTier(std::string path) {
  return std::make_unique<MappedCopyTier>(std::move(path));
}

}  // namespace hmann
