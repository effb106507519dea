/// MANIFEST and rows of the journal with any content: they are read, or refused by name.
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "hmann/collection.h"
#include "index/base/check.h"
#include "index/base/checksum.h"

namespace hmann {
namespace {

/// A collection in memory (/dev/shm) that each input changes and opens.
struct Folder {
  Folder() : path(absl::StrCat("/dev/shm/hmann_fuzz_", ::getpid())) {
    std::filesystem::remove_all(path);
    HMANN_CHECK(Collection::Create(path, {.dtype = DType::kU8, .dim = 2, .types = "t:tag"}).ok());
    std::ifstream in(path + "/MANIFEST");
    manifest.assign(std::istreambuf_iterator<char>(in), {});
    HMANN_CHECK(sqlite3_open((path + "/journal.sqlite").c_str(), &db) == SQLITE_OK);
  }
  const std::string path;
  std::string manifest;
  sqlite3* db = nullptr;
};

std::string_view Take(std::string_view* data, std::size_t most) {
  std::size_t size = 0;
  if (!data->empty())
    size = std::min<std::size_t>(static_cast<unsigned char>(data->front()) % (most + 1),
                                 data->size() - 1);
  const std::string_view taken = data->empty() ? *data : data->substr(1, size);
  data->remove_prefix(std::min(data->size(), size + 1));
  return taken;
}

/// Of writes, as COLLECTION.md has it.
std::uint64_t ChecksumOf(const std::string_view (&parts)[4]) {
  std::uint64_t numbers[9] = {1};
  for (std::size_t i = 0; i < 4; ++i) {
    numbers[1 + 2 * i] = parts[i].size();
    numbers[2 + 2 * i] = Checksum(parts[i].data(), parts[i].size());
  }
  return Checksum(numbers, sizeof(numbers));
}

void Insert(sqlite3* db, std::string_view data) {
  const std::string_view parts[4] = {Take(&data, 64), Take(&data, 8), Take(&data, 16), data};
  sqlite3_stmt* insert = nullptr;
  sqlite3_exec(db, "DELETE FROM writes", nullptr, nullptr, nullptr);
  sqlite3_prepare_v2(db, "INSERT INTO writes VALUES(1, ?, ?, ?, ?, ?)", -1, &insert, nullptr);
  for (int i = 0; i < 4; ++i) {
    const char* bytes = parts[i].empty() ? "" : parts[i].data();
    const int size = static_cast<int>(parts[i].size());
    i == 3 ? sqlite3_bind_text(insert, i + 1, bytes, size, SQLITE_STATIC)
           : sqlite3_bind_blob(insert, i + 1, bytes, size, SQLITE_STATIC);
  }
  sqlite3_bind_int64(insert, 5, static_cast<sqlite3_int64>(ChecksumOf(parts)));
  sqlite3_step(insert);
  sqlite3_finalize(insert);
}

}  // namespace
}  // namespace hmann

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static hmann::Folder& folder = *new hmann::Folder();
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_manifest = size > 0 && data[0] % 2 == 0;
  std::ofstream(folder.path + "/MANIFEST")
      << (is_manifest ? std::string(text.substr(1)) : folder.manifest);
  if (!is_manifest) hmann::Insert(folder.db, text.substr(std::min<std::size_t>(1, size)));
  const auto opened = hmann::Collection::Open(folder.path, {.read_only = true, .merges = false});
  if (opened.ok()) {
    HMANN_CHECK(hmann::LiveRows(*(*opened)->Now()) <= 8);
  } else {
    HMANN_CHECK(!opened.status().message().empty());
  }
  return 0;
}
