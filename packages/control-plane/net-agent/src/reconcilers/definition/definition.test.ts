// SPDX-License-Identifier: Apache-2.0
// Checks of definitions after changes, on fakes. Each problem is reported once.
import {
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  type NetworkAttachmentDefinition,
  VIRTUAL_MACHINE_INSTANCES,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createDefinitionFiles } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import { DEFAULT_POLICY, type TenantPolicy } from "@patchbay/core/nics";
import type { Link, Patch } from "@patchbay/core/interfaces";
import type { Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeFiles } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, expect, test } from "vitest";
import { BY_NETWORK, listRequestedNetworks } from "../../wake.ts";
import type { DefinitionDeps, CheckedDefinition } from "./deps.ts";
import { reconcileDefinition } from "./index.ts";
import { createNodeView } from "./node-view.ts";

function aLink({ name, kind }: { readonly name: string; readonly kind: string }): Link {
  return { name, kind, index: 1, mac: "", mtu: 1500, up: true, carrier: true, addresses: [] };
}

const KEY = { namespace: "ns", name: "blue" };
const LEASES = "/host/var/lib/cni/networks/blue";

class Bench {
  readonly files = createFakeFiles();
  readonly store = createFakeStore();
  readonly pods = createFakeCache<Pod>({ [BY_NETWORK]: listRequestedNetworks });
  readonly nads = createFakeCache<NetworkAttachmentDefinition>();
  readonly notes: Note[] = [];
  readonly judged = new Map<string, CheckedDefinition>();
  policy: TenantPolicy = DEFAULT_POLICY;
  links: { readonly name: string; readonly kind: string }[] = [{ name: "eth0", kind: "" }];
  nowMs = 0;
  isEnforced = true;
  writes = 0;
  writeError: AppError | undefined;
  /** Error of the lookup of objects. */
  findError: AppError | undefined;

  async put(config: unknown, generation = 1): Promise<void> {
    const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
    const before = this.nads.find(KEY);
    const text = typeof config === "string" ? config : JSON.stringify(config);
    this.store.put(NETWORK_ATTACHMENT_DEFINITIONS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind,
      metadata: { ...KEY, uid: "uid-1", generation },
      spec: { config: text },
      ...(before?.status === undefined ? {} : { status: before.status }),
    });
    await this.sync();
  }

  putNode(name: string): void {
    this.store.put(NODES, { apiVersion: "v1", kind: "Node", metadata: { name } });
  }

  /** Another node writes its entry. */
  async putEntry(node: string, generation: number): Promise<void> {
    const nad = await this.store.find(NETWORK_ATTACHMENT_DEFINITIONS, KEY);
    const entry = { node, reason: "PluginMissing", message: "no", generation };
    if (nad === undefined) throw new Error("there is no definition");
    const problems = [...(nad.status?.problems ?? []), entry];
    this.store.put(NETWORK_ATTACHMENT_DEFINITIONS, { ...nad, status: { problems } });
    await this.sync();
  }

  async sync(): Promise<void> {
    const nad = await this.store.find(NETWORK_ATTACHMENT_DEFINITIONS, KEY);
    if (nad === undefined) this.nads.take(KEY);
    else this.nads.put(nad);
  }

  /** Runs one pass. Returns this node's status entry and the milliseconds until the next pass. */
  async pass(): Promise<{ readonly said: string | undefined; readonly againMs?: number }> {
    const next = await reconcileDefinition("ns/blue", this.#deps());
    await this.sync();
    const said = this.nads.find(KEY)?.status?.problems?.find(({ node }) => node === "node");
    return { said: said?.reason, ...(next.kind === "after" && { againMs: next.ms }) };
  }

  #deps(): DefinitionDeps {
    const { files, store } = this;
    const log = createSilentLogger();
    return {
      files,
      pods: this.pods,
      nads: this.nads,
      checkedDefinitions: this.judged,
      log,
      nodeName: "node",
      store: {
        list: store.list.bind(store),
        find: (type, key) =>
          this.findError === undefined ? store.find(type, key) : Promise.reject(this.findError),
        create: store.create.bind(store),
        update: store.update.bind(store),
        delete: store.delete.bind(store),
        patch: (type, key, patch: Patch, options) => {
          this.writes += 1;
          const { writeError } = this;
          return writeError === undefined
            ? store.patch(type, key, patch, options)
            : Promise.reject(writeError);
        },
      },
      clock: {
        now: () => this.nowMs,
        monotonicMs: () => this.nowMs,
        sleep: () => Promise.resolve(),
      },
      events: {
        record: (_object, note) => this.notes.push(note),
        flush: () => Promise.resolve(),
      },
      policy: {
        isEnforced: this.isEnforced,
        describeSetting: () => "",
        current: () => this.policy,
        onChange: () => undefined,
      },
      listOwnBridges: () => Promise.resolve(new Set()),
      listNodeSubnets: () => Promise.resolve([]),
      definitionFiles: createDefinitionFiles({ files, log }, "/etc/cni/multus/net.d"),
      node: createNodeView({
        files,
        hostRoot: "/host",
        binDirs: ["/opt/cni/bin", "/usr/lib/cni"],
        listHostLinks: () => Promise.resolve(this.links.map(aLink)),
      }),
    };
  }
}

