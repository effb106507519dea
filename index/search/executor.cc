#include "index/search/executor.h"

#include "index/search/disk_executor.h"
#include "index/search/memory_executor.h"

namespace hmann {

std::unique_ptr<Executor> MakeExecutor(const PlacedIndex& index) {
  if (index.blocks != nullptr) return std::make_unique<DiskExecutor>(index);
  return std::make_unique<MemoryExecutor>(index);
}

}  // namespace hmann
