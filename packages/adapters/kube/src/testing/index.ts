// SPDX-License-Identifier: Apache-2.0
// The second door: fakes of what this package does, and the suites that they pass as it does.
export { noteCalls } from "./calls.ts";
export { describeCacheContract } from "./contracts/cache.ts";
export { describeStoreContract } from "./contracts/store.ts";
export { copyJson } from "./copy-json.ts";
export { createFakeCache, type FakeCache } from "./fakes/cache.ts";
export { createFakeStore, type FakeStore } from "./fakes/store.ts";
