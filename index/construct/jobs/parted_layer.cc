#include "index/construct/jobs/parted_layer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "index/base/random.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "index/construct/jobs/leaders.h"

namespace hmann {
namespace {

constexpr std::uint32_t kSample = 40'000;    ///< vectors from which the means are made
constexpr std::size_t kBlockBytes = 16_MiB;  ///< of vectors that are put on shelves at once
constexpr NodeId kListsAtOnce = 1 << 16;     ///< lists of a part that a thread writes out

/// Before the lists of a part: its number of own vectors, and where the lists of each
/// home end, in words.
struct PartHeader {
  const std::uint64_t* words;
  explicit PartHeader(const Buffer& file)
      : words(reinterpret_cast<const std::uint64_t*>(file.data())) {}
  NodeId homes() const { return static_cast<NodeId>(words[0]); }
  const std::uint32_t* Order(std::uint32_t parts) const {
    return reinterpret_cast<const std::uint32_t*>(words + 1 + parts);
  }
  /// The lists of nodes whose home is `home`.
  std::span<const std::uint32_t> Lists(std::uint32_t parts, std::uint32_t home) const {
    const std::uint64_t begin = home == 0 ? 0 : words[home];
    return {Order(parts) + homes() + begin, words[1 + home] - begin};
  }
};

/// The links of a node in one part: its vector; the numbers of links to members of its
/// home, and to others; the vectors of the first; vector and key of each of the others.
struct PartRecord {
  const std::uint32_t* words;
  std::uint32_t vector() const { return words[0]; }
  std::span<const std::uint32_t> inside() const { return {words + 2, words[1] & 0xffff}; }
  std::span<const std::uint32_t> outside() const {
    return {words + 2 + inside().size(), 2 * std::size_t{words[1] >> 16}};
  }
  const std::uint32_t* end() const { return words + 2 + inside().size() + outside().size(); }
};

}  // namespace

class PartedLayer::Shelf {
 public:
  static absl::StatusOr<Shelf> Open(const JoinedSource& source, const Stages& stages,
                                    std::uint32_t parts, std::uint32_t part) {
    Shelf shelf;
    shelf.source_ = &source;
    shelf.has_rows_ = stages.work().on_disk();
    const auto n = static_cast<NodeId>(source.unique.size());
    for (std::size_t r = 0; r < stages.Ranges(n).size(); ++r) {
      HMANN_ASSIGN_OR_RETURN(shelf.files_.emplace_back(), stages.MapOne("shelf", r));
      const std::byte* next = std::as_const(shelf.files_.back()).data();
      const std::byte* const end = next + shelf.files_.back().size();
      while (next < end) {
        const auto* ends = reinterpret_cast<const std::uint32_t*>(next);
        const auto* members = reinterpret_cast<const Member*>(ends + parts);
        const std::uint32_t first = part == 0 ? 0 : ends[part - 1], all = ends[parts - 1];
        next = reinterpret_cast<const std::byte*>(members + all);
        shelf.blocks_.push_back(
            {shelf.size_, {members + first, ends[part] - first}, next + first * source.stride});
        shelf.size_ += ends[part] - first;
        if (shelf.has_rows_) next += all * source.stride;
      }
    }
    return shelf;
  }

  NodeId size() const { return size_; }
  template <typename Take>
  void ForEach(const Take& take) const {
    for (const Block& block : blocks_)
      for (const Member& member : block.members) take(member);
  }
  /// Copies the stored vector of a member to `place`. Thread-safe.
  void Copy(std::uint32_t i, std::byte* place) const {
    const Block& block = *std::prev(
        std::upper_bound(blocks_.begin(), blocks_.end(), i,
                         [](std::uint32_t at, const Block& of) { return at < of.first; }));
    const std::size_t at = i - block.first;
    if (!has_rows_) return source_->copy(source_->unique[block.members[at].vector], place);
    std::memcpy(place, block.rows + at * source_->stride, source_->stride);
  }

