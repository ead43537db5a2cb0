// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { toAccessAttributes } from "./request-attributes.ts";

const NONE = { group: "", version: "", resource: "", subresource: "", namespace: "", name: "" };
const CORE = { ...NONE, version: "v1", path: "" };
const PODS = { ...CORE, resource: "pods", namespace: "a" };

const ROWS = [
  { given: "GET /version", want: { ...NONE, verb: "get", path: "/version" } },
  { given: "POST /api/v1", want: { ...NONE, verb: "post", path: "/api/v1" } },
  { given: "GET /apis/g/v1", want: { ...NONE, verb: "get", path: "/apis/g/v1" } },
  { given: "GET /apis/v1", want: { ...NONE, verb: "get", path: "/apis/v1" } },
  { given: "GET /other/v1/pods/p", want: { ...NONE, verb: "get", path: "/other/v1/pods/p" } },
  { given: "GET /other", want: { ...NONE, verb: "get", path: "/other" } },
  { given: "HEAD /api/v1/pods/p", want: { ...PODS, namespace: "", name: "p", verb: "get" } },
  { given: "HEAD /api/v1/pods", want: { ...PODS, namespace: "", verb: "list" } },
  { given: "GET /api/v1/pods//", want: { ...PODS, namespace: "", verb: "list" } },
  { given: "GET /api/v1/pods/%zz", want: { ...PODS, namespace: "", name: "%zz", verb: "get" } },
  { given: "GET /api/v1/watch", want: { ...CORE, resource: "watch", verb: "list" } },
  { given: "GET /api/v1/namespaces", want: { ...CORE, resource: "namespaces", verb: "list" } },
  {
    given: "GET /api/v1/namespaces/a/status",
    want: {
      ...CORE,
      resource: "namespaces",
      namespace: "a",
      name: "a",
      subresource: "status",
      verb: "get",
    },
  },
  { given: "POST /api/v1/watch/pods", want: { ...PODS, namespace: "", verb: "create" } },
  { given: "GET /api/v1/namespaces/a/pods?watch", want: { ...PODS, verb: "watch" } },
  { given: "GET /api/v1/namespaces/a/pods?watch=FALSE", want: { ...PODS, verb: "list" } },
  { given: "GET /api/v1/namespaces/a/pods?watch=falsely", want: { ...PODS, verb: "watch" } },
  { given: "GET /api/v1/namespaces/a/pods?watch=10", want: { ...PODS, verb: "watch" } },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name=..",
    want: { ...PODS, verb: "list" },
  },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=xmetadata.name=p",
    want: { ...PODS, verb: "list" },
  },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name=,metadata.name=p",
    want: { ...PODS, name: "p", verb: "list" },
  },
  { given: "GET /api/v1/pods", want: { ...PODS, namespace: "", verb: "list" } },
  { given: "GET /api/v1/namespaces/a/pods", want: { ...PODS, verb: "list" } },
  { given: "GET /api/v1/namespaces/a/pods?watch=1", want: { ...PODS, verb: "watch" } },
  { given: "GET /api/v1/watch/namespaces/a/pods", want: { ...PODS, verb: "watch" } },
  {
    given: "GET /api/v1/watch/namespaces/a/pods/p/status",
    want: { ...PODS, name: "p", verb: "watch" },
  },
  {
    given: "DELETE /api/v1/watch/namespaces/a/pods/p",
    want: { ...PODS, name: "p", verb: "delete" },
  },
  { given: "GET /api/v1/namespaces/a/pods?watch=yes", want: { ...PODS, verb: "watch" } },
  { given: "GET /api/v1/namespaces/a/pods?watch=0", want: { ...PODS, verb: "list" } },
  { given: "GET /api/v1/namespaces/a/pods/p?watch=1", want: { ...PODS, name: "p", verb: "get" } },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name=p",
    want: { ...PODS, name: "p", verb: "list" },
  },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=x%3Dy%2Cmetadata.name%3D%3Dp",
    want: { ...PODS, name: "p", verb: "list" },
  },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name!=p",
    want: { ...PODS, verb: "list" },
  },
  {
    given: "GET /api/v1/namespaces/a/pods?fieldSelector=x!=y\\,metadata.name=p",
    want: { ...PODS, verb: "list" },
  },
  { given: "DELETE /api/v1/namespaces/a/pods", want: { ...PODS, verb: "deletecollection" } },
  { given: "DELETE /api/v1/namespaces/a/pods/p", want: { ...PODS, name: "p", verb: "delete" } },
  { given: "POST /api/v1/namespaces/a/pods", want: { ...PODS, verb: "create" } },
  {
    given: "PATCH /api/v1/namespaces/a/pods/p/status",
    want: { ...PODS, name: "p", subresource: "status", verb: "patch" },
  },
  {
    given: "GET /api/v1/namespaces/a",
    want: { ...CORE, resource: "namespaces", namespace: "a", name: "a", verb: "get" },
  },
  {
    given: "PUT /api/v1/namespaces/a/finalize",
    want: {
      ...CORE,
      resource: "namespaces",
      namespace: "a",
      name: "a",
      subresource: "finalize",
      verb: "update",
    },
  },
  {
    given: "GET /apis/g/v2/namespaces/a/widgets/w%2Fx",
    want: { ...PODS, group: "g", version: "v2", resource: "widgets", name: "w/x", verb: "get" },
  },
];

test.each(ROWS)("$given", ({ given, want }) => {
  const [method = "", target = ""] = given.split(" ");
  const { pathname, searchParams } = new URL(target, "https://localhost");
  expect(toAccessAttributes({ method, path: pathname, query: searchParams })).toEqual(want);
});
