// SPDX-License-Identifier: Apache-2.0
// A guest, its pod, the node with a bridge and an uplink, and a network with a gateway: each a namespace. The guest's
// NIC is attached to the end of the tap, like a driver to a device.
import { spawn, type ChildProcess } from "node:child_process";
import { diagnose } from "@patchbay/core/doctor";
import type { MasqueradeWiring, PodWiring } from "@patchbay/core/nics";
import type { ExaminedNic, NetnsHandle } from "@patchbay/core/interfaces";
import type { NicPolicy } from "@patchbay/core/policies";
import { createClock, createNetlink, createProcessRunner } from "@patchbay/os";
import { createNicDoctor } from "@patchbay/podnet";
import { eventually, OpenVswitch, run } from "@patchbay/support";
import { addHost, addNic, MAC, makeNetwork, Namespaces, WIRING } from "../links.ts";

type WayFacts = Parameters<typeof diagnose>[0];
type GuestWord = NonNullable<WayFacts["guest"]>;

/** The guest's subnet, and the hosts beyond the uplink. */
export const [ADDRESS, GATEWAY] = ["10.9.0.1", "10.9.0.254"];
/** The guest's private subnet behind the pod, and the pod's. */
const [BEHIND, OF_POD] = ["10.0.2.2", "10.9.0.5"];

const MASQUERADE: MasqueradeWiring = {
  kind: "masquerade",
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: MAC,
  mtu: 1500,
  owner: 107,
  queues: 1,
  ports: [],
  ipv4: { gateway: "10.0.2.1/24", guest: BEHIND },
};
/** Source: dnsmasq(8) */
const DNSMASQ = [
  "--keep-in-foreground",
  "--log-facility=-",
  "--conf-file=/dev/null",
  "--pid-file=",
  "--user=root",
  "--port=0",
  "--interface=lan0",
  "--except-interface=lo",
  "--bind-interfaces",
  "--dhcp-leasefile=/dev/null",
  "--leasefile-ro",
  "--no-ping",
  "--dhcp-range=10.9.0.50,10.9.0.50,1h",
] as const;
const GUARD = { macs: [MAC], addresses: [ADDRESS, "fe80::/10"], allowsServers: false };

/** A test's changes of the facts, beside those in the namespaces. */
export type FactsChange = Partial<
  Pick<
    WayFacts,
    "device" | "serves" | "offersDefaultRoute" | "guest" | "allowedAddresses" | "podAddresses"
  >
>;

/** The namespaces, and the doctor. Scenes of different numbers may exist at once. */
export class DoctorScene {
  readonly doctor = createNicDoctor({
    runner: createProcessRunner(),
    netlink: createNetlink(),
    clock: createClock(),
  });
  readonly namespaces = new Namespaces();
  readonly host: string;
  readonly pod: string;
  readonly guest: string;
  readonly lan: string;
  readonly peer: string;
  readonly #pod: NetnsHandle;
  readonly #node: NetnsHandle;
  readonly #servers: ChildProcess[] = [];
  #switch: OpenVswitch | undefined;
  #wiring: PodWiring = WIRING;
  testsDhcp = false;
  hasAgent = true;
  /** The probed addresses on the network. */
  targets: Pick<ExaminedNic, "gateway" | "neighbor"> = {
    gateway: { address: GATEWAY, isRouted: true },
  };
  /** Known addresses of the guest. */
  known: readonly string[] = [ADDRESS];

  constructor(number: number) {
    const { namespaces } = this;
    const pod = `p${String(number)}`;
    this.host = addHost(namespaces, `h${String(number)}`);
    this.pod = namespaces.add(pod);
    this.guest = namespaces.add(`g${String(number)}`);
    this.lan = namespaces.add(`l${String(number)}`);
    this.peer = `${pod}pod1`;
    this.#pod = namespaces.open(this.pod);
    this.#node = namespaces.open(this.host);
    addNic({ host: this.host, pod: this.pod }, { name: "pod1", kind: "veth", mac: MAC });
    run("ip", "-n", this.pod, "link", "set", "pod1", "up");
    const lan = ["link", "up0", "netns", this.lan, "type", "macvlan", "mode", "bridge"];
    run("ip", "-n", this.host, "link", "add", "lan0", ...lan);
    run("ip", "-n", this.lan, "addr", "add", `${GATEWAY}/24`, "dev", "lan0");
    run("ip", "-n", this.lan, "link", "set", "lan0", "up");
  }

