/// Searches hnswlib's own index file without reading its level 0 into memory.
#pragma once

#include <hnswlib/hnswlib.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "index/base/file.h"
#include "index/base/status_macros.h"

namespace hmann::eval {

/// An index whose level 0 (vectors, links, labels) is a read-only, random-access mapping
/// of the file that saveIndex wrote. The upper levels and everything else that a search
/// needs are in memory. What only updates need (locks, the lookup of labels) stays empty,
/// so nothing can be added.
/// to be added to.
template <typename Dist>
class MappedHnswlib {
 public:
  using Index = hnswlib::HierarchicalNSW<Dist>;

  /// `space` must outlive the result. Errors: as MappedFile::Open; DATA_LOSS naming file
  /// and offset.
  static absl::StatusOr<MappedHnswlib> Open(const std::string& path,
                                            hnswlib::SpaceInterface<Dist>* space);

  Index* index() const { return index_.get(); }

 private:
  /// hnswlib must not free the mapping.
  struct Release {
    void operator()(Index* index) const {
      index->data_level0_memory_ = nullptr;
      delete index;
    }
  };

  /// Reads the unpadded fields before level 0, in the file's order. Returns their size.
  static std::size_t ReadHeader(const std::byte* from, Index& index);
  absl::Status ReadUpperLinks(std::size_t offset);

  MappedFile file_;
  std::unique_ptr<Index, Release> index_;
};

template <typename Dist>
std::size_t MappedHnswlib<Dist>::ReadHeader(const std::byte* from, Index& index) {
  const std::byte* at = from;
  const auto read = [&at](auto&... fields) {
    ((std::memcpy(&fields, at, sizeof fields), at += sizeof fields), ...);
  };
  read(index.offsetLevel0_, index.max_elements_, index.cur_element_count,
       index.size_data_per_element_, index.label_offset_, index.offsetData_, index.maxlevel_,
       index.enterpoint_node_, index.maxM_, index.maxM0_, index.M_, index.mult_,
       index.ef_construction_);
  return static_cast<std::size_t>(at - from);
}

template <typename Dist>
absl::Status MappedHnswlib<Dist>::ReadUpperLinks(std::size_t offset) {
  const std::span<const std::byte> bytes = file_.bytes();
  Index& index = *index_;
  for (std::size_t i = 0; i < index.cur_element_count; ++i) {
    unsigned int list = 0;
    const bool sized = bytes.size() - offset >= sizeof list;
    if (sized) std::memcpy(&list, bytes.data() + offset, sizeof list);
    if (!sized || list > bytes.size() - offset - sizeof list ||
        list % index.size_links_per_element_ != 0) {
      return DataLoss(file_.path(), ": offset ", offset, ": expected upper lists of node ", i,
                      ", of ", index.size_links_per_element_, " bytes each, found ", list,
                      " bytes");
    }
    offset += sizeof list;
    index.element_levels_[i] = static_cast<int>(list / index.size_links_per_element_);
    index.linkLists_[i] = nullptr;
    if (list == 0) continue;
    index.linkLists_[i] = static_cast<char*>(std::malloc(list));  // hnswlib frees it
    if (index.linkLists_[i] == nullptr) return ResourceExhausted("malloc of ", list, " bytes");
    std::memcpy(index.linkLists_[i], bytes.data() + offset, list);
    offset += list;
  }
  if (offset == bytes.size()) return absl::OkStatus();
  return DataLoss(file_.path(), ": offset ", offset, ": expected the end, found ",
                  bytes.size() - offset, " bytes more");
}

template <typename Dist>
absl::StatusOr<MappedHnswlib<Dist>> MappedHnswlib<Dist>::Open(
    const std::string& path, hnswlib::SpaceInterface<Dist>* space) {
  constexpr std::size_t kHeaderBytes = 96;
  MappedHnswlib mapped;
  HMANN_ASSIGN_OR_RETURN(mapped.file_, MappedFile::Open(path));
  const std::size_t size = mapped.file_.bytes().size();
  if (size < kHeaderBytes)
    return DataLoss(path, ": offset 0: expected a header of ", kHeaderBytes, " bytes, found ",
                    size);
  mapped.index_.reset(new Index(space));
  Index& index = *mapped.index_;
  // Set what a destructor would look at before anything can fail.
  index.data_level0_memory_ = nullptr;
  index.linkLists_ = nullptr;
  index.visited_list_pool_ = nullptr;
  index.cur_element_count = 0;
  // The adapter never deletes. To count deletions, hnswlib would read all of level 0.
  index.num_deleted_ = 0;

  const std::size_t header = ReadHeader(mapped.file_.bytes().data(), index);
  const std::size_t n = index.cur_element_count;
  index.cur_element_count = 0;
  index.size_links_per_element_ =
      index.maxM_ * sizeof(hnswlib::tableint) + sizeof(hnswlib::linklistsizeint);
  index.size_links_level0_ =
      index.maxM0_ * sizeof(hnswlib::tableint) + sizeof(hnswlib::linklistsizeint);
  const std::size_t record =
      index.size_links_level0_ + space->get_data_size() + sizeof(hnswlib::labeltype);
  if (n == 0 || index.size_data_per_element_ != record || n > (size - header) / record ||
      index.enterpoint_node_ >= n) {
    return DataLoss(path, ": offset 0: expected records of ", record, " bytes within ",
                    size - header, ", found ", n, " of ", index.size_data_per_element_);
  }
  index.max_elements_ = n;
  index.data_size_ = space->get_data_size();
  index.fstdistfunc_ = space->get_dist_func();
  index.dist_func_param_ = space->get_dist_func_param();
  index.revSize_ = 1.0 / index.mult_;
  index.setEf(10);
  index.visited_list_pool_ =
      decltype(index.visited_list_pool_)(new hnswlib::VisitedListPool(1, static_cast<int>(n)));
  index.element_levels_.assign(n, 0);
  index.linkLists_ = static_cast<char**>(std::calloc(n, sizeof(char*)));
  if (index.linkLists_ == nullptr) return ResourceExhausted("calloc of ", n, " pointers");
  index.cur_element_count = n;

  mapped.file_.Advise(MappedFile::Access::kSequential, 0, size);
  HMANN_RETURN_IF_ERROR(mapped.ReadUpperLinks(header + n * record));
  mapped.file_.Advise(MappedFile::Access::kRandom, 0, size);
  // A search only reads through this pointer.
  index.data_level0_memory_ =
      const_cast<char*>(reinterpret_cast<const char*>(mapped.file_.bytes().data() + header));
  return mapped;
}

}  // namespace hmann::eval
