#include "index/index_impl.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/cpu.h"
#include "index/base/status_macros.h"
#include "index/base/thread_pool.h"
#include "index/base/units.h"
#include "index/format/scalar_codes.h"
#include "index/scrub.h"
#include "index/search/cache_fill.h"

namespace hmann {
namespace {

bool IsLabelOrder(const Section& section) {
  return section.kind == SectionKind::kLabelOrder || section.kind == SectionKind::kSortedLabels;
}

constexpr std::size_t kWarmedAtOnce = 16_MiB;

bool AdvisePages(std::span<const std::byte> bytes, int advice) {
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % kBlockBytes;
  auto* const page = const_cast<std::byte*>(bytes.data() - before);
  return madvise(page, before + bytes.size(), advice) == 0;
}

/// The kernel reads all pages at once if it can (Linux 5.14); otherwise one after the
/// other.
void ReadPages(std::span<const std::byte> bytes) {
  if (AdvisePages(bytes, MADV_POPULATE_READ)) return;
  for (std::size_t offset = 0; offset < bytes.size(); offset += kBlockBytes) {
    const volatile std::byte* accessed = bytes.data() + offset;
    (void)*accessed;
  }
}

}  // namespace

absl::StatusOr<const Region*> IndexImpl::PlaceSection(const Section& section, const Tier& tier,
                                                      Progress& progress) {
  const FileDescriptor file = file_.file().Reopen();
  const PlacementSource source{file_.Bytes(section), section.checksum, file_.file().path(),
                               section.offset,       Name(section),    file.fd()};
  HMANN_ASSIGN_OR_RETURN(Region region, tier.Place(source, progress));
  if (region.data() != source.bytes.data())
    file_.file().Advise(MappedFile::Access::kNone, section.offset, section.bytes);
  sections_.push_back(std::make_unique<PlacedSection>(
      PlacedSection{section, tier.traits().name, std::move(region)}));
  return &sections_.back()->region;
}

absl::Status IndexImpl::CheckNow(std::initializer_list<SectionKind> kinds) const {
  for (const Section& section : file_.sections()) {
    if (std::find(kinds.begin(), kinds.end(), section.kind) == kinds.end()) continue;
    const std::byte* const bytes = file_.Bytes(section).data();
    std::vector<std::uint64_t> digests(ChecksumChunks(section.bytes));
    ThreadPool(UsableCores())
        .ParallelFor(digests.size(), 1, [&](std::size_t chunk, std::size_t, int) {
          const std::size_t at = chunk * kChecksumChunk;
          digests[chunk] = Checksum(bytes + at, std::min(kChecksumChunk, section.bytes - at));
        });
    HMANN_RETURN_IF_ERROR(
        CompareChecksum({file_.file().path(), section.offset, Name(section), section.bytes},
                        section.checksum, ChunkedChecksum::Combine(digests)));
  }
  return absl::OkStatus();
}

absl::Status IndexImpl::PlaceUpperLayers(const Tier& fast, Progress& progress) {
  std::vector<const NodeId*> upper_links;
  const std::byte* fast_rows = nullptr;
  for (const Section& section : file_.sections()) {
    if (section.kind != SectionKind::kUpperLinks && section.kind != SectionKind::kFastRows &&
        section.kind != SectionKind::kFastLabels)
      continue;
    HMANN_ASSIGN_OR_RETURN(const Region* region, PlaceSection(section, fast, progress));
    if (section.kind == SectionKind::kUpperLinks) {
      upper_links.resize(std::max<std::size_t>(upper_links.size(), section.layer));
      upper_links[section.layer - 1] = reinterpret_cast<const NodeId*>(region->data());
    } else if (section.kind == SectionKind::kFastRows) {
      fast_rows = region->data();
    } else if (section.kind == SectionKind::kFastLabels) {
      placed_.fast_labels = region->data();
    }
  }
  for (std::uint32_t layer = 1; layer <= placed_.layers.top(); ++layer) {
    placed_.upper.push_back({upper_links[layer - 1], placed_.layers.nodes[layer],
                             placed_.layers.MaxDegree(layer), fast_rows, file_.fast_row_stride(),
                             &placed_.kernels});
  }
  return absl::OkStatus();
}

absl::Status IndexImpl::PlaceCodes(const Tier& fast, Progress& progress) {
  const IndexInfo& info = file_.info();
  if (info.codes.bits == 0) return absl::OkStatus();
  HMANN_RETURN_IF_ERROR(
      CheckNow({SectionKind::kCodeMean, SectionKind::kCells, SectionKind::kSecondCentroids}));
  const std::span<const float> mean = file_.code_mean();
  HMANN_ASSIGN_OR_RETURN(Encoder encoder, Encoder::Make(placed_.kernels, info.codes.bits, info.seed,
                                                        {mean.begin(), mean.end()}));
  encoder_.emplace(std::move(encoder));
  placed_.encoder = &*encoder_;
  placed_.code_bytes = info.codes.code_bytes;
  const NodeId n = file_.layers().n(), n1 = file_.layers().n1();
  const std::span<const NodeId> seconds = file_.second_centroids();
  if (CellFault(n, n1, file_.cells()) >= 0 ||
      std::any_of(seconds.begin(), seconds.end(),
                  [n1](NodeId centroid) { return centroid >= n1; })) {
    return DataLoss(file_.file().path(), ": sections cells and second_centroids do not fit ", n,
                    " nodes: see hmann verify");
  }
  cells_ = Cells(n, n1, file_.cells(), seconds);
  for (const Section& section : file_.sections()) {
    if (section.kind != SectionKind::kCodes) continue;
    HMANN_ASSIGN_OR_RETURN(const Region* region, PlaceSection(section, fast, progress));
    placed_.codes = region->data();
  }
  placed_.cells = &cells_;
  return absl::OkStatus();
}

absl::Status IndexImpl::PlaceLabelOrder(Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> mapped, MakeTier("mapped"));
  for (const Section& section : file_.sections()) {
    if (!IsLabelOrder(section)) continue;
    HMANN_RETURN_IF_ERROR(PlaceSection(section, *mapped, progress).status());
  }
  placed_.label_order = file_.label_order();
  const std::span<const std::uint64_t> sorted = file_.sorted_labels();
  if (sorted.empty()) return absl::OkStatus();
  placed_.sorted_labels = sorted.first(file_.info().n);
  const std::span<const std::uint64_t> marks = sorted.subspan(file_.info().n);
  placed_.label_marks.assign(marks.begin(), marks.end());
  return absl::OkStatus();
}

