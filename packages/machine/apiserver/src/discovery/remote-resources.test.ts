// SPDX-License-Identifier: Apache-2.0
// How are another server's resources shown in one piece?
import { expect, test } from "vitest";
import { toRemoteResources } from "./remote-resources.ts";

test("subresources go below their resource, and one without a resource gets one that can do nothing", () => {
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

test("a server that says nothing has no resources", () => {
  expect(toRemoteResources(undefined, "g", "v1")).toEqual([]);
});
