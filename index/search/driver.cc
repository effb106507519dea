#include "index/search/driver.h"

#include "index/search/block_driver.h"
#include "index/search/memory_driver.h"

namespace hmann {

std::unique_ptr<Driver> MakeDriver(const PlacedIndex& index) {
  if (index.blocks != nullptr) return std::make_unique<BlockDriver>(index);
  return std::make_unique<MemoryDriver>(index);
}

}  // namespace hmann
