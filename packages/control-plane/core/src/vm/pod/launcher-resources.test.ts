// SPDX-License-Identifier: Apache-2.0
// What does a launcher ask of its node?
import { readOvercommitConfig, type VmiSpec, type BindingPlugin } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  computeOverheadMiB,
  computeLauncherResources,
  computeBindingsMiB,
  type ResourceFacts,
} from "./launcher-resources.ts";

const FACTS: ResourceFacts = {
  useEmulation: false,
  ports: 0,
  hasDisplay: false,
  bindingsMiB: 0,
  isForVhostUser: false,
  overcommit: readOvercommitConfig(undefined),
  networkResources: new Map(),
};
const DISK = { launcherMiB: 100, guestMiB: 50 };

function specOf(domain: VmiSpec["domain"], more: Partial<VmiSpec> = {}): VmiSpec {
  return { domain, ...more };
}

const BARE = specOf({ memory: { guest: "512Mi" } });
const BASE = computeOverheadMiB(BARE, FACTS);

/** What of the memory is asked for beside the guest's, the launcher's own left out. */
function memoryOf(domain: VmiSpec["domain"], facts: Partial<ResourceFacts> = {}) {
  const spec = specOf(domain);
  const { requests, limits } = computeLauncherResources(spec, { ...FACTS, ...facts }, DISK);
  const own = computeOverheadMiB(spec, FACTS);
  const beside = (amount = ""): number => Number(amount.replace("Mi", "")) - own;
  return [beside(requests?.["memory"]), beside(limits?.["memory"])];
}

describe("a launcher has more memory than its guest", () => {
  test.each<{ title: string; spec: VmiSpec; facts?: Partial<ResourceFacts>; more: number }>([
    {
      title: "for TCG's translated code under emulation",
      spec: BARE,
      facts: { useEmulation: true },
      more: 96,
    },
    {
      title: "for page tables",
      spec: specOf({ ...BARE.domain, memory: { guest: "1.5Gi" } }),
      more: 2,
    },
    {
      title: "for each vCPU",
      spec: specOf({ ...BARE.domain, cpu: { sockets: 2, cores: 2 } }),
      more: 3 * 8,
    },
    {
      title: "for the display",
      spec: BARE,
      facts: { hasDisplay: true },
      more: 32,
    },
    {
      title: "for its registered bindings",
      spec: BARE,
      facts: { bindingsMiB: 250 },
      more: 250,
    },
    {
      title: "for each disk",
      spec: specOf(BARE.domain, { volumes: [{ name: "a", emptyDisk: { capacity: 1 } }] }),
      more: 8,
    },
  ])("$title", ({ spec, facts, more }) => {
    expect(computeOverheadMiB(spec, { ...FACTS, ...facts }) - BASE).toBe(more);
  });
});

describe("memory request and limit are", () => {
  test.each<{
    title: string;
    domain: VmiSpec["domain"];
    facts?: Partial<ResourceFacts>;
    want: readonly number[];
  }>([
    { title: "the guest's", domain: { memory: { guest: "1Gi" } }, want: [1024, 1024] },
    {
      title: "a request below the guest's memory, and the guest's memory as the limit",
      domain: { memory: { guest: "1Gi" }, resources: { requests: { memory: "512Mi" } } },
      want: [512, 1024],
    },
    {
      title: "the given limit",
      domain: { memory: { guest: "1Gi" }, resources: { limits: { memory: "2Gi" } } },
      want: [1024, 2048],
    },
    {
      title: "the limit alone, which also sets the guest's memory",
      domain: { resources: { limits: { memory: "2Gi" } } },
      want: [2048, 2048],
    },
    {
      title: "a request below the guest's memory if the cluster overcommits",
      domain: { memory: { guest: "1Gi" } },
      facts: { overcommit: { memoryPercent: 200, cpuRatio: 10 } },
      want: [512, 1024],
    },
    {
      title: "the guest's, with a temporarily higher limit for ports",
      domain: { memory: { guest: "1Gi" } },
      facts: { ports: 10 },
      want: [1024, 1044],
    },
  ])("$title", ({ domain, facts, want }) => {
    expect(memoryOf(domain, facts)).toEqual(want);
  });

  test("exclude the launcher's overhead if the VM overcommits it", () => {
    const resources = { overcommitGuestOverhead: true };
    const spec = specOf({ memory: { guest: "1Gi" }, resources });
    expect(computeLauncherResources(spec, FACTS, DISK).requests?.["memory"]).toBe("1024Mi");
  });
});

