// SPDX-License-Identifier: Apache-2.0
// A guest as a network namespace behind a pod NIC that net-agent attached. The decisions are those of virt-controller and
// virt-handler; the wiring, the rules and the DHCP server are real.
import { NETWORK_ATTACHMENT_DEFINITIONS, PODS, type VirtualMachineInstance } from "@patchbay/api";
import type { NetworkSelection, NetworkStatus } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { EMPTY_GUEST_VIEW } from "@patchbay/core/guest";
import {
  collectIfaceFacts,
  listExpectedWirings,
  withWired,
  type BridgeWiring,
  type RememberedAddresses,
  type ServedNic,
} from "@patchbay/core/nics";
import type { AddressServer, OpenNetns, Sandbox } from "@patchbay/core/interfaces";
import { createNamespaces, createNetlink, createProcessRunner } from "@patchbay/os";
import { createDhcpServers, createPodNetwork } from "@patchbay/podnet";
import { aVmi, eventually, run } from "@patchbay/support";
import {
  buildSwapInterfaceName,
  buildIfaceNames,
} from "../../../../packages/control-plane/core/src/nics/names.ts";
import { BINDINGS } from "../../../../packages/control-plane/core/src/nics/bindings/binding.ts";
import { buildServedNics } from "../../../../packages/control-plane/core/src/nics/addresses/served-nic.ts";
import type { IfaceFacts } from "../../../../packages/control-plane/core/src/nics/facts.ts";
import {
  attachmentStatuses,
  podNetworkFacts,
} from "../../../../packages/control-plane/core/src/status/vmi.ts";
import { findMacChanges } from "../../../../packages/control-plane/core/src/nics/mac.ts";
import {
  buildTargetPodView,
  findTargetNicProblem,
} from "../../../../packages/control-plane/core/src/migration/control/target-nics.ts";
import { readRetainedAddresses } from "../../../../packages/control-plane/core/src/nics/addresses/retained-addresses.ts";
import { planPodNetworks } from "../../../../packages/control-plane/core/src/vm/pod/pod-networks.ts";
import type { VmiFacts } from "../../../../packages/control-plane/core/src/vm/vmi.ts";
import {
  aGuestFacts,
  someFacts,
} from "../../../../packages/control-plane/core/src/testing/migration-facts.ts";
import { live } from "../../../../packages/control-plane/core/src/testing/node-scene.ts";
import { askIpv4, askIpv6, defaultRouteOf } from "../../podnet/dhcp-guest.ts";
import { ping } from "../../podnet/links.ts";
import type { AgentMachine } from "../machine.ts";
import { NAME_PREFIX } from "./namespaces.ts";

export const NAMESPACE = "default";
export const OTHER_NETWORK = "other";
const IFACE = "one";
/** Name that virt-controller derives from the interface's. */
const POD_NIC = "pod7692c3ad354";
/** Limit of each wait. Network `slow` needs the delay twice if it rejects a requested address. */
const WITHIN_MS = 60_000;
const WIRE_STEPS_MAX = 4;
/** Reason of a failed ADD. */
const RETRIED = "CniFailed";

const runner = createProcessRunner();
const podNetwork = createPodNetwork({ runner, netlink: createNetlink() });
const servers = createDhcpServers({
  runner,
  namespaces: createNamespaces(),
  processFamily: NAME_PREFIX,
});

export interface PlugRequest {
  readonly network: string;
  /** Addresses and MAC of the NIC before a restart. */
  readonly before?: { readonly ips: readonly string[]; readonly mac: string };
  /** The guest before its migration. */
  readonly source?: BenchGuest;
}

let pods = 0;

/** Why a NIC is not plugged, as its status reports it. */
export interface Refusal {
  readonly reason: string;
}

export class BenchGuest implements AsyncDisposable {
  readonly #machine: AgentMachine;
  readonly #network: string;
  readonly #mac: string | undefined;
  readonly #sandbox: Sandbox;
  readonly #netns: OpenNetns;
  readonly #guest: string;
  readonly name: string;
  #remembered: RememberedAddresses[] = [];
  #server: AddressServer | undefined;
  /** What the pod serves after a swap. */
  #swapped: ServedNic | undefined;
  #isClosed = false;

