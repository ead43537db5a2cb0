// SPDX-License-Identifier: Apache-2.0
// Implements PodNetwork: reads the links of a pod's network namespace, and wires taps with netlink and nftables.
import { parseIp } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type { Netlink, NetnsHandle, PodNetwork, PodView } from "@patchbay/core/interfaces";
import {
  type AddressFlag,
  type LinkChange,
  type LinkSettings,
  printLinkChange,
  SWITCH_FRAMES_MASK,
} from "./links.ts";
import { queryLinkIndices, queryLinks } from "./netlink/queries.ts";
import {
  REQUEST_ACK,
  encodeAttribute,
  parseMac,
  encodeMessage,
  encodeNestedAttribute,
  describeErrno,
  u16,
  u32,
  u8,
} from "./netlink/message.ts";
import {
  toAddressBytes,
  AF_BRIDGE,
  AF_INET,
  AF_INET6,
  CREATE,
  EXCLUSIVE,
  LINK_FLAGS,
  FLOODING_ATTRIBUTES,
  GROUP_FORWARD_MASK_ATTRIBUTE,
  MESSAGE_HEADER_BYTES,
  IFA,
  IFLA,
  LINK_INFO,
  LEARNING_ATTRIBUTE,
  NDA,
  NUD,
  BRIDGE_DELAY_ATTRIBUTES,
  REPLACE,
  RTM,
} from "./netlink/rtnetlink.ts";
import type { RemovableWiring, PodWiring, ObservedWiring } from "@patchbay/core/nics";
import {
  restoreNic,
  readAddresses,
  readPaths,
  removeLink,
  restoreName,
  restorePaths,
} from "./pod-nic.ts";
import { buildAnnouncements } from "./announcements.ts";
import {
  createNetnsStates,
  type NetnsState,
  type NetnsStates,
  type StateSources,
} from "./netlink/netns-state.ts";
import { runInNamespace } from "./run-in.ts";
import { listSysctlDirectories, printSysctls, WRITE_SYSCTLS_SCRIPT } from "./sysctls.ts";
import { encodeRateLimit, encodeRateRemoval } from "./netlink/rate-limits.ts";
import { applyLimits, isLimited, removeLimiter } from "./wiring/rate-limits.ts";
import {
  BRIDGE_WIRER,
  isGuarded,
  MASQUERADE_WIRER,
  type Pod,
  addGuard,
  applyPolicy,
  planPolicy,
  removeBridge,
  removeGuard,
  removeRules,
  TAP_WIRER,
  wireWithoutTap,
} from "./wiring/wirers.ts";

type IndexLookup = (name: string) => number;

/** Changes that need one netlink message. Taps are created with /dev/net/tun instead, and a flush first lists the addresses. */
export type SingleMessageChange = Exclude<LinkChange, { readonly op: "addTap" | "flushAddresses" }>;

/** Source: linux/neighbour.h */
const [NTF_MASTER, NUD_REACHABLE] = [0x04, 0x02];
/** Attributes and value that disable the generation of link-local addresses. Source: linux/if_link.h */
const [IFLA_AF_SPEC, ADDR_GEN_MODE, GEN_NONE] = [26, 8, 1];
/** Source: linux/if_addr.h */
const IFA_FLAGS = 8;
const ADDRESS_FLAGS: Readonly<Record<AddressFlag, number>> = { nodad: 0x02, noprefixroute: 0x200 };
const PORT_KIND = 4;

const PLAIN_BRIDGE_INFO = encodeNestedAttribute(
  IFLA.info,
  encodeAttribute(LINK_INFO.kind, "bridge"),
  encodeNestedAttribute(
    LINK_INFO.data,
    encodeAttribute(BRIDGE_DELAY_ATTRIBUTES.forwardDelay, u32(0)),
    encodeAttribute(BRIDGE_DELAY_ATTRIBUTES.spanningTree, u32(0)),
    encodeAttribute(BRIDGE_DELAY_ATTRIBUTES.snooping, u8(0)),
  ),
);

interface LinkParts {
  readonly parts?: readonly Uint8Array[];
  readonly set?: number;
  readonly mask?: number;
}

