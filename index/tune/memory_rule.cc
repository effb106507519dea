#include "index/tune/memory_rule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"

namespace hmann {
namespace {

/// The largest share of a vector's fast memory that codes of these bits may take. The
/// rest is for centroids, which are promoted nodes: the fewer there are, the worse the
/// estimates. Measured on SIFT (128 x u8) on a drive; for other vectors a guess.
struct CodeShare {
  std::uint32_t bits;
  double most;
};
constexpr CodeShare kCodeShares[] = {{4, 0.8}, {2, 0.9}, {1, 0.95}};
/// Reads were not counted with fewer.
constexpr double kFewestCentroids = 0.0015;
/// On a tier that is read by lines, codes of 2 bits or more pay if a vector has more
/// lines than its code. (96 x f32 at +300 ns takes 0.70 of the time.) Narrow vectors get
/// 2 bits only if enough nodes are promoted as well (128 x u8: 1.16 of the time at 16 %,
/// 0.97 at 39 %).
constexpr std::uint32_t kNarrowRow = 128, kFewestBitsInMemory = 2;
constexpr double kPromotedBesideNarrow = 0.25;
/// Above this share, a cache of a drive saves as much.
constexpr double kMostPromoted = 0.8;
/// Share of promoted nodes if L0 is as fast as they are.
constexpr double kPromotedBesideL0 = 0.16;
/// A smaller cache is not worth its index.
constexpr double kLeastCachedShare = 0.01;

/// Bytes of a separate mapping: in 2 MiB pages if it is that large.
std::uint64_t InPages(std::uint64_t bytes) {
  return RoundUp(bytes, bytes >= 2_MiB ? 2_MiB : 4_KiB);
}

/// Checks the tier by its name alone, because the plan may be for another machine.
absl::Status CheckSlow(const std::string& slow) {
  const std::size_t colon = slow.find(':');
  const std::string kind = slow.substr(0, colon);
  const bool needs_more = kind == "numa" || kind == "emulated" || kind == "dax";
  if (needs_more ? colon != std::string::npos : kind == "nvme" || kind == "mapped")
    return absl::OkStatus();
  return InvalidArgument(
      "slow: expected a tier other than dram, of which the fast memory is (nvme, "
      "numa:N, emulated:SETTINGS, dax:PATH or mapped), found '",
      slow, "'");
}

/// Lists what lies in fast memory, each with its own mapping, and L0 last.
std::vector<PlacedBytes> StructureLines(const PlanStructure& structure, const Header& header) {
  std::vector<PlacedBytes> lines = {{"upper links", "", 0}};
  std::uint64_t sum = 0, l0 = 0;
  for (const Section& section : PlanSections(header)) {
    if (section.kind == SectionKind::kUpperLinks) lines[0].bytes += section.bytes;
    if (section.kind == SectionKind::kFastRows)
      lines.push_back({"promoted vectors", "", section.bytes});
    if (section.kind == SectionKind::kFastLabels)
      lines.push_back({"labels of promoted", "", section.bytes});
    if (section.kind == SectionKind::kCodes) lines.push_back({"codes", "", section.bytes});
    if (section.kind == SectionKind::kSecondCentroids)
      lines.push_back({"second centroids", "", section.bytes});
    if (section.kind == SectionKind::kL0) l0 = section.bytes;
  }
  for (const PlacedBytes& line : lines) sum += line.bytes;
  // As in memory; the file's section has another form.
  const FastShape fast = FastShapeOf(header);
  if (const std::uint64_t cells = FastBytes(fast, structure.n1) - sum; cells > 0)
    lines.push_back({"cells", "", cells});
  lines.push_back({"l0", "", l0});
  return lines;
}

/// A structure that the rule may choose.
struct Candidate {
  PlanStructure structure;
  Header header;
  std::vector<PlacedBytes> lines;
  std::uint64_t upper_bytes = 0;   ///< in pages, without L0
  std::uint64_t scalar_bytes = 0;  ///< of codes that are in memory if L0 is

  std::uint64_t l0_bytes() const { return InPages(lines.back().bytes) + InPages(scalar_bytes); }
};

class MemoryRule {
 public:
  explicit MemoryRule(const PlanRequest& request)
      : request_(request),
        drive_(request.slow.starts_with("nvme")),
        reserve_(Reserved(request.fast_bytes) + request.attribute_bytes),
        budget_(request.fast_bytes - std::min(request.fast_bytes, reserve_)) {}

