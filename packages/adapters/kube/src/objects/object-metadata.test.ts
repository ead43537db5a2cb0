// SPDX-License-Identifier: Apache-2.0
import { VIRTUAL_MACHINES, PODS } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { collectionPath, keyOf, objectPath, parseKey, printKey } from "./object-metadata.ts";

const NODES = { group: "", version: "v1", resource: "nodes", kind: "Node", namespaced: false };
const VMS = "/apis/kubevirt.io/v1";

describe("a path", () => {
  test.each([
    { name: "of the core group", path: collectionPath(PODS), want: "/api/v1/pods" },
    {
      name: "with a namespace",
      path: collectionPath(PODS, "ns1"),
      want: "/api/v1/namespaces/ns1/pods",
    },
    {
      name: "of another API group",
      path: collectionPath(VIRTUAL_MACHINES, "ns1"),
      want: `${VMS}/namespaces/ns1/virtualmachines`,
    },
    {
      name: "of a cluster-scoped kind ignores the namespace",
      path: collectionPath(NODES, "ns1"),
      want: "/api/v1/nodes",
    },
    {
      name: "of an object",
      path: objectPath(VIRTUAL_MACHINES, { namespace: "ns1", name: "vm" }),
      want: `${VMS}/namespaces/ns1/virtualmachines/vm`,
    },
    {
      name: "of a subresource",
      path: objectPath(NODES, { name: "n1" }, "status"),
      want: "/api/v1/nodes/n1/status",
    },
    {
      name: "escapes names that would lead to another path",
      path: objectPath(PODS, { namespace: "a/b", name: "../c?d" }),
      want: "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd",
    },
  ])("$name", ({ path, want }) => {
    expect(path).toBe(want);
  });

  test.each([{ name: ".." }, { name: "." }, { name: "a", namespace: ".." }])(
    "rejects %o, which would lead to another object",
    (key) => {
      expect(() => objectPath(PODS, key)).toThrow(/a name cannot be parsed: it may not be "\.+"/);
    },
  );
});

describe("a key", () => {
  test.each([
    { text: "ns1/a", key: { namespace: "ns1", name: "a" } },
    { text: "a", key: { name: "a" } },
  ])("round-trips $text", ({ text, key }) => {
    expect(printKey(key)).toBe(text);
    expect(parseKey(text)).toEqual(key);
    const metadata = { ...key, uid: "uid-1" };
    expect(keyOf({ apiVersion: "v1", kind: "Thing", metadata })).toEqual(key);
  });
});