function encodeLinkMessage(
  { type, flags = 0, index = 0 }: { type: number; flags?: number; index?: number },
  { set = 0, mask = 0, parts = [] }: LinkParts,
): Uint8Array {
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.link);
  header.writeInt32LE(index, 4);
  header.writeUInt32LE(set, 8);
  header.writeUInt32LE(mask, 12);
  return encodeMessage({ type, flags: REQUEST_ACK | flags }, Buffer.concat([header, ...parts]));
}

function encodePortParts(types: readonly number[], value: Uint8Array): LinkParts {
  const data = types.map((type) => encodeAttribute(type, value));
  const kind = encodeAttribute(PORT_KIND, "bridge");
  return {
    parts: [
      encodeNestedAttribute(IFLA.info, kind, encodeNestedAttribute(LINK_INFO.portData, ...data)),
    ],
  };
}

type Settings = Required<LinkSettings>;

const SETTING_ENCODERS: {
  readonly [Name in keyof Settings]: (value: Settings[Name], toIndex: IndexLookup) => LinkParts;
} = {
  mac: (mac) => ({ parts: [encodeAttribute(IFLA.address, parseMac(mac))] }),
  mtu: (mtu) => ({ parts: [encodeAttribute(IFLA.mtu, u32(mtu))] }),
  master: (name, toIndex) => ({ parts: [encodeAttribute(IFLA.master, u32(toIndex(name)))] }),
  arp: (value) => ({ set: value ? 0 : LINK_FLAGS.noArp, mask: LINK_FLAGS.noArp }),
  addressGeneration: () => ({
    parts: [
      encodeNestedAttribute(
        IFLA_AF_SPEC,
        encodeNestedAttribute(AF_INET6, encodeAttribute(ADDR_GEN_MODE, u8(GEN_NONE))),
      ),
    ],
  }),
  up: (value) => ({ set: value ? LINK_FLAGS.up : 0, mask: LINK_FLAGS.up }),
  learning: (value) => encodePortParts([LEARNING_ATTRIBUTE], u8(Number(value))),
  flooding: (value) => encodePortParts(FLOODING_ATTRIBUTES, u8(Number(value))),
  passesSwitchFrames: (value) =>
    encodePortParts([GROUP_FORWARD_MASK_ATTRIBUTE], u16(value ? SWITCH_FRAMES_MASK : 0)),
};

function encodeSetting(
  name: keyof Settings,
  settings: LinkSettings,
  toIndex: IndexLookup,
): LinkParts {
  const value = settings[name];
  if (value === undefined) return {};
  const encode = SETTING_ENCODERS[name] as (
    value: Settings[keyof Settings],
    toIndex: IndexLookup,
  ) => LinkParts;
  return encode(value, toIndex);
}

function encodeSettings(settings: LinkSettings, toIndex: IndexLookup): LinkParts {
  const names = Object.keys(SETTING_ENCODERS) as (keyof Settings)[];
  const encodedSettings = names.map((name) => encodeSetting(name, settings, toIndex));
  return {
    parts: encodedSettings.flatMap(({ parts = [] }) => parts),
    set: encodedSettings.reduce((bits, { set = 0 }) => bits | set, 0),
    mask: encodedSettings.reduce((bits, { mask = 0 }) => bits | mask, 0),
  };
}

