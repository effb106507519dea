#include "server/core/caller.h"

#include <gtest/gtest.h>

namespace hmann::server {
namespace {

TEST(Caller, PortsAndTheHalfThatAHostChoosesDoNotCount) {
  EXPECT_EQ(CallerAt("ipv4:10.0.0.1:5000"), CallerAt("ipv4:10.0.0.1:5001"));
  EXPECT_NE(CallerAt("ipv4:10.0.0.1:5000"), CallerAt("ipv4:10.0.0.2:5000"));
  EXPECT_EQ(CallerAt("ipv6:[2001:db8::1]:5000"), CallerAt("ipv6:%5B2001:db8::ffff:2%5D:1"));
  EXPECT_NE(CallerAt("ipv6:[2001:db8::1]:5000"), CallerAt("ipv6:[2001:db8:0:1::1]:5000"));
  EXPECT_EQ(CallerAt("ipv6:[::ffff:10.0.0.1]:1"), CallerAt("ipv6:[::ffff:10.0.0.1]:2"));
  EXPECT_NE(CallerAt("ipv6:[::ffff:10.0.0.1]:1"), CallerAt("ipv6:[::ffff:10.0.0.2]:1"));
  EXPECT_EQ(CallerAt("ipv6:[fe80::1%eth0]:1"), CallerAt("ipv6:[fe80::2%eth0]:1"));
}

TEST(Caller, TheSpellingOfTheSchemeDoesNotCount) {
  for (const char* header : {"bearer one", "BEARER one", "bEaReR one"})
    EXPECT_EQ(CallerWith("Bearer one"), CallerWith(header)) << header;
  EXPECT_NE(CallerWith("Bearer one"), CallerWith("Bearer other"));
}

TEST(Caller, AllThatComeByAPathAreOneAndNothingIsToldApartThatIsNoAddress) {
  EXPECT_EQ(CallerAt("unix:/run/hmann.sock"), CallerAt("unix:"));
  EXPECT_EQ(CallerAt("unix:"), CallerAt("unix:/x:5"));
  for (const char* none : {"", ":", "ipv6:", "ipv6:[", "ipv6:[]:1", "ipv6:[zz]:1", "nonsense"})
    EXPECT_EQ(CallerAt(none), CallerAt("unix:")) << none;
}

}  // namespace
}  // namespace hmann::server
