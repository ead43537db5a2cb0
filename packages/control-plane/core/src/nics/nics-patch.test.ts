// SPDX-License-Identifier: Apache-2.0
// Nobody's edit of the lists is lost: what is there must be as it was read; what is not there cannot be tested.
import type { VmiSpec } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { toNicsPatch } from "./spec-plan.ts";

const NETWORKS = [{ name: "a", pod: {} }];
const IFACES = [{ name: "a" }];
const TO = { networks: [], ifaces: [{ name: "b" }] };
const object = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachineInstance",
  metadata: { name: "vm", resourceVersion: "7" },
};
const VERSION = { op: "test", path: "/metadata/resourceVersion", value: "7" };
const TEST_NETWORKS = { op: "test", path: "/spec/networks", value: NETWORKS };
const TEST_IFACES = { op: "test", path: "/spec/domain/devices/interfaces", value: IFACES };

describe("the lists of a specification", () => {
  test.each<{ name: string; spec: VmiSpec; tests: readonly unknown[] }>([
    {
      name: "that has both lists",
      spec: { networks: NETWORKS, domain: { devices: { interfaces: IFACES } } },
      tests: [TEST_NETWORKS, TEST_IFACES],
    },
    {
      name: "that has only ifaces",
      spec: { domain: { devices: { interfaces: IFACES } } },
      tests: [VERSION, TEST_IFACES],
    },
    {
      name: "that has only networks",
      spec: { networks: NETWORKS, domain: { devices: {} } },
      tests: [VERSION, TEST_NETWORKS],
    },
    { name: "that has neither list", spec: { domain: { devices: {} } }, tests: [VERSION] },
  ])("$name", ({ spec, tests }) => {
    expect(toNicsPatch({ object, base: "/spec", spec }, TO)).toEqual([
      ...tests,
      { op: "add", path: "/spec/networks", value: TO.networks },
      { op: "add", path: "/spec/domain/devices/interfaces", value: TO.ifaces },
    ]);
  });

  test("creates missing devices", () => {
    const place = { object, base: "/spec/template/spec", spec: { domain: {} } };
    expect(toNicsPatch(place, TO)).toEqual([
      VERSION,
      { op: "add", path: "/spec/template/spec/networks", value: TO.networks },
      { op: "add", path: "/spec/template/spec/domain/devices", value: { interfaces: TO.ifaces } },
    ]);
  });
});