function encodeAddressMessage(
  { type, flags }: { readonly type: number; readonly flags: number },
  target: { readonly address: string; readonly index: number; readonly bits: number },
): Uint8Array {
  const { address, index, bits } = target;
  const ip = parseIp(address);
  if (ip === undefined) {
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(address)} is not an IP address`,
    });
  }
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.address);
  header.set([ip.version === 4 ? AF_INET : AF_INET6, ip.length]);
  header.writeUInt32LE(index, 4);
  const bytes = toAddressBytes(ip);
  const parts = [
    encodeAttribute(IFA.local, bytes),
    encodeAttribute(IFA.address, bytes),
    ...(bits === 0 ? [] : [encodeAttribute(IFA_FLAGS, u32(bits))]),
  ];
  return encodeMessage({ type, flags: REQUEST_ACK | flags }, Buffer.concat([header, ...parts]));
}

function encodeAddressRemoval(address: string, index: number): Uint8Array {
  return encodeAddressMessage({ type: RTM.deleteAddress, flags: 0 }, { address, index, bits: 0 });
}

function encodeForwardingMessage(
  { op, mac }: Extract<LinkChange, { readonly op: "replaceFdbEntry" | "deleteFdbEntry" }>,
  index: number,
): Uint8Array {
  const isRemoval = op === "deleteFdbEntry";
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.neighbour);
  header[0] = AF_BRIDGE;
  header.writeInt32LE(index, 4);
  header.writeUInt16LE(isRemoval ? NUD.permanent : NUD.static | NUD_REACHABLE, 8);
  header[10] = NTF_MASTER;
  const body = Buffer.concat([header, encodeAttribute(NDA.mac, parseMac(mac))]);
  const type = isRemoval ? RTM.deleteNeighbour : RTM.newNeighbour;
  return encodeMessage({ type, flags: REQUEST_ACK | (isRemoval ? 0 : CREATE | REPLACE) }, body);
}

/** Encodes a change. @throws AppError with PODNET_ARGUMENT_INVALID for an invalid address, PODNET_FAILED for a missing link */
export function encodeChange(change: SingleMessageChange, toIndex: IndexLookup): Uint8Array {
  const { link } = change;
  switch (change.op) {
    case "addLimiter": {
      const info = encodeNestedAttribute(IFLA.info, encodeAttribute(LINK_INFO.kind, "ifb"));
      const parts = [encodeAttribute(IFLA.name, link), info];
      return encodeLinkMessage({ type: RTM.newLink, flags: CREATE | EXCLUSIVE }, { parts });
    }
    case "setRate":
      return encodeRateLimit(toIndex(link), change.limit);
    case "clearRate":
      return encodeRateRemoval(toIndex(link));
    case "addBridge": {
      const parts = [encodeAttribute(IFLA.name, link), PLAIN_BRIDGE_INFO];
      return encodeLinkMessage({ type: RTM.newLink, flags: CREATE | EXCLUSIVE }, { parts });
    }
    case "makePlain":
      return encodeLinkMessage(
        { type: RTM.newLink, index: toIndex(link) },
        { parts: [PLAIN_BRIDGE_INFO] },
      );
    case "setLink": {
      const parts = encodeSettings(change.settings, toIndex);
      return encodeLinkMessage({ type: RTM.newLink, index: toIndex(link) }, parts);
    }
    case "deleteLink":
      return encodeLinkMessage({ type: RTM.deleteLink, index: toIndex(link) }, {});
    case "addAddress": {
      const bits = change.flags.reduce((sum, flag) => sum | ADDRESS_FLAGS[flag], 0);
      const target = { address: change.address, index: toIndex(link), bits };
      return encodeAddressMessage({ type: RTM.newAddress, flags: CREATE | EXCLUSIVE }, target);
    }
    case "deleteAddress":
      return encodeAddressRemoval(change.address, toIndex(link));
    case "replaceFdbEntry":
    case "deleteFdbEntry":
      return encodeForwardingMessage(change, toIndex(link));
  }
}

/** EADDRNOTAVAIL: the kernel already deleted this secondary address together with its primary address. Source: errno(3) */
const ADDRESS_NOT_AVAILABLE = 99;

function createIndexLookup(
  links: ReadonlyMap<string, number>,
  change: LinkChange,
): (name: string) => number {
  return (name) => {
    const index = links.get(name);
    if (index !== undefined) return index;
    const message = `${printLinkChange(change)}: there is no link ${name}`;
    throw new AppError("PODNET_FAILED", { message });
  };
}

function refusalError(change: LinkChange, errno: number): AppError {
  const message = `the kernel refused "${printLinkChange(change)}": ${describeErrno(errno)}`;
  return new AppError("PODNET_FAILED", { message });
}

interface ChangeMessage {
  readonly change: SingleMessageChange;
  readonly message: Uint8Array;
}

async function sendMessages(
  netlink: Netlink,
  netns: NetnsHandle,
  pendingMessages: readonly ChangeMessage[],
): Promise<void> {
  if (pendingMessages.length === 0) return;
  const messages = pendingMessages.map(({ message }) => message);
  const answers = await netlink.exchangeMessages(netns, "route", messages);
  const refusedIndex = answers.findIndex(({ errno }) => errno !== 0);
  const refusedChange = pendingMessages[refusedIndex];
  if (refusedChange !== undefined)
    throw refusalError(refusedChange.change, answers[refusedIndex]?.errno ?? 0);
}

type Flush = Extract<LinkChange, { readonly op: "flushAddresses" }>;

async function flushAddresses(netlink: Netlink, netns: NetnsHandle, change: Flush): Promise<void> {
  const link = (await queryLinks(netlink, netns)).find(({ name }) => name === change.link);
  if (link === undefined) return;
  for (const address of link.addresses) {
    const [answer] = await netlink.exchangeMessages(netns, "route", [
      encodeAddressRemoval(address, link.index),
    ]);
    const errno = answer?.errno ?? 0;
    if (errno !== 0 && errno !== ADDRESS_NOT_AVAILABLE) throw refusalError(change, errno);
  }
}

/** Applies changes. No change may refer to a link that an earlier change of the group creates. */
async function applyGroup(
  netlink: Netlink,
  netns: NetnsHandle,
  changes: readonly LinkChange[],
): Promise<void> {
  const links = await queryLinkIndices(netlink, netns);
  let pendingChanges: ChangeMessage[] = [];
  const flushPending = async (): Promise<void> => {
    const pendingMessages = pendingChanges;
    pendingChanges = [];
    await sendMessages(netlink, netns, pendingMessages);
  };
  for (const change of changes) {
    if (change.op === "addTap") {
      await flushPending();
      const { link: name, owner, isMultiQueue } = change;
      await netlink.makeTap(netns, { name, owner, isMultiQueue });
    } else if (change.op === "flushAddresses") {
      await flushPending();
      await flushAddresses(netlink, netns, change);
    } else {
      pendingChanges.push({
        change,
        message: encodeChange(change, createIndexLookup(links, change)),
      });
    }
  }
  await flushPending();
}

function makesLink({ op }: LinkChange): boolean {
  return op === "addBridge" || op === "addTap" || op === "addLimiter";
}

/** Applies changes in order, until the first failure. @throws AppError with PODNET_FAILED, OS_FILE_FAILED */
async function applyLinkChanges(
  netlink: Netlink,
  netns: NetnsHandle,
  changes: readonly LinkChange[],
): Promise<void> {
  let remaining = changes;
  while (remaining.length > 0) {
    // A change that creates a link ends the group, because later changes need the link's index.
    const lastOfGroup = remaining.findIndex(makesLink);
    const count = lastOfGroup < 0 ? remaining.length : lastOfGroup + 1;
    await applyGroup(netlink, netns, remaining.slice(0, count));
    remaining = remaining.slice(count);
  }
}

/** Pattern of link names and MACs, which become part of rules and of sysctl paths. */
const VALID_NAME = /^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/;

function assertValidNames(names: readonly string[]): void {
  const invalidName = names.find((name) => !VALID_NAME.test(name));
  if (invalidName !== undefined) {
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(invalidName)} is not a valid link name`,
    });
  }
}

