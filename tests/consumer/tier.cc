// Our own kind of memory: "shelf" keeps each structure in a vector. Searches the index
// `argv[1]` with L0 on it, and prints how many bytes lie there.
#include <hmann/hmann.h>
#include <hmann/tier.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

class Shelf : public hmann::Tier {
 public:
  Shelf() : Tier({.name = "shelf"}) {}
  absl::StatusOr<hmann::Region> Place(const hmann::PlacementSource& source,
                                      hmann::Progress&) const override {
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    auto lines = std::make_shared<std::vector<Line>>((source.bytes.size() + 63) / 64);
    auto* const to = reinterpret_cast<std::byte*>(lines->data());
    std::copy(source.bytes.begin(), source.bytes.end(), to);
    if (absl::Status status = source.CheckCopy({to, source.bytes.size()}); !status.ok())
      return status;
    return hmann::Region::OfMemory({to, source.bytes.size()}, lines);
  }
};

absl::StatusOr<std::unique_ptr<hmann::Tier>> Make(std::string_view spec) {
  if (spec != "shelf") return nullptr;
  return std::make_unique<Shelf>();
}

}  // namespace

int main(int, char** argv) {
  hmann::RegisterTiers(Make);
  const auto index = hmann::Index::Open(argv[1], {.slow = "shelf"});
  if (!index.ok()) return 1;
  const std::vector<std::uint8_t> query((*index)->info().dim);
  hmann::Answer answer;
  if (!hmann::Searcher(*index).Search(query.data(), {.k = 5}, &answer).ok()) return 1;
  for (const hmann::Placement& placed : (*index)->Placements())
    if (placed.tier == "shelf")
      std::printf("%llu bytes on the shelf\n", static_cast<unsigned long long>(placed.bytes));
}
