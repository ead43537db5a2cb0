// SPDX-License-Identifier: Apache-2.0
// Fakes of this package's ports, and the contract suites that fakes and adapters pass.
export { noteCalls } from "./calls.ts";
export { describeCacheContract } from "./contracts/cache.ts";
export { describeStoreContract } from "./contracts/store.ts";
export { copyJson } from "./copy-json.ts";
export { createFakeCache, type FakeCache } from "./fakes/cache.ts";
export { createFakeStore, type FakeStore } from "./fakes/store.ts";
