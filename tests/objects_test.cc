// House rules over the compiled objects of a release build: what the compiler really did.
// (index/distance/check_kernel_objects.sh checks the kernel objects.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "tests/house.h"

namespace hmann {
namespace {

namespace fs = std::filesystem;

/// Objects of our own rooms and of the program. Excludes tests and baselines
/// (eval/adapters are built for the local CPU, on purpose).
std::vector<fs::path> Objects() {
  std::vector<fs::path> objects;
  const char* build = std::getenv("HMANN_BINARY_DIR");
  if (build == nullptr) return objects;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(build) / "cmake")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".o") continue;
    if (std::regex_search(path, std::regex("/CMakeFiles/hmann[a-z_-]*\\.dir/")) &&
        path.find("adapters") == std::string::npos) {
      objects.push_back(entry.path());
    }
  }
  return objects;
}

bool IsKernel(const fs::path& object) { return object.filename().string().starts_with("kernels_"); }

class ReleaseObjects : public testing::Test {
 protected:
  void SetUp() override {
    const char* type = std::getenv("HMANN_BUILD_TYPE");
    if (type == nullptr || std::string(type) != "Release")
      GTEST_SKIP() << "speaks of release builds only";
    ASSERT_FALSE(OutputOf({"objdump", "--version"}).empty()) << "binutils is missing";
    ASSERT_GT(Objects().size(), 20u) << "no objects under HMANN_BINARY_DIR";
  }
};

TEST_F(ReleaseObjects, NoAvxOutsideKernelFiles) {
  const std::regex avx("[yz]mm[0-9]|\tv(mov|add|sub|mul|pxor|fma)[a-z0-9]* ");
  bool in_kernels = false;
  for (const fs::path& object : Objects()) {
    std::istringstream code(OutputOf({"objdump", "-d", "--no-show-raw-insn", object.string()}));
    for (std::string line; std::getline(code, line);) {
      const bool found = line.find("ymm") != std::string::npos ||
                         line.find("zmm") != std::string::npos ||
                         line.find("\tv") != std::string::npos;
      if (!found || !std::regex_search(line, avx)) continue;
      if (IsKernel(object)) in_kernels = true;
      if (IsKernel(object)) break;
      ADD_FAILURE() << object << ": " << line << ": this dies on a CPU without AVX";
      break;
    }
  }
#if defined(__x86_64__)
  EXPECT_TRUE(in_kernels) << "no AVX kernel found: this test sees nothing";
#endif
}

TEST_F(ReleaseObjects, PrefetchesAreStillThere) {
  std::size_t prefetches = 0;
  for (const fs::path& object : Objects()) {
    if (object.string().find("hmann_index_search.dir") == std::string::npos) continue;
    const std::string code = OutputOf({"objdump", "-d", "--no-show-raw-insn", object.string()});
    for (std::size_t at = code.find("\tprefetch"); at != std::string::npos;
         at = code.find("\tprefetch", at + 1))
      ++prefetches;
  }
  EXPECT_GE(prefetches, 4u)
      << "g++ deletes prefetch helpers that it does not inline: see index/base/prefetch.h";
}

/// Functions that `nm` finds in a program or library: the exported ones, or with `used`
/// all that it refers to.
std::set<std::string> Functions(const fs::path& file, bool used) {
  std::set<std::string> functions;
  std::istringstream lines(OutputOf({"nm", "-C", file.string()}));
  const std::regex function(used ? "^[0-9a-f ]{16} [TtUWw] (hmann::.*)$"
                                 : "^[0-9a-f]{16} T (hmann::.*)$");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, function)) functions.insert(match[1]);
  }
  return functions;
}

std::vector<std::string> InBoth(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

TEST_F(ReleaseObjects, TheProductHasNoLaboratory) {
  const fs::path build = std::getenv("HMANN_BINARY_DIR");
  if (!fs::exists(build / "bin/hmann")) GTEST_SKIP() << "an engine-only build";
  std::vector<fs::path> product = {build / "bin/hmann"};
  for (const auto& entry : fs::recursive_directory_iterator(build / "cmake")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() == ".a" && path.find("/cmake/eval/") == std::string::npos)
      product.push_back(entry.path());
  }
  EXPECT_GT(product.size(), 15u);
  std::set<std::string> in_eval = Functions(build / "libexec/hmann/hmann-eval", true);
  in_eval.merge(Functions(build / "libexec/hmann/tiers_adapter", true));
  for (const char* library :
       {"libhmann_eval.a", "models/libhmann_eval_models.a", "adapters/libhmann_eval_adapters.a"}) {
    const std::set<std::string> laboratory = Functions(build / "cmake/eval" / library, false);
    EXPECT_THAT(InBoth(laboratory, in_eval), testing::Not(testing::IsEmpty()))
        << library << ": this test sees nothing";
    for (const fs::path& file : product) {
      EXPECT_THAT(InBoth(laboratory, Functions(file, true)), testing::IsEmpty())
          << file << " has functions of " << library;
    }
  }
}

}  // namespace
}  // namespace hmann
