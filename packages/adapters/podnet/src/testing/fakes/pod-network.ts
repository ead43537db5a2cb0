// SPDX-License-Identifier: Apache-2.0
import { AppError, isEqual } from "@patchbay/base";
import {
  type BridgeWiring,
  buildLimiterName,
  isIpv6LinkLocal,
  type MasqueradeWiring,
  type RemovableWiring,
  type NicRoute,
  type PodWiring,
  type RememberedAddresses,
  type ObservedWiring,
} from "@patchbay/core/nics";
import { normalizeMac } from "@patchbay/api/values";
import type {
  AnnouncedNic,
  BorrowedNic,
  Link,
  NetnsHandle,
  NicPaths,
  PodNetwork,
  PodView,
  RenamedNic,
} from "@patchbay/core/interfaces";

/** A link in a test; by default it has a carrier and no addresses. */
export type FakeLinkOptions = Omit<Link, "index" | "carrier" | "addresses"> &
  Partial<Pick<Link, "carrier" | "addresses">>;

/** Parts that `wireTap` makes, in this order. */
export const WIRING_PARTS = ["bridge", "tap", "nic", "forwarding"] as const;
type WiringPart = (typeof WIRING_PARTS)[number];

/** A {@link PodNetwork} in memory, with changes by CNI. */
export interface FakePodNetwork extends PodNetwork {
  /** Adds a link to a namespace, or replaces the link with the same name. */
  putLink(netnsInode: string, link: FakeLinkOptions): void;
  /** Sets the routes of a NIC, and the MAC of its IPv6 gateway. */
  putRoutes(
    netnsInode: string,
    name: string,
    learned: { readonly routes: readonly NicRoute[]; readonly gatewayMac?: string },
  ): void;
  /** Sets the routes and neighbors that a plugin gave the NIC. */
  putPaths(netnsInode: string, name: string, paths: NicPaths): void;
  /** Deletes a link if it exists. */
  takeLink(netnsInode: string, name: string): void;
  /** Deletes the forwarding entries of a tap. */
  dropForwarding(netnsInode: string, name: string): void;
  findLink(netnsInode: string, name: string): Link | undefined;
  /** Announcements in order, as `NIC MAC`. */
  readonly announced: readonly string[];
  /** Opens the tap if it exists, so that it has a carrier. */
  openTap(netnsInode: string, name: string): void;
  /** Makes the next call of this method fail with the error. */
  failNext(call: FakePodNetworkCall, error: unknown): void;
  /** Calls the listener for each link that is added, deleted or changed, except for ports of a deleted bridge. */
  onChange(listener: (netnsInode: string, link: Link) => void): void;
  /** Makes the next `wireTap` fail before it makes the part. */
  failBefore(part: WiringPart, error: unknown): void;
}

type FakePodNetworkCall =
  | "observe"
  | "listLinks"
  | "wireTap"
  | "applyPolicy"
  | "makeBridge"
  | "removeBridge"
  | "unwireTap"
  | "readAddresses"
  | "announce"
  | "readPaths"
  | "restoreNic"
  | "removeLink"
  | "restoreName";

/** Creates a fake in which each namespace, by its inode, has only `lo`. */
export function createFakePodNetwork(): FakePodNetwork {
  return new MemoryPodNetwork();
}

class MemoryPodNetwork implements FakePodNetwork {
  readonly announced: string[] = [];
  readonly #namespaces = new Map<string, Map<string, Link>>();
  readonly #listeners: ((netnsInode: string, link: Link) => void)[] = [];
  readonly #failures = new Map<string, unknown>();
  /** Routes of NICs, by `INODE NAME`. */
  readonly #routes = new Map<string, Pick<RememberedAddresses, "routes" | "gatewayMac">>();
  /** Routes and neighbors of NICs, by `INODE NAME`. */
  readonly #paths = new Map<string, NicPaths>();
  /** Taps that have an entry for a MAC, as `INODE TAP MAC`. */
  readonly #forwarding = new Set<string>();
  /** Rules by `INODE TAP`, as {@link printRules} writes them. */
  readonly #rules = new Map<string, string>();
  /** Policies of wirings as JSON, by `INODE TAP`. */
  readonly #policies = new Map<string, string>();
  #interruption: { readonly before: WiringPart; readonly error: unknown } | undefined;
  #lastIndex = 1;

  putLink(netnsInode: string, link: FakeLinkOptions): void {
    const links = this.#linksOf(netnsInode);
    const index = links.get(link.name)?.index ?? this.#nextIndex();
    const put = { carrier: true, addresses: [], ...link, index };
    links.set(link.name, put);
    this.#notify(netnsInode, put);
  }

