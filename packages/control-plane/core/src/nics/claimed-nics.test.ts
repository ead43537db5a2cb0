// SPDX-License-Identifier: Apache-2.0
// Attachments for devices of resource claims, from the drivers' reports.
import type { Attachment, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import type { Pod, ResourceClaim } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { attachmentStatuses } from "../status/vmi.ts";
import {
  findReportWaitMs,
  listHeldClaims,
  listResourceClaimNames,
  readClaimedNics,
  toClaimedAttachment,
  withClaimSlots,
  withoutUnusedSlots,
} from "./claimed-nics.ts";
import { withNics } from "./nics.ts";

const MAC = "02:00:00:00:00:0a";
const DEVICE = { driver: "nics.example.com", pool: "node1", device: "veth0" };
const NOW_MS = 1_767_225_600_000;

function vmiWith(
  more: { readonly iface?: object; readonly status?: VmiStatus; readonly networks?: object[] } = {},
): VirtualMachineInstance {
  const vmi = aVmi({ nics: [], ...(more.status && { status: more.status }) });
  const networks = [{ name: "blue", resourceClaim: { claimName: "nics", requestName: "nic" } }];
  const spec = withNics(vmi.spec, networks, [{ name: "blue", bridge: {}, ...more.iface }]);
  return { ...vmi, spec: { ...spec, resourceClaims: [TEMPLATED] } };
}

const TEMPLATED = { name: "nics", resourceClaimTemplateName: "nic" };

function podWith({
  resourceClaims = [TEMPLATED],
  resourceClaimStatuses = [{ name: "nics", resourceClaimName: "vm1-nics" }],
  phase = "Running",
  startedAt = "2026-01-01T00:00:00Z",
}: {
  readonly resourceClaims?: NonNullable<Pod["spec"]["resourceClaims"]>;
  readonly resourceClaimStatuses?: { name: string; resourceClaimName?: string }[];
  readonly phase?: NonNullable<Pod["status"]>["phase"];
  readonly startedAt?: string;
} = {}): Pod {
  const container = { name: "compute", image: "i", imageID: "", ready: true, restartCount: 0 };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "virt-launcher-vm1", namespace: "default" },
    spec: { containers: [], resourceClaims },
    status: {
      phase,
      resourceClaimStatuses,
      containerStatuses: [{ ...container, state: { running: { startedAt } } }],
    },
  };
}

function claimWith(status: ResourceClaim["status"], name = "vm1-nics"): ResourceClaim {
  const metadata = { name, namespace: "default" };
  const claim = { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata, spec: {} };
  return status === undefined ? claim : { ...claim, status };
}

const ALLOCATION = { devices: { results: [{ request: "nic", ...DEVICE }] } };
const DATA = { interfaceName: "dra1", hardwareAddress: MAC.toUpperCase(), ips: ["10.9.0.5/24"] };

function reported(networkData: object, request = "nic"): ResourceClaim {
  const allocation = { devices: { results: [{ request, ...DEVICE }] } };
  return claimWith({ allocation, devices: [{ ...DEVICE, networkData }] });
}

function read(
  claim: ResourceClaim | undefined,
  { vmi = vmiWith(), pod = podWith(), afterMs = 60_000 } = {},
) {
  const claims = new Map(claim === undefined ? [] : [[claim.metadata.name, claim]]);
  return readClaimedNics(vmi, pod, { claims, nowMs: NOW_MS + afterMs });
}

