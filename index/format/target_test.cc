#include "hmann/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hmann {
namespace {

TEST(ChooseOffer, TakesTheFastestThatMeetsAndElseTheBest) {
  const std::vector<Offer> offers = {
      {10, 0.8, 0.79}, {20, 0.9, 0.899}, {30, 0.95, 0.93}, {40, 0.96, 0.9585}, {90, 0.99, 0.989}};
  const auto choose = [&](const Target& target) { return ChooseOffer(offers, target); };
  EXPECT_EQ(choose({.recall = 0.9}).place, 1u);
  EXPECT_EQ(choose({.recall = 0.95}).place, 3u) << "the bound of the third is too low";
  EXPECT_FALSE(choose({.recall = 0.999}).met);
  EXPECT_EQ(choose({.recall = 0.999}).place, 4u);
  EXPECT_EQ(choose({.latency_us = 45}).place, 3u);
  EXPECT_EQ(choose({.latency_us = 41}).place, 2u) << "what was measured at 40 may take 41";
  EXPECT_FALSE(choose({.latency_us = 5}).met);
  EXPECT_EQ(choose({.latency_us = 5}).place, 0u);
  EXPECT_FALSE(choose({.recall = 0.99, .latency_us = 50}).met);
  EXPECT_TRUE(choose({.recall = 0.9, .latency_us = 50}).met);
}

TEST(OfferFront, DropsWhatIsBeaten) {
  const std::vector<Offer> offers = {{30, 0.9, 0},  {10, 0.8, 0}, {20, 0.7, 0},
                                     {10, 0.85, 0}, {40, 0.9, 0}, {50, 0.99, 0}};
  EXPECT_THAT(OfferFront(offers), ::testing::ElementsAre(3, 0, 5));
}

}  // namespace
}  // namespace hmann
