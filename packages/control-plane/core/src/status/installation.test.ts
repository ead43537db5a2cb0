// SPDX-License-Identifier: Apache-2.0
import type { KubeVirt } from "@patchbay/api";
import type { ApiService } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { installationStatus } from "./installation.ts";

const NOW = "2026-01-01T00:00:00Z";

function kubevirt(status?: KubeVirt["status"]): KubeVirt {
  const head = { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", metadata: { name: "kubevirt" } };
  return status === undefined ? head : { ...head, status };
}

function apiService(status: "True" | "False", message = ""): ApiService {
  return {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name: "v1.subresources.kubevirt.io" },
    spec: { group: "subresources.kubevirt.io", version: "v1" },
    status: { conditions: [{ type: "Available", status, message }] },
  };
}

const DEPLOYED = kubevirt({ phase: "Deployed" });

describe("the installation", () => {
  test.each([
    {
      name: "that responds is deployed",
      kubevirt: kubevirt(),
      apiService: apiService("True"),
      want: ["Deployed", "Available True", "Progressing False", "Degraded False", "Created True"],
      says: "virt-api answers",
    },
    {
      name: "that never responded is being deployed",
      kubevirt: kubevirt(),
      apiService: apiService("False", "no endpoints"),
      want: ["Deploying", "Available False", "Progressing True", "Degraded False", "Created True"],
      says: "virt-api does not answer: no endpoints",
    },
    {
      name: "that responded before is degraded",
      kubevirt: DEPLOYED,
      apiService: apiService("False", "refused"),
      want: ["Deployed", "Available False", "Progressing False", "Degraded True", "Created True"],
      says: "virt-api does not answer: refused",
    },
    {
      name: "without virt-api is being deployed",
      kubevirt: kubevirt(),
      apiService: undefined,
      want: ["Deploying", "Available False", "Progressing True", "Degraded False", "Created False"],
      says: "virt-api has no APIService",
    },
  ])("$name", ({ want, says: message, ...known }) => {
    const { phase, conditions = [] } = installationStatus({ ...known, version: "0.1.0" }, NOW);
    expect([phase, ...conditions.map(({ type, status }) => `${type} ${status}`)]).toEqual(want);
    expect(conditions[0]?.message).toContain(message);
  });

  test("reports its version in three fields, with the time", () => {
    const before = { type: "Available", status: "True", lastTransitionTime: "then" } as const;
    const known = { kubevirt: kubevirt({ conditions: [before] }), apiService: apiService("True") };
    const status = installationStatus({ ...known, version: "0.1.0" }, NOW);
    expect(status).toMatchObject({
      observedKubeVirtVersion: "v0.1.0",
      operatorVersion: "v0.1.0",
      targetKubeVirtVersion: "v0.1.0",
    });
    expect(status.conditions?.map(({ lastTransitionTime }) => lastTransitionTime)).toEqual([
      "then",
      NOW,
      NOW,
      NOW,
    ]);
  });

  test("reports the observed configuration generation", () => {
    const { metadata, ...rest } = kubevirt();
    const known = { ...rest, metadata: { ...metadata, generation: 7 } };
    const facts = { kubevirt: known, apiService: apiService("True"), version: "0.1.0" };
    expect(installationStatus(facts, NOW).observedGeneration).toBe(7);
  });
});