  private constructor(machine: AgentMachine, { network, source }: PlugRequest, sandbox: Sandbox) {
    const netns = createNamespaces().open(sandbox.netnsPath);
    if (netns === undefined) throw new Error("the sandbox has no network namespace");
    this.#machine = machine;
    this.#network = network;
    // The device's MAC does not change when the guest migrates.
    this.#mac = source?.nicMac();
    this.#sandbox = sandbox;
    this.#netns = netns;
    this.name = sandbox.pod.name;
    this.#guest = `${NAME_PREFIX}${this.name}`;
    run("ip", "netns", "add", this.#guest);
    run("ip", "-n", this.#guest, "link", "set", "lo", "up");
  }

  /** Creates a running pod that requests the network. The guest belongs to `owner` before the network is attached. */
  static async plug(
    machine: AgentMachine,
    request: PlugRequest,
    owner: AsyncDisposableStack,
  ): Promise<BenchGuest> {
    const { network, before, source } = request;
    pods += 1;
    // The plugin stores leases of pods with the first name as another node does.
    const name = `${source === undefined ? "bench" : "target"}-${String(pods)}`;
    const element = {
      name: network,
      interface: POD_NIC,
      ...(before !== undefined && { mac: before.mac, "io.patchbay.kept-mac": true }),
      "io.patchbay.kept-ips": before?.ips ?? [],
    };
    const elements = source === undefined ? [element] : await source.#planTarget();
    const networks = JSON.stringify(elements);
    const sandbox = await machine.runPod({ namespace: NAMESPACE, name, networks });
    const guest = owner.use(new BenchGuest(machine, request, sandbox));
    await guest.#awaitNetwork(POD_NIC);
    return guest;
  }

  /** Waits until net-agent reports the NIC or a final failure. It retries a failed ADD (`CniFailed`), which is no result. */
  async #awaitNetwork(nic: string): Promise<void> {
    await eventually(
      async () => {
        const all = await this.#machine.networkStatus(NAMESPACE, this.name);
        if (all.some((each) => each.interface === nic || each.interface === undefined)) return true;
        const errors = await this.#machine.errors(NAMESPACE, this.name);
        const reason = errors[nic]?.reason;
        if (reason !== undefined && reason !== RETRIED) return true;
        throw new Error(JSON.stringify(errors));
      },
      { withinMs: WITHIN_MS },
    );
  }

  async status(nic = POD_NIC): Promise<NetworkStatus | undefined> {
    const all = await this.#machine.networkStatus(NAMESPACE, this.name);
    return all.find((each) => each.interface === nic);
  }

  async #pod(): Promise<Pod> {
    const key = { namespace: NAMESPACE, name: this.name };
    const pod = await this.#machine.admin.store.find(PODS, key);
    if (pod === undefined) throw new Error("the pod does not exist");
    return pod;
  }

