#include "index/hmann.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/base/status_macros.h"
#include "index/build/pipeline.h"
#include "index/format/reader.h"
#include "index/format/verify.h"
#include "index/search/placed_index.h"
#include "index/search/query_runner.h"
#include "index/tiers/tier.h"

namespace hmann {

class IndexImpl {
 public:
  explicit IndexImpl(IndexFile file) : file_(std::move(file)) {}

  absl::Status Place(const OpenOptions& options) {
    HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> fast, MakeTier(options.fast));
    HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> slow, MakeTier(options.slow));
    if (options.fast.starts_with("mapped:")) {
      return absl::InvalidArgumentError("fast: a copy in a file is for L0 only: give dram, numa:N or mapped, and the copy to slow");
    }
    const IndexInfo& info = file_.info();
    HMANN_ASSIGN_OR_RETURN(placed_.kernels, ChooseKernels(info.dtype, info.metric, info.dim));
    placed_.layers = file_.layers();
    placed_.records = file_.records();
    placed_.label_bytes = placed_.records.label_bytes;
    // Upper layers first: they are what must not fail.
    std::vector<const NodeId*> upper_links;
    const std::byte* fast_rows = nullptr;
    for (const Section& section : file_.sections()) {
      if (section.kind == SectionKind::kL0) continue;
      HMANN_ASSIGN_OR_RETURN(const std::byte* bytes, PlaceSection(section, *fast));
      if (section.kind == SectionKind::kUpperLinks) {
        upper_links.resize(std::max<std::size_t>(upper_links.size(), section.layer));
        upper_links[section.layer - 1] = reinterpret_cast<const NodeId*>(bytes);
      } else if (section.kind == SectionKind::kFastRows) {
        fast_rows = bytes;
      } else if (section.kind == SectionKind::kFastLabels) {
        placed_.fast_labels = bytes;
      }
    }
    for (std::uint32_t layer = 1; layer <= placed_.layers.top(); ++layer) {
      placed_.upper.push_back({upper_links[layer - 1], placed_.layers.nodes[layer], placed_.layers.MaxDegree(layer), fast_rows,
                               file_.fast_row_stride(), &placed_.kernels});
    }
    for (const Section& section : file_.sections()) {
      if (section.kind != SectionKind::kL0) continue;
      HMANN_ASSIGN_OR_RETURN(placed_.l0, PlaceSection(section, *slow));
    }
    return absl::OkStatus();
  }

  const IndexInfo& info() const { return file_.info(); }
  const PlacedIndex& placed() const { return placed_; }

  std::vector<Placement> Placements() const {
    std::vector<Placement> placements;
    for (const PlacedSection& section : sections_) {
      std::string where = section.region.Where().ToString();
      if (!section.region.warning().empty()) absl::StrAppend(&where, "; ", section.region.warning());
      placements.push_back({section.structure, section.tier, std::move(where), section.region.size()});
    }
    return placements;
  }

  void Warm() const {
    for (const PlacedSection& section : sections_) {
      for (std::size_t offset = 0; offset < section.region.size(); offset += kBlockBytes) {
        const volatile std::byte* touched = section.region.data() + offset;
        (void)*touched;
      }
    }
  }

 private:
  struct PlacedSection {
    std::string structure, tier;
    Region region;
  };

  /// Where the section's bytes are now; they stay there while this lives.
  absl::StatusOr<const std::byte*> PlaceSection(const Section& section, const Tier& tier) {
    Progress quiet(Progress::Show::kNever);
    HMANN_ASSIGN_OR_RETURN(Region region, tier.Place({file_.Bytes(section), section.checksum}, quiet));
    sections_.push_back({Name(section), tier.traits().name, std::move(region)});
    return sections_.back().region.data();
  }

  IndexFile file_;  ///< kept open: tier `mapped` serves from it
  PlacedIndex placed_;
  std::vector<PlacedSection> sections_;
};

class SearcherImpl {
 public:
  explicit SearcherImpl(std::shared_ptr<const Index> index) : index_(std::move(index)), runner_(index_->impl().placed()) {}
  QueryRunner& runner() { return runner_; }

 private:
  std::shared_ptr<const Index> index_;
  QueryRunner runner_;
};

absl::StatusOr<BuildReport> Build(const BuildOptions& options, Progress& progress) { return BuildIndex(options, progress); }

Index::Index(std::unique_ptr<IndexImpl> impl) : impl_(std::move(impl)) {}
Index::~Index() = default;

absl::StatusOr<std::shared_ptr<const Index>> Index::Open(const std::string& path, const OpenOptions& options) {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(path));
  auto impl = std::make_unique<IndexImpl>(std::move(file));
  HMANN_RETURN_IF_ERROR(impl->Place(options));
  return std::shared_ptr<const Index>(new Index(std::move(impl)));
}

const IndexInfo& Index::info() const { return impl_->info(); }
const Kernels& Index::kernels() const { return impl_->placed().kernels; }
std::vector<Placement> Index::Placements() const { return impl_->Placements(); }
void Index::Warm() const { impl_->Warm(); }

Searcher::Searcher(std::shared_ptr<const Index> index) : impl_(std::make_unique<SearcherImpl>(std::move(index))) {}
Searcher::~Searcher() = default;
Searcher::Searcher(Searcher&&) noexcept = default;

absl::Status Searcher::Search(const void* query, const SearchOptions& options, std::vector<Neighbour>* out, Counters* counters,
                              const SearchLimits& limits) {
  return impl_->runner().Search(query, options, out, counters, limits);
}

absl::StatusOr<IndexInfo> ReadInfo(const std::string& path) {
  HMANN_ASSIGN_OR_RETURN(IndexFile file, IndexFile::Open(path));
  return file.info();
}

absl::Status Verify(const std::string& path, Progress& progress) { return VerifyIndex(path, progress); }

}  // namespace hmann