  absl::StatusOr<MemoryPlan> Plan() const {
    HMANN_RETURN_IF_ERROR(request_.shape.Validate());
    HMANN_RETURN_IF_ERROR(CheckSlow(request_.slow));
    HMANN_ASSIGN_OR_RETURN(const Candidate least, Of({FewestPromoted(), PinnedBits(0), 1}));
    if (request_.fast_bytes < reserve_ || least.upper_bytes > budget_)
      return TooSmall(least.upper_bytes + request_.attribute_bytes);
    const bool beside_l0 = least.upper_bytes + least.l0_bytes() <= budget_;
    const std::uint32_t bits = beside_l0 ? PinnedBits(0) : Bits();
    HMANN_ASSIGN_OR_RETURN(const Candidate chosen, request_.finished.has_value()
                                                       ? Of(*request_.finished)
                                                       : MostPromoted(bits, beside_l0));
    return PlanOf(chosen, beside_l0);
  }

 private:
  std::uint64_t Reserved(std::uint64_t fast_bytes) const {
    return ReservedFastBytes(drive_ ? fast_bytes : 0, request_.threads);
  }
  double BytesAVector() const {
    return static_cast<double>(budget_) / static_cast<double>(request_.shape.n);
  }
  std::uint32_t PinnedBits(std::uint32_t otherwise) const {
    return request_.finished.has_value() ? request_.finished->bits
                                         : request_.bits.value_or(otherwise);
  }
  NodeId FewestPromoted() const {
    if (request_.finished.has_value()) return request_.finished->n1;
    return request_.promote.has_value() ? Share(*request_.promote) : 1;
  }
  NodeId Share(double share) const {
    const auto n = static_cast<double>(request_.shape.n);
    return std::clamp<NodeId>(static_cast<NodeId>(n * share), 1,
                              static_cast<NodeId>(request_.shape.n - 1));
  }
  /// Code bytes of an unpromoted node, with its part of the cells.
  double CodeBytesANode(std::uint32_t bits) const {
    return CodeBytes(request_.shape.dim, bits) + 0.25 +
           (request_.replicas == 2 ? sizeof(NodeId) : 0);
  }

  /// Whether narrow vectors lie on a tier that is read by lines.
  bool InLines() const {
    return !drive_ &&
           std::uint64_t{request_.shape.dim} * SizeOf(request_.shape.dtype) <= kNarrowRow;
  }
  bool Pays(std::uint32_t bits) const {
    if (InLines()) return bits == kFewestBitsInMemory;
    return drive_ || bits >= kFewestBitsInMemory;
  }

  /// The second line of the rule.
  std::uint32_t Bits() const {
    if (request_.bits.has_value() || request_.finished.has_value()) return PinnedBits(0);
    for (const CodeShare& codes : kCodeShares) {
      if (!Pays(codes.bits)) continue;
      if (CodeBytesANode(codes.bits) > codes.most * BytesAVector()) continue;
      const NodeId centroids = request_.promote.has_value()
                                   ? FewestPromoted()
                                   : Share(InLines() ? kPromotedBesideNarrow : kFewestCentroids);
      const absl::StatusOr<Candidate> least = Of({centroids, codes.bits, 1});
      if (least.ok() && least->upper_bytes <= budget_) return codes.bits;
    }
    return 0;
  }

  absl::StatusOr<Candidate> Of(PlanStructure structure) const {
    if (!request_.finished.has_value()) {
      structure.replicas = structure.bits > 0 ? request_.replicas.value_or(1) : 1;
      structure.n1 = std::max<NodeId>(structure.n1, structure.replicas);
    }
    Candidate made{structure, {}, {}};
    HMANN_ASSIGN_OR_RETURN(made.header, HeaderOf(request_.shape, structure));
    made.lines = StructureLines(structure, made.header);
    for (const Section& section : PlanSections(made.header))
      made.scalar_bytes += section.kind == SectionKind::kScalarCodes ? section.bytes : 0;
    for (std::size_t i = 0; i + 1 < made.lines.size(); ++i)
      made.upper_bytes += InPages(made.lines[i].bytes);
    return made;
  }

  /// The third line.
  absl::StatusOr<Candidate> MostPromoted(std::uint32_t bits, bool beside_l0) const {
    if (request_.promote.has_value()) return Of({Share(*request_.promote), bits});
    NodeId low = 1, high = Share(beside_l0 ? kPromotedBesideL0 : kMostPromoted) + 1;
    while (high - low > 1) {
      const NodeId middle = low + (high - low) / 2;
      HMANN_ASSIGN_OR_RETURN(const Candidate candidate, Of({middle, bits}));
      const std::uint64_t bytes = candidate.upper_bytes + (beside_l0 ? candidate.l0_bytes() : 0);
      (bytes <= budget_ ? low : high) = middle;
    }
    return Of({low, bits});
  }