 private:
  struct Block {
    std::uint32_t first;  ///< number of its first member
    std::span<const Member> members;
    const std::byte* rows;
  };
  const JoinedSource* source_ = nullptr;
  bool has_rows_ = false;
  NodeId size_ = 0;
  std::vector<Buffer> files_;
  std::vector<Block> blocks_;
};

/// The lists of the nodes whose home is one part, from all parts. The members of the part
/// have numbers: its own nodes in their order, then its guests.
class PartedLayer::PartLists {
 public:
  PartLists(std::uint32_t part, NodeRange nodes, std::span<const NodeId> node_of,
            const Shelf& shelf, std::span<const Buffer> files)
      : part_(part), nodes_(nodes), node_of_(node_of), files_(files), members_(shelf.size()) {
    std::uint32_t at = 0;
    shelf.ForEach([&](const Member& member) {
      const bool own = member.home() == part;
      const NodeId guest = nodes.size() + static_cast<NodeId>(guests_.size());
      members_[own ? node_of[member.vector] - nodes.first : guest] = at++;
      if (!own) guests_.push_back(member.vector);
    });
  }

  /// Finds the lists of some own nodes, given by number.
  void Find(NodeRange nodes) {
    found_ = nodes;
    starts_.assign(std::size_t{nodes.size()} + 2, 0);
    const auto parts = static_cast<std::uint32_t>(files_.size());
    const auto for_each = [&](const auto& take) {
      for (const Buffer& file : files_) {
        const std::span<const std::uint32_t> words = PartHeader(file).Lists(parts, part_);
        for (PartRecord record{words.data()}; record.words < words.data() + words.size();
             record = {record.end()}) {
          const NodeId at = node_of_[record.vector()] - nodes_.first - nodes.first;
          if (at < nodes.size()) take(at, record);
        }
      }
    };
    for_each([&](NodeId at, PartRecord) { ++starts_[at + 2]; });
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    records_.resize(starts_.back());
    for_each([&](NodeId at, PartRecord record) { records_[starts_[at + 1]++] = record; });
  }

  NodeRange nodes() const { return nodes_; }
  std::span<const std::uint32_t> members() const { return members_; }  ///< [number]: on the shelf
  /// The node of a member.
  NodeId NodeOf(NodeId number) const {
    return number < nodes_.size() ? nodes_.first + number
                                  : node_of_[guests_[number - nodes_.size()]];
  }
  /// Replaces `inside` by the members that a node links to, and `outside` by the other
  /// nodes, nearest first. Returns how many there are. Call after Find.
  std::size_t Take(NodeId number, std::vector<NodeId>* inside,
                   std::vector<Candidate>* outside) const {
    inside->clear();
    outside->clear();
    const NodeId at = number - found_.first;
    for (std::uint32_t r = starts_[at]; r < starts_[at + 1]; ++r) {
      for (const std::uint32_t vector : records_[r].inside()) {
        const NodeId member = NumberOf(vector);
        if (std::find(inside->begin(), inside->end(), member) == inside->end())
          inside->push_back(member);
      }
      const std::span<const std::uint32_t> others = records_[r].outside();
      for (std::size_t i = 0; i < others.size(); i += 2)
        outside->push_back({others[i + 1], node_of_[others[i]]});
    }
    std::sort(outside->begin(), outside->end());
    outside->erase(std::unique(outside->begin(), outside->end(),
                               [](const Candidate& a, const Candidate& b) { return a.id == b.id; }),
                   outside->end());
    return inside->size() + outside->size();
  }
  /// Memory of the found lists in bytes.
  std::uint64_t bytes() const {
    return starts_.size() * sizeof(NodeId) + records_.size() * sizeof(PartRecord);
  }

 private:
  NodeId NumberOf(std::uint32_t vector) const {
    const NodeId node = node_of_[vector];
    if (node >= nodes_.first && node < nodes_.last) return node - nodes_.first;
    return nodes_.size() +
           static_cast<NodeId>(std::lower_bound(guests_.begin(), guests_.end(), vector) -
                               guests_.begin());
  }

  std::uint32_t part_;
  NodeRange nodes_;
  std::span<const NodeId> node_of_;     ///< [vector]
  std::span<const Buffer> files_;       ///< of all parts
  std::vector<std::uint32_t> members_;  ///< [number]
  std::vector<std::uint32_t> guests_;   ///< their vectors, ascending
  NodeRange found_{0, 0};
  std::vector<std::uint32_t> starts_;  ///< [found]
  std::vector<PartRecord> records_;
};

/// Makes one list of a node's lists. Keeps its scratch; one per thread.
class PartedLayer::Merger {
 public:
  Merger(const Kernels& kernels, float alpha) : kernels_(&kernels), alpha_(alpha) {}