absl::Status IndexImpl::PlaceL0(const Tier& slow, const OpenOptions& options, Progress& progress) {
  for (const Section& section : file_.sections()) {
    if (section.kind != SectionKind::kL0) continue;
    HMANN_ASSIGN_OR_RETURN(const Region* region, PlaceSection(section, slow, progress));
    placed_.l0 = region->data();
    placed_.emulated = region->emulated();
    if (!slow.traits().addressable) placed_.blocks = region;
  }
  placed_.mapped = slow.traits().name.starts_with("mapped");
  placed_.far = slow.traits().addressable && slow.traits().name != "dram" && !placed_.mapped;
  placed_.read_buffer_bytes = options.read_buffer_bytes;
  return absl::OkStatus();
}

absl::Status IndexImpl::MakeCache(const OpenOptions& options, Progress& progress) {
  if (options.cache_bytes == 0) {
    if (options.cache == CachePolicy::kNone) return absl::OkStatus();
    return InvalidArgument("cache: policy ", std::string(Name(options.cache)), " needs a size");
  }
  HMANN_ASSIGN_OR_RETURN(cache_, MakeRecordCache(placed_, options.cache_bytes, options.cache));
  if (options.cache == CachePolicy::kStatic)
    HMANN_RETURN_IF_ERROR(FillByDegree(placed_, file_.l0(), *cache_, progress));
  placed_.cache = cache_.get();
  return absl::OkStatus();
}

/// Errors: FAILED_PRECONDITION for codes with which, by the calibration, no search finds
/// the `least` recall.
absl::Status IndexImpl::CheckCodes(std::uint32_t bits, double least) const {
  constexpr std::uint32_t kUsualK = 10;
  const Table table = tuned();
  if (bits == 0 || !table->ok() || !(*table)->calibration.has_value()) return absl::OkStatus();
  const auto best =
      (*table)->calibration->Find({.mode = SearchMode::kGraph, .scalar_bits = bits}, kUsualK, 1);
  if (!best.has_value() || best->recall >= least) return absl::OkStatus();
  return FailedPrecondition(absl::StrFormat(
      "sq: codes of %d bits are too coarse for these vectors: they find at most %.2f of the %d "
      "nearest: give it %s",
      bits, best->recall, kUsualK, bits == 4 ? "8 or 0" : "0"));
}