describe("a device", () => {
  test.each<{ name: string; claim: ResourceClaim; want: object }>([
    {
      name: "with all data",
      claim: reported(DATA),
      want: { podInterfaceName: "dra1", mac: MAC, ips: ["10.9.0.5"] },
    },
    {
      name: "without MAC and addresses",
      claim: reported({ interfaceName: "dra1" }),
      want: { podInterfaceName: "dra1", ips: [] },
    },
    {
      name: "with invalid MAC and addresses, which are ignored",
      claim: reported({ ...DATA, hardwareAddress: "ff", ips: ["x", "fd00::5/64"] }),
      want: { podInterfaceName: "dra1", ips: ["fd00::5"] },
    },
    {
      name: "of an alternative of the request",
      claim: reported(DATA, "nic/fast"),
      want: { podInterfaceName: "dra1", mac: MAC, ips: ["10.9.0.5"] },
    },
  ])("$name is the NIC", ({ claim, want }) => {
    expect(read(claim).get("blue")).toEqual(want);
  });

  test.each<{
    name: string;
    claim?: ResourceClaim;
    pod?: Pod;
    vmi?: VirtualMachineInstance;
    want: string;
  }>([
    { name: "without a claim", want: "ClaimNotAllocated" },
    { name: "of an unallocated claim", claim: claimWith(undefined), want: "ClaimNotAllocated" },
    { name: "of another request", claim: reported(DATA, "nicer"), want: "ClaimNotAllocated" },
    {
      name: "of a claim that was not created yet",
      pod: podWith({ resourceClaimStatuses: [] }),
      want: "ClaimNotAllocated",
    },
    {
      name: "that no driver has reported",
      claim: claimWith({ allocation: ALLOCATION }),
      want: "DeviceNotReported",
    },
    {
      name: "whose driver reports no interface",
      claim: reported({ hardwareAddress: MAC }),
      want: "DeviceNotReported",
    },
    {
      name: "with an invalid interface",
      claim: reported({ interfaceName: "../eth0" }),
      want: "DeviceNotReported",
    },
    {
      name: "of another pool",
      claim: claimWith({
        allocation: ALLOCATION,
        devices: [{ ...DEVICE, pool: "node2", networkData: DATA }],
      }),
      want: "DeviceNotReported",
    },
    {
      name: "in a launcher without claims",
      claim: reported(DATA),
      pod: podWith({ resourceClaims: [] }),
      want: "ClaimNotHeld",
    },
    {
      name: "that is the pod's own NIC",
      claim: reported({ interfaceName: "eth0" }),
      want: "InterfaceNameTaken",
    },
    {
      name: "with the name of a bridge of Patchbay",
      claim: reported({ interfaceName: "k6t-eth0" }),
      want: "InterfaceNameTaken",
    },
    {
      name: "that another NIC of the VM uses",
      claim: reported(DATA),
      vmi: vmiWith({
        status: { attachments: [{ name: "red", podInterfaceName: "dra1", state: "Attached" }] },
      }),
      want: "InterfaceNameTaken",
    },
    {
      name: "with another MAC than the requested one",
      claim: reported(DATA),
      vmi: vmiWith({ iface: { macAddress: "02:00:00:00:00:0b" } }),
      want: "RequestNotMet",
    },
  ])("$name has reason $want", ({ claim, want, ...sources }) => {
    expect(read(claim, sources).get("blue")).toMatchObject({ reason: want, mayFollow: false });
  });

  test("with the requested MAC is the NIC", () => {
    const vmi = vmiWith({ iface: { macAddress: MAC.replaceAll(":", "-") } });
    expect(read(reported(DATA), { vmi }).get("blue")).toMatchObject({ podInterfaceName: "dra1" });
  });
});

describe("claims are read", () => {
  test.each([
    { name: "by the name in the pod's status", pod: podWith(), want: ["vm1-nics"] },
    {
      name: "by their own name",
      pod: podWith({ resourceClaims: [{ name: "nics", resourceClaimName: "shared" }] }),
      want: ["shared"],
    },
    { name: "only if the pod runs", pod: podWith({ phase: "Pending" }), want: [] },
    { name: "only after they were created", pod: podWith({ resourceClaimStatuses: [] }), want: [] },
  ])("$name", ({ pod, want }) => {
    expect(listResourceClaimNames(vmiWith(), pod)).toEqual(want);
  });

  test.each([
    { name: "attached NIC of a running guest", phase: "Running", want: [] },
    { name: "attached NIC of a guest that starts", phase: "Scheduled", want: ["vm1-nics"] },
  ] as const)("not for an $name: $want", ({ phase, want }) => {
    const attachments: Attachment[] = [
      { name: "blue", podInterfaceName: "dra1", state: "Attached" },
    ];
    expect(listResourceClaimNames(vmiWith({ status: { phase, attachments } }), podWith())).toEqual(
      want,
    );
  });

  test("not for a NIC that is unplugged", () => {
    expect(listResourceClaimNames(vmiWith({ iface: { state: "absent" } }), podWith())).toEqual([]);
  });

  test.each([
    { name: "again when the wait for the driver ends", afterMs: 7000, want: 3000 },
    { name: "not again by time after the wait", afterMs: 10_000, want: undefined },
  ])("$name, and not for a reported device", ({ afterMs, want }) => {
    const wait = (claim?: ResourceClaim) =>
      findReportWaitMs(read(claim, { afterMs }), podWith(), NOW_MS + afterMs);
    expect(wait()).toBe(want);
    expect(wait(reported(DATA))).toBeUndefined();
  });

  test("not again before the pod runs, whose start wakes the VMI", () => {
    const pod = podWith({ phase: "Pending" });
    expect(findReportWaitMs(read(undefined, { pod }), pod, NOW_MS)).toBeUndefined();
  });
});