  /** With a veth end as the tap, whose peer's namespace has the guest's NIC. */
  async wire(kind: "bridge" | "masquerade" = "bridge"): Promise<void> {
    const { pod, guest } = this;
    const isBehind = kind === "masquerade";
    const [address, gateway] = isBehind ? [BEHIND, "10.0.2.1"] : [ADDRESS, GATEWAY];
    if (isBehind) run("ip", "-n", pod, "addr", "add", `${OF_POD}/24`, "dev", "pod1");
    const peer = ["peer", "name", "wire0", "address", MAC, "netns", guest];
    run("ip", "-n", pod, "link", "add", "tap1", "type", "veth", ...peer);
    run("ip", "-n", guest, "link", "set", "wire0", "arp", "off", "up");
    const nic = ["link", "wire0", "type", "macvlan", "mode", "passthru"];
    run("ip", "-n", guest, "link", "add", "eth0", ...nic);
    run("ip", "-n", guest, "addr", "add", `${address}/24`, "dev", "eth0");
    run("ip", "-n", guest, "link", "set", "eth0", "up");
    run("ip", "-n", guest, "route", "add", "default", "via", gateway);
    this.known = [address];
    await this.#make(isBehind ? MASQUERADE : WIRING);
  }

  /** Restricts the guest to its address. */
  async guardGuest(): Promise<void> {
    await this.#make({ ...WIRING, guard: GUARD });
  }

  async applyPolicy(policy: NicPolicy): Promise<void> {
    await this.#make({ ...WIRING, policy });
  }

  /** Sets the rules for a pod that serves the guest by DHCP. */
  async serveGuest(): Promise<void> {
    await this.#make({ ...WIRING, replies: { addresses: ["169.254.75.10/32"] } });
  }

  async #make(wiring: PodWiring): Promise<void> {
    await makeNetwork().wireTap(this.#pod, wiring);
    this.#wiring = wiring;
  }

  /** A guest without an address, on a network with a DHCP server that has one or no free address. */
  async serveDhcp(hasLeft: boolean): Promise<void> {
    run("ip", "-n", this.guest, "addr", "flush", "dev", "eth0");
    this.known = [];
    this.testsDhcp = true;
    const other = hasLeft ? [] : ["--dhcp-host=02:00:00:00:5e:99,10.9.0.50"];
    const text = ["netns", "exec", this.lan, "dnsmasq", ...DNSMASQ, ...other];
    const server = spawn("ip", text, { stdio: ["ignore", "ignore", "pipe"] });
    this.#servers.push(server);
    let output = "";
    server.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
    await eventually(() => output.includes("started"), { withinMs: 20_000 });
  }

  /** Connects uplink and gateway to a switch, whose VLANs may differ. */
  async putSwitch(vlans: { readonly uplink: number; readonly gateway: number }): Promise<void> {
    const { host, lan } = this;
    this.#switch = await OpenVswitch.start(host);
    run("ip", "-n", lan, "link", "del", "lan0");
    const peer = ["peer", "name", "lan0", "netns", lan];
    run("ip", "-n", host, "link", "add", "gw0", "type", "veth", ...peer);
    run("ip", "-n", host, "link", "set", "gw0", "up");
    run("ip", "-n", lan, "addr", "add", `${GATEWAY}/24`, "dev", "lan0");
    run("ip", "-n", lan, "link", "set", "lan0", "up");
    this.#switch.addLink("up0", vlans.uplink);
    this.#switch.addLink("gw0", vlans.gateway);
  }