absl::Status IndexImpl::MakeCodes(std::uint32_t bits, const Tier& fast, Progress& progress) {
  if (bits == 0) return absl::OkStatus();
  if (placed_.l0 == nullptr || placed_.upper.empty()) {
    return InvalidArgument(
        placed_.l0 == nullptr
            ? "sq: scalar codes need L0 in memory; of an index on a device, codes are made when it "
              "is built: --bits 2"
            : "sq: scalar codes need an upper layer, and this index has none");
  }
  const bool stored = bits == file_.info().scalar_bits;
  if (stored) HMANN_RETURN_IF_ERROR(CheckNow({SectionKind::kScalarRange}));
  absl::StatusOr<ScalarQuantizer> quantizer =
      stored ? ScalarQuantizer::FromRange(placed_.kernels, bits, file_.scalar_range())
             : LearnScalarCodes(placed_.kernels, bits, placed_.layers.n(), [this](NodeId id) {
                 return id < placed_.n1() ? placed_.FastRow(id) : placed_.Record(id);
               });
  if (stored && !quantizer.ok()) {
    return DataLoss(file_.file().path(), ": section scalar_range: ", quantizer.status().message());
  }
  HMANN_RETURN_IF_ERROR(quantizer.status());
  // They stand for the rows of L0: where these stay in the file, so do they. Codes that
  // need no padding are copied and checked at once, as other sections are.
  const bool in_file = placed_.l0 == file_.l0().data();
  const std::size_t stride = quantizer->code_bytes();
  if (stored && (in_file || stride % kCodeAlignment == 0)) {
    HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> mapped, MakeTier("mapped"));
    HMANN_ASSIGN_OR_RETURN(const Region* region, PlaceSection(file_.sections().back(),
                                                              in_file ? *mapped : fast, progress));
    scalar_codes_ = ViewScalarCodes(placed_, *std::move(quantizer), region->data(), stride);
  } else {
    if (stored) HMANN_RETURN_IF_ERROR(CheckNow({SectionKind::kScalarCodes}));
    HMANN_ASSIGN_OR_RETURN(
        scalar_codes_,
        MakeScalarCodes(placed_, *std::move(quantizer),
                        stored ? file_.scalar_codes().data() : nullptr, fast, progress));
    if (stored) {
      const Section& section = file_.sections().back();
      file_.file().Advise(MappedFile::Access::kNone, section.offset, section.bytes);
    }
  }
  placed_.coded = &scalar_codes_->view;
  return absl::OkStatus();
}

/// The codes of the file, where L0 is in memory as fast as theirs. Codes that lose
/// neighbors are passed over.
std::uint32_t IndexImpl::StoredBits() {
  constexpr double kMostUsual = 0.98;  // a guess: above it, curves are measured at few points
  const std::uint32_t bits = file_.info().scalar_bits;
  if (bits == 0 || placed_.l0 == nullptr || placed_.far) return 0;
  const absl::Status status = CheckCodes(bits, kMostUsual);
  if (status.ok()) return bits;
  why_codes_ = absl::StrCat("passed over: ", status.message());
  return 0;
}

/// The bits of the fastest entry at the default recall, for one k and CPU; if none is
/// tuned, those of the file.
std::uint32_t IndexImpl::TunedBits(const OpenOptions& options) {
  const Table table = tuned();
  if (!table->ok()) return StoredBits();
  const TunedEntry* least = nullptr;
  double least_us = 0;
  std::uint32_t best = 0, compared = 0;
  for (const std::uint32_t bits : {0u, 4u, 8u}) {
    const TunedEntryKey placement = PlacementOf(options, bits);
    for (const TunedEntry& entry : (*table)->entries) {
      if (!(entry.placement == placement) ||
          (least != nullptr && (entry.k != least->k || entry.cpu != least->cpu)))
        continue;
      const auto setting = (*table)->Choose(placement, entry.k, {.recall = kDefaultRecall});
      if (!setting.ok()) continue;
      ++compared;
      if (least == nullptr || setting->mean_us < least_us) {
        best = bits;
        least_us = setting->mean_us;
      }
      least = &entry;
      break;
    }
  }
  if (compared == 0) return StoredBits();
  if (compared > 1) {
    why_codes_ = absl::StrFormat("the fastest of %d that are tuned: %.1f us at recall %g", compared,
                                 least_us, kDefaultRecall);
  }
  return best;
}

