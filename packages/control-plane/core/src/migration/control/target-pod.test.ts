// SPDX-License-Identifier: Apache-2.0
// The target's pod has room for all that the guest has: its ports are its own, which it brings along, also where none is free.
import { networkConfigOf, type VirtualMachineInstance } from "@patchbay/api";
import type { Container, ContainerStatus, Pod } from "@patchbay/api/kubernetes";
import { aVmi, aPod } from "@patchbay/support";
import { expect, test } from "vitest";
import { readPodNetworkElements } from "../../vm/vmi.ts";
import { aGuestFacts, aMigration } from "../../testing/migration-facts.ts";
import { buildTargetPod, withSourceImages } from "./target-pod.ts";

interface Guest {
  readonly ports: { readonly total: number; readonly free: number };
  readonly model?: string;
  readonly machine?: string;
}

/** With two NICs, both of which it has. */
function aFullGuest({ ports: pciePorts, model, machine = "q35" }: Guest): VirtualMachineInstance {
  const nics = [{ name: "one" }, { name: "two", network: "red" }];
  const attachments = nics.map(({ name, network = "blue" }, index) => ({
    name,
    networkName: `default/${network}`,
    state: "Attached" as const,
    podInterfaceName: `pod${String(index)}`,
  }));
  const interfaces = nics.map(({ name }, index) => ({
    name,
    queueCount: 1,
    pciAddress: `0000:0${String(index + 1)}:00.0`,
    hotplug: { type: "Plug" as const, phase: "Ready" as const },
  }));
  const vmi = aVmi({ nics, status: { phase: "Running", attachments, interfaces, pciePorts } });
  const { domain } = vmi.spec;
  const ifaces = (domain.devices?.interfaces ?? []).map((iface) => ({
    ...iface,
    ...(model === undefined ? {} : { model }),
  }));
  const devices = { ...domain.devices, interfaces: ifaces };
  return {
    ...vmi,
    spec: { ...vmi.spec, domain: { ...domain, machine: { type: machine }, devices } },
  };
}

test.each<{ name: string } & Guest>([
  { name: "some ports are free", ports: { total: 34, free: 30 } },
  { name: "one port is free", ports: { total: 4, free: 1 } },
  { name: "no port is free", ports: { total: 3, free: 0 } },
  { name: "its NICs could not be hotplugged", ports: { total: 34, free: 32 }, model: "pcnet" },
])("requests each network of the guest: $name", (guest) => {
  const pod = buildTargetPod(aGuestFacts(aFullGuest(guest)), aMigration());
  expect(readPodNetworkElements(pod).map(({ name }) => name)).toEqual(["blue", "red"]);
});

/** MiB that the launcher may take, where the cluster gives new guests so many ports. */
function limitOf(guest: Guest, pcieRootPorts: number): number {
  const facts = aGuestFacts(aFullGuest(guest));
  const network = { ...networkConfigOf(undefined), pcieRootPorts };
  const { spec } = buildTargetPod({ ...facts, network }, aMigration());
  return Number.parseInt(spec.containers[0]?.resources?.limits?.["memory"] ?? "", 10);
}

test("has the memory overhead of the guest's first start, whatever new guests get", () => {
  const guest = { ports: { total: 67, free: 60 } };
  expect(limitOf(guest, 0)).toBe(limitOf(guest, 64));
  expect(limitOf(guest, 128)).toBeGreaterThan(limitOf(guest, 64));
});

test("slots of a conventional bus do not count as ports", () => {
  const guest = { machine: "pc", ports: { total: 30, free: 20 } };
  expect(limitOf(guest, 0)).toBe(limitOf(guest, 128));
  expect(limitOf(guest, 0)).toBeLessThan(limitOf({ ports: { total: 67, free: 60 } }, 0));
});

const DIGEST = `sha256:${"0a".repeat(32)}`;

function podWith(container: Container, imageID?: string): Pod {
  const pod = aPod();
  const { name } = container;
  const reported: readonly ContainerStatus[] =
    imageID === undefined
      ? []
      : [{ name, image: "", imageID, ready: true, restartCount: 0, state: {} }];
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: container.name === "compute" ? [container] : [],
      initContainers: [container],
    },
    status: { ...pod.status, initContainerStatuses: reported },
  };
}

test.each<{
  name: string;
  container?: Partial<Container>;
  source?: string;
  imageID?: string;
  want: string;
}>([
  {
    name: "pins a tag to its digest",
    imageID: `r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  {
    name: "accepts an image ID with docker-pullable://",
    imageID: `docker-pullable://r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  {
    name: "pins an image without a tag",
    container: { image: "r.example:5000/disk" },
    source: "r.example:5000/disk",
    imageID: `r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  {
    name: "keeps an image that exists in no registry",
    imageID: DIGEST,
    want: "r.example:5000/disk:1",
  },
  { name: "keeps the image if no image ID is reported", want: "r.example:5000/disk:1" },
  {
    name: "keeps the image with pull policy Never",
    container: { imagePullPolicy: "Never" },
    imageID: `r.example/disk@${DIGEST}`,
    want: "r.example:5000/disk:1",
  },
  {
    name: "keeps a digest from the VM",
    container: { image: `r.example/disk@${DIGEST}` },
    source: `r.example/disk@${DIGEST}`,
    imageID: `r.example/disk@sha256:${"1b".repeat(32)}`,
    want: `r.example/disk@${DIGEST}`,
  },
  {
    name: "keeps an image that differs from the source's",
    source: "r.example:5000/other:1",
    imageID: `r.example/disk@${DIGEST}`,
    want: "r.example:5000/disk:1",
  },
  {
    name: "keeps the digest of a source that was a target",
    source: `r.example:5000/disk@${DIGEST}`,
    imageID: `r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  {
    name: "keeps the launcher's own image",
    container: { name: "compute" },
    imageID: `r.example/disk@${DIGEST}`,
    want: "r.example:5000/disk:1",
  },
])("$name", ({ container = {}, source, imageID, want }) => {
  const created: Container = { name: "disk", image: "r.example:5000/disk:1", ...container };
  const { image } = created;
  const from = podWith({ ...created, image: source ?? image }, imageID);
  const { initContainers = [] } = withSourceImages(podWith(created), from).spec;
  expect(initContainers.map((each) => each.image)).toEqual([want]);
});
