// Plans and builds an index of the given vector file, searches it with a vector of zeros,
// and prints the nearest label.
#include <hmann/build.h>
#include <hmann/hmann.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  hmann::BuildCall call;
  call.build.base = argv[1];
  call.build.out = argv[2];
  call.build.rows = 1000;
  call.plan.fast_memory_bytes = 64 << 20;
  hmann::Progress progress(hmann::Progress::Show::kNever);
  if (const auto built = hmann::Build(call, progress); !built.ok()) {
    std::fprintf(stderr, "%s\n", std::string(built.status().message()).c_str());
    return 1;
  }
  const auto index = hmann::Index::Open(call.build.out);
  if (!index.ok()) return 1;
  hmann::Searcher searcher(*index);
  const std::vector<std::uint8_t> query((*index)->info().dim);
  hmann::Answer answer;
  hmann::SearchParams params;
  params.k = 1;
  if (!searcher.Search(query.data(), params, &answer).ok() || answer.nearest.size() != 1) return 1;
  std::printf("nearest %llu at %g\n", static_cast<unsigned long long>(answer.nearest[0].label),
              answer.nearest[0].distance);
  return 0;
}