  /// `loader`: has the vectors of the part's members by number, where the lists are too
  /// long. `out`: filled with kNoNode.
  void Merge(NodeId node, const PartLists& lists, const PartLoader& loader, std::span<NodeId> out);

 private:
  const Kernels* kernels_;
  float alpha_;
  std::vector<NodeId> inside_;
  std::vector<Candidate> outside_, candidates_;
  std::vector<const std::byte*> rows_;
  RowBatch batch_;
  NeighborSelector selector_;
};

std::uint32_t PartedLayer::PartsOf(NodeId count, const PartitionOptions& options) {
  return count <= options.whole ? 1 : (count + options.part - 1) / options.part;
}

bool PartedLayer::FitsInMemory(std::uint64_t members, std::uint64_t stride, std::uint32_t m,
                               std::uint64_t room) {
  // Vectors, lists of the nearest, and links in two forms: about 20 bytes, a guess.
  constexpr std::uint64_t kBytesOfLink = 20;
  return members * (stride + 2 * kBytesOfLink * m) <= room;
}

PartedLayer::PartedLayer(const JoinedSource& source, Stages& stages)
    : source_(source), stages_(stages), parts_(PartsOf(count(), source.partition)) {}

JoinedSource::Effort PartedLayer::EffortFor(const Member& member, std::uint32_t part) const {
  // All three are guesses from SIFT and text.
  constexpr double kOfGuest = 0.4, kOfTwice = 0.27, kOfList = 0.75;
  const std::uint32_t fan = source_.partition.fan, list = 2 * source_.m;
  const std::uint32_t guests = member.parts[1] == kNoPart ? 0 : member.parts[2] == kNoPart ? 1 : 2;
  const auto of_guest =
      static_cast<std::uint32_t>(std::lround(fan * (guests == 2 ? kOfTwice : kOfGuest)));
  if (member.home() == part) return {std::max(1u, fan - guests * of_guest), list};
  return {std::max(1u, of_guest), static_cast<std::uint32_t>(list * kOfList)};
}

absl::StatusOr<PartLeaders> PartedLayer::Leaders() const {
  std::vector<std::uint32_t> chosen =
      Sample(source_.partition.seed + 1, count(), std::min(count(), kSample));
  for (std::size_t i = chosen.size(); i > 1; --i)
    std::swap(chosen[i - 1], chosen[RandomBelow(source_.partition.seed + 2, i, i)]);
  StoredVectors sample;
  sample.stride = source_.stride;
  HMANN_ASSIGN_OR_RETURN(sample.rows, Buffer::Allocate(chosen.size() * sample.stride));
  for (std::size_t i = 0; i < chosen.size(); ++i)
    source_.copy(source_.unique[chosen[i]], sample.rows.data() + i * sample.stride);
  return PartLeaders::Make(source_.kernels, sample, chosen.size(), parts_);
}

absl::Status PartedLayer::MakeShelves() {
  HMANN_ASSIGN_OR_RETURN(const PartLeaders leaders, Leaders());
  return stages_.ForRanges("parts", "shelf", count(), [&](NodeRange range, ArtifactWriter& writer) {
    return FillShelf(range, leaders, writer);
  });
}

absl::Status PartedLayer::FillShelf(NodeRange range, const PartLeaders& leaders,
                                    ArtifactWriter& writer) const {
  const std::size_t stride = source_.stride;
  const auto block = static_cast<NodeId>(std::max<std::size_t>(1, kBlockBytes / stride));
  HMANN_ASSIGN_OR_RETURN(Buffer rows, Buffer::Allocate(std::min(block, range.size()) * stride));
  for (NodeId first = range.first; first < range.last; first += block) {
    HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
    const NodeId size = std::min(block, range.last - first);
    std::vector<PartsOfVector> parts(size);
    stages_.job().pool.ParallelFor(size, 1024, [&](std::size_t begin, std::size_t end, int) {
      for (std::size_t i = begin; i < end; ++i) {
        std::byte* const row = rows.data() + i * stride;
        source_.copy(source_.unique[first + i], row);
        parts[i] = leaders.Find(source_.kernels, row);
      }
      stages_.job().progress.Advance(end - begin);
    });
    std::vector<std::vector<Member>> members(parts_);
    for (NodeId i = 0; i < size; ++i) {
      for (const std::uint16_t part : parts[i])
        if (part != kNoPart) members[part].push_back({first + i, parts[i]});
    }
    std::vector<std::uint32_t> ends;
    ends.reserve(parts_);
    for (const auto& of : members)
      ends.push_back((ends.empty() ? 0 : ends.back()) + static_cast<std::uint32_t>(of.size()));
    HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint32_t>(ends)));
    for (const auto& of : members)
      HMANN_RETURN_IF_ERROR(writer.Append(std::span<const Member>(of)));
    if (!stages_.work().on_disk()) continue;
    for (const auto& of : members) {
      for (const Member& member : of)
        HMANN_RETURN_IF_ERROR(
            writer.Append(rows.data() + (member.vector - first) * stride, stride));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::uint32_t>> PartedLayer::Order() {
  if (!stages_.Done("part")) {
    if (!stages_.Done("shelf")) HMANN_RETURN_IF_ERROR(MakeShelves());
    HMANN_RETURN_IF_ERROR(stages_.Make(
        {.stage = "part",
         .phase = "join parts",
         .total = count(),
         .count = parts_,
         .size =
             [&](std::size_t p) {
               return std::uint64_t{count()} * (p + 1) / parts_ -
                      std::uint64_t{count()} * p / parts_;
             },
         .has = [&](std::size_t p) { return stages_.work().Has(stages_.Name("part", p)); },
         .make = [&](std::size_t p) { return MakePart(static_cast<std::uint32_t>(p)); }}));
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t p = 0; p < parts_; ++p) {
    HMANN_ASSIGN_OR_RETURN(const Buffer part, stages_.MapOne("part", p));
    const PartHeader header(part);
    order.insert(order.end(), header.Order(parts_), header.Order(parts_) + header.homes());
  }
  return order;
}

absl::Status PartedLayer::MakePart(std::uint32_t part) {
  HMANN_ASSIGN_OR_RETURN(const Shelf shelf, Shelf::Open(source_, stages_, parts_, part));
  std::vector<Member> members;
  members.reserve(shelf.size());
  shelf.ForEach([&](const Member& member) { members.push_back(member); });
  if (members.empty()) return PutPart(part, {}, {});
  std::vector<std::uint32_t> all(shelf.size());
  std::iota(all.begin(), all.end(), 0u);
  PartitionOptions options = source_.partition;
  options.whole = kNoNode;
  options.seed += part;
  for (const Member& member : members) options.followers += EffortFor(member, part).fan;
  const bool fits = FitsInMemory(shelf.size(), source_.stride, source_.m, source_.room);
  const MemoryArtifacts memory;
  Progress quiet(Progress::Show::kNever);
  std::vector<PhaseTime> times;
  Phases phases(quiet, times);
  const TaskContext job{stages_.job().pool, quiet, stages_.job().cancelled, stages_.job().slowed};
  const Stages stages(stages_.Name("in", part), "",
                      fits ? static_cast<const Artifacts&>(memory) : stages_.work(), phases, job);
  JoinedLayer layer({.kernels = source_.kernels,
                     .stride = source_.stride,
                     .unique = all,
                     .copy = [&](std::uint32_t i, std::byte* place) { shelf.Copy(i, place); },
                     .m = source_.m,
                     .alpha = source_.alpha,
                     .partition = options,
                     .room = source_.room,
                     .effort = [&](std::uint32_t i) { return EffortFor(members[i], part); }},
                    stages);
  HMANN_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order, layer.Order());
  HMANN_RETURN_IF_ERROR(layer.Make("back", order, order));
  HMANN_RETURN_IF_ERROR(WritePart(part, members, layer, order));
  stages.Forget();
  return absl::OkStatus();
}

absl::Status PartedLayer::WritePart(std::uint32_t part, std::span<const Member> members,
                                    const JoinedLayer& layer,
                                    std::span<const std::uint32_t> order) {
  HMANN_ASSIGN_OR_RETURN(const PackedLists links, layer.Back());
  const Kernels& kernels = source_.kernels;
  std::vector<std::uint32_t> homes;
  for (const std::uint32_t i : order) {
    if (members[i].home() == part) homes.push_back(members[i].vector);
  }
  std::vector<std::vector<std::vector<std::uint32_t>>> made(
      (order.size() + kListsAtOnce - 1) / kListsAtOnce,
      std::vector<std::vector<std::uint32_t>>(parts_));
  const auto write = [&](NodeId node, std::vector<NodeId>& scratch, std::vector<std::byte>& rows,
                         std::vector<std::vector<std::uint32_t>>& of_homes) {
    const Member& member = members[order[node]];
    std::vector<std::uint32_t>& words = of_homes[member.home()];
    const std::size_t begin = words.size();
    words.insert(words.end(), {member.vector, 0});
    const std::span<const NodeId> list = links.Read(node, scratch);
    for (const NodeId link : list) {
      if (members[order[link]].IsIn(member.home())) words.push_back(members[order[link]].vector);
    }
    const auto inside = static_cast<std::uint32_t>(words.size() - begin - 2);
    words[begin + 1] = inside | (static_cast<std::uint32_t>(list.size()) - inside) << 16;
    for (const NodeId link : list) {
      if (members[order[link]].IsIn(member.home())) continue;
      const std::byte* const own = layer.vectors().Take(node, rows.data());
      const std::byte* const other = layer.vectors().Take(link, rows.data() + source_.stride);
      words.insert(words.end(),
                   {members[order[link]].vector, kernels.one(own, other, kernels.dim)});
    }
  };
  stages_.job().pool.ParallelFor(made.size(), 1, [&](std::size_t begin, std::size_t end, int) {
    std::vector<NodeId> scratch;
    std::vector<std::byte> rows(2 * source_.stride);
    for (std::size_t b = begin; b < end; ++b) {
      const std::size_t last = std::min((b + 1) * kListsAtOnce, order.size());
      for (std::size_t node = b * kListsAtOnce; node < last; ++node)
        write(static_cast<NodeId>(node), scratch, rows, made[b]);
    }
  });
  return PutPart(part, homes, made);
}

absl::Status PartedLayer::PutPart(
    std::uint32_t part, std::span<const std::uint32_t> homes,
    std::span<const std::vector<std::vector<std::uint32_t>>> made) const {
  std::vector<std::uint64_t> header = {homes.size()};
  for (std::uint32_t home = 0; home < parts_; ++home) {
    std::uint64_t words = home == 0 ? 0 : header.back();
    for (const auto& block : made) words += block[home].size();
    header.push_back(words);
  }
  HMANN_ASSIGN_OR_RETURN(ArtifactWriter writer, stages_.work().Create(stages_.Name("part", part)));
  HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint64_t>(header)));
  HMANN_RETURN_IF_ERROR(writer.Append(homes));
  for (std::uint32_t home = 0; home < parts_; ++home) {
    for (const auto& block : made)
      HMANN_RETURN_IF_ERROR(writer.Append(std::span<const std::uint32_t>(block[home])));
  }
  return writer.Commit();
}

