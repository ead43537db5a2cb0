// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import type { Kind } from "../kinds/kind.ts";
import { aggregatedVersion, toDiscoveryList, toRemoteResources } from "./documents.ts";

describe("the accepted discovery version", () => {
  test.each([
    { accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", want: "v2" },
    {
      accept:
        "application/json, application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2beta1 ,text/plain",
      want: "v2beta1",
    },
    {
      accept:
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
      want: "v2beta1",
    },
    { accept: "", want: undefined },
    { accept: "application/json;g=apidiscovery.k8s.io;v=v2", want: undefined },
    { accept: "application/json;g=other.io;v=v2;as=APIGroupDiscoveryList", want: undefined },
    {
      accept: "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList",
      want: undefined,
    },
    {
      accept: "application/json;g=apidiscovery.k8s.io;v=v22;as=APIGroupDiscoveryList",
      want: undefined,
    },
    { accept: "application/json;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList", want: undefined },
  ])("is $want for $accept", ({ accept, want }) => {
    expect(aggregatedVersion(accept)).toBe(want);
  });
});

describe("the list of groups", () => {
  const plain: Kind = {
    ...CONFIG_MAP,
    group: "a.io",
    resource: "plains",
    kind: "Plain",
    singular: "plain",
    verbs: ["get"],
    shortNames: [],
    categories: [],
    subresources: [],
  };
  const rich: Kind = {
    ...plain,
    version: "v2",
    resource: "riches",
    kind: "Rich",
    singular: "rich",
    namespaced: false,
    shortNames: ["ri"],
    categories: ["all"],
    subresources: [
      { name: "status", verbs: ["get", "update"] },
      { name: "scale", verbs: ["get"], group: "autoscaling", version: "v1", kind: "Scale" },
    ],
  };
  const core: Kind = { ...plain, group: "", resource: "cores", kind: "Core", singular: "core" };
  const kinds = [plain, rich, core];
  const remote = (version: string, change: object) => ({
    group: "far.io",
    version,
    isAvailable: true,
    documents: {
      resources: { resources: [{ name: "fars", kind: "Far", singularName: "far", verbs: [] }] },
      openApiUrl: "",
    },
    ...change,
  });
  const fars = {
    resource: "fars",
    responseKind: { group: "far.io", version: "v1", kind: "Far" },
    scope: "Cluster",
    singularResource: "far",
    verbs: [],
  };

  test("contains the core group's versions", () => {
    const served = { kinds, groups: [{ name: "a.io", versions: ["v1"] }], remote: [] };
    expect(toDiscoveryList(served, { root: "/api", version: "v2" })).toEqual({
      kind: "APIGroupDiscoveryList",
      apiVersion: "apidiscovery.k8s.io/v2",
      metadata: {},
      items: [
        {
          metadata: {},
          versions: [
            {
              version: "v1",
              freshness: "Current",
              resources: [
                {
                  resource: "cores",
                  responseKind: { group: "", version: "v1", kind: "Core" },
                  scope: "Namespaced",
                  singularResource: "core",
                  verbs: ["get"],
                },
              ],
            },
          ],
        },
      ],
    });
  });

  test("contains the kinds of each version of other groups, with names and subresources", () => {
    const served = { kinds, groups: [{ name: "a.io", versions: ["v2", "v1"] }], remote: [] };
    expect(toDiscoveryList(served, { root: "/apis", version: "v2beta1" })).toEqual({
      kind: "APIGroupDiscoveryList",
      apiVersion: "apidiscovery.k8s.io/v2beta1",
      metadata: {},
      items: [
        {
          metadata: { name: "a.io" },
          versions: [
            {
              version: "v2",
              freshness: "Current",
              resources: [
                {
                  resource: "riches",
                  responseKind: { group: "a.io", version: "v2", kind: "Rich" },
                  scope: "Cluster",
                  singularResource: "rich",
                  verbs: ["get"],
                  shortNames: ["ri"],
                  categories: ["all"],
                  subresources: [
                    {
                      subresource: "status",
                      responseKind: { group: "a.io", version: "v2", kind: "Rich" },
                      verbs: ["get", "update"],
                    },
                    {
                      subresource: "scale",
                      responseKind: { group: "autoscaling", version: "v1", kind: "Scale" },
                      verbs: ["get"],
                    },
                  ],
                },
              ],
            },
            {
              version: "v1",
              freshness: "Current",
              resources: [
                {
                  resource: "plains",
                  responseKind: { group: "a.io", version: "v1", kind: "Plain" },
                  scope: "Namespaced",
                  singularResource: "plain",
                  verbs: ["get"],
                },
              ],
            },
          ],
        },
      ],
    });
  });

  test.each([
    { name: "is current while it answers", change: {}, resources: [fars], freshness: "Current" },
    {
      name: "is stale if the server is unreachable",
      change: { isAvailable: false },
      resources: [fars],
      freshness: "Stale",
    },
    {
      name: "is empty and stale before its first answer",
      change: { documents: undefined },
      resources: [],
      freshness: "Stale",
    },
  ])("of another server $name", ({ change, resources, freshness }) => {
    const served = {
      kinds: [{ ...plain, group: "far.io" }],
      groups: [{ name: "far.io", versions: ["v1"] }],
      remote: [
        remote("v2", { documents: undefined }),
        remote("v1", { group: "other.io", documents: undefined }),
        remote("v1", change),
      ],
    };
    expect(toDiscoveryList(served, { root: "/apis", version: "v2" })["items"]).toEqual([
      { metadata: { name: "far.io" }, versions: [{ version: "v1", resources, freshness }] },
    ]);
  });
});

test("lists subresources below their resource, and adds a resource without verbs if missing", () => {
  const list = {
    resources: [
      {
        name: "things",
        singularName: "thing",
        namespaced: true,
        kind: "Thing",
        verbs: ["get"],
        shortNames: ["th"],
      },
      { name: "things/scale", kind: "Scale", group: "autoscaling", version: "v1", verbs: ["get"] },
      { name: "machines/start", namespaced: true, kind: "Machine", verbs: ["update"] },
    ],
  };
  expect(toRemoteResources(list, "g", "v1")).toEqual([
    {
      resource: "things",
      responseKind: { group: "g", version: "v1", kind: "Thing" },
      scope: "Namespaced",
      singularResource: "thing",
      verbs: ["get"],
      shortNames: ["th"],
      subresources: [
        {
          subresource: "scale",
          responseKind: { group: "autoscaling", version: "v1", kind: "Scale" },
          verbs: ["get"],
        },
      ],
    },
    {
      resource: "machines",
      responseKind: {},
      scope: "Namespaced",
      singularResource: "",
      verbs: [],
      subresources: [
        {
          subresource: "start",
          responseKind: { group: "g", version: "v1", kind: "Machine" },
          verbs: ["update"],
        },
      ],
    },
  ]);
});

test("a server that sends no document has no resources", () => {
  expect(toRemoteResources(undefined, "g", "v1")).toEqual([]);
});