describe("an attachment", () => {
  const NIC = { podInterfaceName: "dra1", mac: MAC, ips: ["10.9.0.5"] };
  const ATTACHED: Attachment = { name: "blue", ...NIC, ips: [...NIC.ips], state: "Attached" };
  const NOTHING = { elements: [], networkStatus: [], errors: {}, podIps: [] };

  test("has the device's interface, MAC and addresses", () => {
    expect(toClaimedAttachment("blue", NIC)).toEqual(ATTACHED);
  });

  test("stays as it is while the claim is not read", () => {
    expect(toClaimedAttachment("blue", undefined, ATTACHED)).toBe(ATTACHED);
  });

  test.each([
    { mayFollow: true, want: "Requested" },
    { mayFollow: false, want: "Failed" },
  ])("without a device is $want if a report may follow: $mayFollow", ({ mayFollow, want }) => {
    const missing = { reason: "DeviceNotReported", message: "m", mayFollow } as const;
    expect(toClaimedAttachment("blue", missing).state).toBe(want);
  });

  function statusesOf(vmi: VirtualMachineInstance, claim?: ResourceClaim): readonly Attachment[] {
    const claimedNics = read(claim, { vmi });
    return attachmentStatuses({ vmi, bindings: {} }, { ...NOTHING, claimedNics });
  }

  test("is reported when the driver reports its device, and replaces an earlier failure", () => {
    const failed = statusesOf(vmiWith());
    expect(failed).toMatchObject([{ name: "blue", state: "Failed", reason: "ClaimNotAllocated" }]);
    const vmi = vmiWith({ status: { attachments: [...failed] } });
    expect(statusesOf(vmi, reported(DATA))).toEqual([ATTACHED]);
  });

  test("is removed after virt-handler has released the NIC", () => {
    const hotplug = { type: "Unplug", phase: "PodDetaching" } as const;
    const iface = { state: "absent" };
    const inUse = { name: "blue", podInterfaceName: "dra1" };
    const status = { attachments: [ATTACHED], interfaces: [inUse] };
    expect(statusesOf(vmiWith({ iface, status }))).toEqual([ATTACHED]);
    const interfaces = [{ ...inUse, podInterfaceName: "", hotplug }];
    const removing = statusesOf(vmiWith({ iface, status: { ...status, interfaces } }));
    expect(removing).toEqual([{ name: "blue", podInterfaceName: "dra1", state: "Removing" }]);
    expect(
      statusesOf(vmiWith({ iface, status: { attachments: [...removing], interfaces } })),
    ).toEqual([]);
  });
});

describe("held claims", () => {
  const spec = { domain: {}, resourceClaims: [TEMPLATED] };

  test.each([
    { name: "are those of the running VMI", running: [TEMPLATED], want: ["nics"] },
    {
      name: "exclude a claim of another template",
      running: [{ ...TEMPLATED, resourceClaimTemplateName: "x" }],
      want: [],
    },
    { name: "exclude a new claim", running: [], want: [] },
  ])("$name", ({ running, want }) => {
    expect([...listHeldClaims(spec, { domain: {}, resourceClaims: running })]).toEqual(want);
  });
});

describe("slots", () => {
  const SLOTS = { resourceClaimTemplateName: "nic", count: 2 };
  const slot = (number: number) => ({
    name: `network-slot-${String(number)}`,
    resourceClaimTemplateName: "nic",
  });

  test.each([
    { name: "a VM without claims", claims: undefined, want: [slot(1), slot(2)] },
    { name: "a VM with another claim", claims: [TEMPLATED], want: [TEMPLATED, slot(1), slot(2)] },
    { name: "a VM that uses a slot", claims: [slot(1)], want: [slot(1), slot(2), slot(3)] },
  ])("$name gets two more claims", ({ claims, want }) => {
    const spec = { domain: {}, ...(claims && { resourceClaims: claims }) };
    expect(withClaimSlots(spec, SLOTS).resourceClaims).toEqual(want);
  });

  test("that the template does not name are no difference", () => {
    const template = { domain: {}, resourceClaims: [slot(1)] };
    const running = withClaimSlots(template, SLOTS);
    expect(withoutUnusedSlots(running, template)).toEqual(template);
    const plain = { domain: {} };
    expect(withoutUnusedSlots(plain, plain)).toBe(plain);
    expect(withoutUnusedSlots(withClaimSlots(plain, SLOTS), plain)).toEqual(plain);
  });
});
