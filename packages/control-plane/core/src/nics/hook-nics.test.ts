// SPDX-License-Identifier: Apache-2.0
// An iface whose NIC its binding's hook makes: it is waited for, nothing is made around it, and it is told.
import { networkConfigOf, type BindingRegistry, type Iface } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { resolveBinding } from "./bindings/resolve-binding.ts";
import { collectIfaceFacts, type IfaceSources, decidePhase } from "./phase.ts";
import { listExpectedWirings, withWired } from "./node-plan.ts";
import { EMPTY_GUEST_VIEW } from "../guest/agent-view.ts";
import { withNics } from "./nics.ts";
import { planNodeVm, type NodeVmFacts } from "../vm/node/node-vm.ts";

const BINDINGS: BindingRegistry = { slirp: { sidecarImage: "example.com/slirp" } };
const NETWORK = { ...networkConfigOf(undefined), bindings: BINDINGS };
const IFACE: Iface = { name: "default", binding: { name: "slirp" } };
const ETH0 = { name: "eth0", kind: "veth", mac: "02:00:00:00:00:01", mtu: 1450, up: true };

type Observed = Partial<Pick<IfaceSources, "links" | "nics" | "isRunning" | "podPolicy">>;

function facts(observed: Observed, iface: Iface = IFACE): NodeVmFacts {
  const { links = [ETH0 as never], nics = [], isRunning = false, podPolicy } = observed;
  const attachments = [{ name: "default", podInterfaceName: "eth0", state: "Attached" as const }];
  const bare = aVmi({ status: { phase: "Scheduled", attachments } });
  const vmi = { ...bare, spec: withNics(bare.spec, [{ name: "default", pod: {} }], [iface]) };
  const sources = {
    vmi,
    links,
    nics,
    guest: EMPTY_GUEST_VIEW,
    bindings: BINDINGS,
    isRunning,
    ...(podPolicy && { podPolicy }),
  };
  const ifaces = withWired(collectIfaceFacts(sources), new Set());
  const domain = {
    family: "q35",
    nics,
    controllers: [],
    pciAddresses: [],
    devices: [],
    vcpus: 1,
    sharesMemory: true,
    agentConnected: false,
    paths: [],
  } as const;
  return {
    vmi,
    ifaces,
    useEmulation: true,
    network: NETWORK,
    uuid: "u",
    unplugRequests: {},
    role: "owner",
    domain: isRunning
      ? { running: true, isPaused: false, crashed: false, facts: domain }
      : undefined,
  };
}

const NIC = {
  alias: "ua-default",
  mac: "02:00:00:00:00:0a",
  linkUp: true,
  model: "virtio",
  queues: 1,
};

function phase(observed: Observed): string | undefined {
  const [iface] = facts(observed).ifaces;
  return iface && decidePhase(iface);
}

test("resolves a plugin with only a sidecar as binding hook", () => {
  expect(resolveBinding(IFACE, { name: "default", pod: {} }, BINDINGS)).toEqual({
    kind: "hook",
    hasHook: true,
  });
});

test("rejects link state down, which only the hook could set", () => {
  const down = resolveBinding({ ...IFACE, state: "down" }, { name: "default", pod: {} }, BINDINGS);
  expect(down).toMatchObject({ kind: "refused", field: "state" });
});

test("the domain is defined without the NIC, and nothing is wired", () => {
  const plan = planNodeVm(facts({}));
  expect(plan.map(({ kind }) => kind)).toEqual(["defineDomain", "startDomain"]);
  expect(JSON.stringify(plan)).not.toContain("<interface");
  expect(listExpectedWirings(facts({}).ifaces)).toEqual([]);
});

describe("a running guest needs no action", () => {
  test.each([
    { name: "for a passt NIC that libvirt knows", nics: [NIC] },
    { name: "for a slirp NIC that only QEMU knows", nics: [] },
  ])("$name", ({ nics }) => {
    expect(phase({ nics, isRunning: true })).toBe("Ready");
    expect(planNodeVm(facts({ nics, isRunning: true }))).toEqual([]);
  });

  test("before its start the iface is attaching", () => {
    expect(phase({})).toBe("Attaching");
  });
});

test("waits while a network policy selects the pod, because its frames cannot be filtered", () => {
  const [action] = planNodeVm(facts({ podPolicy: { ingress: [] } }));
  expect(action).toEqual({ kind: "wait", iface: "default", reason: "PolicyNotEnforced" });
});
