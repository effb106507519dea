/// libFuzzer over everything that reads a file of attributes: opening, verifying, and
/// filters of each kind. Each input is read unchanged, then with correct checksums, so
/// that the checks after the checksums are reached, too. Seeded with the golden file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "index/attributes/testing/reseal_attrs.h"
#include "index/base/check.h"

namespace hmann {
namespace {

void Read(const std::string& bytes) {
  AttrsHeader header;
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.n == 0 || header.n > 100'000) return;  // no index has none; memory is bounded
  const int fd = ::memfd_create("attrs_fuzz", 0);
  HMANN_CHECK(fd >= 0 &&
              ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto attributes =
      Attributes::Open("/proc/self/fd/" + std::to_string(fd), header.n, header.content_hash);
  ::close(fd);
  if (!attributes.ok()) return;
  for (const char* text :
       {"tag in ('t1', 't2') or has(tag, 't3', 't4')", "year > 2000 or year in (1, 1999)",
        "sold or not sold", "number = 3 or number is null", "price <= 5.5", "made != 0"}) {
    const auto matches = (*attributes)->Matching(*Filter::Parse(text));
    HMANN_CHECK(!matches.ok() || matches->size() <= header.n);
  }
  // What verifies can be filtered by.
  if (!(*attributes)->Verify().ok()) return;
  for (const AttributeFieldInfo& info : (*attributes)->fields()) {
    if (info.field.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos)
      continue;
    const auto filter = Filter::Parse("`" + info.field.name + "` is not null");
    const auto matches = (*attributes)->Matching(*filter);
    HMANN_CHECK(matches.ok() && matches->size() == info.rows);
  }
}

}  // namespace
}  // namespace hmann

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  hmann::Read(bytes);
  hmann::ResealAttrs(bytes);
  hmann::Read(bytes);
  return 0;
}