function listNames(wiring: RemovableWiring): readonly string[] {
  const { podInterfaceName, tapName } = wiring;
  return [podInterfaceName, tapName, ...(wiring.kind === "tap" ? [] : [wiring.bridgeName])];
}

interface PodNetworkOptions extends StateSources {
  /** PID of a process with the host's mounts. Unset if this process has the host's mounts. */
  readonly hostProcess?: number;
}

interface NetnsAccess extends PodNetworkOptions {
  readonly states: NetnsStates;
}

export function createPodNetwork(options: PodNetworkOptions): PodNetwork {
  const { netlink } = options;
  const access: NetnsAccess = { ...options, states: createNetnsStates(options) };
  return {
    observe: async (netns) => toPodView(await access.states.read(netns)),
    listLinks: (netns) => queryLinks(netlink, netns),
    wireTap: async (netns, wiring) => {
      assertValidNames([...listNames(wiring), wiring.mac]);
      const pod = toPod(access, netns);
      const stateBefore = await pod.readState();
      await wireTap(pod, wiring, stateBefore);
      await addGuard(pod, wiring, stateBefore);
      await applyLimits(pod, wiring, stateBefore);
    },
    applyPolicy: async (netns, wiring) => {
      assertValidNames(listNames(wiring));
      const pod = toPod(access, netns);
      await applyPolicy(pod, wiring, await pod.readState());
    },
    makeBridge: async (netns, wiring) => {
      assertValidNames([wiring.podInterfaceName, wiring.bridgeName, wiring.mac]);
      await wireWithoutTap(toPod(access, netns), wiring);
    },
    removeBridge: async (netns, bridgeName) => {
      assertValidNames([bridgeName]);
      const pod = toPod(access, netns);
      await removeBridge(pod, bridgeName, await pod.readState());
    },
    unwireTap: async (netns, wiring) => {
      assertValidNames(listNames(wiring));
      const pod = toPod(access, netns);
      const stateBefore = await pod.readState();
      await removeLimiter(pod, wiring, stateBefore);
      await removeRules(pod, wiring, stateBefore);
      await unwireTap(pod, wiring, stateBefore);
      await removeGuard(pod, wiring, stateBefore);
    },
    readAddresses: async (netns, name) => {
      assertValidNames([name]);
      return readAddresses(access, netns, name);
    },
    announce: async (netns, nic) => {
      assertValidNames([nic.podInterfaceName, nic.mac]);
      await netlink.sendFrames(netns, nic.podInterfaceName, buildAnnouncements(nic));
    },
    readPaths: (netns, name) => readPaths(netlink, netns, name),
    restoreNic: async (netns, nic) => {
      const pod = toPod(access, netns);
      await restoreNic(pod, nic);
      await restorePaths({ netlink, pod }, netns, nic);
    },
    removeLink: (netns, name) => removeLink(access, netns, name),
    restoreName: async (netns, nic) => {
      assertValidNames([nic.name, nic.originalName, ...(nic.mac === undefined ? [] : [nic.mac])]);
      await restoreName(access, netns, nic);
    },
  };
}