absl::Status IndexImpl::Place(const OpenOptions& options, Progress& progress) {
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> fast, MakeTier(options.fast));
  HMANN_ASSIGN_OR_RETURN(const std::unique_ptr<Tier> slow, MakeTier(options.slow));
  if (!fast->traits().addressable || fast->traits().one_section) {
    return InvalidArgument("fast: tier ", fast->traits().name,
                           " is for L0 only: give dram, numa:N or mapped, and this one to slow");
  }
  const IndexInfo& info = file_.info();
  progress.Expect(info.file_bytes);
  tuned_ = std::make_shared<const absl::StatusOr<TunedTable>>(
      ReadTunedTable(file_.file().path(), info.content_hash, info.n));
  attributes_ =
      Attributes::Open(Attributes::PathOf(file_.file().path()), info.n, info.content_hash);
  HMANN_ASSIGN_OR_RETURN(placed_.kernels, ChooseKernels(info.dtype, info.metric, info.dim));
  placed_.layers = file_.layers();
  placed_.records = file_.records();
  placed_.label_bytes = placed_.records.label_bytes;
  HMANN_RETURN_IF_ERROR(PlaceUpperLayers(*fast, progress));
  HMANN_RETURN_IF_ERROR(PlaceCodes(*fast, progress));
  HMANN_RETURN_IF_ERROR(PlaceLabelOrder(progress));
  HMANN_RETURN_IF_ERROR(PlaceL0(*slow, options, progress));
  HMANN_RETURN_IF_ERROR(MakeCache(options, progress));
  const std::uint32_t sq_bits = options.sq_bits.has_value() ? *options.sq_bits : TunedBits(options);
  placement_ = PlacementOf(options, sq_bits);
  if (!options.coarse_codes) HMANN_RETURN_IF_ERROR(CheckCodes(sq_bits, kLeastRecall));
  return MakeCodes(sq_bits, *fast, progress);
}

absl::StatusOr<std::shared_ptr<const Matches>> IndexImpl::Filtered(const Filter& filter) const {
  HMANN_RETURN_IF_ERROR(attributes_.status());
  return filters_.Get(**attributes_, filter);
}

