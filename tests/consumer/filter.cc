// Filtered search: searches the index `argv[1]` with a vector of zeros, for labels that
// our own predicate accepts.
#include <hmann/hmann.h>

#include <cstdio>
#include <vector>

int main(int, char** argv) {
  const auto index = hmann::Index::Open(argv[1]);
  if (!index.ok()) return 1;
  const auto matches = (*index)->Matching([](std::uint64_t label) { return label % 3 == 0; });
  if (!matches.ok()) return 1;
  const std::vector<std::uint8_t> query((*index)->info().dim);
  hmann::Answer answer;
  hmann::Searcher searcher(*index);
  if (!searcher.Search(query.data(), {.k = 5, .matches = &*matches}, &answer).ok()) return 1;
  for (const hmann::Neighbor& near : answer.nearest) {
    std::printf("%llu %g\n", static_cast<unsigned long long>(near.label), near.distance);
    if (near.label % 3 != 0) return 1;
  }
}