function toPod({ runner, netlink, states, hostProcess }: NetnsAccess, netns: NetnsHandle): Pod {
  return {
    readState: () => states.read(netns),
    listLinks: () => queryLinks(netlink, netns),
    applyChanges: (changes) => applyLinkChanges(netlink, netns, changes),
    applyRules: (changes) => states.applyRules(netns, changes),
    setSysctls: async (sysctls) => {
      if (sysctls.length === 0) return;
      const stdin = printSysctls(sysctls);
      const args = ["-c", WRITE_SYSCTLS_SCRIPT, "sh", ...listSysctlDirectories(hostProcess)];
      await runInNamespace(runner, netns, { program: "sh", args, stdin });
    },
  };
}

function toPodView(state: NetnsState): PodView {
  return {
    links: [...state.links.values()],
    isWired: (wiring) =>
      isWired(state, wiring) && isGuarded(state, wiring) && isLimited(state, wiring),
    hasPolicy: (wiring) => planPolicy(state, wiring).length === 0,
  };
}

function isWired(state: NetnsState, wiring: ObservedWiring): boolean {
  switch (wiring.kind) {
    case "bridge":
      return BRIDGE_WIRER.isWired(state, wiring);
    case "masquerade":
      return MASQUERADE_WIRER.isWired(state, wiring);
    case "tap":
      return TAP_WIRER.isWired(state, wiring);
  }
}

async function wireTap(pod: Pod, wiring: PodWiring, stateBefore: NetnsState): Promise<void> {
  switch (wiring.kind) {
    case "bridge":
      return BRIDGE_WIRER.wire(pod, wiring, stateBefore);
    case "masquerade":
      return MASQUERADE_WIRER.wire(pod, wiring, stateBefore);
    case "tap":
      return TAP_WIRER.wire(pod, wiring, stateBefore);
  }
}

async function unwireTap(
  pod: Pod,
  wiring: RemovableWiring,
  stateBefore: NetnsState,
): Promise<void> {
  if (wiring.kind === "tap") return TAP_WIRER.unwire(pod, wiring, stateBefore);
  return wiring.kind === "bridge"
    ? BRIDGE_WIRER.unwire(pod, wiring, stateBefore)
    : MASQUERADE_WIRER.unwire(pod, wiring, stateBefore);
}