absl::Status PartedLayer::Merge(std::span<const std::uint32_t> order) {
  std::vector<NodeId> node_of(count());
  for (NodeId node = 0; node < count(); ++node) node_of[order[node]] = node;
  std::vector<Buffer> files(parts_);
  std::vector<NodeId> starts = {0};
  for (std::uint32_t p = 0; p < parts_; ++p) {
    HMANN_ASSIGN_OR_RETURN(files[p], stages_.MapOne("part", p));
    starts.push_back(starts.back() + PartHeader(files[p]).homes());
  }
  std::optional<Shelf> shelf;
  std::optional<PartLists> lists;
  return stages_.ForRanges(
      "merge parts", "back", count(), [&](NodeRange range, ArtifactWriter& writer) {
        const LinkPacking packing = LinkPacking::Of(2 * source_.m, count());
        HMANN_RETURN_IF_ERROR(writer.Expect(std::uint64_t{range.size()} * packing.list_bytes));
        for (std::uint32_t p = 0; p < parts_; ++p) {
          const NodeRange nodes{std::max(range.first, starts[p]),
                                std::min(range.last, starts[p + 1])};
          if (nodes.first >= nodes.last) continue;
          if (!lists.has_value() || lists->nodes().first != starts[p]) {
            lists.reset();
            absl::StatusOr<Shelf> opened = Shelf::Open(source_, stages_, parts_, p);
            if (!opened.ok()) return opened.status();
            shelf.emplace(*std::move(opened));
            lists.emplace(p, NodeRange{starts[p], starts[p + 1]}, node_of, *shelf, files);
          }
          HMANN_RETURN_IF_ERROR(
              MergePart(*lists, *shelf, {nodes.first - starts[p], nodes.last - starts[p]}, writer));
        }
        return absl::OkStatus();
      });
}

