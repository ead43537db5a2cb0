// SPDX-License-Identifier: Apache-2.0
// What the guest agent reports about users, file systems and the guest itself, with KubeVirt's field names. The guest is
// hostile: unprintable text is left out. Source: KubeVirt api/core/v1 VirtualMachineInstanceGuestAgentInfo; libvirt
// virDomainGetGuestInfo.
import type { GuestOsInfo } from "@patchbay/api";
import type { GuestFacts } from "../interfaces/hypervisor.ts";

/** Longest text, in characters. Linux link names have 15, Windows' up to 255. Source: linux/if.h IFNAMSIZ; MIB_IF_ROW2. */
const TEXT_MAX = 255;

export function isPrintable(text: string): boolean {
  return text !== "" && text.length <= TEXT_MAX && !/\p{Cc}|\p{Cf}/u.test(text);
}

export function readGuestSystem(answer: GuestOsInfo): GuestOsInfo {
  const shown = Object.entries(answer).filter(([, text]) => isPrintable(text));
  return Object.fromEntries(shown);
}

interface GuestUser {
  readonly userName: string;
  readonly domain?: string;
  /** Seconds since 1970. */
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

/** The agent's report about the guest. Fields that the agent does not support are unset. */
interface GuestAgentInfo {
  readonly hostname?: string;
  readonly os?: GuestOsInfo;
  readonly guestAgentVersion?: string;
  /** The agent's commands. It rejects those that are not enabled. */
  readonly supportedCommands?: readonly { readonly name: string; readonly enabled?: true }[];
  /** Whether the guest's file systems are frozen for a copy of the disks. */
  readonly fsFreezeStatus?: "frozen" | "thawed";
  /** Name and offset in seconds east of UTC, for example `CET, 3600`. */
  readonly timezone?: string;
  readonly userList?: readonly GuestUser[];
  readonly fsInfo?: { readonly disks: readonly GuestFilesystem[] };
}

/** Longest list to return. A guest may claim any number of entries. */
const ENTRIES_MAX = 256;

function readText(facts: GuestFacts, name: string): string {
  const text = facts[name] ?? "";
  return isPrintable(text) ? text : "";
}

function readNumber(facts: GuestFacts, name: string): number {
  const text = facts[name] ?? "";
  return /^\d{1,16}$/.test(text) ? Number(text) : 0;
}

function listIndexes(facts: GuestFacts, count: string): readonly number[] {
  return Array.from({ length: Math.min(readNumber(facts, count), ENTRIES_MAX) }, (_each, at) => at);
}

export function parseGuestUsers(facts: GuestFacts): readonly GuestUser[] {
  return listIndexes(facts, "user.count").flatMap((index) => {
    const at = `user.${String(index)}`;
    const [userName, domain] = [readText(facts, `${at}.name`), readText(facts, `${at}.domain`)];
    const loginTime = readNumber(facts, `${at}.login-time`) / 1000;
    if (userName === "") return [];
    return [{ userName, ...(domain !== "" && { domain }), ...(loginTime > 0 && { loginTime }) }];
  });
}

function parseDisks(facts: GuestFacts, at: string): Pick<GuestFilesystem, "disk"> {
  const disk = listIndexes(facts, `${at}.disk.count`).flatMap((index) => {
    const serial = readText(facts, `${at}.disk.${String(index)}.serial`);
    return serial === "" ? [] : [{ serial }];
  });
  return disk.length === 0 ? {} : { disk };
}

export function parseGuestFilesystems(facts: GuestFacts): readonly GuestFilesystem[] {
  return listIndexes(facts, "fs.count").flatMap((index) => {
    const at = `fs.${String(index)}`;
    const mountPoint = readText(facts, `${at}.mountpoint`);
    if (mountPoint === "") return [];
    return [
      {
        diskName: readText(facts, `${at}.name`),
        mountPoint,
        fileSystemType: readText(facts, `${at}.fstype`),
        usedBytes: readNumber(facts, `${at}.used-bytes`),
        totalBytes: readNumber(facts, `${at}.total-bytes`),
        ...parseDisks(facts, at),
      },
    ];
  });
}

function parseAgent(
  facts: GuestFacts,
): Pick<GuestAgentInfo, "guestAgentVersion" | "supportedCommands"> {
  const guestAgentVersion = readText(facts, "agent.version");
  const supportedCommands = listIndexes(facts, "agent.command.count").flatMap((index) => {
    const at = `agent.command.${String(index)}`;
    const name = readText(facts, `${at}.name`);
    if (name === "") return [];
    return [{ name, ...(facts[`${at}.enabled`] === "true" && { enabled: true as const }) }];
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

/** The agent's replies by topic. A topic is unset if the agent does not support it. */
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

export function buildGuestAgentInfo(heard: AgentReplies): GuestAgentInfo {
  const hostname = readText(heard.hostname ?? {}, "hostname");
  const timezone = parseTimezone(heard.timezone ?? {});
  return {
    ...(hostname !== "" && { hostname }),
    ...(heard.system !== undefined && { os: readGuestSystem(heard.system) }),
    ...parseAgent(heard.agent ?? {}),
    ...parseFreezeStatus(heard.freeze ?? {}),
    ...(timezone !== "" && { timezone }),
    ...(heard.users !== undefined && { userList: parseGuestUsers(heard.users) }),
    ...(heard.filesystems !== undefined && {
      fsInfo: { disks: parseGuestFilesystems(heard.filesystems) },
    }),
  };
}
