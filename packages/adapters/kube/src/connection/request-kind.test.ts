// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { HttpMethod } from "./http.ts";
import { kindOfRequest } from "./request-kind.ts";

interface Row {
  readonly method: HttpMethod;
  readonly path: string;
  readonly watch?: boolean;
  readonly want: string;
}

const rows: readonly Row[] = [
  { method: "GET", path: "/api/v1/pods", want: "list pods" },
  { method: "GET", path: "/api/v1/pods", watch: true, want: "watch pods" },
  { method: "GET", path: "/api/v1/namespaces/a/pods", want: "list pods" },
  { method: "GET", path: "/api/v1/namespaces/a/pods/b", want: "get pods" },
  { method: "PATCH", path: "/api/v1/namespaces/a/pods/b/status", want: "patch pods/status" },
  { method: "GET", path: "/api/v1/namespaces", want: "list namespaces" },
  { method: "DELETE", path: "/api/v1/namespaces/a", want: "delete namespaces" },
  { method: "PUT", path: "/api/v1/namespaces/a/finalize", want: "update namespaces/finalize" },
  { method: "PUT", path: "/api/v1/namespaces/a/status", want: "update namespaces/status" },
  { method: "GET", path: "/apis/kubevirt.io/v1/kubevirts", want: "list kubevirts" },
  { method: "POST", path: "/apis/x.io/v1/namespaces/a/things", want: "create things" },
  { method: "GET", path: "/apis/x.io/v1/things/b", want: "get things" },
  { method: "PUT", path: "/apis/x.io/v1/namespaces/a/vms/b/start", want: "update vms/start" },
  { method: "GET", path: "/version", want: "get none" },
];

test.each(rows)("$method $path is: $want", ({ method, path, watch, want }) => {
  const query = watch === true ? { watch: "1" } : {};
  const { verb, resource } = kindOfRequest({ method, path, query });
  expect(`${verb} ${resource}`).toBe(want);
});
