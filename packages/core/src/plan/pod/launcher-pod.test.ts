// SPDX-License-Identifier: Apache-2.0
import { networkConfigOf } from "@patchbay/api";
import { aVmi } from "@patchbay/testing";
import { expect, test } from "vitest";
import { planVmi } from "../vm/vmi.ts";

function resourcesWith(pcieRootPorts: number): unknown {
  const vmi = aVmi({ nics: [], status: { phase: "Pending" } });
  const devices = { ...vmi.spec.domain.devices, pcieRootPorts };
  const memory = { guest: "128Mi" };
  const facts = {
    vmi: { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, memory, devices } } },
    pod: undefined,
    settings: { image: "launcher", useEmulation: true },
    network: networkConfigOf(undefined),
  };
  const pods = planVmi(facts, () => "0".repeat(64)).flatMap((action) =>
    action.kind === "createPod" ? [action.pod] : [],
  );
  const { requests, limits } = pods[0]?.spec.containers[0]?.resources ?? {};
  return { request: requests?.["memory"], limit: limits?.["memory"] };
}

// The channel of the guest's agent has a port too.
test.each([
  { ports: 0, limit: "386Mi" },
  { ports: 32, limit: "450Mi" },
  { ports: 128, limit: "642Mi" },
])("a launcher with $ports ports may take $limit while they are set up", ({ ports, limit }) => {
  expect(resourcesWith(ports)).toEqual({ request: "384Mi", limit });
});
