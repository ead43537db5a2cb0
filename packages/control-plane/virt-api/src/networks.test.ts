// SPDX-License-Identifier: Apache-2.0
// Permission to use networks in other namespaces.
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import type { User } from "./http/calls.ts";
import { createAccessReview, findForeignNetworkProblem } from "./networks.ts";

const ALICE: User = { name: "alice", groups: ["people"] };

/** The result and the access reviews; the API server answers `may`. */
async function check(networkName: string, may: boolean) {
  const reviews: unknown[] = [];
  const mayReadNetwork = (user: User, nad: object): Promise<boolean> => {
    reviews.push({ user, nad });
    return Promise.resolve(may);
  };
  const reference = { networkName, namespace: "ns" };
  return {
    problem: await findForeignNetworkProblem({ mayReadNetwork }, ALICE, reference),
    reviews,
  };
}

describe("a network", () => {
  test.each(["blue", "ns/blue", "", "a/b/c"])("%j is in the VM's own namespace", async (name) => {
    expect(await check(name, false)).toEqual({ problem: undefined, reviews: [] });
  });

  test("in another namespace is allowed for users who may read it", async () => {
    const reviews = [{ user: ALICE, nad: { namespace: "other", name: "blue" } }];
    expect(await check("other/blue", true)).toEqual({ problem: undefined, reviews });
  });

  test("in another namespace is rejected with the API server's message", async () => {
    expect((await check("other/blue", false)).problem).toBe(
      'network other/blue is of another namespace: User "alice" cannot get resource "network-attachment-definitions" in API group "k8s.cni.cncf.io" in the namespace "other"',
    );
  });
});

test.each([
  { status: { allowed: true }, want: true },
  { status: { allowed: false }, want: false },
  { status: {}, want: false },
  { status: undefined, want: false },
])("the review status $status means $want", async ({ status, want }) => {
  const store = createFakeStore();
  const reviews: unknown[] = [];
  const mayRead = createAccessReview({
    ...store,
    // The response is the review with a status.
    create: (_type, review) => {
      reviews.push(review);
      return Promise.resolve({ ...review, status });
    },
  });
  expect(await mayRead(ALICE, { namespace: "other", name: "blue" })).toBe(want);
  expect(reviews).toEqual([
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      metadata: { name: "" },
      spec: {
        user: "alice",
        groups: ["people"],
        resourceAttributes: {
          verb: "get",
          group: "k8s.cni.cncf.io",
          version: "v1",
          resource: "network-attachment-definitions",
          namespace: "other",
          name: "blue",
        },
      },
    },
  ]);
});