void PartedLayer::Merger::Merge(NodeId node, const PartLists& lists, const PartLoader& loader,
                                std::span<NodeId> out) {
  const Kernels& kernels = *kernels_;
  const std::size_t found = lists.Take(node, &inside_, &outside_), most = out.size();
  candidates_.clear();
  if (found > most) {
    batch_.Reserve(inside_.size());
    batch_.size = 0;
    for (const NodeId id : inside_) batch_.Add(id, loader.Row(id));
    batch_.Score(kernels, loader.Row(node));
    for (std::uint32_t c = 0; c < batch_.size; ++c)
      candidates_.push_back({batch_.keys[c], batch_.ids[c]});
    std::sort(candidates_.begin(), candidates_.end());
    rows_.clear();
    for (const Candidate& candidate : candidates_) rows_.push_back(loader.Row(candidate.id));
    selector_.Select(candidates_, rows_, static_cast<std::uint32_t>(most), alpha_, kernels,
                     &inside_);
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return std::find(inside_.begin(), inside_.end(), candidate.id) == inside_.end();
    });
  } else {
    for (const NodeId id : inside_) candidates_.push_back({0, id});
  }
  for (Candidate& candidate : candidates_) candidate.id = lists.NodeOf(candidate.id);
  candidates_.insert(candidates_.end(), outside_.begin(), outside_.end());
  if (found > most) std::sort(candidates_.begin(), candidates_.end());
  candidates_.resize(std::min(candidates_.size(), most));
  for (std::size_t i = 0; i < candidates_.size(); ++i) out[i] = candidates_[i].id;
}

