// SPDX-License-Identifier: Apache-2.0
// The fake of a cache keeps the contract.
import { createFakeCache } from "../fakes/cache.ts";
import { describeCacheContract } from "./cache.ts";

describeCacheContract("fake", (indexes) => {
  const cache = createFakeCache(indexes);
  return {
    cache,
    put: (object) => {
      cache.put(object);
    },
    take: (key) => {
      cache.take(key);
    },
  };
});
