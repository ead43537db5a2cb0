// SPDX-License-Identifier: Apache-2.0
// The fake of the API server keeps the contract.
import { createFakeStore } from "../fakes/store.ts";
import { describeStoreContract } from "./store.ts";

describeStoreContract("fake", () =>
  Promise.resolve({ store: createFakeStore(), close: () => Promise.resolve() }),
);