  /** The VMI as virt-controller reports it. */
  async #vmi(): Promise<VirtualMachineInstance> {
    const mac = this.#mac === undefined ? {} : { mac: this.#mac };
    const spec = aVmi({ nics: [{ name: IFACE, network: this.#network, ...mac }] });
    const pod = podNetworkFacts(await this.#pod());
    const attachments = attachmentStatuses({ vmi: spec, bindings: {} }, pod);
    return { ...spec, status: { attachments: [...attachments] } };
  }

  /** Returns whether virt-controller reports that the network assigned another MAC than before (event `MacChanged`). */
  async hasOtherMac(): Promise<boolean> {
    const { status: { attachments = [] } = {}, ...vmi } = await this.#vmi();
    const { elements } = podNetworkFacts(await this.#pod());
    return findMacChanges(vmi, attachments, elements).length > 0;
  }

  async #migrationFacts(): Promise<VmiFacts> {
    const vmi = await this.#vmi();
    const hotplug = { type: "Plug", phase: "Ready" } as const;
    const interfaces = [{ name: IFACE, podInterfaceName: POD_NIC, mac: this.nicMac(), hotplug }];
    const key = { namespace: NAMESPACE, name: this.#network };
    const { store } = this.#machine.admin;
    const definition = await store.find(NETWORK_ATTACHMENT_DEFINITIONS, key);
    if (definition === undefined) throw new Error("the network does not exist");
    const definitions = new Map([[`${NAMESPACE}/${this.#network}`, definition]]);
    const guest = aGuestFacts({ ...vmi, status: { ...vmi.status, interfaces } });
    return { ...guest, definitions };
  }

  /** Elements that virt-controller writes into the annotation of a migration's target pod. */
  async #planTarget(): Promise<readonly NetworkSelection[]> {
    const { vmi: guest, definitions } = await this.#migrationFacts();
    const vmi = buildTargetPodView(guest, definitions);
    const retainedAddresses = readRetainedAddresses(vmi);
    return planPodNetworks({ vmi, bindings: {}, retainedAddresses }, []);
  }

  /** Returns why virt-controller ends a migration from this guest's pod to the target's before the guest moves. */
  async findMigrationProblem(target: BenchGuest): Promise<string | undefined> {
    const guest = await this.#migrationFacts();
    return findTargetNicProblem(someFacts({ guest, targetPod: await target.#pod() }));
  }

  /** Facts of the interface as virt-handler collects them. */
  async #facts(incomingPodUid?: string): Promise<IfaceFacts> {
    const vmi = await this.#vmi();
    const view = await podNetwork.observe(this.#netns);
    const sources = {
      vmi,
      links: view.links,
      remembered: this.#remembered,
      nics: [],
      guest: EMPTY_GUEST_VIEW,
      bindings: {},
      ...(incomingPodUid === undefined ? {} : { incomingPodUid }),
    };
    const ifaces = collectIfaceFacts(sources);
    const wired = listExpectedWirings(ifaces).filter((wiring) => view.isWired(wiring));
    const [facts] = withWired(ifaces, new Set(wired.map(({ tapName }) => tapName)));
    if (facts === undefined) throw new Error("the interface has no facts");
    return facts;
  }

  /** Performs virt-handler's steps until the device could be attached. Returns why a step waits or the attachment failed. */
  async wire(incomingPodUid?: string): Promise<Refusal | undefined> {
    for (let step = 0; step < WIRE_STEPS_MAX; step += 1) {
      const facts = await this.#facts(incomingPodUid);
      const { attachment } = facts;
      if (attachment?.state === "Failed") return { reason: attachment.reason ?? "" };
      const [action] = live([facts]).filter((each) => "iface" in each);
      if (action?.kind === "rememberAddresses") {
        this.#remembered.push(await podNetwork.readAddresses(this.#netns, POD_NIC));
      } else if (action?.kind === "wireTap" && action.wiring.kind === "bridge") {
        this.#addTap(action.wiring);
        await podNetwork.wireTap(this.#netns, action.wiring);
      } else if (action?.kind === "wait") {
        return { reason: action.reason };
      } else return undefined;
    }
    throw new Error("wiring did not end");
  }

  /** The tap is a veth whose peer is the guest's NIC. */
  #addTap({ tapName, mac, mtu }: BridgeWiring): void {
    if (run("ip", "-n", this.#sandbox.id, "-o", "link").includes(`${tapName}@`)) return;
    const peer = ["peer", "name", "eth0", "address", mac, "mtu", String(mtu), "netns", this.#guest];
    run(
      "ip",
      "-n",
      this.#sandbox.id,
      "link",
      "add",
      tapName,
      "mtu",
      String(mtu),
      "type",
      "veth",
      ...peer,
    );
    run("ip", "-n", this.#guest, "link", "set", "eth0", "up");
  }

  /** What the pod serves to the guest; undefined on a network without addresses. */
  async served(): Promise<ServedNic | undefined> {
    const facts = await this.#facts();
    return buildServedNics({ vmi: aVmi({}), ifaces: [facts] })[0];
  }

  /** Starts the pod's DHCP server; the guest takes what it offers. Returns the guest's addresses without lengths. */
  async configure(nic?: ServedNic): Promise<readonly string[]> {
    const served = nic ?? (await this.served());
    if (served === undefined) return [];
    await this.#server?.stop();
    this.#server = await servers.start(this.#netns, served);
    const { ipv4, ipv6 } = served.lease;
    run("ip", "-n", this.#guest, "addr", "flush", "dev", "eth0", "scope", "global");
    const four = ipv4 === undefined ? [] : await this.#configureIpv4();
    const six = ipv6 === undefined ? [] : await this.#configureIpv6(served);
    return [...four, ...six];
  }

  async #configureIpv4(): Promise<readonly string[]> {
    const lease = await eventually(() => askIpv4(this.#guest), { withinMs: 10_000 });
    const { ip = "", mask = "", router, staticroutes = "" } = lease;
    const guest = (...words: readonly string[]) => run("ip", "-n", this.#guest, ...words);
    guest("addr", "add", `${ip}/${mask}`, "dev", "eth0");
    const words = staticroutes === "" ? [] : staticroutes.split(" ");
    for (let at = 0; at < words.length; at += 2) {
      const [destination = "", gateway = ""] = words.slice(at, at + 2);
      const via = gateway === "0.0.0.0" ? [] : ["via", gateway];
      guest("route", "replace", destination, ...via, "dev", "eth0");
    }
    if (words.length === 0 && router !== undefined)
      guest("route", "replace", "default", "via", router);
    return [ip];
  }

  async #configureIpv6({ mac, lease }: ServedNic): Promise<readonly string[]> {
    const ask = (): string | undefined => askIpv6(this.#guest, "eth0", mac);
    const address = await eventually(ask, { withinMs: 10_000 });
    run("ip", "-n", this.#guest, "addr", "add", `${address}/128`, "dev", "eth0", "nodad");
    // Router advertisements announce the subnet and the default route.
    const subnets = (lease.ipv6?.addresses ?? []).flatMap(({ server, isOnLink }) =>
      isOnLink ? [server] : [],
    );
    const listRoutes = (): string => run("ip", "-n", this.#guest, "-6", "route", "show");
    for (const subnet of subnets)
      await eventually(() => listRoutes().includes(`${subnet} `), { withinMs: 20_000 });
    if (lease.ipv6?.isRouter === true)
      await eventually(() => defaultRouteOf(this.#guest) !== "", { withinMs: 20_000 });
    return [address];
  }

  /** Pings until a reply arrives. */
  async reach(target: string): Promise<void> {
    const options = target.includes(":") ? ["-6"] : [];
    await eventually(() => ping(this.#guest, ...options, target).includes(" 0% packet loss"), {
      withinMs: 5_000,
    });
  }

  get guest(): string {
    return this.#guest;
  }

  get podUid(): string {
    return this.#sandbox.podUid;
  }

  nicMac(): string {
    return run(
      "ip",
      "netns",
      "exec",
      this.#sandbox.id,
      "cat",
      `/sys/class/net/${POD_NIC}/address`,
    ).trim();
  }

  /** Swaps the interface to another network; the tap and the guest's MAC stay. */
  async swap(network: string): Promise<{ readonly isPartlyServed: boolean } | Refusal> {
    const nic = buildSwapInterfaceName(IFACE, `${NAMESPACE}/${network}`);
    const former = { name: this.#network, interface: POD_NIC };
    const next = { name: network, interface: nic, mac: this.#guestMac() };
    await this.#machine.ask(NAMESPACE, this.name, JSON.stringify([former, next]));
    await this.#awaitNetwork(nic);
    const refusal = await this.#findRefusal(network, nic);
    if (refusal !== undefined) return refusal;
    await this.#rewire(nic);
    await this.#machine.ask(NAMESPACE, this.name, JSON.stringify([next]));
    await eventually(async () => (await this.status()) === undefined || undefined, {
      withinMs: WITHIN_MS,
    });
    const served = this.#swapped;
    if (served !== undefined) await this.configure(served);
    return { isPartlyServed: (served?.omissions ?? []).length > 0 };
  }

  /** Returns why virt-controller reports the next network's attachment as failed. */
  async #findRefusal(network: string, podInterfaceName: string): Promise<Refusal | undefined> {
    const spec = aVmi({ nics: [{ name: IFACE, network }] });
    const attachment = {
      name: IFACE,
      networkName: `${NAMESPACE}/${network}`,
      podInterfaceName,
      state: "Requested" as const,
    };
    const vmi = { ...spec, status: { attachments: [attachment] } };
    const pod = podNetworkFacts(await this.#pod());
    const found = attachmentStatuses({ vmi, bindings: {} }, pod).find(
      (each) => each.podInterfaceName === podInterfaceName,
    );
    return found?.state === "Failed" ? { reason: found.reason ?? "" } : undefined;
  }

  async #rewire(nic: string): Promise<void> {
    const old = await this.#facts();
    const remembered = await podNetwork.readAddresses(this.#netns, nic);
    const view = await podNetwork.observe(this.#netns);
    const mtu = view.links.find(({ name }) => name === nic)?.mtu ?? 0;
    const { bridgeName } = buildIfaceNames(IFACE, nic);
    const links = { ...old.links, mtu, hasPodInterface: true, hasBridge: true, isWired: true };
    const iface = { ...old, podInterfaceName: nic, remembered, links };
    const served = buildServedNics({ vmi: aVmi({}), ifaces: [iface] })[0];
    const { tapName } = buildIfaceNames(IFACE, POD_NIC);
    const wiring = this.#swapWiring({ tapName, mtu, remembered, bridgeName, nic });
    await this.#server?.stop();
    this.#server = undefined;
    await podNetwork.makeBridge(this.#netns, wiring);
    await podNetwork.wireTap(this.#netns, wiring);
    await podNetwork.removeBridge(this.#netns, buildIfaceNames(IFACE, POD_NIC).bridgeName);
    run("ip", "-n", this.#guest, "link", "set", "eth0", "mtu", String(mtu));
    this.#swapped = served && { ...served, mac: wiring.mac, bridgeName: wiring.bridgeName };
  }

  #swapWiring(
    change: Pick<BridgeWiring, "tapName" | "mtu" | "bridgeName"> & {
      readonly nic: string;
      readonly remembered: RememberedAddresses;
    },
  ): BridgeWiring {
    const { remembered, nic: podInterfaceName, ...links } = change;
    const facts = {
      ...links,
      podInterfaceName,
      mac: this.#guestMac(),
      podAddresses: [],
      remembered,
    };
    const wiring = BINDINGS.bridge.buildWiring(facts);
    if (wiring?.kind !== "bridge") throw new Error("the other network has no bridge");
    return { ...wiring, owner: 107, queues: 1 };
  }

  #guestMac(): string {
    const path = "/sys/class/net/eth0/address";
    return run("ip", "netns", "exec", this.#guest, "cat", path).trim();
  }

  /** Unplugs the NIC: unwires it and lets net-agent detach the network. */
  async unplug(): Promise<void> {
    await this.#server?.stop();
    this.#server = undefined;
    const { tapName, bridgeName } = buildIfaceNames(IFACE, POD_NIC);
    const links = { podInterfaceName: POD_NIC, tapName, bridgeName };
    await podNetwork.unwireTap(this.#netns, { kind: "bridge", ...links });
    await this.#machine.ask(NAMESPACE, this.name, "");
    await eventually(
      async () =>
        (await this.#machine.networkStatus(NAMESPACE, this.name)).length === 0 || undefined,
      { withinMs: WITHIN_MS },
    );
  }

  /** Links of the pod and the guest, without `lo`. */
  remains(): readonly string[] {
    return [this.#sandbox.id, this.#guest].flatMap((namespace) =>
      (JSON.parse(run("ip", "-n", namespace, "-j", "link")) as readonly { ifname: string }[])
        .map(({ ifname }) => ifname)
        .filter((name) => name !== "lo"),
    );
  }

  /** Ends the pod. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#server?.stop();
    this.#server = undefined;
    this.#netns.close();
    await this.#machine.removePod({ namespace: NAMESPACE, name: this.name }, this.#sandbox);
    run("ip", "netns", "del", this.#guest);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
