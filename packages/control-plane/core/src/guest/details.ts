// SPDX-License-Identifier: Apache-2.0
// Converts the guest agent's reports on users, file systems and the operating system to KubeVirt's fields. Omits unprintable
// text, because the guest is not trusted. Source: KubeVirt api/core/v1 VirtualMachineInstanceGuestAgentInfo; libvirt
// virDomainGetGuestInfo.
import type { GuestOsInfo } from "@patchbay/api";
import type { GuestFacts } from "../interfaces/hypervisor.ts";

/** Maximum length of a reported string, in characters: the length of the longest Windows link name. Source: MIB_IF_ROW2. */
const TEXT_MAX = 255;

export function isPrintable(text: string): boolean {
  return text !== "" && text.length <= TEXT_MAX && !/\p{Cc}|\p{Cf}/u.test(text);
}

export function readGuestSystem(answer: GuestOsInfo): GuestOsInfo {
  const printable = Object.entries(answer).filter(([, text]) => isPrintable(text));
  return Object.fromEntries(printable);
}

interface GuestUser {
  readonly userName: string;
  readonly domain?: string;
  /** Login time in seconds since 1970. */
  readonly loginTime?: number;
}

interface GuestFilesystem {
  readonly diskName: string;
  readonly mountPoint: string;
  readonly fileSystemType: string;
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly disk?: readonly { readonly serial: string }[];
}

/** Guest information in KubeVirt's format. Fields that the agent does not support are unset. */
interface GuestAgentInfo {
  readonly hostname?: string;
  readonly os?: GuestOsInfo;
  readonly guestAgentVersion?: string;
  /** Commands that the agent implements. The agent rejects a command if `enabled` is unset. */
  readonly supportedCommands?: readonly { readonly name: string; readonly enabled?: true }[];
  readonly fsFreezeStatus?: "frozen" | "thawed";
  /** Name of the time zone and its offset east of UTC in seconds, for example `CET, 3600`. */
  readonly timezone?: string;
  readonly userList?: readonly GuestUser[];
  readonly fsInfo?: { readonly disks: readonly GuestFilesystem[] };
}

/** Maximum number of entries to parse, because a guest may report any number. */
const ENTRIES_MAX = 256;

function readText(facts: GuestFacts, name: string): string {
  const text = facts[name] ?? "";
  return isPrintable(text) ? text : "";
}

function readNumber(facts: GuestFacts, name: string): number {
  const text = facts[name] ?? "";
  return /^\d{1,16}$/.test(text) ? Number(text) : 0;
}

function listIndexes(facts: GuestFacts, countField: string): readonly number[] {
  return Array.from(
    { length: Math.min(readNumber(facts, countField), ENTRIES_MAX) },
    (_unused, index) => index,
  );
}

export function parseGuestUsers(facts: GuestFacts): readonly GuestUser[] {
  return listIndexes(facts, "user.count").flatMap((index) => {
    const prefix = `user.${String(index)}`;
    const [userName, domain] = [
      readText(facts, `${prefix}.name`),
      readText(facts, `${prefix}.domain`),
    ];
    const loginTime = readNumber(facts, `${prefix}.login-time`) / 1000;
    if (userName === "") return [];
    return [{ userName, ...(domain !== "" && { domain }), ...(loginTime > 0 && { loginTime }) }];
  });
}

function parseDisks(facts: GuestFacts, prefix: string): Pick<GuestFilesystem, "disk"> {
  const disk = listIndexes(facts, `${prefix}.disk.count`).flatMap((index) => {
    const serial = readText(facts, `${prefix}.disk.${String(index)}.serial`);
    return serial === "" ? [] : [{ serial }];
  });
  return disk.length === 0 ? {} : { disk };
}

export function parseGuestFilesystems(facts: GuestFacts): readonly GuestFilesystem[] {
  return listIndexes(facts, "fs.count").flatMap((index) => {
    const prefix = `fs.${String(index)}`;
    const mountPoint = readText(facts, `${prefix}.mountpoint`);
    if (mountPoint === "") return [];
    return [
      {
        diskName: readText(facts, `${prefix}.name`),
        mountPoint,
        fileSystemType: readText(facts, `${prefix}.fstype`),
        usedBytes: readNumber(facts, `${prefix}.used-bytes`),
        totalBytes: readNumber(facts, `${prefix}.total-bytes`),
        ...parseDisks(facts, prefix),
      },
    ];
  });
}

function parseAgent(
  facts: GuestFacts,
): Pick<GuestAgentInfo, "guestAgentVersion" | "supportedCommands"> {
  const guestAgentVersion = readText(facts, "agent.version");
  const supportedCommands = listIndexes(facts, "agent.command.count").flatMap((index) => {
    const prefix = `agent.command.${String(index)}`;
    const name = readText(facts, `${prefix}.name`);
    if (name === "") return [];
    return [{ name, ...(facts[`${prefix}.enabled`] === "true" && { enabled: true as const }) }];
  });
  return {
    ...(guestAgentVersion !== "" && { guestAgentVersion }),
    ...(supportedCommands.length > 0 && { supportedCommands }),
  };
}

function parseFreezeStatus(facts: GuestFacts): Pick<GuestAgentInfo, "fsFreezeStatus"> {
  const fsFreezeStatus = facts["freeze.status"];
  const isKnown = fsFreezeStatus === "frozen" || fsFreezeStatus === "thawed";
  return isKnown ? { fsFreezeStatus } : {};
}

/** The agent's replies by topic. Topics that the agent does not support are unset. */
export interface AgentReplies {
  readonly system?: GuestOsInfo | undefined;
  readonly agent?: GuestFacts | undefined;
  readonly freeze?: GuestFacts | undefined;
  readonly hostname?: GuestFacts | undefined;
  readonly timezone?: GuestFacts | undefined;
  readonly users?: GuestFacts | undefined;
  readonly filesystems?: GuestFacts | undefined;
}

function parseTimezone(facts: GuestFacts): string {
  const name = readText(facts, "timezone.name");
  const offset = facts["timezone.offset"] ?? "0";
  return name === "" || !/^-?\d{1,6}$/.test(offset) ? "" : `${name}, ${offset}`;
}

export function buildGuestAgentInfo(replies: AgentReplies): GuestAgentInfo {
  const hostname = readText(replies.hostname ?? {}, "hostname");
  const timezone = parseTimezone(replies.timezone ?? {});
  return {
    ...(hostname !== "" && { hostname }),
    ...(replies.system !== undefined && { os: readGuestSystem(replies.system) }),
    ...parseAgent(replies.agent ?? {}),
    ...parseFreezeStatus(replies.freeze ?? {}),
    ...(timezone !== "" && { timezone }),
    ...(replies.users !== undefined && { userList: parseGuestUsers(replies.users) }),
    ...(replies.filesystems !== undefined && {
      fsInfo: { disks: parseGuestFilesystems(replies.filesystems) },
    }),
  };
}
