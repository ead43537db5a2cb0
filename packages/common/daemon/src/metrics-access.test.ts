// SPDX-License-Identifier: Apache-2.0
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createAccessCheck } from "./metrics-access.ts";

const BEARER = { username: "prometheus", groups: ["monitoring"], uid: "7" };

/** An API server that answers reviews so, and what it was asked. */
function answering(tokenStatus: object, accessStatus: object) {
  const reviews: KubeObject[] = [];
  const create: Store["create"] = (type, object) => {
    reviews.push(object);
    const status = type.resource === "tokenreviews" ? tokenStatus : accessStatus;
    return Promise.resolve({ ...object, status });
  };
  return { store: { ...createFakeStore(), create }, reviews };
}

test.each([
  { token: { authenticated: true, user: BEARER }, access: { allowed: true }, want: "granted" },
  { token: { authenticated: true, user: BEARER }, access: { allowed: false }, want: "forbidden" },
  { token: { authenticated: true, user: BEARER }, access: {}, want: "forbidden" },
  { token: { authenticated: true }, access: { allowed: true }, want: "unknown" },
  { token: { error: "expired" }, access: { allowed: true }, want: "unknown" },
])(
  "a token with review $token and access review $access is $want",
  async ({ token, access, want }) => {
    const { store } = answering(token, access);
    expect(await createAccessCheck(store, createFakeClock())("t")).toBe(want);
  },
);

test("requests the bearer's access by the identity that the API server returns", async () => {
  const { store, reviews } = answering({ authenticated: true, user: BEARER }, { allowed: true });
  await createAccessCheck(store, createFakeClock())("t");
  expect(reviews).toMatchObject([
    { kind: "TokenReview", spec: { token: "t" } },
    {
      kind: "SubjectAccessReview",
      spec: {
        user: "prometheus",
        groups: ["monitoring"],
        uid: "7",
        nonResourceAttributes: { path: "/metrics", verb: "get" },
      },
    },
  ]);
});

test("caches a verdict for a minute, for its token only", async () => {
  const { store, reviews } = answering({ authenticated: true, user: BEARER }, { allowed: true });
  const clock = createFakeClock();
  const checkAccess = createAccessCheck(store, clock);
  await checkAccess("t");
  await clock.advance(59_000);
  await checkAccess("t");
  expect(reviews).toHaveLength(2);
  await checkAccess("u");
  expect(reviews).toHaveLength(4);
  await clock.advance(2_000);
  await checkAccess("t");
  expect(reviews).toHaveLength(6);
});

test("limits the number of cached verdicts", async () => {
  const { store, reviews } = answering({ error: "unknown" }, {});
  const checkAccess = createAccessCheck(store, createFakeClock());
  for (let index = 0; index < 65; index += 1) await checkAccess(String(index));
  await checkAccess("64");
  expect(reviews).toHaveLength(65);
  await checkAccess("0");
  expect(reviews).toHaveLength(66);
});
