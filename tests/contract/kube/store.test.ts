// SPDX-License-Identifier: Apache-2.0
// The client fulfills the store's contract, on our API server over TLS.
import { PODS } from "@patchbay/api";
import type { Store } from "@patchbay/core/interfaces";
import { describeStoreContract } from "@patchbay/kube/testing";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, beforeAll } from "vitest";

let server: TestServer;
let store: Store;

beforeAll(async () => {
  server = await startTestServer();
  ({ store } = await server.client("kubernetes-admin", ["system:masters"]));
});

afterAll(async () => {
  await server.close();
});

describeStoreContract("an API server", () =>
  Promise.resolve({
    store,
    close: async () => {
      const { items } = await store.list(PODS);
      for (const { metadata } of items) {
        await store.delete(PODS, metadata, { gracePeriodSeconds: 0 });
      }
    },
  }),
);