absl::Status IndexImpl::ReadTuned() const {
  auto now = std::make_shared<const absl::StatusOr<TunedTable>>(
      ReadTunedTable(file_.file().path(), info().content_hash, info().n));
  if (!now->ok() && !absl::IsNotFound(now->status())) return now->status();
  tuned_ = std::move(now);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TunedTable>> IndexImpl::Timed(
    const Table& table, std::uint32_t k,
    const std::function<absl::StatusOr<TunedEntry>()>& make) const {
  constexpr std::size_t kMost = 64;  // a caller can ask for any k
  const std::lock_guard lock(timing_);
  if (timed_for_ != table || timed_.size() == kMost) timed_.clear();
  timed_for_ = table;
  std::shared_ptr<const TunedTable>& timed = timed_[k];
  if (timed == nullptr) {
    HMANN_ASSIGN_OR_RETURN(TunedEntry entry, make());
    timed = std::make_shared<const TunedTable>(
        TunedTable{.content_hash = info().content_hash, .entries = {std::move(entry)}});
  }
  return timed;
}

std::uint32_t IndexImpl::InFlight(std::uint32_t k) const {
  const Table table = tuned();
  const TunedEntry* entry = table->ok() ? (*table)->Find(placement_, k) : nullptr;
  if (entry != nullptr && entry->in_flight > 0) return entry->in_flight;
  constexpr std::uint32_t kOnADevice = 8, kInMemory = 4;  // guesses
  return placed_.blocks != nullptr ? kOnADevice : kInMemory;
}

std::vector<std::string> IndexImpl::Choices() const {
  std::vector<std::string> choices;
  if (scalar_codes_ != nullptr || !why_codes_.empty()) {
    choices.push_back(absl::StrCat(
        "scalar codes: ",
        scalar_codes_ != nullptr ? absl::StrCat(scalar_codes_->quantizer.bits(), " bits") : "none",
        why_codes_.empty() ? "" : ", ", why_codes_));
  }
  const std::size_t of_codes = choices.size();
  const Table table = tuned();
  const auto entries =
      table->ok() ? std::span<const TunedEntry>((*table)->entries) : std::span<const TunedEntry>();
  for (const TunedEntry& entry : entries) {
    if (!(entry.placement == placement_) || entry.in_flight == 0) continue;
    choices.push_back(absl::StrFormat(
        "in flight: %d queries of a thread for k = %d, as hmann tune measured on %s: %.2f times "
        "the queries a second of one at a time",
        entry.in_flight, entry.k, entry.cpu, entry.in_flight_gain));
  }
  if (choices.size() == of_codes) {
    choices.push_back(absl::StrCat("in flight: ", InFlight(0),
                                   " queries of a thread, a guess: hmann tune measures it"));
  }
  return choices;
}

std::vector<Placement> IndexImpl::Placements(bool ask) const {
  std::vector<const Region*> regions;
  regions.reserve(sections_.size() + 1);
  for (const auto& section : sections_) regions.push_back(&section->region);
  if (scalar_codes_ != nullptr && scalar_codes_->region.has_value())
    regions.push_back(&*scalar_codes_->region);
  std::vector<std::string> texts(regions.size());
  if (ask)
    std::ranges::transform(Region::Where(regions), texts.begin(), &MemoryResidency::ToString);
  std::vector<Placement> placements;
  for (const auto& section : sections_) {
    std::string where = texts[placements.size()];
    if (!section->region.warning().empty())
      absl::StrAppend(&where, "; ", section->region.warning());
    if (section->section.kind == SectionKind::kScalarCodes)
      where = absl::StrCat(file_.info().scalar_bits, " bits; ", where);
    placements.push_back(
        {Name(section->section), section->tier, std::move(where), section->region.size()});
  }
  if (!cells_.empty())
    placements.push_back({"cells", "dram",
                          "computed at load from sections cells and second_centroids",
                          cells_.bytes()});
  if (scalar_codes_ != nullptr && scalar_codes_->region.has_value()) {
    const Region& region = *scalar_codes_->region;
    placements.push_back({"scalar_codes", scalar_codes_->tier,
                          absl::StrCat(scalar_codes_->quantizer.bits(),
                                       " bits, made at load from the vectors; ", texts.back()),
                          region.size()});
  }
  if (cache_ != nullptr) {
    const BlockCache::Stats stats = cache_->stats();
    placements.push_back({"l0_cache", "dram",
                          absl::StrCat("policy ", std::string(Name(cache_->policy())), ", ",
                                       stats.used_bytes, " bytes used, index ", stats.index_bytes,
                                       " bytes, ", stats.hits, " hits, ", stats.misses, " misses"),
                          stats.capacity_bytes + stats.index_bytes});
  }
  if (attributes_.ok()) {
    placements.push_back(
        {"attributes", "dram", "tags and bitmaps", (*attributes_)->memory_bytes()});
    placements.push_back(
        {"attribute_columns", "mapped", "numbers", (*attributes_)->mapped_bytes()});
    placements.push_back({"filters", "dram", "what recent ones select", filters_.bytes()});
  }
  return placements;
}

TunedEntryKey PlacementOf(const OpenOptions& options, std::uint32_t sq_bits) {
  const bool cached = options.cache_bytes > 0;
  const absl::string_view policy(Name(options.cache).data(), Name(options.cache).size());
  const std::string codes = sq_bits > 0 ? absl::StrCat(", sq", sq_bits) : "";
  return {TierWithoutPath(options.fast) + codes, TierWithoutPath(options.slow),
          cached ? absl::StrCat(policy, " ", options.cache_bytes) : "none"};
}

void IndexImpl::Warm(bool requested, Progress& progress) const {
  std::uint64_t all = 0;
  std::vector<std::span<const std::byte>> parts;
  for (const auto& section : sections_) {
    if (IsLabelOrder(section->section) || section->region.checked()) continue;
    std::span<const std::byte> left = section->region.bytes();
    for (all += left.size(); !left.empty(); left = left.subspan(parts.back().size()))
      parts.push_back(left.first(std::min(kWarmedAtOnce, left.size())));
  }
  if (!requested && all > UsableMemoryBytes()) return;
  progress.Start("read ahead", all, "bytes");
  ThreadPool pool(UsableCores());
  pool.ParallelFor(parts.size(), 1, [&](std::size_t begin, std::size_t, int) {
    ReadPages(parts[begin]);
    progress.Advance(parts[begin].size());
  });
  progress.Finish();
}

std::uint64_t IndexImpl::BytesInPlace() const {
  std::uint64_t bytes = 0;
  for (const auto& section : sections_)
    bytes += section->region.checked() ? 0 : section->region.size();
  return bytes;
}

absl::Status IndexImpl::Scrub(const std::function<bool(std::uint64_t)>& pace) const {
  for (const auto& placed : sections_) {
    if (placed->region.checked() || placed->region.size() == 0) continue;
    const Section& section = placed->section;
    const std::string where =
        absl::StrCat(Name(section), " as tier ", TierWithoutPath(placed->tier), " has it");
    HMANN_RETURN_IF_ERROR(ScrubRegion(placed->region,
                                      {file_.file().path(), section.offset, where, section.bytes},
                                      section.checksum, pace));
  }
  return absl::OkStatus();
}

std::vector<std::string> IndexImpl::Warnings() const {
  std::vector<std::string> warnings;
  for (const auto& section : sections_) {
    if (!section->region.warning().empty()) warnings.push_back(section->region.warning());
  }
  return warnings;
}

absl::Status IndexImpl::ForLabels(
    const std::function<void(std::span<const NodeId>, std::span<const std::uint64_t>)>& visit)
    const {
  const NodeId n = placed_.layers.n();
  const bool by_order = placed_.label_bytes == 4;
  std::vector<NodeId> ids;
  std::vector<std::uint64_t> labels;
  for (NodeId first = 0; first < n; first += static_cast<NodeId>(ids.size())) {
    constexpr NodeId kAtOnce = 4096;
    ids.resize(std::min(kAtOnce, n - first));
    labels.resize(ids.size());
    for (NodeId i = 0; i < ids.size(); ++i) {
      const NodeId at = first + i;
      if (by_order && placed_.label_order[at] >= n) {
        return DataLoss(file_.file().path(), ": section label_order, entry ", at,
                        ": no node: see hmann verify");
      }
      ids[i] = by_order ? placed_.label_order[at] : at;
      labels[i] = by_order ? at : file_.Label(at);
    }
    visit(ids, labels);
  }
  return absl::OkStatus();
}

absl::Status IndexImpl::ForRows(
    const std::function<absl::Status(std::span<const NodeId>, std::span<const std::uint64_t>,
                                     std::span<const std::byte>)>& visit) const {
  constexpr std::size_t kMostBytes = 1_MiB, kMostRows = 4096;
  const NodeId n = placed_.layers.n(), n1 = placed_.n1();
  const std::size_t bytes = placed_.kernels.dim * SizeOf(placed_.kernels.dtype);
  const auto at_once =
      static_cast<NodeId>(std::clamp<std::size_t>(kMostBytes / bytes, 1, kMostRows));
  const std::byte* const l0 = placed_.l0 != nullptr ? placed_.l0 : file_.l0().data();
  const auto row_of = [&](NodeId id) {
    return id < n1 ? placed_.FastRow(id) : l0 + placed_.records.RowOffset(id);
  };
  std::vector<NodeId> ids;
  std::vector<std::uint64_t> labels;
  std::vector<std::byte> rows;
  for (NodeId first = 0; first < n; first += static_cast<NodeId>(ids.size())) {
    ids.resize(std::min(at_once, (first < n1 ? n1 : n) - first));
    labels.resize(ids.size());
    rows.resize(ids.size() * bytes);
    // Mappings are advised as random access, so the kernel does not read ahead by itself.
    const NodeId last = first + static_cast<NodeId>(ids.size()) - 1;
    AdvisePages({row_of(first), row_of(last) + bytes}, MADV_WILLNEED);
    for (NodeId id = first; id <= last; ++id) {
      const std::byte* const row = row_of(id);
      ids[id - first] = id;
      labels[id - first] = id < n1 ? placed_.FastLabel(id) : placed_.SlowLabel(id, row);
      std::memcpy(rows.data() + (id - first) * bytes, row, bytes);
    }
    HMANN_RETURN_IF_ERROR(visit(ids, labels, rows));
  }
  return absl::OkStatus();
}

}  // namespace hmann
