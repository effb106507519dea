// The figures of ./dev compare.   node --test compare_test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { median, orderOf, repeated, spread, summarize } from "./compare_figures.mjs";

test("medians and spreads", () => {
  assert.equal(median([10, 9, 100]), 10);
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.deepEqual(spread([1, 2, 9, 2, 3]), { median: 2, min: 1, max: 9, mad: 1 });
});

test("in six rounds each stream has each place twice, and follows each other one as often", () => {
  const places = {}, followers = {};
  for (let round = 0; round < 6; ++round) {
    const order = orderOf(round);
    assert.deepEqual([...order].sort(), ["again", "new", "old"]);
    order.forEach((name, place) => { places[`${name} ${place}`] = (places[`${name} ${place}`] ?? 0) + 1; });
    for (const i of [0, 1]) followers[`${order[i]} ${order[i + 1]}`] = (followers[`${order[i]} ${order[i + 1]}`] ?? 0) + 1;
  }
  assert.deepEqual(Object.values(places), Array(9).fill(2));
  assert.deepEqual(Object.values(followers), Array(6).fill(2));
});

test("a ratio is taken within its round, so that a slow round counts for both", () => {
  const { us, ratio, same } = summarize([{ old: 1000, new: 900, again: 909 }, { old: 100, new: 90, again: 81 }, { old: 500, new: 450, again: 450 }]);
  assert.deepEqual(us, { old: 2000, new: 1e6 / 450, again: 1e6 / 450 });
  assert.deepEqual(ratio, { median: 0.9, min: 0.9, max: 0.9, mad: 0 });
  assert.equal(same.median, 1);
  assert.equal(same.min, 0.9);
});

test("a file of queries is repeated row by row", () => {
  const file = Buffer.from([2, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual([...repeated(file, 1, 5)], [5, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3]);
});