let bench: Bench;

beforeEach(async () => {
  bench = new Bench();
  for (const plugin of ["macvlan", "ipvlan", "bridge", "host-local", "more/macvlan"]) {
    await bench.files.writeAtomic(`/host/usr/lib/cni/${plugin}`, "");
  }
});

const MACVLAN = { cniVersion: "1.0.0", type: "macvlan", master: "eth0" };

test("writes nothing for a usable definition", async () => {
  await bench.put(MACVLAN);
  expect(await bench.pass()).toEqual({ said: undefined });
  expect(bench.writes).toBe(0);
  expect(bench.notes).toEqual([]);
});

test("reports a problem once, in status and events, until it is fixed", async () => {
  await bench.put({ ...MACVLAN, master: "eth9" });
  expect(await bench.pass()).toEqual({ said: "NodeLinkUnfit" });
  expect(await bench.pass()).toEqual({ said: "NodeLinkUnfit" });
  bench.judged.clear(); // a new process
  expect(await bench.pass()).toEqual({ said: "NodeLinkUnfit" });
  expect(bench.writes).toBe(1);
  expect(bench.notes).toEqual([
    {
      type: "Warning",
      reason: "NodeLinkUnfit",
      message: expect.stringMatching(
        /^network ns\/blue needs link eth9 \(master\), which the node does not have; name another/,
      ) as string,
    },
  ]);
  bench.links.push({ name: "eth9", kind: "" });
  expect(await bench.pass()).toEqual({ said: undefined });
  expect(bench.writes).toBe(2);
  expect(bench.notes).toHaveLength(1);
});

test.each([
  { name: "invalid JSON", config: "{", want: "NetworkInvalid" },
  {
    name: "neither a configuration nor a file with its name",
    config: "",
    want: "DefinitionFileMissing",
  },
  { name: "a missing plugin", config: { type: "sriov" }, want: "PluginMissing" },
  {
    name: "a configuration forbidden for tenants",
    config: { type: "host-device" },
    want: "DefinitionForbidden",
  },
])("reports a definition that names $name", async ({ config, want }) => {
  await bench.put(config);
  expect(await bench.pass()).toEqual({ said: want });
});

test("rejects an administrator's plugin path although the file exists", async () => {
  bench.policy = { ...DEFAULT_POLICY, trustedNamespaces: [KEY.namespace] };
  await bench.put({ type: "macvlan", ipam: { type: "more/macvlan" } });
  expect(await bench.pass()).toEqual({ said: "PluginMissing" });
});

