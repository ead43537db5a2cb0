// SPDX-License-Identifier: Apache-2.0
// The order of groups and versions.
import { expect, test } from "vitest";
import { apiService } from "../testing/far-api.ts";
import { startTestServer } from "../testing/test-server.ts";
import { localPriority } from "./api-services.ts";
import { RemoteDiscovery } from "./remote-discovery.ts";

test.each([
  { group: "", version: "v1", want: { group: 18_000, version: 1 } },
  { group: "apps", version: "v1", want: { group: 17_800, version: 15 } },
  { group: "autoscaling", version: "v1", want: { group: 17_500, version: 15 } },
  { group: "autoscaling", version: "v2", want: { group: 17_500, version: 30 } },
  { group: "batch", version: "v2", want: { group: 17_400, version: 15 } },
  { group: "unknown.io", version: "v1", want: { group: 16_000, version: 15 } },
])("$group/$version of this server", ({ group, version, want }) => {
  expect(localPriority(group, version, false)).toEqual(want);
});

test("lists groups of custom resources last", () => {
  expect(localPriority("apps", "v1", true)).toEqual({ group: 1000, version: 100 });
});

test("APIServices define the order of group versions and which are remote", async () => {
  const server = await startTestServer();
  const local = {
    ...apiService(),
    metadata: { name: "v1.near.io" },
    spec: { group: "near.io", version: "v1" },
  };
  await server.put("apiregistration.k8s.io/apiservices", apiService(), local);
  const remote = new RemoteDiscovery(server.deps.store);
  const priorityOf = remote.makePriorityLookup();
  expect(priorityOf("far.io", "v1")).toEqual({ group: 2000, version: 15 });
  expect(priorityOf("near.io", "v1")).toEqual({ group: 0, version: 0 });
  expect(priorityOf("new.io", "v1")).toEqual({ group: 1000, version: 100 });
  expect(remote.has("far.io", "v1")).toBe(true);
  expect(remote.has("far.io", "v2")).toBe(false);
  expect(remote.has("near.io", "v1")).toBe(false);
  const documents = { resources: { resources: [] }, openApiUrl: "/u" };
  const far = { group: "far.io", version: "v1", isAvailable: true };
  expect(remote.list()).toEqual([{ ...far, documents: undefined }]);
  remote.cache("v1.far.io", documents);
  await server.put("apiregistration.k8s.io/apiservices", apiService({ available: "False" }));
  expect(remote.list()).toEqual([{ ...far, isAvailable: false, documents }]);
  await server.close();
});
