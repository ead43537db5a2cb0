// SPDX-License-Identifier: Apache-2.0
// Who may use a network of another namespace?
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import type { User } from "./callers.ts";
import { createAccessReview, findForeignNetworkProblem } from "./networks.ts";

const ALICE: User = { name: "alice", groups: ["people"] };

/** The question, and what was asked of the API server, which answers `may`. */
async function ask(networkName: string, may: boolean) {
  const asked: unknown[] = [];
  const mayReadNetwork = (user: User, nad: object): Promise<boolean> => {
    asked.push({ user, nad });
    return Promise.resolve(may);
  };
  const question = { networkName, namespace: "ns" };
  return { problem: await findForeignNetworkProblem({ mayReadNetwork }, ALICE, question), asked };
}

describe("a network", () => {
  test.each(["blue", "ns/blue", "", "a/b/c"])("%j is nobody else's", async (name) => {
    expect(await ask(name, false)).toEqual({ problem: undefined, asked: [] });
  });

  test("of another namespace is open to whoever may read it", async () => {
    const asked = [{ user: ALICE, nad: { namespace: "other", name: "blue" } }];
    expect(await ask("other/blue", true)).toEqual({ problem: undefined, asked });
  });

  test("of another namespace is refused in the words of the API server", async () => {
    expect((await ask("other/blue", false)).problem).toBe(
      'network other/blue is of another namespace: User "alice" cannot get resource "network-attachment-definitions" in API group "k8s.cni.cncf.io" in the namespace "other"',
    );
  });
});

test.each([
  { status: { allowed: true }, want: true },
  { status: { allowed: false }, want: false },
  { status: {}, want: false },
  { status: undefined, want: false },
])("the API server's answer $status means $want", async ({ status, want }) => {
  const store = createFakeStore();
  const reviews: unknown[] = [];
  const mayRead = createAccessReview({
    ...store,
    // The answer is the question with a status.
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
