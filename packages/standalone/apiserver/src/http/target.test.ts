// SPDX-License-Identifier: Apache-2.0
// What does a path address?
import { expect, test } from "vitest";
import { parseTarget } from "./target.ts";

const none = {
  group: "",
  version: "v1",
  namespace: "",
  resource: "",
  name: "",
  subresource: "",
  isWatch: false,
};

test.each([
  { path: "/api/v1/pods", want: { ...none, resource: "pods" } },
  {
    path: "/api/v1/namespaces/a/pods/b",
    want: { ...none, namespace: "a", resource: "pods", name: "b" },
  },
  { path: "/api/v1/namespaces/a", want: { ...none, resource: "namespaces", name: "a" } },
  {
    path: "/api/v1/namespaces/a/finalize",
    want: { ...none, resource: "namespaces", name: "a", subresource: "finalize" },
  },
  {
    path: "/apis/g.io/v2/namespaces/a/things/b%3Ac/status/",
    want: {
      ...none,
      group: "g.io",
      version: "v2",
      namespace: "a",
      resource: "things",
      name: "b:c",
      subresource: "status",
    },
  },
  {
    path: "/api/v1/watch/namespaces/a/pods/b",
    want: { ...none, namespace: "a", resource: "pods", name: "b", isWatch: true },
  },
  {
    path: "/api/v1/watch/namespaces/a",
    want: { ...none, resource: "namespaces", name: "a", isWatch: true },
  },
  { path: "/api/v1/pods/a%2Fstatus", want: undefined },
  {
    path: "/api/v1/namespaces/a/status",
    want: { ...none, resource: "namespaces", name: "a", subresource: "status" },
  },
  {
    path: "/api/v1/namespaces/a/status/b",
    want: { ...none, namespace: "a", resource: "status", name: "b" },
  },
  {
    path: "/api/v1/namespaces/a/pods/b/c/d",
    want: { ...none, namespace: "a", resource: "pods", name: "b", subresource: "c/d" },
  },
  { path: "/api/v1/namespaces", want: { ...none, resource: "namespaces" } },
  { path: "/api/v1/watch", want: { ...none, resource: "watch" } },
  { path: "/apis/g.io/v1", want: undefined },
  { path: "/apis/g.io/v1/things", want: { ...none, group: "g.io", resource: "things" } },
  { path: "/api/v1", want: undefined },
  { path: "/nope/x/y/z", want: undefined },
  { path: "/api/v1/pods/%zz", want: undefined },
])("$path", ({ path, want }) => {
  expect(parseTarget(path)).toEqual(want);
});
