// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { StoredObject } from "../storage/store.ts";
import type { AccessAttributes, Authorizer } from "./authorizer.ts";
import { withNodeAuthorizer } from "./node-authorizer.ts";
import type { User } from "./user.ts";

const NODE: User = { name: "system:node:n1", groups: ["system:nodes", "system:authenticated"] };
const NOBODY: Authorizer = {
  authorize: () => ({ allowed: false, reason: "RBAC says no" }),
  listUserRules: () => ({ rules: [], errors: [] }),
  listRoleRules: () => undefined,
};

const SPEC = {
  nodeName: "n1",
  serviceAccountName: "runner",
  imagePullSecrets: [{ name: "pull" }],
  volumes: [
    { name: "a", configMap: { name: "by-volume" } },
    { name: "b", secret: { secretName: "by-volume" } },
    { name: "d", persistentVolumeClaim: { claimName: "data" } },
    {
      name: "c",
      projected: {
        sources: [{ configMap: { name: "projected" } }, { secret: { name: "projected" } }],
      },
    },
  ],
  containers: [
    {
      name: "main",
      env: [
        { name: "A", valueFrom: { configMapKeyRef: { name: "by-env", key: "k" } } },
        { name: "B", valueFrom: { secretKeyRef: { name: "by-env", key: "k" } } },
      ],
      envFrom: [{ configMapRef: { name: "whole" } }, { secretRef: { name: "whole" } }],
    },
  ],
};
const FOREIGN = {
  nodeName: "n2",
  serviceAccountName: "foreign",
  volumes: [
    { name: "a", secret: { secretName: "foreign" } },
    { name: "d", persistentVolumeClaim: { claimName: "foreign" } },
  ],
};

function stored(spec: unknown): StoredObject {
  // Of a stored object only its view is looked at here.
  return { view: () => ({ metadata: { name: "p" }, spec }) } as unknown as StoredObject;
}

/** Volumes by name, each of the claim of that name, but one that nobody has. */
const VOLUMES: Readonly<Record<string, unknown>> = {
  "pv-data": { claimRef: { namespace: "ns", name: "data" } },
  "pv-foreign": { claimRef: { namespace: "ns", name: "foreign" } },
  "pv-free": {},
};
const PODS: Readonly<Record<string, readonly unknown[]>> = {
  ns: [SPEC, FOREIGN],
  empty: [{ nodeName: "n1", containers: [] }],
};
const store = {
  find: ({ bucket, name }: { readonly bucket: string; readonly name: string }) =>
    bucket === "/persistentvolumes" ? stored(VOLUMES[name]) : undefined,
  list: ({ bucket, namespace = "" }: { readonly bucket: string; readonly namespace?: string }) =>
    bucket === "/pods" ? (PODS[namespace] ?? []).map(stored) : [],
};
const { authorize } = withNodeAuthorizer(NOBODY, store);

/** `verb resource[/subresource] [name]`, in `ns`. */
function may(asked: string, user: User = NODE, namespace = "ns"): boolean {
  const [verb = "", whole = "", name = ""] = asked.split(" ");
  const [resource = "", subresource = ""] = whole.split("/");
  const kind = { group: "", version: "v1", path: "" };
  const attributes: AccessAttributes = { ...kind, verb, resource, subresource, namespace, name };
  return authorize(user, attributes).allowed;
}

describe("a node may, for its own pods,", () => {
  test.each([
    "get configmaps by-volume",
    "list configmaps projected",
    "watch configmaps by-env",
    "get configmaps whole",
    "get secrets by-volume",
    "watch secrets projected",
    "get secrets by-env",
    "get secrets whole",
    "get secrets pull",
    "create serviceaccounts/token runner",
    "get persistentvolumeclaims data",
  ])("%s", (asked) => {
    expect(may(asked)).toBe(true);
  });

  test("read the volume of their claims", () => {
    expect(may("get persistentvolumes pv-data", NODE, "")).toBe(true);
  });
});

describe("metadata of all objects of a kind in a namespace", () => {
  const mayRead = (asked: string, namespace = "ns", isMetadataOnly = true): boolean => {
    const [verb = "", resource = ""] = asked.split(" ");
    const attributes = { group: "", version: "v1", path: "", subresource: "", name: "" };
    return authorize(NODE, { ...attributes, verb, resource, namespace, isMetadataOnly }).allowed;
  };

  test.each(["list secrets", "watch secrets", "list configmaps", "watch configmaps"])(
    "may be read by a node whose pods refer to one of them: %s",
    (asked) => {
      expect(mayRead(asked)).toBe(true);
      expect(mayRead(asked, "ns", false)).toBe(false);
    },
  );

  test.each([
    ["list secrets", "other"],
    ["list secrets", ""],
    ["watch secrets", "empty"],
    ["deletecollection secrets", "ns"],
    ["list persistentvolumeclaims", "ns"],
    ["create serviceaccounts", "ns"],
  ])("may not be read otherwise: %s in %j", (asked, namespace) => {
    expect(mayRead(asked, namespace)).toBe(false);
  });
});

describe("a node may not", () => {
  test.each([
    "list secrets",
    "watch configmaps",
    "get secrets other",
    "get secrets foreign",
    "update secrets by-volume",
    "get configmaps/status by-volume",
    "create serviceaccounts/token foreign",
    "get serviceaccounts runner",
    "get pods p",
    "list persistentvolumeclaims data",
    "get persistentvolumeclaims foreign",
    "patch persistentvolumeclaims data",
  ])("%s", (asked) => {
    expect(may(asked)).toBe(false);
  });

  test.each([
    "list persistentvolumes",
    "get persistentvolumes pv-foreign",
    "get persistentvolumes pv-free",
    "get persistentvolumes none",
    "delete persistentvolumes pv-data",
    "patch persistentvolumes/status pv-data",
  ])("%s, which has no namespace", (asked) => {
    expect(may(asked, NODE, "")).toBe(false);
  });

  test("read in other namespaces, and other users do not get these permissions", () => {
    expect(may("get secrets by-volume", NODE, "other")).toBe(false);
    expect(may("get secrets by-volume", NODE, "")).toBe(false);
    expect(may("get secrets by-volume", { ...NODE, groups: [] })).toBe(false);
    expect(may("get secrets by-volume", { ...NODE, name: "jane" })).toBe(false);
  });
});

test("retains grants by roles, and the denial reason of the roles", () => {
  const attributes = { group: "", version: "v1", path: "", subresource: "", namespace: "ns" };
  const asked = { ...attributes, verb: "get", resource: "secrets", name: "x" };
  expect(authorize(NODE, asked)).toEqual({ allowed: false, reason: "RBAC says no" });
  const everything = { ...NOBODY, authorize: () => ({ allowed: true, reason: "RBAC" }) };
  expect(withNodeAuthorizer(everything, store).authorize(NODE, asked)).toEqual({
    allowed: true,
    reason: "RBAC",
  });
});