  dropForwarding(netnsInode: string, name: string): void {
    for (const entry of this.#forwarding) {
      if (entry.startsWith(`${netnsInode} ${name} `)) this.#forwarding.delete(entry);
    }
  }

  putRoutes(
    netnsInode: string,
    name: string,
    learned: Pick<RememberedAddresses, "routes" | "gatewayMac">,
  ): void {
    this.#routes.set(`${netnsInode} ${name}`, learned);
  }

  putPaths(netnsInode: string, name: string, paths: NicPaths): void {
    this.#paths.set(`${netnsInode} ${name}`, paths);
  }

  takeLink(netnsInode: string, name: string): void {
    const links = this.#linksOf(netnsInode);
    const link = links.get(name);
    if (link === undefined) return;
    links.delete(name);
    this.dropForwarding(netnsInode, name);
    this.#routes.delete(`${netnsInode} ${name}`);
    this.#paths.delete(`${netnsInode} ${name}`);
    for (const link of links.values()) {
      if (link.master === name) links.set(link.name, withoutMaster(link));
    }
    this.#notify(netnsInode, link);
  }

  findLink(netnsInode: string, name: string): Link | undefined {
    return this.#linksOf(netnsInode).get(name);
  }

  openTap(netnsInode: string, name: string): void {
    const tap = this.findLink(netnsInode, name);
    if (tap !== undefined) this.putLink(netnsInode, { ...tap, carrier: true });
  }

  onChange(listener: (netnsInode: string, link: Link) => void): void {
    this.#listeners.push(listener);
  }

  failNext(call: FakePodNetworkCall, error: unknown): void {
    this.#failures.set(call, error);
  }

  failBefore(part: WiringPart, error: unknown): void {
    this.#interruption = { before: part, error };
  }

  observe(netns: NetnsHandle): Promise<PodView> {
    return this.#call("observe", () => {
      const links = new Map(this.#linksOf(netns.inode));
      const forwarding = new Set(this.#forwarding);
      const rules = new Map(this.#rules);
      const policies = new Map(this.#policies);
      return {
        links: this.#sortedLinks(netns.inode),
        isWired: (wiring) => isWired(wiring, { inode: netns.inode, links, forwarding, rules }),
        hasPolicy: ({ tapName, policy }) =>
          policies.get(`${netns.inode} ${tapName}`) === (policy && JSON.stringify(policy)),
      };
    });
  }

  listLinks(netns: NetnsHandle): Promise<readonly Link[]> {
    return this.#call("listLinks", () => this.#sortedLinks(netns.inode));
  }

  #sortedLinks(inode: string): readonly Link[] {
    return [...this.#linksOf(inode).values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  wireTap(netns: NetnsHandle, wiring: PodWiring): Promise<void> {
    return this.#call("wireTap", () => {
      if (wiring.kind === "tap") this.#setUp(netns.inode, wiring.tapName);
      else this.#wireBridge(netns.inode, wiring);
      this.#rules.set(`${netns.inode} ${wiring.tapName}`, printRules(wiring));
      this.#putPolicy(netns.inode, wiring);
      if (wiring.kind !== "tap") this.#limit(netns.inode, wiring);
    });
  }