test("lists policy warnings after the problems that prevent NICs", async () => {
  bench.isEnforced = false;
  await bench.put({ type: "bridge", bridge: "virbr0" });
  expect(await bench.pass()).toEqual({ said: "DefinitionTolerated" });
  await bench.put({ type: "sriov", bridge: "virbr0" });
  expect(await bench.pass()).toEqual({ said: "PluginMissing" });
});

test("warns of members that only the runtime sets", async () => {
  await bench.put({ type: "bridge", bridge: "blue", args: { cni: {} } });
  expect(await bench.pass()).toEqual({ said: "DefinitionMembersIgnored" });
  expect(bench.notes.at(-1)?.message).toContain("do not receive args, which only the container");
  bench.policy = { ...DEFAULT_POLICY, trustedNamespaces: [KEY.namespace] };
  expect(await bench.pass()).toEqual({ said: undefined });
});

test("accepts a definition after a policy change allows it", async () => {
  await bench.put({ type: "bridge", bridge: "virbr0" });
  expect(await bench.pass()).toEqual({ said: "DefinitionForbidden" });
  bench.policy = { ...DEFAULT_POLICY, bridges: ["*"] };
  expect(await bench.pass()).toEqual({ said: undefined });
});

test("counts addresses in the host's lease directory", async () => {
  const ipam = { type: "host-local", subnet: "10.1.0.0/30" };
  await bench.put({ type: "bridge", bridge: "br1", ipam });
  expect(await bench.pass()).toEqual({ said: undefined });
  await bench.files.writeAtomic(`${LEASES}/10.1.0.2`, "x");
  expect(await bench.pass()).toEqual({ said: "AddressesExhausted" });
  expect(bench.judged.get("ns/blue")?.fullLeaseDirectories).toEqual([LEASES]);
  await bench.files.remove(`${LEASES}/10.1.0.2`);
  expect(await bench.pass()).toEqual({ said: undefined });
  expect(bench.judged.get("ns/blue")?.fullLeaseDirectories).toEqual([]);
});

test.each([
  {
    name: "a bridge's attributes",
    path: "/host/sys/class/net/br1/bridge/vlan_filtering",
    text: "0",
  },
  {
    name: "the kernel's configuration file",
    path: "/host/boot/config-6.1",
    text: "CONFIG_BRIDGE=m\nCONFIG_BRIDGE_VLAN_FILTERING=y\n",
  },
])("detects VLAN filtering by $name", async ({ path, text }) => {
  await bench.files.writeAtomic("/proc/sys/kernel/osrelease", "6.1\n");
  await bench.files.writeAtomic(path, text);
  await bench.put({ type: "bridge", bridge: "br1", vlan: 5 });
  bench.links.push({ name: "br1", kind: "bridge" });
  expect(await bench.pass()).toEqual({ said: undefined });
});

test.each([
  { name: "a bridge's attributes", path: "/host/sys/class/net/br1/bridge/stp_state" },
  { name: "the kernel's configuration file", path: "/host/boot/config-6.1" },
])("detects missing VLAN filtering by $name", async ({ path }) => {
  await bench.files.writeAtomic("/proc/sys/kernel/osrelease", "6.1\n");
  await bench.files.ensureDirectory("/host/sys/class/net/br1");
  await bench.files.writeAtomic(path, "0");
  await bench.put({ type: "bridge", bridge: "br1", vlan: 5 });
  bench.links.push({ name: "br1", kind: "bridge" });
  expect(await bench.pass()).toEqual({ said: "VlanUnsupported" });
});