  /// Fills the rest with copies of the drive's blocks, found by an index. On memory,
  /// reading a line is faster than finding its copy.
  void AddCache(const Candidate& made, MemoryPlan& plan) const {
    const RecordLayout records = made.header.Records();
    const double left = static_cast<double>(budget_ - made.upper_bytes), blocks = records.Units(),
                 block_bytes = records.MostUnitBytes();
    // Two mappings, in whole pages; large ones have pages of 2 MiB.
    for (const std::uint64_t page : {4_KiB, 2_MiB}) {
      const double room = left - blocks * 4.125 - 2 * static_cast<double>(page);
      const double share = std::min(1.0, room / (blocks * (block_bytes + 8)));
      if (share < kLeastCachedShare) return;
      const auto copies = static_cast<std::uint64_t>(blocks * share * block_bytes),
                 index = static_cast<std::uint64_t>(blocks * (4.125 + share * 8));
      if (InPages(copies) + InPages(index) > budget_ - made.upper_bytes) continue;
      plan.cached_share = share;
      plan.cache_bytes = copies;
      plan.bytes.push_back({"cache of l0", "dram", copies});
      plan.bytes.push_back({"cache's index", "dram", index});
      return;
    }
  }

  absl::StatusOr<MemoryPlan> PlanOf(const Candidate& made, bool beside_l0) const {
    MemoryPlan plan;
    plan.structure = made.structure;
    plan.fast_tier = "dram";
    plan.l0_tier = beside_l0 ? "dram" : request_.slow;
    plan.bytes = made.lines;
    for (PlacedBytes& line : plan.bytes) line.tier = "dram";
    plan.bytes.back().tier = plan.l0_tier;
    if (beside_l0 && made.scalar_bytes > 0)
      plan.bytes.push_back({"scalar codes", "dram", made.scalar_bytes});
    if (drive_ && !beside_l0) AddCache(made, plan);
    plan.reserve_bytes = plan.fast_bytes = reserve_;
    for (const PlacedBytes& line : plan.bytes)
      plan.fast_bytes += line.tier == "dram" ? InPages(line.bytes) : 0;
    plan.bytes.push_back({"read buffers and scratch", "dram", reserve_ - request_.attribute_bytes});
    if (drive_ && !beside_l0) {
      plan.read_buffer_bytes = (Reserved(request_.fast_bytes) - Reserved(0)) /
                               static_cast<std::uint64_t>(std::max(1, request_.threads));
    }
    HMANN_ASSIGN_OR_RETURN(plan.file_bytes, PlannedFileBytes(request_.shape, made.structure));
    Explain(made, beside_l0, plan);
    return plan;
  }

  void Explain(const Candidate& made, bool beside_l0, MemoryPlan& plan) const {
    const auto n = static_cast<double>(request_.shape.n);
    plan.rule.push_back(absl::StrFormat(
        "L0 takes %.1f bytes a vector, and the fast memory has %.1f (%s less %s for read buffers, "
        "attributes and the scratch of %d searches): L0 lies on %s",
        static_cast<double>(made.lines.back().bytes) / n, BytesAVector(),
        FormatSize(request_.fast_bytes), FormatSize(reserve_), request_.threads, plan.l0_tier));
    std::string shares;
    for (auto codes = std::rbegin(kCodeShares); codes != std::rend(kCodeShares); ++codes) {
      if (!Pays(codes->bits)) continue;
      absl::StrAppendFormat(&shares, "%s%d bits (%.1f bytes) from %.1f bytes a vector",
                            shares.empty() ? "" : ", ", codes->bits, CodeBytesANode(codes->bits),
                            CodeBytesANode(codes->bits) / codes->most);
    }
    const bool pinned = request_.bits.has_value() || request_.finished.has_value();
    if (InLines())
      absl::StrAppendFormat(&shares, " if %.0f %% of the vectors are promoted as well",
                            100 * kPromotedBesideNarrow);
    plan.rule.push_back(
        absl::StrCat("codes first: ", shares, "; here ",
                     made.structure.bits == 0 ? "none" : absl::StrCat(made.structure.bits, " bits"),
                     pinned      ? ", as given"
                     : beside_l0 ? ", since L0 is fast as well"
                                 : "",
                     " (thresholds of SIFT, 128 x u8; for other vectors a guess)"));
    plan.rule.push_back(
        absl::StrFormat("the rest is for promoted nodes, up to %.0f %% of the vectors: %.3g %%; "
                        "then, on a drive, for "
                        "a static cache of L0: %.3g %% of it",
                        100 * (beside_l0 ? kPromotedBesideL0 : kMostPromoted),
                        100.0 * made.structure.n1 / n, 100 * plan.cached_share));
  }

  absl::Status TooSmall(std::uint64_t least) const {
    std::uint64_t smallest = least + Reserved(0);
    while (least + Reserved(smallest) > smallest) smallest = least + Reserved(smallest);
    return ResourceExhausted("--fast-memory ", request_.fast_bytes, " is too small: at least ",
                             smallest, " are needed with ", request_.threads, " search threads");
  }

  const PlanRequest& request_;
  const bool drive_;  ///< read by blocks
  const std::uint64_t reserve_, budget_;
};

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const PlanRequest& request) {
  return MemoryRule(request).Plan();
}

}  // namespace hmann