describe("requests CPU of", () => {
  test.each<{ resources: VmiSpec["domain"]["resources"]; want: string | undefined }>([
    { resources: {}, want: "400m" },
    { resources: { requests: { cpu: 2 } }, want: "2" },
    { resources: { limits: { cpu: "1500m" } }, want: undefined },
  ])("$want with $resources", ({ resources = {}, want }) => {
    const spec = specOf({ cpu: { cores: 4 }, resources });
    const { requests, limits } = computeLauncherResources(spec, FACTS, DISK);
    expect(requests?.["cpu"]).toBe(want);
    expect(limits?.["cpu"]).toBe(resources.limits?.["cpu"]);
  });
});

test("passes other resources on, except huge pages, which no guest has", () => {
  const amounts = { "example.com/nic": 1, "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi" };
  const spec = specOf({ resources: { requests: amounts, limits: amounts } });
  const devices = { "devices.kubevirt.io/tun": "1", "devices.kubevirt.io/kvm": "1" };
  const { requests, limits } = computeLauncherResources(spec, FACTS, DISK);
  expect(limits).toEqual({
    "example.com/nic": "1",
    memory: expect.any(String) as string,
    "ephemeral-storage": "1124Mi",
    ...devices,
  });
  expect(requests).toMatchObject({ "example.com/nic": "1", "ephemeral-storage": "1040Mi" });
});

describe("devices for networks", () => {
  const of = (counts: Readonly<Record<string, number>>, domain: VmiSpec["domain"] = {}) => {
    const facts = { ...FACTS, networkResources: new Map(Object.entries(counts)) };
    return computeLauncherResources(specOf(domain), facts, DISK);
  };

  test("are requested and limited by their count", () => {
    const { requests, limits } = of({ "nics.io/one": 2, "nics.io/two": 1 });
    for (const amounts of [requests, limits]) {
      expect(amounts).toMatchObject({ "nics.io/one": "2", "nics.io/two": "1" });
    }
  });

  test.each([
    { said: "1", want: "2" },
    { said: "5", want: "5" },
    { said: 5, want: "5" },
    { said: "many", want: "2" },
  ])("are as many as the VM requests if that is more: $said", ({ said: message, want }) => {
    const { requests, limits } = of(
      { "nics.io/one": 2 },
      { resources: { limits: { "nics.io/one": message } } },
    );
    expect([requests?.["nics.io/one"], limits?.["nics.io/one"]]).toEqual([want, want]);
  });

  test("do not replace the launcher's own devices", () => {
    const { limits } = of({ "devices.kubevirt.io/tun": 3 });
    expect(limits?.["devices.kubevirt.io/tun"]).toBe("1");
  });
});

function plugin(memory?: string | number): BindingPlugin {
  const requests = memory === undefined ? {} : { memory };
  return { domainAttachmentType: "tap", computeResourceOverhead: { requests } };
}

const PLUGINS = {
  light: plugin("500Ki"),
  heavy: plugin("200Mi"),
  free: plugin(),
  broken: plugin("a lot"),
  refused: { ...plugin("1Gi"), domainAttachmentType: "odd" },
  silent: { domainAttachmentType: "tap" },
};

function specWithBindings(bindings: readonly string[]): VmiSpec {
  const ifaces = bindings.map((name, index) => ({
    name: `n${String(index)}`,
    binding: { name },
  }));
  return {
    domain: { devices: { interfaces: ifaces } },
    networks: ifaces.map(({ name }) => ({ name, multus: { networkName: "net" } })),
  };
}

test.each([
  { bindings: [], want: 0 },
  { bindings: ["light"], want: 1 },
  { bindings: ["heavy", "light"], want: 201 },
  { bindings: ["heavy", "heavy", "heavy"], want: 200 },
  { bindings: ["free", "broken", "silent"], want: 0 },
  { bindings: ["refused", "unknown", "toString"], want: 0 },
])("bindings $bindings need $want MiB", ({ bindings, want }) => {
  expect(computeBindingsMiB(specWithBindings(bindings), PLUGINS)).toBe(want);
});
