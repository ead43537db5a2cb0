// SPDX-License-Identifier: Apache-2.0
// A domain in memory: the live XML and the persistent XML, whose NICs can change.
import { AppError, isEqual } from "@patchbay/base";
import { freeAddresses, type DomainFacts, type PciAddress } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import type {
  AttachTarget,
  DeviceTarget,
  DomainInfo,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  GuestTopic,
  Migration,
} from "@patchbay/core/interfaces";

const INTERFACE = /<interface\b[\s\S]*?<\/interface>\s*/g;
const AGENT_TARGET = /(name=["']org\.qemu\.guest_agent\.0["'])( state="\w+")?(\/?>)/;
const PCI_ADDRESS = /<address\s+type=["']pci["'][^>]*>/;

export function parseName(xml: string): string {
  parseFacts(xml);
  const name = /<name>([^<]+)<\/name>/.exec(xml)?.[1];
  if (name === undefined) throw refused("virDomainDefineXMLFlags", "XML error: no name");
  return name;
}

function parseUuid(xml: string): string | undefined {
  return /<uuid>([^<]+)<\/uuid>/.exec(xml)?.[1];
}

export class FakeDomain {
  readonly #uuid: string;
  #config: string;
  #live: string | undefined;
  readonly #held = new Set<string>();
  #end: "stopped" | "crashed" | "migrated" = "stopped";
  #agent: readonly GuestInterface[] | undefined;
  /** System that the agent reports. */
  system: GuestSystem = {};
  readonly facts = new Map<GuestTopic, GuestFacts>();
  #isPaused = false;
  #hasDiskError = false;
  #isLeaving = false;

  /** `newUuid` is used if the XML has none. */
  constructor(xml: string, newUuid: string) {
    this.#uuid = parseUuid(xml) ?? newUuid;
    this.#config = this.#place(xml);
  }

  /** Replaces the definition with the same name and UUID. A running guest is unchanged. */
  redefine(xml: string): void {
    if (parseUuid(xml) !== this.#uuid) {
      const message = `operation failed: domain already exists with uuid ${this.#uuid}`;
      throw refused("virDomainDefineXMLFlags", message);
    }
    this.#config = this.#place(xml);
  }

  info(name: string): DomainInfo {
    const off = this.#end === "crashed" ? "crashed" : "shutoff";
    const on = this.#isPaused ? "paused" : "running";
    const isOff = this.#live === undefined;
    const facts = { name, uuid: this.#uuid, state: isOff ? off : on, persistent: true } as const;
    const diskError = this.#hasDiskError ? ({ hasDiskError: true } as const) : {};
    if (!isOff) return { ...facts, ...diskError, ...(this.#isLeaving && { move: "leaving" }) };
    return this.#end === "migrated" ? { ...facts, move: "left" } : facts;
  }

  /** Returns the XML. Like libvirt, returns the definition if the domain does not run. */
  xml(target: DeviceTarget): string {
    return target === "live" ? (this.#live ?? this.#config) : this.#config;
  }

  /** Connects or disconnects the agent, which like libvirt changes the state of the channel in the XML. */
  setAgent(interfaces: readonly GuestInterface[] | undefined): void {
    this.#agent = interfaces;
    const state = interfaces === undefined ? "disconnected" : "connected";
    this.#live = this.#live?.replace(AGENT_TARGET, `$1 state="${state}"$3`);
  }

  queryAgent(): readonly GuestInterface[] {
    if (this.#agent !== undefined) return this.#agent;
    const message = "Guest agent is not responding: QEMU guest agent is not connected";
    throw new AppError("LIBVIRT_AGENT_UNAVAILABLE", { message });
  }

  /** Starts the domain. Returns false if it already runs. */
  start(how: "running" | "paused"): boolean {
    if (this.#live !== undefined) return false;
    this.#isPaused = how === "paused";
    this.#live = this.#config;
    return true;
  }

  /** Pauses or resumes the domain. Returns false if that changes nothing. */
  setPaused(isPaused: boolean): boolean {
    this.expectRunning();
    if (this.#isPaused === isPaused) return false;
    this.#isPaused = isPaused;
    this.#isLeaving = false;
    this.#hasDiskError = false;
    return true;
  }

  failDisk(): void {
    this.#isPaused = true;
    this.#hasDiskError = true;
  }

  /** Leaves the domain paused, as in the last phase of a migration that was lost. */
  strand(): void {
    this.#isPaused = true;
    this.#isLeaving = true;
  }

  expectRunning(): void {
    if (this.#live !== undefined) return;
    throw new AppError("LIBVIRT_NOT_RUNNING", { message: "domain is not running" });
  }

  /** Stops the domain. Returns false if it does not run. */
  stop(how: "stopped" | "crashed" | "migrated"): boolean {
    if (this.#live === undefined) return false;
    this.#end = how;
    this.#live = undefined;
    this.#agent = undefined;
    this.#held.clear();
    return true;
  }

  /** Returns the paused domain as the target of a migration receives it. */
  twinFor(
    { liveXml, configXml }: Pick<Migration, "liveXml" | "configXml">,
    forge: (xml: string) => string,
  ): FakeDomain {
    const live = this.#live ?? this.#config;
    expectSameLayout(live, liveXml ?? live);
    const twin = new FakeDomain(forge(configXml ?? this.#config), this.#uuid);
    twin.#live = forge(liveXml ?? live);
    twin.#isPaused = true;
    twin.#agent = this.#agent;
    // Unplugs that the guest holds are completed on the target.
    for (const alias of this.#held) twin.#held.add(alias);
    return twin;
  }

  attach(xml: string, target: AttachTarget): void {
    const targets: readonly DeviceTarget[] = target === "both" ? ["live", "config"] : [target];
    let placed = xml;
    const changes = targets.map((each) => {
      const before = this.#changeable(each);
      placed = placeIn(before, placed);
      return { target: each, xml: insert(before, placed) };
    });
    for (const change of changes) this.#write(change.target, change.xml);
  }

  expectDevice(alias: string, target: DeviceTarget): void {
    if (listNics(this.#changeable(target)).some((nic) => parseAlias(nic) === alias)) return;
    throw new AppError("LIBVIRT_DEVICE_MISSING", { device: alias });
  }

  remove(alias: string, target: DeviceTarget): void {
    const without = this.#changeable(target).replace(INTERFACE, (nic) =>
      parseAlias(nic) === alias ? "" : nic,
    );
    this.#write(target, without);
  }

  /** Replaces the NIC with the same alias, whose address remains. */
  update(xml: string, target: DeviceTarget): void {
    const alias = parseAlias(xml);
    this.expectDevice(alias, target);
    const updated = this.#changeable(target).replace(INTERFACE, (nic) =>
      parseAlias(nic) === alias ? withAddress(xml, PCI_ADDRESS.exec(nic)?.[0] ?? "") : nic,
    );
    this.#write(target, updated);
  }

  /** Records a requested unplug that the guest holds. */
  hold(alias: string): void {
    this.#held.add(alias);
  }

  release(alias: string): void {
    this.#held.delete(alias);
  }

  /** Completes all held unplugs. Returns their aliases in the order of the requests. */
  takeHeld(): readonly string[] {
    const aliases = [...this.#held];
    this.#held.clear();
    for (const alias of aliases) this.remove(alias, "live");
    return aliases;
  }

  #place(xml: string): string {
    const named = parseUuid(xml) === undefined ? `</name><uuid>${this.#uuid}</uuid>` : "</name>";
    return placeNics(xml.replace("</name>", named));
  }

  #changeable(target: DeviceTarget): string {
    if (target === "config") return this.#config;
    if (this.#live === undefined) {
      const message = "Requested operation is not valid: domain is not running";
      throw new AppError("LIBVIRT_NOT_RUNNING", { domain: parseName(this.#config), message });
    }
    return this.#live;
  }

  #write(target: DeviceTarget, xml: string): void {
    if (target === "config") this.#config = xml;
    else this.#live = xml;
  }
}

/** Throws like libvirt unless NICs have the same MACs and addresses, and there are as many controllers. */
function expectSameLayout(source: string, target: string): void {
  const [sourceFacts, targetFacts] = [parseFacts(source), parseFacts(target)];
  const call = "virDomainMigrateToURI3";
  const nics = [sourceFacts, targetFacts].map((facts) =>
    facts.nics.map(({ mac, pciAddress }) => ({ mac, pciAddress })),
  );
  if (
    isEqual(nics[0], nics[1]) &&
    sourceFacts.controllers.length === targetFacts.controllers.length
  )
    return;
  throw refused(call, "unsupported configuration: the target does not match the source");
}

function listNics(xml: string): readonly string[] {
  return xml.match(INTERFACE) ?? [];
}

function parseAlias(nic: string): string {
  return /<alias\s+name=["']([^"']*)["']/.exec(nic)?.[1] ?? "";
}

function parseFacts(xml: string): DomainFacts {
  const parsed = parseDomain(xml);
  if (!parsed.ok) throw refused("reading XML", `XML error: ${parsed.reason}`);
  return parsed.domain;
}

/** Assigns the lowest free address to each NIC without one, in XML order. */
function placeNics(xml: string): string {
  return listNics(xml)
    .filter((nic) => !PCI_ADDRESS.test(nic))
    .reduce((placed, nic) => placed.replace(nic, placeNic(nic, parseFacts(placed))), xml);
}

/** Returns the XML of a NIC with its address in the domain. */
function placeIn(domain: string, nic: string): string {
  const alias = parseAlias(nic);
  if (listNics(domain).some((each) => parseAlias(each) === alias)) {
    throw new AppError("LIBVIRT_DEVICE_EXISTS", { device: alias });
  }
  return placeNic(nic, parseFacts(domain));
}

function placeNic(nic: string, facts: DomainFacts): string {
  const requested = parseFacts(`<domain><devices>${nic}</devices></domain>`).pciAddresses[0];
  if (requested === undefined) {
    const [free] = freeAddresses(facts);
    if (free === undefined) throw new AppError("LIBVIRT_NO_FREE_PORT", { device: parseAlias(nic) });
    return withAddress(nic, printAddress(free));
  }
  if (
    facts.pciAddresses.some((used) => used.bus === requested.bus && used.slot === requested.slot)
  ) {
    const message = `XML error: Attempted double use of PCI Address on bus ${String(requested.bus)}`;
    throw new AppError("LIBVIRT_ADDRESS_REFUSED", { message });
  }
  return nic;
}

function withAddress(nic: string, address: string): string {
  return PCI_ADDRESS.test(nic) ? nic : nic.replace("</interface>", `${address}</interface>`);
}

function printAddress({ bus, slot }: PciAddress): string {
  return `<address type='pci' domain='0' bus='${String(bus)}' slot='${String(slot)}' function='0'/>`;
}

function insert(xml: string, nic: string): string {
  return xml.replace("</devices>", `${nic}\n</devices>`);
}

function refused(call: string, message: string): AppError {
  return new AppError("LIBVIRT_REFUSED", { call, message });
}