test("reports a definition that guests cannot use when a launcher requests it", async () => {
  await bench.put({ ...MACVLAN, type: "ipvlan" });
  const metadata = { namespace: "ns", annotations: { [names.NETWORKS_ANNOTATION]: "blue" } };
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", controller: true };
  const pod = { apiVersion: "v1", kind: "Pod", spec: { containers: [] } };
  bench.pods.put({ ...pod, metadata: { ...metadata, name: "pod" } });
  const ownerReferences = [{ ...owner, name: "vm", uid: "vm-1" }];
  bench.pods.put({ ...pod, metadata: { ...metadata, name: "launcher", ownerReferences } });
  expect(await bench.pass()).toEqual({ said: undefined }); // whoever makes pods can say so
  bench.store.put(VIRTUAL_MACHINE_INSTANCES, {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    spec: { domain: {} },
    metadata: { namespace: "ns", name: "vm", uid: "vm-1" },
  });
  expect(await bench.pass()).toEqual({ said: "NetworkCannotCarryVm" });
});

test("records one event after one attempt when the kind has no status", async () => {
  bench.writeError = new AppError("KUBE_NOT_FOUND", { resource: "nad", object: "ns/blue" });
  await bench.put({ type: "sriov" });
  await bench.pass();
  await bench.pass();
  expect([bench.notes.length, bench.writes]).toEqual([1, 1]);
  await bench.put({ type: "multus" }, 2);
  await bench.pass();
  expect([bench.notes.length, bench.writes]).toEqual([2, 2]);
});

test("retries after a conflict with another node, without an event", async () => {
  bench.writeError = new AppError("KUBE_CONFLICT", { resource: "nad", object: "ns/blue" });
  await bench.put({ type: "sriov" });
  await expect(bench.pass()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
  expect(bench.notes).toEqual([]);
  bench.writeError = undefined;
  expect(await bench.pass()).toEqual({ said: "PluginMissing" });
});

test("removes an outdated entry of another node after a while", async () => {
  await bench.put(MACVLAN, 1);
  bench.putNode("silent");
  await bench.putEntry("silent", 1);
  expect(await bench.pass()).toEqual({ said: undefined, againMs: 3_600_000 });
  await bench.put(MACVLAN, 2);
  expect(await bench.pass()).toEqual({ said: undefined, againMs: 30_000 });
  bench.nowMs += 29_999;
  await bench.pass();
  expect(bench.nads.find(KEY)?.status?.problems).toHaveLength(1);
  bench.nowMs += 1;
  expect(await bench.pass()).toEqual({ said: undefined });
  expect(bench.nads.find(KEY)?.status?.problems).toBeUndefined();
  expect(bench.notes).toEqual([]);
});

test("removes the entry of a deleted node, with one lookup an hour", async () => {
  await bench.put(MACVLAN);
  bench.putNode("other");
  await bench.putEntry("other", 1);
  expect(await bench.pass()).toEqual({ said: undefined, againMs: 3_600_000 });
  await bench.store.delete(NODES, { name: "other" });
  bench.nowMs += 3_599_999;
  expect(await bench.pass()).toEqual({ said: undefined, againMs: 1 });
  expect(bench.nads.find(KEY)?.status?.problems).toHaveLength(1);
  bench.nowMs += 1;
  await bench.pass();
  expect(bench.nads.find(KEY)?.status?.problems).toBeUndefined();
  expect(await bench.pass()).toEqual({ said: undefined });
  expect(bench.notes).toEqual([]);
});

test("removes no entries without permission to read nodes", async () => {
  await bench.put(MACVLAN);
  await bench.putEntry("other", 1);
  bench.findError = new AppError("KUBE_FORBIDDEN", { resource: "nodes", object: "other" });
  expect(await bench.pass()).toEqual({ said: undefined, againMs: 3_600_000 });
  expect(bench.writes).toBe(0);
});

test("forgets a deleted definition", async () => {
  await bench.put({ type: "sriov" });
  await bench.pass();
  await bench.store.delete(NETWORK_ATTACHMENT_DEFINITIONS, KEY);
  await bench.sync();
  await bench.pass();
  expect(bench.judged.size).toBe(0);
});