  applyPolicy(netns: NetnsHandle, wiring: ObservedWiring): Promise<void> {
    return this.#call("applyPolicy", () => {
      this.#putPolicy(netns.inode, wiring);
    });
  }

  #putPolicy(inode: string, { tapName, policy }: ObservedWiring): void {
    const key = `${inode} ${tapName}`;
    if (policy === undefined) this.#policies.delete(key);
    else this.#policies.set(key, JSON.stringify(policy));
  }

  makeBridge(netns: NetnsHandle, wiring: BridgeWiring): Promise<void> {
    return this.#call("makeBridge", () => {
      this.#wireBridge(netns.inode, wiring, ["bridge", "nic"]);
    });
  }

  removeBridge(netns: NetnsHandle, bridgeName: string): Promise<void> {
    return this.#call("removeBridge", () => {
      this.takeLink(netns.inode, bridgeName);
    });
  }

  unwireTap(netns: NetnsHandle, wiring: RemovableWiring): Promise<void> {
    return this.#call("unwireTap", () => {
      this.#rules.delete(`${netns.inode} ${wiring.tapName}`);
      this.#policies.delete(`${netns.inode} ${wiring.tapName}`);
      if (wiring.kind === "tap") return;
      this.takeLink(netns.inode, buildLimiterName(wiring.tapName));
      this.takeLink(netns.inode, wiring.tapName);
      this.takeLink(netns.inode, wiring.bridgeName);
    });
  }

  readAddresses({ inode }: NetnsHandle, name: string): Promise<RememberedAddresses> {
    return this.#call("readAddresses", () => {
      const nic = this.findLink(inode, name);
      if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
      return {
        podInterfaceName: name,
        index: nic.index,
        addresses: nic.addresses.filter((address) => !isIpv6LinkLocal(address)),
        routes: [],
        ...this.#routes.get(`${inode} ${name}`),
      };
    });
  }

  announce({ inode }: NetnsHandle, { podInterfaceName, mac }: AnnouncedNic): Promise<void> {
    return this.#call("announce", () => {
      const nic = this.findLink(inode, podInterfaceName);
      const details = { call: "sendto", path: podInterfaceName, reason: "no such device" };
      if (nic?.up !== true) throw new AppError("OS_FILE_FAILED", details);
      this.announced.push(`${podInterfaceName} ${mac}`);
    });
  }

  readPaths({ inode }: NetnsHandle, name: string): Promise<NicPaths | undefined> {
    return this.#call("readPaths", () =>
      this.findLink(inode, name) === undefined
        ? undefined
        : (this.#paths.get(`${inode} ${name}`) ?? { routes: [], neighbors: [] }),
    );
  }

  restoreNic({ inode }: NetnsHandle, { name, mac, addresses, paths }: BorrowedNic): Promise<void> {
    return this.#call("restoreNic", () => {
      const nic = this.findLink(inode, name);
      if (nic === undefined) return;
      const isOther = mac !== undefined && normalizeMac(mac) !== nic.mac;
      const restored = isOther ? { mac: normalizeMac(mac), up: false } : {};
      const all = [...new Set([...nic.addresses, ...addresses])];
      const hasPaths = [...(paths?.routes ?? []), ...(paths?.neighbors ?? [])].length > 0;
      const up = hasPaths ? { up: true } : {};
      this.putLink(inode, { ...nic, ...restored, ...up, addresses: all });
      if (paths !== undefined) this.putPaths(inode, name, paths);
    });
  }

  removeLink(netns: NetnsHandle, name: string): Promise<void> {
    return this.#call("removeLink", () => {
      this.takeLink(netns.inode, name);
    });
  }

  restoreName(netns: NetnsHandle, { name, originalName, mac }: RenamedNic): Promise<void> {
    return this.#call("restoreName", () => {
      const nic = this.findLink(netns.inode, name);
      if (nic === undefined) return;
      this.takeLink(netns.inode, originalName);
      this.takeLink(netns.inode, name);
      const restored = { ...withoutMaster(nic), name: originalName, up: false };
      this.putLink(netns.inode, { ...restored, ...(mac === undefined ? {} : { mac }) });
    });
  }

  #setUp(inode: string, tapName: string): void {
    const tap = this.findLink(inode, tapName);
    if (tap === undefined) throw new AppError("PODNET_LINK_MISSING", { link: tapName });
    if (!canOpen(tap)) throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: tap.kind });
    if (!tap.up) this.putLink(inode, { ...tap, up: true });
  }

  #wireBridge(
    inode: string,
    wiring: BridgeWiring | MasqueradeWiring,
    parts: readonly WiringPart[] = WIRING_PARTS,
  ): void {
    const { podInterfaceName, bridgeName: master, tapName, mtu, mac } = wiring;
    const nic = this.findLink(inode, podInterfaceName);
    if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: podInterfaceName });
    if (nic.kind === "ipvlan") {
      throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: nic.kind });
    }
    const make: Readonly<Record<WiringPart, () => void>> = {
      bridge: () => {
        const bridgeMac = `5e${mac.slice(2)}`;
        const bridge = { name: master, kind: "bridge", mac: bridgeMac, mtu, up: true };
        this.putLink(inode, { ...bridge, addresses: listAnswers(wiring) });
      },
      tap: () => {
        const carrier = this.findLink(inode, tapName)?.carrier ?? false;
        const tap = { name: tapName, kind: "tun", mac: `5a${mac.slice(2)}`, mtu, up: true };
        this.putLink(inode, { ...tap, carrier, master });
      },
      nic: () => {
        if (wiring.kind === "masquerade") return;
        const own = wiring.incomingPodUid !== undefined ? `56${mac.slice(2)}` : mac;
        this.putLink(inode, { ...nic, mac: own, up: true, master, addresses: [] });
        this.#routes.delete(`${inode} ${podInterfaceName}`);
      },
      forwarding: () => {
        this.#forwarding.add(toEntryKey(inode, tapName, mac));
      },
    };
    const interruption = this.#interruption;
    this.#interruption = undefined;
    for (const part of parts) {
      if (interruption?.before === part) throw interruption.error;
      make[part]();
    }
  }

  #limit(inode: string, { tapName, mac, limits }: PodWiring): void {
    const name = buildLimiterName(tapName);
    if (limits?.outbound === undefined) this.takeLink(inode, name);
    else this.putLink(inode, { name, kind: "ifb", mac: `5b${mac.slice(2)}`, mtu: 1500, up: true });
  }

  #linksOf(inode: string): Map<string, Link> {
    const known = this.#namespaces.get(inode);
    if (known !== undefined) return known;
    const lo: Link = {
      name: "lo",
      index: 1,
      kind: "",
      mac: "00:00:00:00:00:00",
      mtu: 65536,
      up: true,
      carrier: true,
      addresses: [],
    };
    const links = new Map([[lo.name, lo]]);
    this.#namespaces.set(inode, links);
    return links;
  }

  #nextIndex(): number {
    this.#lastIndex += 1;
    return this.#lastIndex;
  }

  #notify(inode: string, link: Link): void {
    for (const listener of this.#listeners) listener(inode, link);
  }

  async #call<T>(name: string, act: () => T): Promise<T> {
    await Promise.resolve();
    if (!this.#failures.has(name)) return act();
    const error = this.#failures.get(name);
    this.#failures.delete(name);
    throw error;
  }
}

