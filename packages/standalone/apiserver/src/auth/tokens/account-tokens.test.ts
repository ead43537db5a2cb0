// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { KubeObject } from "../../objects/object.ts";
import {
  type BoundObject,
  type ObjectLookup,
  toClaims,
  findUserByClaims,
} from "./account-tokens.ts";

const NOW = 1_000_000;
const POD: BoundObject = { kind: "Pod", name: "p", uid: "pod-1" };

function anObject(name: string, uid: string): KubeObject {
  return { apiVersion: "v1", kind: "X", metadata: { name, namespace: "ns", uid } };
}

/** A store with objects by `<bucket>/<namespace>/<name>`. */
function storeOf(objects: Readonly<Record<string, string>>): ObjectLookup {
  return {
    find: ({ bucket, namespace, name }) => {
      const uid = objects[`${bucket}/${namespace}/${name}`];
      return uid === undefined ? undefined : { view: () => anObject(name, uid) };
    },
  };
}

const LIVE = { "/serviceaccounts/ns/sa": "sa-1", "/pods/ns/p": "pod-1" };
const SA = {
  name: "system:serviceaccount:ns:sa",
  uid: "sa-1",
  groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
};

const ROWS = [
  { name: "is valid during its lifetime", after: 0, bound: undefined, objects: LIVE, want: SA },
  { name: "is good to its last second", after: 599, bound: undefined, objects: LIVE, want: SA },
  {
    name: "ends",
    after: 600,
    bound: undefined,
    objects: LIVE,
    want: "service account token has expired",
  },
  {
    name: "is not valid before its issue time",
    after: -1,
    bound: undefined,
    objects: LIVE,
    want: "service account token is not valid yet",
  },
  {
    name: "expires with its service account",
    after: 1,
    bound: undefined,
    objects: {},
    want: "service account ns/sa has been deleted",
  },
  {
    name: "is not good for another account of that name",
    after: 1,
    bound: undefined,
    objects: { "/serviceaccounts/ns/sa": "sa-2" },
    want: "service account UID (sa-2) does not match claim (sa-1)",
  },
  {
    name: "contains its pod's name",
    after: 1,
    bound: POD,
    objects: LIVE,
    want: {
      ...SA,
      extra: {
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": ["pod-1"],
      },
    },
  },
  {
    name: "expires with its pod",
    after: 1,
    bound: POD,
    objects: { "/serviceaccounts/ns/sa": "sa-1" },
    want: "service account token has been invalidated",
  },
  {
    name: "is not good for another pod of that name",
    after: 1,
    bound: POD,
    objects: { ...LIVE, "/pods/ns/p": "pod-2" },
    want: "service account token has been invalidated",
  },
];

test.each(ROWS)("a token $name", ({ after, bound, objects, want }) => {
  const account = anObject("sa", "sa-1");
  const claims = toClaims(
    { account, audiences: ["a"], expiresInSeconds: 600, boundObject: bound },
    NOW,
  );
  const given = { token: "t", claims, nowSeconds: NOW + after };
  expect(findUserByClaims(given, storeOf(objects))).toEqual(want);
});