  /** The node is the guest network's gateway and masquerades to its own network. */
  routeByNode(): void {
    const { host, lan } = this;
    const [own, beyond] = ["10.8.0.2", "10.8.0.1"];
    run("ip", "-n", lan, "addr", "del", `${GATEWAY}/24`, "dev", "lan0");
    run("ip", "-n", host, "link", "set", "up1", "nomaster");
    run("ip", "-n", host, "addr", "add", `${GATEWAY}/24`, "dev", "br0");
    const peer = ["peer", "name", "ex1", "netns", lan];
    run("ip", "-n", host, "link", "add", "ex0", "type", "veth", ...peer);
    run("ip", "-n", host, "addr", "add", `${own}/24`, "dev", "ex0");
    run("ip", "-n", lan, "addr", "add", `${beyond}/24`, "dev", "ex1");
    run("ip", "-n", host, "link", "set", "ex0", "up");
    run("ip", "-n", lan, "link", "set", "ex1", "up");
    run("ip", "-n", host, "route", "add", "default", "via", beyond);
    run("ip", "netns", "exec", host, "busybox", "sysctl", "-qw", "net.ipv4.ip_forward=1");
    const chain = "type nat hook postrouting priority srcnat ;";
    const rules = `add table ip masq; add chain ip masq post { ${chain} }; add rule ip masq post ip saddr 10.9.0.0/24 oifname "ex0" masquerade`;
    run("ip", "netns", "exec", host, "nft", rules);
    run("ip", "netns", "exec", host, "busybox", "ping", "-c", "1", "-w", "5", beyond);
  }

  /** Another host of the network that answers for an address too. */
  addClaimant(address: string): void {
    const { host, namespaces } = this;
    const other = namespaces.add(`o${this.host.slice(-3)}`);
    const peer = ["peer", "name", "eth0", "netns", other];
    run("ip", "-n", host, "link", "add", "other0", "type", "veth", ...peer);
    run("ip", "-n", host, "link", "set", "other0", "master", "br0", "up");
    run("ip", "-n", other, "addr", "add", `${address}/24`, "dev", "eth0");
    run("ip", "-n", other, "link", "set", "eth0", "up");
  }

  /** Runs a program in a namespace until the scene ends. */
  say(place: "guest" | "lan", ...argv: readonly string[]): void {
    const text = ["netns", "exec", this[place], ...argv];
    this.#servers.push(spawn("ip", text, { stdio: "ignore" }));
  }

  /** In the guest agent's form. */
  guestWord(): GuestWord {
    const links = JSON.parse(run("ip", "-j", "-n", this.guest, "addr", "show", "dev", "eth0")) as {
      address: string;
      addr_info: { local: string; scope: string }[];
    }[];
    const routes = run("ip", "-4", "-n", this.guest, "route", "show", "default");
    const [eth0] = links;
    const isOwn = eth0?.address === MAC;
    const own = eth0?.addr_info.filter(({ scope }) => scope === "global") ?? [];
    return {
      macs: links.map(({ address }) => address),
      ...(isOwn && { addresses: own.map(({ local }) => local) }),
      hasDefaultRoute: routes !== "",
    };
  }

  /** In CNI's form. */
  removeNic(): void {
    run("ip", "-n", this.pod, "link", "del", "pod1");
  }

  nic(): ExaminedNic {
    return {
      pod: this.#pod,
      node: this.#node,
      wiring: this.#wiring,
      testsDhcp: this.testsDhcp,
      withinMs: 60_000,
      addresses: this.known,
      ...this.targets,
    };
  }

  async examine(change: FactsChange = {}): Promise<ReturnType<typeof diagnose>> {
    const { guard, kind } = this.#wiring;
    return diagnose({
      binding: kind,
      device: { linkUp: true, mac: MAC, mtu: 1500 },
      offersDefaultRoute: true,
      ...(this.hasAgent && { guest: this.guestWord() }),
      ...(guard?.addresses !== undefined && { allowedAddresses: guard.addresses }),
      observed: await this.doctor.examine(this.nic()),
      ...change,
    });
  }

  async close(): Promise<void> {
    await this.#switch?.stop();
    for (const server of this.#servers) server.kill("SIGKILL");
    this.namespaces.close();
  }
}

/** Runs `work` in its own scene. Scenes mostly wait for missing replies, so several run in parallel. */
export async function inScene<T>(
  number: number,
  work: (scene: DoctorScene) => Promise<T>,
): Promise<T> {
  const scene = new DoctorScene(number);
  try {
    return await work(scene);
  } finally {
    await scene.close();
  }
}
