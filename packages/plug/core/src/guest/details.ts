// SPDX-License-Identifier: Apache-2.0
// Users, file systems and system of a guest, as its agent tells them, in KubeVirt's words. The guest is hostile: what
// cannot be shown is left out. Source: KubeVirt api/core/v1 VirtualMachineInstanceGuestAgentInfo; libvirt virDomainGetGuestInfo.
import type { GuestOsInfo } from "@patchbay/api";
import type { GuestFacts } from "../ports/hypervisor.ts";
import { isShowable, readGuestSystem } from "./system.ts";

/** Somebody who is logged in. */
export interface GuestUser {
  readonly userName: string;
  readonly domain?: string;
  /** Seconds since 1970. */
  readonly loginTime?: number;
}

/** A file system that is mounted. */
export interface GuestFilesystem {
  readonly diskName: string;
  readonly mountPoint: string;
  readonly fileSystemType: string;
  readonly usedBytes: number;
  readonly totalBytes: number;
  readonly disk?: readonly { readonly serial: string }[];
}

/** What is told of a guest as a whole; what its agent does not know is absent. */
export interface GuestAgentInfo {
  readonly hostname?: string;
  readonly os?: GuestOsInfo;
  readonly guestAgentVersion?: string;
  /** What the agent can be asked for; a command that is not enabled is known and refused. */
  readonly supportedCommands?: readonly { readonly name: string; readonly enabled?: true }[];
  /** Whether its file systems stand still, for whoever makes a copy of the disks. */
  readonly fsFreezeStatus?: "frozen" | "thawed";
  /** Name and offset in seconds east of UTC, as `CET, 3600`. */
  readonly timezone?: string;
  readonly userList?: readonly GuestUser[];
  readonly fsInfo?: { readonly disks: readonly GuestFilesystem[] };
}

/** Most entries of a list that are shown; a guest may claim any number. */
const ENTRIES_MAX = 256;

function textAt(facts: GuestFacts, name: string): string {
  const text = facts[name] ?? "";
  return isShowable(text) ? text : "";
}

function numberAt(facts: GuestFacts, name: string): number {
  const text = facts[name] ?? "";
  return /^\d{1,16}$/.test(text) ? Number(text) : 0;
}

function indexesOf(facts: GuestFacts, count: string): readonly number[] {
  return Array.from({ length: Math.min(numberAt(facts, count), ENTRIES_MAX) }, (_each, at) => at);
}

/** Of the topic `users`. */
export function guestUsersOf(facts: GuestFacts): readonly GuestUser[] {
  return indexesOf(facts, "user.count").flatMap((index) => {
    const at = `user.${String(index)}`;
    const [userName, domain] = [textAt(facts, `${at}.name`), textAt(facts, `${at}.domain`)];
    const loginTime = numberAt(facts, `${at}.login-time`) / 1000;
    if (userName === "") return [];
    return [{ userName, ...(domain !== "" && { domain }), ...(loginTime > 0 && { loginTime }) }];
  });
}

function disksOf(facts: GuestFacts, at: string): Pick<GuestFilesystem, "disk"> {
  const disk = indexesOf(facts, `${at}.disk.count`).flatMap((index) => {
    const serial = textAt(facts, `${at}.disk.${String(index)}.serial`);
    return serial === "" ? [] : [{ serial }];
  });
  return disk.length === 0 ? {} : { disk };
}

/** Of the topic `filesystems`. */
export function guestFilesystemsOf(facts: GuestFacts): readonly GuestFilesystem[] {
  return indexesOf(facts, "fs.count").flatMap((index) => {
    const at = `fs.${String(index)}`;
    const mountPoint = textAt(facts, `${at}.mountpoint`);
    if (mountPoint === "") return [];
    return [
      {
        diskName: textAt(facts, `${at}.name`),
        mountPoint,
        fileSystemType: textAt(facts, `${at}.fstype`),
        usedBytes: numberAt(facts, `${at}.used-bytes`),
        totalBytes: numberAt(facts, `${at}.total-bytes`),
        ...disksOf(facts, at),
      },
    ];
  });
}

/** Of the topic `agent`. */
function agentOf(
  facts: GuestFacts,
): Pick<GuestAgentInfo, "guestAgentVersion" | "supportedCommands"> {
  const guestAgentVersion = textAt(facts, "agent.version");
  const supportedCommands = indexesOf(facts, "agent.command.count").flatMap((index) => {
    const at = `agent.command.${String(index)}`;
    const name = textAt(facts, `${at}.name`);
    if (name === "") return [];
    return [{ name, ...(facts[`${at}.enabled`] === "true" && { enabled: true as const }) }];
  });
  return {
    ...(guestAgentVersion !== "" && { guestAgentVersion }),
    ...(supportedCommands.length > 0 && { supportedCommands }),
  };
}

/** Of the topic `freeze`. */
function freezeOf(facts: GuestFacts): Pick<GuestAgentInfo, "fsFreezeStatus"> {
  const fsFreezeStatus = facts["freeze.status"];
  const isKnown = fsFreezeStatus === "frozen" || fsFreezeStatus === "thawed";
  return isKnown ? { fsFreezeStatus } : {};
}

/** What was heard of each topic; a topic that the agent does not know is absent. */
export interface HeardOfGuest {
  readonly system?: GuestOsInfo | undefined;
  readonly agent?: GuestFacts | undefined;
  readonly freeze?: GuestFacts | undefined;
  readonly hostname?: GuestFacts | undefined;
  readonly timezone?: GuestFacts | undefined;
  readonly users?: GuestFacts | undefined;
  readonly filesystems?: GuestFacts | undefined;
}

function timezoneIn(facts: GuestFacts): string {
  const name = textAt(facts, "timezone.name");
  const offset = facts["timezone.offset"] ?? "0";
  return name === "" || !/^-?\d{1,6}$/.test(offset) ? "" : `${name}, ${offset}`;
}

/** All of it in one. */
export function guestAgentInfoOf(heard: HeardOfGuest): GuestAgentInfo {
  const hostname = textAt(heard.hostname ?? {}, "hostname");
  const timezone = timezoneIn(heard.timezone ?? {});
  return {
    ...(hostname !== "" && { hostname }),
    ...(heard.system !== undefined && { os: readGuestSystem(heard.system) }),
    ...agentOf(heard.agent ?? {}),
    ...freezeOf(heard.freeze ?? {}),
    ...(timezone !== "" && { timezone }),
    ...(heard.users !== undefined && { userList: guestUsersOf(heard.users) }),
    ...(heard.filesystems !== undefined && {
      fsInfo: { disks: guestFilesystemsOf(heard.filesystems) },
    }),
  };
}
