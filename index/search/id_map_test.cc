#include "index/search/id_map.h"

#include <gtest/gtest.h>

#include <map>

#include "index/base/random.h"

namespace hmann {
namespace {

TEST(IdMap, IsAMap) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    IdMap map;
    std::map<std::uint32_t, std::uint32_t> model;
    const std::uint64_t ids = seed % 2 == 0 ? 200 : 5000;
    for (std::uint64_t step = 0; step < 8000; ++step) {
      const auto id = static_cast<std::uint32_t>(RandomBelow(seed, 2 * step, ids) * 64);
      if (model.count(id) == 0) {
        ASSERT_EQ(map.Find(id), IdMap::kAbsent);
        map.Insert(id, model[id] = static_cast<std::uint32_t>(step));
      } else if (RandomBelow(seed, 2 * step + 1, 3) > 0) {
        ASSERT_EQ(map.Find(id), model[id]);
        map.Erase(id);
        model.erase(id);
      }
      ASSERT_EQ(map.size(), model.size());
    }
    for (std::uint32_t id = 0; id < 64 * ids; id += 64) {
      ASSERT_EQ(map.Find(id), model.count(id) == 0 ? IdMap::kAbsent : model[id]) << "seed " << seed;
    }
    map.Clear();
    EXPECT_EQ(map.size(), 0u);
    for (const auto& [id, value] : model) EXPECT_EQ(map.Find(id), IdMap::kAbsent);
  }
}

}  // namespace
}  // namespace hmann