absl::Status PartedLayer::MergePart(PartLists& lists, const Shelf& shelf, NodeRange nodes,
                                    ArtifactWriter& writer) {
  constexpr std::size_t kAtOnce = 256;
  ThreadPool& pool = stages_.job().pool;
  const std::size_t most = 2 * std::size_t{source_.m};
  lists.Find(nodes);
  const std::uint64_t held = lists.bytes();
  const NodeVectors vectors{
      .stride = source_.stride,
      .count = shelf.size(),
      .row_of = lists.members(),
      .copy = [&](std::uint32_t i, std::byte* place) { shelf.Copy(i, place); }};
  PartLoader loader(vectors, source_.room - std::min(source_.room, held),
                    {.of_loaded = sizeof(NodeId), .of_part = most * sizeof(NodeId)}, stages_.job());
  const auto collect = [&](NodeRange part, NodeSubset* wanted) {
    pool.ParallelFor(part.size(), kAtOnce, [&](std::size_t begin, std::size_t end, int) {
      std::vector<NodeId> inside;
      std::vector<Candidate> outside;
      for (std::size_t i = begin; i < end; ++i) {
        const auto node = static_cast<NodeId>(part.first + i);
        if (lists.Take(node, &inside, &outside) <= most) continue;
        wanted->Add(node);
        for (const NodeId id : inside) wanted->Add(id);
      }
    });
    return std::uint64_t{0};
  };
  const LinkPacking packing = LinkPacking::Of(2 * source_.m, count());
  std::vector<Merger> mergers(static_cast<std::size_t>(pool.threads()),
                              Merger(source_.kernels, source_.alpha));
  return loader.For(nodes, nodes.last, collect, [&](NodeRange part) {
    return ForParts(part, [&](NodeRange few) {
      std::vector<NodeId> out(few.size() * most, kNoNode);
      pool.ParallelFor(few.size(), kAtOnce, [&](std::size_t begin, std::size_t end, int thread) {
        for (std::size_t i = begin; i < end && !stages_.job().Cancelled(); ++i)
          mergers[static_cast<std::size_t>(thread)].Merge(static_cast<NodeId>(few.first + i), lists,
                                                          loader, {out.data() + i * most, most});
        stages_.job().progress.Advance(end - begin);
      });
      HMANN_RETURN_IF_ERROR(stages_.job().CheckCancelled());
      return writer.Append(std::span<const std::byte>(PackAll(packing, out, pool)));
    });
  });
}

}  // namespace hmann