/** State of a namespace that determines whether something is wired there. */
interface Observed {
  readonly inode: string;
  readonly links: ReadonlyMap<string, Link>;
  /** Entries as `INODE TAP MAC`. */
  readonly forwarding: ReadonlySet<string>;
  readonly rules: ReadonlyMap<string, string>;
}

function canOpen({ kind }: Link): boolean {
  return kind === "tun" || kind === "macvtap";
}

/** Prints the differences between wirings other than their links. */
function printRules(wiring: ObservedWiring): string {
  const { kind, guard, limits, incomingPodUid } = wiring;
  const nat = kind === "masquerade" ? [wiring.ipv4, wiring.ipv6, wiring.ports] : [];
  return JSON.stringify([
    guard ?? null,
    ...nat,
    ...(incomingPodUid !== undefined ? ["awaited"] : []),
    ...(limits === undefined || kind === "tap" ? [] : [limits]),
  ]);
}

function isWired(wiring: ObservedWiring, observed: Observed): boolean {
  const none = JSON.stringify([null]);
  if ((observed.rules.get(`${observed.inode} ${wiring.tapName}`) ?? none) !== printRules(wiring))
    return false;
  if (wiring.kind !== "tap") return isBridged(wiring, observed);
  const tap = observed.links.get(wiring.tapName);
  return tap?.up === true && canOpen(tap);
}

function isBridged(
  wiring: Exclude<ObservedWiring, { kind: "tap" }>,
  { inode, links, forwarding }: Observed,
): boolean {
  const { bridgeName, tapName, mac, mtu } = wiring;
  const [bridge, tap] = [bridgeName, tapName].map((name) => links.get(name));
  const isTapDone = isPort(bridgeName, tap) && tap?.mtu === mtu;
  const isForwarded = forwarding.has(toEntryKey(inode, tapName, mac));
  const hasLimiter = links.has(buildLimiterName(tapName));
  if (hasLimiter !== (wiring.limits?.outbound !== undefined)) return false;
  return bridge?.up === true && isTapDone && isForwarded && isNicDone(wiring, links);
}

function isPort(bridgeName: string, link: Link | undefined): boolean {
  return link?.up === true && link.master === bridgeName;
}

/** Checks the pod NIC: for masquerade it only exists; otherwise it is a port without addresses and with its MAC. */
function isNicDone(
  wiring: Exclude<ObservedWiring, { kind: "tap" }>,
  links: ReadonlyMap<string, Link>,
): boolean {
  const nic = links.get(wiring.podInterfaceName);
  if (wiring.kind === "masquerade" || nic === undefined) return nic !== undefined;
  const isSilent =
    nic.addresses.length === 0 &&
    (nic.mac === wiring.mac) !== (wiring.incomingPodUid !== undefined);
  const isAnswering = isEqual(links.get(wiring.bridgeName)?.addresses, listAnswers(wiring));
  return isPort(wiring.bridgeName, nic) && isSilent && isAnswering;
}

function listAnswers(wiring: BridgeWiring | MasqueradeWiring | ObservedWiring): readonly string[] {
  return wiring.kind === "bridge" ? (wiring.replies?.addresses ?? []) : [];
}

function withoutMaster(link: Link): Link {
  const { name, index, kind, mac, mtu, up, carrier, addresses, tapQueues } = link;
  const rest = { name, index, kind, mac, mtu, up, carrier, addresses };
  return tapQueues === undefined ? rest : { ...rest, tapQueues };
}

function toEntryKey(inode: string, tapName: string, mac: string): string {
  return `${inode} ${tapName} ${mac}`;
}
