// SPDX-License-Identifier: Apache-2.0
// Objects of an aggregated API: `far.io/v1`, served by Service `far`.
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { TestServer } from "./test-server.ts";

export const BUCKET = "apiregistration.k8s.io/apiservices";
export const NAME = "v1.far.io";

export function apiService(
  change: { readonly spec?: Fields; readonly available?: string } = {},
): KubeObject {
  const { available = "True" } = change;
  return {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name: NAME, uid: "uid-far" },
    spec: {
      group: "far.io",
      version: "v1",
      service: { namespace: "default", name: "far" },
      caBundle: Buffer.from("CA").toString("base64"),
      groupPriorityMinimum: 2000,
      versionPriority: 15,
      ...change.spec,
    },
    status: {
      conditions: [
        { type: "Available", status: available, lastTransitionTime: "2026-01-01T00:00:00Z" },
      ],
    },
  };
}

export function service(spec: Fields = { ports: [{ name: "https", port: 443 }] }): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "far", namespace: "default", uid: "s" },
    spec,
  };
}

export function endpoints(...subsets: readonly Fields[]): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Endpoints",
    metadata: { name: "far", namespace: "default", uid: "e" },
    subsets,
  };
}

export const SUBSET = {
  addresses: [{ ip: "10.0.0.1" }, { ip: "10.0.0.2" }],
  ports: [{ name: "https", port: 8443 }],
};

export async function putBackend(server: TestServer): Promise<void> {
  await server.put("services", service());
  await server.put(
    "endpoints",
    endpoints({ addresses: [{ ip: "9.9.9.9" }], ports: [{ name: "x", port: 1 }] }, SUBSET),
  );
}
